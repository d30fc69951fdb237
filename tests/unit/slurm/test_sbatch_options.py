"""Splitting as getopt does; expected values were seen on sbatch 22.05 (`sbatch -v --test-only`)."""

from __future__ import annotations

import getopt

import pytest

from placer.cluster import types as cluster
from placer.slurm import sbatch_options


def _given(words: list[str]) -> list[tuple[str, str | None]]:
    return [(one.option.name, one.value) for one in sbatch_options.split(words).given]


@pytest.mark.parametrize(
    ("words", "given", "rest"),
    [
        (["-N2"], [("nodes", "2")], 1),
        (["-N", "2"], [("nodes", "2")], 2),
        (["--nodes=2"], [("nodes", "2")], 1),
        (["--nodes", "2"], [("nodes", "2")], 2),
        (["-N=2"], [("nodes", "=2")], 1),
        (["-HN", "1"], [("hold", None), ("nodes", "1")], 2),
        (["-HN1", "-Q"], [("hold", None), ("nodes", "1"), ("quiet", None)], 2),
        (["-sN1"], [("oversubscribe", None), ("nodes", "1")], 1),
        (["-vvv"], [("verbose", None)] * 3, 1),
        (["-koff"], [("no-kill", "off")], 1),
        (["-k", "off"], [("no-kill", None)], 1),
        (["--swit=1@10:00"], [("switches", "1@10:00")], 1),
        (["--tasks=3"], [("ntasks-per-node", "3")], 1),
        (["--ntasks-per-t=3"], [("ntasks-per-gpu", "3")], 1),
        (["--gpus", "a100:8"], [("gpus", "a100:8")], 2),
        (["--exclusive", "user"], [("exclusive", None)], 1),
        (["--exclusive=user"], [("exclusive", "user")], 1),
        (["-J", "--nodes=3", "-N1"], [("job-name", "--nodes=3"), ("nodes", "1")], 3),
        (["-N1", "run.sh", "-n4"], [("nodes", "1")], 1),
        (["-N1", "--", "-n4"], [("nodes", "1")], 2),
        (["-N1", "-", "-n4"], [("nodes", "1")], 1),
        (["--mem", ""], [("mem", "")], 2),
        ([], [], 0),
    ],
)
def test_split_of_a_vector_gives_what_getopt_gives(
    words: list[str], given: list[tuple[str, str | None]], rest: int
) -> None:
    found = sbatch_options.split(words)
    assert (_given(words), found.rest, found.problems) == (given, rest, ())


@pytest.mark.parametrize(
    ("words", "fault", "spelling"),
    [
        (["--bogus"], sbatch_options.Fault.UNKNOWN, "--bogus"),
        (["-Z"], sbatch_options.Fault.UNKNOWN, "-Z"),
        (["--nod=3"], sbatch_options.Fault.AMBIGUOUS, "--nod"),
        (["--gpu=3"], sbatch_options.Fault.AMBIGUOUS, "--gpu"),
        (["--clust=x"], sbatch_options.Fault.AMBIGUOUS, "--clust"),
        (["--nodes"], sbatch_options.Fault.MISSING, "--nodes"),
        (["-HN"], sbatch_options.Fault.MISSING, "-N"),
        (["--hold=1"], sbatch_options.Fault.UNWANTED, "--hold"),
    ],
)
def test_split_of_a_wrong_option_names_the_fault(words: list[str], fault: sbatch_options.Fault, spelling: str) -> None:
    (problem,) = sbatch_options.split(words).problems
    assert (problem.fault, problem.spelling) == (fault, spelling)


def test_split_of_words_with_position_covers_option_and_argument() -> None:
    found = sbatch_options.split(["-N", "2", "--mem=1G", "x"])
    assert [(one.first, one.last) for one in found.given] == [(0, 1), (2, 2)]


def test_abbreviation_that_only_a_later_release_makes_ambiguous_means_the_older_option() -> None:
    assert _given(["--res=x"]) == [("reservation", "x")]  # `--resources` came with 25.11


def test_split_agrees_with_the_getopt_of_the_standard_library() -> None:
    options = sbatch_options.OPTIONS
    needs = [o for o in options if o.argument is not sbatch_options.Argument.OPTIONAL]
    takes = sbatch_options.Argument.REQUIRED
    short = "".join(o.short + (":" if o.argument is takes else "") for o in needs if o.short)
    long = [o.name + ("=" if o.argument is takes else "") for o in needs]
    words = ["-HN2", "-n", "4", "--mem=4G", "--time", "1:00", "--parsable", "-vQ", "-J", "-x", "s.sh", "-N3"]
    pairs, rest = getopt.getopt(words, short, long)
    names = {f"-{o.short}": o.name for o in needs if o.short}
    expected = [(names.get(key, key[2:]), value or None) for key, value in pairs]
    assert _given(words) == expected
    assert words[sbatch_options.split(words).rest :] == rest


def test_table_has_no_name_twice_and_feeds_only_fields_of_a_request() -> None:
    names = [name for o in sbatch_options.OPTIONS for name in (o.name, *o.also)]
    shorts = [o.short for o in sbatch_options.OPTIONS if o.short]
    fields = set(cluster.JobRequest.__struct_fields__)
    assert len(names) == len(set(names))
    assert len(shorts) == len(set(shorts))
    assert {field for o in sbatch_options.OPTIONS for field in o.feeds} <= fields


@pytest.mark.parametrize(
    ("name", "variable"),
    [
        ("gres", "SBATCH_GRES"),
        ("gpus", "SBATCH_GPUS"),
        ("gpus-per-socket", "SBATCH_GPUS_PER_SOCKET"),
        ("mem", "SBATCH_MEM_PER_NODE"),
        ("switches", "SBATCH_REQ_SWITCH"),
        ("time", "SBATCH_TIMELIMIT"),
        ("array", "SBATCH_ARRAY_INX"),
        ("segment", "SBATCH_SEGMENT_SIZE"),
        ("hint", "SLURM_HINT"),
    ],
)
def test_table_names_the_environment_twin(name: str, variable: str) -> None:
    assert variable in next(o for o in sbatch_options.OPTIONS if o.name == name).environ


@pytest.mark.parametrize("name", ["nodes", "nodelist", "ntasks", "cpus-per-task", "ntasks-per-node", "exclude"])
def test_table_of_an_option_without_twin_names_none(name: str) -> None:
    assert next(o for o in sbatch_options.OPTIONS if o.name == name).environ == ()
