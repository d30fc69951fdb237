"""`placer explain SCRIPT`: the words, the document and the corrected script."""

from __future__ import annotations

import json
import pathlib

import pytest
from click.testing import CliRunner, Result

from placer.cli import cmd_explain

ROOT = pathlib.Path(__file__).parents[3]
BROKEN = str(ROOT / "fixtures" / "jobs" / "broken.sbatch")
TRAIN = str(ROOT / "fixtures" / "jobs" / "train.sbatch")
CLUSTER = str(ROOT / "fixtures" / "slurm" / "24.11")


def _run(*argv: str, stdin: bytes | None = None, environ: dict[str, str] | None = None) -> Result:
    return CliRunner(env={"PATH": "/nowhere", **(environ or {})}).invoke(
        cmd_explain.command, argv, input=stdin, catch_exceptions=False
    )


def test_explain_of_a_broken_script_says_line_why_and_fix() -> None:
    done = _run(BROKEN, "--release", "24.11")
    assert done.exit_code == 0
    lines = done.stdout.splitlines()
    assert lines[0] == f"{BROKEN}:3: `#sbatch --nodes=1` is not in upper case and is ignored"
    assert lines[2] == "    fix: #SBATCH --nodes=1"
    assert lines[-1].startswith("5 remarks; sbatch refuses the script as it is; `--fix` corrects 3 of them")


def test_explain_as_json_is_the_document() -> None:
    document = json.loads(_run(BROKEN, "--release=24.11", "-o", "json").stdout)
    assert (document["apiVersion"], document["kind"]) == ("placer/v1", "ScriptExplanation")
    assert (document["script"], document["release"], document["refused"]) == (BROKEN, "24.11", True)
    assert [finding["line"] for finding in document["findings"]] == [3, 4, 5, 6, 9]
    assert {"line", "text", "why", "fix"} <= set(document["findings"][0])


def test_explain_with_fix_prints_the_script_and_what_is_left() -> None:
    done = _run("--fix", BROKEN)
    assert b"#SBATCH --nodes=1\n#SBATCH --mem=100G\n" in done.stdout_bytes
    assert b"#SBATCH --time=1:00:00\nset -e\n" in done.stdout_bytes
    assert "broken.sbatch:6: not a number from 1 on" in done.stderr


def test_explain_with_a_cluster_knows_its_release_and_nodes() -> None:
    stdin = b"#!/bin/sh\n#SBATCH -p gpu --gres=gpu:1 -c100 --power=x\n"
    done = _run("-", "--snapshot", CLUSTER, "-o", "json", stdin=stdin)
    document = json.loads(done.stdout)
    assert document["release"] == "24.11"
    assert {finding["rule"] for finding in document["findings"]} == {"release", "strands-gpus"}


def test_explain_of_a_good_script_has_nothing_to_say() -> None:
    assert _run(TRAIN, "--snapshot", CLUSTER).stdout == f"{TRAIN}: nothing to say\n"


def test_explain_reads_the_environment_as_sbatch_does() -> None:
    done = _run(TRAIN, "-o", "json", environ={"SBATCH_PARTITION": "old"})
    assert [finding["fix"] for finding in json.loads(done.stdout)["findings"]] == ["unset SBATCH_PARTITION"]


@pytest.mark.parametrize(("argv", "message"), [(["/nowhere"], "No such file"), ([TRAIN, "--release=x"], "no release")])
def test_explain_of_what_is_not_there_is_an_error(argv: list[str], message: str) -> None:
    with pytest.raises(Exception, match=message):
        _run(*argv)
