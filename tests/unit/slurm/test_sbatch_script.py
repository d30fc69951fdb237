"""Directives. Each expectation was seen on sbatch 22.05, or follows from the rules in Slurm's manual page."""

from __future__ import annotations

import pytest

from placer import errors
from placer.slurm import sbatch_script


def _words(body: str) -> list[str]:
    script = sbatch_script.read(b"#!/bin/sh\n" + body.encode("utf-8", "surrogateescape"))
    return [word.text for word in script.components[0]]


@pytest.mark.parametrize(
    ("body", "words"),
    [
        ("#SBATCH -N2 -n 4", ["-N2", "-n", "4"]),
        ("#SBATCH\t-N\t2", ["-N", "2"]),
        ("#SBATCH-N 2", ["-N", "2"]),
        ("#SLURM -N2", ["-N2"]),
        ("##SBATCH -N2", []),
        ("# SBATCH -N2", []),
        (" #SBATCH -N2", []),
        ("#sbatch -N2", []),
        ("#SBATCH --comment='a#b' -N2", ["--comment=a#b", "-N2"]),
        ('#SBATCH --comment="a b" -N2', ["--comment=a b", "-N2"]),
        ("#SBATCH --comment=a#b -N2", ["--comment=a"]),
        ("#SBATCH --comment=a\\#b -N2", ["--comment=a#b", "-N2"]),
        ("#SBATCH --comment='a\\xb'", ["--comment=axb"]),
        ('#SBATCH --comment="a\\"b"', ['--comment=a"b']),
        ("#SBATCH --comment=a'b c'd\"e f\"", ["--comment=ab cde f"]),
        ("#SBATCH --comment=a\\ b", ["--comment=a b"]),
        ("#SBATCH --comment=$HOME/~/%j", ["--comment=$HOME/~/%j"]),
        ("#SBATCH -N2 # a 'comment", ["-N2"]),
        ("#SBATCH -N2 '' -n 3", ["-N2"]),
        ("#SBATCH -N2 \\", ["-N2"]),
        ("#SBATCH -N\n#SBATCH 3", ["-N", "3"]),
        ("  \n\t# x\n\v\n#SBATCH -N2", ["-N2"]),
        ("set -e\n#SBATCH -N2", []),
        ("#SBATCH -N2\nmodule load x\n#SBATCH -n4", ["-N2"]),
        ("#SBATCH --comment=\udcff", ["--comment=\udcff"]),
        ("#SBATCH hetjobs", ["hetjobs"]),
    ],
)
def test_read_of_a_directive_gives_the_words_that_sbatch_takes(body: str, words: list[str]) -> None:
    assert _words(body) == words


@pytest.mark.parametrize(
    ("data", "line", "column", "says"),
    [
        (b"", 1, 1, "empty"),
        (b"echo\n", 1, 1, "#!"),
        (b"\n#!/bin/sh\n", 1, 1, "#!"),
        (b"#!/bin/sh\n#SBATCH -N 2\r\n", 2, 13, "DOS"),
        (b"#!/bin/sh\n\x7fELF\0", 2, 5, "NUL"),
        (b"#!/bin/sh\n#SBATCH --comment='a b\n", 2, 19, "unmatched `'`"),
        (b"#!/bin/sh\n\n#SBATCH -N 2 : -n 3\n", 3, 14, "`:`"),
        (b"#!/bin/sh\n#SBATCH :x\n", 2, 9, "`:`"),
    ],
)
def test_read_of_a_script_that_sbatch_refuses_names_the_place(data: bytes, line: int, column: int, says: str) -> None:
    with pytest.raises(errors.ParseError) as caught:
        sbatch_script.read(data, "job.sh")
    assert (caught.value.source, caught.value.line, caught.value.column) == ("job.sh", line, column)
    assert says in caught.value.message


def test_read_of_words_keeps_line_and_column() -> None:
    script = sbatch_script.read(b"#!/bin/sh\n#SBATCH  -N 2\n#SBATCH --mem=1G\n")
    assert [(w.text, w.line, w.column) for w in script.components[0]] == [
        ("-N", 2, 10),
        ("2", 2, 13),
        ("--mem=1G", 3, 9),
    ]


@pytest.mark.parametrize("separator", ["hetjob", "packjob", " hetjob # rest"])
def test_read_of_a_separator_begins_the_next_component(separator: str) -> None:
    script = sbatch_script.read(f"#!/bin/sh\n#SBATCH -N2\n#SBATCH {separator}\n#SBATCH -n3\n".encode())
    assert [[w.text for w in component] for component in script.components] == [["-N2"], ["-n3"]]


def test_read_of_own_lines_keeps_them_apart() -> None:
    script = sbatch_script.read(b"#!/bin/sh\n#PLACER --required leaf # why\n#SBATCH -N2\n")
    assert [w.text for w in script.placer] == ["--required", "leaf"]


def test_read_of_lines_that_look_like_directives_reports_each_with_its_reason() -> None:
    body = (
        b"#!/bin/sh\n#sbatch -N1\n# SBATCH -n1\n  #SBATCH -t1\n##SBATCH -n5\n# SBATCH lines follow\n"
        b"set -e\n#SBATCH -p x\n"
    )
    misses = sbatch_script.read(body).near_misses
    assert [(m.line, m.why) for m in misses] == [
        (2, "is not in upper case"),
        (3, "has a space after `#`"),
        (4, "is indented"),
        (8, "stands after the first command (line 7)"),
    ]


def test_read_of_a_last_line_without_its_end_is_a_directive_as_sbatch_takes_it() -> None:
    script = sbatch_script.read(b"#!/bin/sh\n#SBATCH --gpus-per-node=1")
    assert [word.text for word in script.components[0]] == ["--gpus-per-node=1"]
    assert script.near_misses == ()


def test_read_of_a_here_document_takes_its_directives_for_another_script() -> None:
    body = b"#!/bin/sh\ncat > other.sh <<'EOF'\n#SBATCH -N1\nEOF\n#SBATCH -n2\n"
    assert [m.line for m in sbatch_script.read(body).near_misses] == [5]


def test_read_of_an_open_here_document_still_reports() -> None:
    assert [m.line for m in sbatch_script.read(b"#!/bin/sh\necho $((1<<n))\n#SBATCH -N1\n").near_misses] == [3]


def test_read_of_foreign_directives_says_where() -> None:
    assert sbatch_script.read(b"#!/bin/sh\n#PBS -l x\n#BSUB -n 8\n#PBS -q y\n").foreign == (2, 3)


def test_read_of_100000_directives_takes_all_and_bounds_the_findings() -> None:
    script = sbatch_script.read(b"#!/bin/sh\n" + b"#SBATCH -N2\n" * 100_000 + b"#sbatch -N3\n" * 1000)
    assert len(script.components[0]) == 100_000
    assert len(script.near_misses) == 20
