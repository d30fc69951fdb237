"""Lint of any bytes: total, and a corrected script is never refused where the given one was not."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from placer.slurm import lint, submission

PIECES = [
    b"#SBATCH ", b"#sbatch ", b" # SBATCH ", b"#SLURM ", b"#PBS ", b"-N2 ", b"--nodes=2 ", b"-n 4 ", b"--exclusive ",
    b"--gres=gpu:2 ", b"--gpus-per-node=2 ", b"--gpus-per-task=1 ", b"--mem=1G ", b"--mem-per-cpu=1G ", b"-c4 ",
    b"-J a#b ", b"--output=$USER-%j ", b"'", b'"', b"\\", b"#", b"\n", b"\n", b"\nsrun x\n", b"hetjob\n",
    b"\xff", b"\r\n",
]  # fmt: skip
SCRIPTS = st.one_of(
    st.binary(max_size=200),
    st.lists(st.sampled_from(PIECES), max_size=25).map(lambda parts: b"#!/bin/sh\n" + b"".join(parts)),
)


@given(SCRIPTS)
@settings(max_examples=200, deadline=None)
def test_fix_of_any_bytes_is_stable_and_never_worse(data: bytes) -> None:
    before = lint.check(data, environ={})
    fixed = lint.fix(data, environ={})
    after = lint.check(fixed, environ={})
    assert before.refused or not after.refused
    assert lint.fix(fixed, environ={}) == fixed
    if not after.refused:
        submission.read(["s"], {}, lambda _name: fixed)
