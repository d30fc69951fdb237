"""Lint of batch scripts. What sbatch refuses was asked of 22.05, 24.11 and 26.05 (`tests/slurm/test_lint.py`)."""

from __future__ import annotations

import pytest

from placer.slurm import lint, submission
from placer.slurm import lint_types as types

NODE = types.NodeShape("gpu01", 8, 128, 1_000_000, "a100", ("gpu",))
SMALL = types.NodeShape("old1", 4, 32, 128_000, "v100", ("old",))


def _script(body: str, command: str = "srun python train.py") -> bytes:
    return f"#!/bin/bash\n{body}\n\n{command}\n".encode()


def _check(
    body: str, *, release: types.Release | None = None, command: str = "", environ: dict[str, str] | None = None
) -> lint.Report:
    site = types.Site(release, (NODE, SMALL))
    return lint.check(_script(body, command or "python x"), "train.sbatch", environ=environ or {}, site=site)


def _said(report: lint.Report) -> list[tuple[str, int | None]]:
    return [(remark.rule.value, remark.line) for remark in report.remarks]


@pytest.mark.parametrize(
    ("body", "rule", "line", "fix"),
    [
        ("#sbatch --nodes=2", "near-miss", 2, "#SBATCH --nodes=2"),
        ("# SBATCH --mem=1G", "near-miss", 2, "#SBATCH --mem=1G"),
        ("  #SBATCH -N2", "near-miss", 2, "#SBATCH -N2"),
        ("set -e\n#SBATCH -t 10", "near-miss", 3, "#SBATCH -t 10"),
        ("#SLURM -N2", "old-prefix", 2, "#SBATCH -N2"),
        ("#PBS -l nodes=2", "foreign", 2, "write them as `#SBATCH` lines"),
        ("#SBATCH --gpu-per-node=4", "refused", 2, "#SBATCH --gpus-per-node=4"),
        ("#SBATCH -n eight", "refused", 2, None),
        ("#SBATCH -N2\n#SBATCH --nodes=3", "ignored", 2, "leave it out"),
        ("#SBATCH --job-name=a#b", "cut", 2, '#SBATCH --job-name="a#b"'),
        ("#SBATCH -N2#two", "cut", 2, '#SBATCH "-N2#two", or a blank before the `#`'),
        ("#SBATCH -o log-$SLURM_JOB_ID.txt", "not-expanded", 2, "#SBATCH --output=log-%j.txt"),
        ("#SBATCH -o ~/log", "not-expanded", 2, 'sbatch --output="$HOME/log" train.sbatch'),
        ("#SBATCH -J run-$USER", "not-expanded", 2, 'sbatch --job-name="run-$USER" train.sbatch'),
        (
            "#SBATCH -N2 --ntasks-per-node=4 --gpus-per-task=1",
            "hides-peers",
            2,
            "#SBATCH --gpus-per-node=4 and `srun --gpu-bind=none`",
        ),
        ("#SBATCH -N1\n#SBATCH --exclusive", "whole-memory", 3, "#SBATCH --mem=0"),
        ("#SBATCH -N4 --switches=1", "switch-wait", 2, "#SBATCH --switches=1@60:00, as long as it is worth to wait"),
        ("#SBATCH -N2 --gpus=a100:8", "uneven", 2, "#SBATCH --gpus-per-node=a100:4"),
        ("#SBATCH -p gpu --gres=gpu:1 -c32", "strands-gpus", 2, "#SBATCH --cpus-per-task=16"),
        ("#SBATCH -p gpu -N1 -G2\n#SBATCH --cpus-per-gpu=20", "strands-gpus", 3, "#SBATCH --cpus-per-gpu=16"),
        ("#SBATCH -p gpu --gres=gpu:2 -c8 --mem=500000M", "strands-gpus", 2, "#SBATCH --mem=250000M"),
        ("#SBATCH -p old --gpus-per-node=1 --cpus-per-task=16", "strands-gpus", 2, "#SBATCH --cpus-per-task=8"),
    ],
)  # fmt: skip
def test_check_of_one_fault_says_it_with_line_and_fix(body: str, rule: str, line: int, fix: str | None) -> None:
    report = _check(body)
    assert _said(report) == [(rule, line)]
    assert report.remarks[0].fix == fix
    assert report.remarks[0].why
    assert report.refused is (rule == "refused")


@pytest.mark.parametrize(
    "body",
    [
        "#SBATCH -N2 --gpus-per-node=4 --ntasks-per-node=4 -c8 --mem=100G -t 10",
        "##SBATCH -N2",
        "# SBATCH is read by sbatch",
        "#SBATCH -J 'a#b' # a comment",
        "#SBATCH -o logs/%x-%j.out",
        "#SBATCH --gpus-per-task=1 -n1",
        "#SBATCH --gpus-per-task=1 -n8 --gpu-bind=none",
        "#SBATCH --exclusive --mem=0 -N1",
        "#SBATCH --exclusive=user -N1",
        "#SBATCH --switches=1@1:00:00",
        "#SBATCH -N2 --gpus=2",
        "#SBATCH -N1-2 --gpus=8",
        "#SBATCH -p gpu --gres=gpu:1 -c16",
        "#SBATCH -p gpu --gpus-per-node=8 -c128",
        "#SBATCH -p gpu --gres=gpu:3 -c40",
        "#SBATCH --gres-flags=enforce-binding --gres-flags=one-task-per-sharing",
        "cat <<END\n#SBATCH -N2\nEND",
    ],
)
def test_check_of_a_good_script_says_nothing(body: str) -> None:
    assert _said(_check(body)) == []


@pytest.mark.parametrize(
    ("body", "release", "refused"),
    [
        ("--gres=gpu:2 --gpus-per-node=2", (24, 11), False),
        ("--gres=gpu:2 --gpus-per-node=2", (26, 5), True),
        ("--gres=gpu:a100:2 --gpus-per-node=2", (22, 5), True),
        ("-s --exclusive --mem=0", (22, 5), False),
        ("-s --exclusive --mem=0", (24, 11), True),
        ("--cpus-per-gpu=2 -c2 --gpus=2", (22, 5), True),
        ("--segment=2 -N3", (24, 11), False),
        ("--segment=2 -N3", (26, 5), True),
        ("--gpus-per-socket=1", (22, 5), True),
        ("--gpus-per-task=1", (22, 5), True),
        ("--cpus-per-gpu=2", (22, 5), False),
        ("--cpus-per-gpu=2", (24, 11), True),
        ("--mem-per-gpu=1G", (22, 5), True),
    ],
)
def test_check_of_a_conflict_names_the_release_that_refuses(body: str, release: types.Release, refused: bool) -> None:
    report = _check(f"#SBATCH {body}", release=release)
    conflicts = [remark for remark in report.remarks if remark.rule is types.Rule.CONFLICT]
    assert [remark.line for remark in conflicts] == [2]
    assert report.refused is refused
    assert conflicts[0].why.endswith("refuses the job")


@pytest.mark.parametrize(
    ("option", "release", "known"),
    [
        ("--segment=2", (22, 5), False),
        ("--segment=2", (24, 5), True),
        ("--tres-per-task=cpu:2", (22, 5), False),
        ("--exclusive=topo", (23, 11), False),
        ("--exclusive=topo", (24, 11), True),
        ("--power=x", (22, 5), True),
        ("--power=x", (24, 11), False),
        ("--spread-segments", (24, 11), False),
        ("--spread-segments", (26, 5), True),
    ],
)
def test_check_of_an_option_by_release_knows_when_it_exists(option: str, release: types.Release, known: bool) -> None:
    report = _check(f"#SBATCH -N2\n#SBATCH {option}", release=release)
    assert _said(report) == ([] if known else [("release", 3)])
    assert report.refused is not known


@pytest.mark.parametrize(
    ("release", "command", "said"),
    [
        ((22, 5), "srun python x", [("srun-cpus", 4)]),
        ((23, 2), "set -e\nOMP_NUM_THREADS=4 srun \\\n  python x", [("srun-cpus", 5)]),
        (None, "srun python x", [("srun-cpus", 4)]),
        ((23, 11), "srun python x", []),
        ((22, 5), "srun -c 8 python x", []),
        ((22, 5), "srun \\\n  --cpus-per-task=8 python x", []),
        ((22, 5), "export SRUN_CPUS_PER_TASK=8\nsrun python x", []),
        ((22, 5), "python x", []),
    ],
)
def test_check_of_srun_by_release_asks_for_the_export_where_needed(
    release: types.Release | None, command: str, said: list[tuple[str, int]]
) -> None:
    assert _said(_check("#SBATCH -c8", release=release, command=command)) == said


def test_check_of_a_variable_that_beats_the_script_says_how_to_unset_it() -> None:
    report = _check("#SBATCH -p gpu", environ={"SBATCH_PARTITION": "old"})
    assert _said(report) == [("overridden", 2)]
    assert report.remarks[0].fix == "unset SBATCH_PARTITION"


def test_check_of_several_refusals_tells_all_of_them() -> None:
    report = _check("#SBATCH -n eight\n#SBATCH --mem=lots\n#sbatch -N2\n#SBATCH --exclusive=maybe")
    assert _said(report) == [("refused", 2), ("refused", 3), ("near-miss", 4), ("refused", 5)]
    assert report.refused


@pytest.mark.parametrize(
    ("data", "fixed"),
    [
        (b"#SBATCH -N2\nsrun x\n", b"#!/bin/bash\n#SBATCH -N2\nsrun x\n"),
        (b"#!/bin/sh\r\n#SBATCH -N2\r\n", b"#!/bin/sh\n#SBATCH -N2\n"),
        (b"#!/bin/sh\n#sbatch -N2\necho \xff\n", b"#!/bin/sh\n#SBATCH -N2\necho \xff\n"),
        (b"#!/bin/sh\n# SBATCH -N2\n#SBATCH -N3\n", b"#!/bin/sh\n# SBATCH -N2\n#SBATCH -N3\n"),
        (b"#!/bin/sh\n#SBATCH -n1\nset -e\n#SBATCH -N1\nx\n", b"#!/bin/sh\n#SBATCH -n1\n#SBATCH -N1\nset -e\nx\n"),
        (b"#!/bin/sh\n#SBATCH -N2 -J x # two\n#SBATCH -N3\n", b"#!/bin/sh\n#SBATCH -J x # two\n#SBATCH -N3\n"),
        (b"#!/bin/sh\n#SBATCH -N 2\n#SBATCH -N3\n", b"#!/bin/sh\n#SBATCH -N3\n"),
        (b"#!/bin/sh\n#SBATCH -J a#b\n", b'#!/bin/sh\n#SBATCH -J "a#b"\n'),
        (b"#!/bin/sh\n#SBATCH -o $USER.%j -N1\n", b"#!/bin/sh\n#SBATCH --output=%u.%j -N1\n"),
        (b"#!/bin/sh\n#SBATCH --exclusive -N1\n", b"#!/bin/sh\n#SBATCH --exclusive -N1\n#SBATCH --mem=0\n"),
        (b"#!/bin/sh\n#SBATCH --exclusive --mem=9G\n", b"#!/bin/sh\n#SBATCH --exclusive --mem=9G\n"),
        (b"#!/bin/sh\n#SLURM -N1\n#SLURM -n1\n", b"#!/bin/sh\n#SBATCH -N1\n#SBATCH -n1\n"),
        (
            b"#!/bin/sh\n#SBATCH --gres=gpu:2\n#SBATCH --gpus-per-node=2\n",
            b"#!/bin/sh\n#SBATCH --gpus-per-node=2\n",
        ),
        (
            b"#!/bin/bash -l\n#SBATCH -c4\n\nmodule load x\nsrun y\n",
            b"#!/bin/bash -l\n#SBATCH -c4\n\nexport SRUN_CPUS_PER_TASK=$SLURM_CPUS_PER_TASK\nmodule load x\nsrun y\n",
        ),
        (b"#!/usr/bin/python3\n#SBATCH -c4\nsrun\n", b"#!/usr/bin/python3\n#SBATCH -c4\nsrun\n"),
        (b"#!/bin/sh\n#SBATCH --gpus-per-task=1 -n4\n", b"#!/bin/sh\n#SBATCH --gpus-per-task=1 -n4\n"),
        (b"#!/bin/sh\n#sbatch --mem=1G\n#SBATCH --mem-per-cpu=1G\n", None),
        (b"", None),
        (b"\0", None),
    ],
)
def test_fix_of_a_script_changes_only_what_is_safe(data: bytes, fixed: bytes | None) -> None:
    found = lint.fix(data, environ={})
    assert found == (data if fixed is None else fixed)
    assert lint.fix(found, environ={}) == found


def test_fix_of_directives_that_were_missed_makes_sbatch_read_them() -> None:
    data = b"#!/bin/bash\n#sbatch --nodes=2\n # SBATCH --gpus-per-node=4\nset -e\n#SBATCH --ntasks-per-node=4\nsrun x\n"
    fixed = lint.fix(data, environ={})
    request = submission.read(["s"], {}, lambda _name: fixed).request
    assert (request.nodes, request.gpus_per_node, request.ntasks_per_node) == (2, 4, 4)


def test_check_of_a_very_long_script_stays_short() -> None:
    report = lint.check(b"#!/bin/sh\n" + b"#SBATCH -N2\n" * 100_000, environ={})
    assert len(report.remarks) == lint.MOST_REMARKS
