"""`placer sandbox slurm up|down|status`: a real Slurm with emulated GPU nodes on this machine."""

from __future__ import annotations

import pathlib
from typing import TYPE_CHECKING, Any

import click

if TYPE_CHECKING:
    from placer.sandbox import emulated, slurm

_DIRECTORY = click.option(
    "--dir",
    "directory",
    type=click.Path(file_okay=False, path_type=pathlib.Path),
    help="Where all of it lies. [default: $XDG_RUNTIME_DIR/placer-slurm, else /tmp/placer-slurm-UID]",
)
_OUTPUT = click.option(
    "-o", "--output", type=click.Choice(["table", "json", "yaml"]), default="table", help="Form of the answer."
)


@click.group(
    epilog="\b\nExamples:\n  placer sandbox slurm up\n  placer sandbox slurm status\n  placer sandbox slurm down"
)
def command() -> None:
    """Try placer on real servers with emulated GPU nodes; nothing outside this machine is touched."""


@command.group(
    "slurm",
    epilog="\b\nExamples:\n"
    '  eval "$(placer sandbox slurm up)"     start it and use it in this shell\n'
    "  placer sbatch --placer-explain train.sbatch\n"
    "  placer sandbox slurm down",
)
def slurm_group() -> None:
    """A Slurm of this machine's own release: slurmctld and one slurmd for each emulated node, on loopback."""


@slurm_group.command(
    epilog="\b\nExamples:\n"
    '  eval "$(placer sandbox slurm up)"\n'
    "  placer sandbox slurm up --dir /tmp/mine --nodes fixtures/slurm/24.11\n"
    "  placer sandbox slurm up -o json"
)
@_DIRECTORY
@click.option("--nodes", "nodes", metavar="PATH", help="A snapshot document or a recording: its nodes are emulated.")
@_OUTPUT
def up(directory: pathlib.Path | None, nodes: str | None, output: str) -> None:
    """Start a sandbox, or what is missing of one, and print what to export.

    Without --nodes it has 4 nodes of 8 A100 on two leaf switches and 2 nodes of 4 V100 on a third. Starting it again
    while it runs changes nothing. stdout is shell code, so that `eval` takes it.
    """
    from placer.cli import _render
    from placer.sandbox import slurm

    with _render.progress("Starting Slurm"):
        answer = slurm.up(_where(directory), _shape(nodes))
    for line in answer.left_out:
        _render.note(f"note: {line}")
    if output != "table":
        _emit(answer, output)
        return
    words = ", ".join(f"{count} nodes {state}" for state, count in _counts(answer).items())
    _render.note(f"Slurm {answer.version} runs in {answer.directory}: {words}")
    _render.note(f"node topologies: --topo-dir {answer.topo_dir}")
    _render.note(f"stop it with: placer sandbox slurm down{_option(directory)}")
    _render.say(f"export SLURM_CONF={answer.slurm_conf}")


@slurm_group.command(
    epilog="\b\nExamples:\n  placer sandbox slurm down\n  placer sandbox slurm down --dir /tmp/mine --keep"
)
@_DIRECTORY
@click.option("--keep", is_flag=True, help="Leave the directory with its configuration and logs.")
@_OUTPUT
def down(directory: pathlib.Path | None, keep: bool, output: str) -> None:
    """Stop exactly what `up` started, its jobs too, and remove the directory."""
    from placer.cli import _render
    from placer.sandbox import slurm

    where = _where(directory)
    with _render.progress("Stopping Slurm"):
        ended, found = slurm.down(where, keep=keep)
    if output != "table":
        from placer.cli import _document

        body = {"directory": str(where), "found": found, "processes_ended": ended, "removed": found and not keep}
        _document.emit("SlurmSandboxDown", body, output)
        return
    if not found:
        _render.note(f"there is no sandbox in {where}")
        return
    _render.note(f"{ended} processes ended; {where} {'stays' if keep else 'is removed'}")


@slurm_group.command(
    epilog="\b\nExamples:\n  placer sandbox slurm status\n  placer sandbox slurm status --dir /tmp/mine -o json"
)
@_DIRECTORY
@_OUTPUT
def status(directory: pathlib.Path | None, output: str) -> int:
    """Its daemons, its nodes, and where the logs are. Exit code 0 when all daemons run, else 1."""
    from placer.cli import _render
    from placer.sandbox import slurm

    answer = slurm.status(_where(directory))
    if output != "table":
        _emit(answer, output)
    else:
        release = f" (Slurm {answer.version})" if answer.version else ""
        _render.say(f"{answer.directory}: {answer.state}{release}")
        if answer.daemons:
            rows = [(d.name, str(d.pid) if d.pid is not None else "-", d.log) for d in answer.daemons]
            _render.table(("daemon", "pid", "log"), rows)
            _render.table(("node", "state"), [(node.name, node.state or "?") for node in answer.nodes])
    return 0 if answer.state == "running" else 1


def _where(directory: pathlib.Path | None) -> pathlib.Path:
    import os

    from placer.sandbox import slurm

    return directory or slurm.default_directory(os.environ)


def _option(directory: pathlib.Path | None) -> str:
    return f" --dir {directory}" if directory is not None else ""


def _shape(nodes: str | None) -> emulated.EmulatedCluster | None:
    if nodes is None:
        return None
    from placer.cli import _sources
    from placer.files import config
    from placer.sandbox import emulated

    return emulated.from_snapshot(_sources.read(_sources.SourceOptions(snapshot=nodes), config.load()))


def _counts(answer: slurm.Status) -> dict[str, int]:
    counts: dict[str, int] = {}
    for node in answer.nodes:
        counts[node.state or "?"] = counts.get(node.state or "?", 0) + 1
    return counts


def _emit(answer: slurm.Status, output: str) -> None:
    from placer.cli import _document

    body: dict[str, Any] = {
        "directory": answer.directory,
        "state": answer.state,
        "version": answer.version or None,
        "env": {"SLURM_CONF": answer.slurm_conf} if answer.slurm_conf else {},
        "topo_dir": answer.topo_dir or None,
        "daemons": [{"name": d.name, "pid": d.pid, "log": d.log} for d in answer.daemons],
        "nodes": [{"name": n.name, "state": n.state} for n in answer.nodes],
        "left_out": list(answer.left_out),
    }
    _document.emit("SlurmSandbox", body, output)
