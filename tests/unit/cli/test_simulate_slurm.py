"""`placer simulate slurm`: the report, and lines and directories that are none."""

from __future__ import annotations

import json
import pathlib
from typing import Any

import pytest
from click.testing import CliRunner
from hypothesis import given, settings
from hypothesis import strategies as st

from placer import errors
from placer.cli import _simulate_slurm, cmd_simulate

FIXTURES = pathlib.Path(__file__).parents[3] / "fixtures" / "slurm_choices"
CONF = str(FIXTURES / "conf")


def _run(*words: str) -> str:
    done = CliRunner().invoke(cmd_simulate.command, ["slurm", *words], standalone_mode=False)
    if done.exception is not None:
        raise done.exception
    return done.stdout


def _line(**fields: object) -> str:
    usual = {"release": "24.11", "kind": "A", "seq": 3, "i": 1, "opts": ["-N1", "--gpus-per-node=2"], "state": {}}
    return json.dumps({**usual, **fields})


def test_report_has_one_result_a_line(tmp_path: pathlib.Path) -> None:
    # A dgx-like node: GPUs 0-3 on socket 0. Empty, it gives the lowest two and one core of their socket.
    file = tmp_path / "cases.jsonl"
    file.write_text(f"{_line()}\n\n{_line(i=2, opts=['-N1', '--gpus-per-node=9'])}\n")
    report: dict[str, Any] = json.loads(_run(str(file), "--conf", CONF, "-o", "json"))
    assert (report["apiVersion"], report["kind"]) == ("placer/v1", "SlurmChoiceReport")
    first, second = report["results"]
    assert (first["kind"], first["seq"], first["i"]) == ("A", 3, 1)
    assert (first["outcome"], first["nodes"]) == ("running", {"a1": {"gpus": [0, 1], "cpus": "0-1"}})
    assert (second["outcome"], second["nodes"]) == ("never", None)


def test_report_busy_node_waits(tmp_path: pathlib.Path) -> None:
    file = tmp_path / "cases.jsonl"
    held = {"7": {"gpus": [0, 1, 2, 3, 4, 5, 6], "cpus": "0-1", "mem": 1000}}
    file.write_text(_line(state={"a1": held, "a2": held}))
    assert json.loads(_run(str(file), "--conf", CONF, "-o", "json"))["results"][0]["outcome"] == "waits"


def test_table_names_nodes_gpus_and_cpus() -> None:
    shown = _run(str(FIXTURES / "24.11.jsonl"), "--conf", CONF)
    first = json.loads((FIXTURES / "24.11.jsonl").read_text().splitlines()[0])["result"]["nodes"]
    name, grant = next(iter(first.items()))
    assert f"{name} GPUs {','.join(map(str, grant['gpus']))} CPUs {grant['cpus']}" in shown


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("{", "Input data was truncated"),
        (_line(kind="Z"), "no partition `Z`"),
        (_line(state={"b1": {}}), "no node `b1`"),
        (_line(opts=["-N", "x"]), "not a"),
        (_line(opts=["-w", "a[1"]), "is not closed"),
        (_line(state={"a1": {"1": {"cpus": "9-1"}}}), "ascend"),
        (_line(seq="one"), "Expected `int`"),
    ],
)
def test_faulty_line_is_an_error_with_its_line(tmp_path: pathlib.Path, line: str, said: str) -> None:
    file = tmp_path / "c.jsonl"
    file.write_text(f"{_line()}\n{line}\n")
    with pytest.raises(errors.ParseError, match=said) as caught:
        _run(str(file), "--conf", CONF, "-o", "json")
    assert caught.value.line == 2
    assert caught.value.hint


def test_conf_without_slurm_conf_is_an_input_error(tmp_path: pathlib.Path) -> None:
    with pytest.raises(errors.InputError, match=r"slurm\.conf does not exist"):
        _run(str(FIXTURES / "24.11.jsonl"), "--conf", str(tmp_path))


def test_conf_without_gres_and_topology_is_a_flat_cluster_without_gpus(tmp_path: pathlib.Path) -> None:
    (tmp_path / "slurm.conf").write_text("NodeName=a1 Sockets=1 CoresPerSocket=4\nPartitionName=A Nodes=ALL\n")
    file = tmp_path / "c.jsonl"
    file.write_text(f"{_line(opts=['-n3'])}\n{_line(opts=['--gpus=1'])}\n")
    results = json.loads(_run(str(file), "--conf", str(tmp_path), "-o", "json"))["results"]
    assert [r["nodes"] for r in results] == [{"a1": {"gpus": [], "cpus": "0-2"}}, None]


@settings(max_examples=100, deadline=None)
@given(
    st.text(max_size=60)
    | st.builds(
        lambda words: _line(opts=words),
        st.lists(
            st.sampled_from(["-N1", "-n0", "--gpus=99", "-c", "3", "--gres=gpu:x:2", "-w", "a9", "--mem=1T", "-x"])
        ),
    )
)
def test_any_line_gives_an_answer_or_a_parse_error(line: str) -> None:
    cluster = _simulate_slurm._read_cluster(FIXTURES / "conf")
    found: object = None
    try:
        found = _simulate_slurm.answer(line, cluster, source="x", number=4)[1].verdict
    except errors.ParseError as error:
        found = error.line
    assert found == 4 or str(found) in {"running", "waits", "never"}
