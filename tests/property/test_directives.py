"""Whatever a script holds, reading it gives a type or an InputError; and sbatch itself agrees on random directives."""

from __future__ import annotations

import contextlib
import os
import pathlib
import shutil
import subprocess
import tempfile
from collections.abc import Iterator

import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from placer import errors
from placer.slurm import sbatch_script, submission

PIECES = [
    "-N", "2", "-N2", "3", "--nodes=", "--nod", "--comment=", "--comment", "a", "b", " ", " ", "\t", "'", '"', "\\",
    ":", "#", "-n", "-n4", "--", "-", "=", "\n#SBATCH ", "\n#SBATCH", "\n", "\n#", "\necho", "\v", "--ntasks", "-J",
    "x", "-c", "-H", "-HN", "--exclusive", "--exclusive=user", "hetjobs", "--comm=", "é", "--mem=", "1G",
    "--mem-per-cpu=2", "0", "2-4", "-t", "1:", "--hint=", "\n#SBATCH --gres=gpu:", "SBATCH_", "--gpus=", "a100:",
    ",", "--switches=1@",
]  # fmt: skip
bodies = st.lists(st.sampled_from(PIECES), max_size=16).map("".join)


@given(st.binary(max_size=400) | bodies.map(str.encode))
@settings(max_examples=200, deadline=None)
def test_reading_a_script_of_any_bytes_gives_a_script_or_a_parse_error(data: bytes) -> None:
    for script in (data, b"#!/bin/sh\n#SBATCH " + data):
        line, components = _place_or_size(script)
        assert 1 <= line <= script.count(b"\n") + 1
        assert components >= 1


def _place_or_size(script: bytes) -> tuple[int, int]:
    try:
        return 1, len(sbatch_script.read(script).components)
    except errors.ParseError as error:
        return error.line, 1


@given(bodies, st.lists(st.sampled_from(PIECES).map(str.strip), max_size=5), st.sampled_from(["", "x", "2", "gpu:1"]))
@settings(max_examples=200, deadline=None)
def test_reading_a_submission_of_any_words_gives_it_or_an_input_error(body: str, argv: list[str], value: str) -> None:
    data = f"#!/bin/sh\n#SBATCH {body}\n".encode()
    with contextlib.suppress(errors.InputError):
        found = submission.read(argv, {"SBATCH_GRES": value, "SBATCH_TIMELIMIT": value}, lambda _name: data)
        assert found.components >= 1


@pytest.fixture(scope="module")
def sbatch() -> Iterator[dict[str, str]]:
    if shutil.which("sbatch") is None:
        pytest.skip("sbatch is not installed (`make deps` installs it on Debian)")
    with tempfile.TemporaryDirectory() as folder:
        conf = pathlib.Path(folder) / "slurm.conf"
        conf.write_text("ClusterName=x\nSlurmctldHost=localhost\nNodeName=n1\nPartitionName=p Nodes=n1\n")
        environ = {"PATH": os.environ["PATH"], "SLURM_CONF": str(conf)}
        if _asked(b"#!/bin/sh\n#SBATCH -N2\n", environ)[0] != {"nodes": "2"}:
            pytest.skip("this sbatch does not print options as 22.05 does")
        yield environ


def _asked(script: bytes, environ: dict[str, str]) -> tuple[dict[str, str] | None, str]:
    """The options as sbatch read them, None when it refused; it prints them before it looks for a controller."""
    found: dict[str, str] = {}
    said: list[str] = []
    with subprocess.Popen(
        ["sbatch", "-v", "--test-only"], env=environ, stdin=subprocess.PIPE, stderr=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
    ) as process:  # fmt: skip
        assert process.stdin is not None
        assert process.stderr is not None
        process.stdin.write(script)
        process.stdin.close()
        for raw in process.stderr:
            line = raw.decode("utf-8", "surrogateescape").rstrip("\n")
            if "end of defined options" in line:
                process.kill()
                found.pop("verbose", None)
                found.pop("test-only", None)
                return found, "\n".join(said)
            if line[28:30] == ": ":
                found[line[8:28].strip()] = line[30:]
            else:
                said.append(line)
    return None, "\n".join(said)


@given(bodies)
@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_reading_random_directives_agrees_with_sbatch(sbatch: dict[str, str], body: str) -> None:
    assume(not any(f"\\{blank}" in body for blank in " \t\v"))  # releases differ
    assume("gpu" not in body and "a100" not in body)  # this sbatch has no GPUs configured
    script = f"#!/bin/sh\n#SBATCH {body}\n".encode()
    theirs, said = _asked(script, sbatch)
    assume("unrecognized option" not in said and "invalid option" not in said)  # a finding, not an error
    try:
        ours = submission.read([], {}, lambda _name: script)
    except errors.InputError:
        assert theirs is None
        return
    if theirs is None:  # sbatch also judges values that placer has no use for, or that a later option replaces
        assert "Invalid directive" not in said
        assert any(words in said for words in ("Invalid ", "not a valid", "--hint argument", "less than minimum"))
    if theirs is not None:
        for name in ("comment", "job-name", "ntasks", "cpus-per-task"):
            choice = ours.choice(name)
            assert theirs.get(name) == (choice.value if choice else None)
        if theirs.get("nodes", "0") != "0":
            assert theirs["nodes"].split("-")[0] == str(ours.request.nodes)
