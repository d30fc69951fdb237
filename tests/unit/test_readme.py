"""What the README and its neighbours say is so: commands run, links resolve, tables and versions are the code's."""

from __future__ import annotations

import itertools
import os
import pathlib
import re
import shlex
import subprocess
import sys

import click
import pytest

import placer
from placer.cli import main
from placer.files import config, snapshots

ROOT = pathlib.Path(__file__).parents[2]
README = (ROOT / "README.md").read_text()
PAGES = sorted([*ROOT.glob("*.md"), *(page for top in ("deploy", "fixtures") for page in (ROOT / top).rglob("*.md"))])


def blocks(language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```$", README, re.DOTALL | re.MULTILINE)


def typed() -> list[list[str]]:
    """The words of every command in the README, up to a pipe, a redirection or a remark."""
    lines = [line[2:] for block in blocks("console") for line in block.splitlines() if line.startswith("$ ")]
    return [
        list(itertools.takewhile(lambda word: word not in {"|", ">"}, shlex.split(line, comments=True)))
        for line in lines
    ]


TYPED = typed()
COMMANDS = [words[1:] for words in TYPED if words[0] == "placer"]


def needs_more(words: list[str]) -> bool:
    """Whether a command needs a cluster, servers of its own, or files that are not shipped."""
    match words:
        case ["sbatch" | "salloc" | "srun", *rest]:
            return "--placer-dry-run" not in rest
        case ["place" | "plan" | "audit" | "explain" | "defrag" | "snapshot", *rest]:
            return "--snapshot" not in rest
        case ["sandbox" | "extender" | "agent", *_] | ["simulate", "openb", *_]:
            return True
    return False


def run(words: list[str], folder: pathlib.Path) -> subprocess.CompletedProcess[str]:
    environment = {name: value for name, value in os.environ.items() if not name.startswith(("PLACER_", "SLURM_"))}
    return subprocess.run(
        [sys.executable, "-m", "placer", *words],
        cwd=folder,
        env=environment,
        capture_output=True,
        text=True,
        timeout=120,
        stdin=subprocess.DEVNULL,
    )


def test_readme_commands_without_a_cluster_run_in_their_order(tmp_path: pathlib.Path) -> None:
    (tmp_path / "fixtures").symlink_to(ROOT / "fixtures")
    runnable = [words for words in COMMANDS if not needs_more(words)]
    assert {words[0] for words in runnable} >= {"place", "plan", "sbatch", "topo", "snapshot", "simulate"}
    for words in runnable:
        done = run(words, tmp_path)
        # 1 is what these answer when they find something
        allowed = {1} if words[:2] in (["topo", "check"], ["topo", "diff"]) else {0, 3}
        assert done.returncode in allowed, (words, done.stderr)
        assert done.stdout or words[:2] == ["snapshot", "take"], words
        assert "Traceback" not in done.stderr, words


def test_readme_commands_that_need_a_cluster_have_verbs_and_options_that_exist() -> None:
    for typed_words in filter(needs_more, COMMANDS):
        words = typed_words
        command: click.Command = main.cli
        while isinstance(command, click.Group):
            chosen = command.get_command(click.Context(command), words[0])
            assert chosen is not None, typed_words
            command, words = chosen, words[1:]
        known = {name for parameter in command.params for name in (*parameter.opts, *parameter.secondary_opts)}
        given = {word.partition("=")[0] for word in words if word.startswith("-")}
        if typed_words[0] in {"sbatch", "salloc", "srun"}:
            given = {word for word in given if word.startswith("--placer-")}
        assert given <= known, typed_words


def test_readme_shows_every_verb_in_a_command() -> None:
    verbs = set(main.cli.list_commands(click.Context(main.cli)))
    assert verbs - {words[0] for words in COMMANDS} == set()


def test_readme_is_short() -> None:
    assert len(README.splitlines()) <= 250


def test_readme_demo_output_is_what_the_demo_prints() -> None:
    recipe = re.search(r"^\t@\$\(BIN\)/placer (place .*)$", (ROOT / "Makefile").read_text(), re.MULTILINE)
    assert recipe is not None
    printed = iter(run(shlex.split(recipe[1]), ROOT).stdout.splitlines())
    shown = [line for line in blocks("text")[0].splitlines() if line not in {"", "…"}]
    for line in shown:
        wanted = line.rpartition(" in ")[0] if line.startswith("solved:") else line
        assert any(found.startswith(wanted) for found in printed), line


def test_readme_snapshot_by_hand_is_one(tmp_path: pathlib.Path) -> None:
    (document,) = blocks("yaml")
    path = tmp_path / "by-hand.yaml"
    path.write_text(document)
    snapshot = snapshots.read(path)
    assert [node.name for node in snapshot.nodes] == [f"gpu0{number}" for number in range(1, 9)]
    assert [level.name for level in snapshot.topology.fabric.levels] == ["leaf", "spine"]
    assert run(["place", "--snapshot", str(path), "--nodes", "7", "--gpus-per-node", "8"], tmp_path).returncode == 0
    assert run(["place", "--snapshot", str(path), "--nodes", "8", "--gpus-per-node", "8"], tmp_path).returncode == 3


def test_readme_configuration_table_has_every_key() -> None:
    rows = re.findall(r"^\| `(\w+)` \|", README.partition("## Configuration")[2], re.MULTILINE)
    assert sorted(rows) == sorted(config.Config.__struct_fields__)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.relative_to(ROOT).as_posix())
def test_links_and_paths_of_pages_resolve(page: pathlib.Path) -> None:
    text = page.read_text()
    links = re.findall(r"\]\((?!https?:|mailto:|#)([^)#\s]+)", text)
    assert [link for link in links if not (page.parent / link).exists()] == []
    paths = re.findall(r"`((?:src|tests|fixtures|deploy)/[\w./-]+\.\w+)`", text)
    assert [path for path in paths if not (ROOT / path).exists()] == []


def test_make_targets_of_pages_exist() -> None:
    targets = set(re.findall(r"^([a-z]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    named = {name for page in PAGES for name in re.findall(r"(?:`|^\$ )make ([a-z]+)", page.read_text(), re.MULTILINE)}
    assert {"demo", "test", "check", "bench"} <= named <= targets


def test_make_test_is_the_readmes_test_command_and_what_ci_runs() -> None:
    assert ["make", "test"] in TYPED
    assert re.search(r"^make test$", (ROOT / ".ci/run").read_text(), re.MULTILINE)


def test_changelog_newest_version_is_that_of_the_package() -> None:
    newest = re.search(r"^## (\S+)", (ROOT / "CHANGELOG.md").read_text(), re.MULTILINE)
    assert newest is not None
    assert newest[1] == placer.__version__
