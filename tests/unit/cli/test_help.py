"""Every `--help` ends with examples, and those that name shipped fixtures run."""

from __future__ import annotations

import pathlib
import re
import shlex
import subprocess
import sys
from collections.abc import Iterator

import click
import pytest

from placer.cli import main

ROOT = pathlib.Path(__file__).parents[3]


def commands(group: click.Group, words: tuple[str, ...]) -> Iterator[tuple[tuple[str, ...], click.Command]]:
    context = click.Context(group)
    for name in group.list_commands(context):
        command = group.get_command(context, name)
        assert command is not None, name
        yield (*words, name), command
        if isinstance(command, click.Group):
            yield from commands(command, (*words, name))


ALL = list(commands(main.cli, ()))


def examples(command: click.Command) -> list[str]:
    """The example lines of a command's help, continued lines joined, remarks after three blanks dropped."""
    text = (command.epilog or "").replace("\\\n", " ")
    lines = [line.strip() for line in text.splitlines() if line.startswith("  ")]
    return [re.split(r"\s{3,}", line)[0] for line in lines if "placer " in line]


@pytest.mark.parametrize(("words", "command"), ALL, ids=[" ".join(words) for words, _ in ALL])
def test_help_says_what_it_does_and_ends_with_examples(words: tuple[str, ...], command: click.Command) -> None:
    assert command.help, words
    assert examples(command), words
    assert all(parameter.help for parameter in command.params if isinstance(parameter, click.Option)), words


RUNNABLE = sorted(
    {
        line
        for _, command in ALL
        for line in examples(command)
        if "fixtures/" in line
        and line.startswith("placer ")
        and not re.search(r"sandbox|snapshot take (?!.* - )", line)
    }
)


@pytest.mark.parametrize("line", RUNNABLE)
def test_examples_on_shipped_fixtures_run(line: str, tmp_path: pathlib.Path) -> None:
    shell = line.split("|")[0].split(">")[0]
    words = shlex.split(shell)[1:]
    done = subprocess.run(
        [sys.executable, "-m", "placer", *words],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=120,
        stdin=subprocess.DEVNULL,
    )
    # 1 is what `topo check` and `topo diff` answer when they find something, 3 that a job does not fit now
    allowed = {0, 3} | ({1} if words[:2] in (["topo", "check"], ["topo", "diff"]) else set())
    assert done.returncode in allowed, done.stderr
    assert done.stdout
    assert "Traceback" not in done.stderr


def test_runnable_examples_cover_the_main_verbs() -> None:
    assert {line.split()[1] for line in RUNNABLE} >= {"place", "topo", "snapshot", "sbatch"}
