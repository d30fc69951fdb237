"""A real Slurm on this machine: slurmctld, one slurmd for each emulated node, and their own munged, in one directory.

`up` writes down the sandbox's token before it starts anything, so that `down` finds every process of it whatever
happened in between (see `processes`). `up` on a running sandbox changes nothing; on one that lost daemons it starts
those again.
"""

from __future__ import annotations

import os
import pathlib
import secrets
import tempfile
from collections.abc import Mapping
from typing import Final

import msgspec

from placer import errors
from placer.sandbox import daemons, emulated, home, install, processes, slurm_files

START_SECONDS: Final = 60.0


class Daemon(msgspec.Struct, frozen=True):
    """One daemon of a sandbox. `pid` is None while it does not run."""

    name: str
    pid: int | None
    log: str


class Node(msgspec.Struct, frozen=True):
    """One emulated node and the state slurmctld gives it; None while slurmctld does not answer."""

    name: str
    state: str | None


class Status(msgspec.Struct, frozen=True):
    """How a sandbox is. `state`: `running` (all daemons), `partial` (some), `stopped` (none), `absent` (no sandbox)."""

    directory: str
    state: str
    version: str = ""
    daemons: tuple[Daemon, ...] = ()
    nodes: tuple[Node, ...] = ()
    slurm_conf: str = ""
    topo_dir: str = ""
    left_out: tuple[str, ...] = ()  # what of the document is not emulated


def default_directory(environ: Mapping[str, str]) -> pathlib.Path:
    """`$XDG_RUNTIME_DIR/placer-slurm`, else `/tmp/placer-slurm-UID`."""
    runtime = environ.get("XDG_RUNTIME_DIR")
    if runtime and pathlib.Path(runtime).is_dir():
        return pathlib.Path(runtime) / "placer-slurm"
    return pathlib.Path(tempfile.gettempdir()) / f"placer-slurm-{os.getuid()}"


def up(
    directory: pathlib.Path,
    shape: emulated.EmulatedCluster | None = None,
    *,
    report: daemons.Report = lambda _line: None,
    seconds: float = START_SECONDS,
) -> Status:
    """Start a sandbox, or what is missing of one, and wait until every node answers.

    `shape` None = as it was, or the default cluster. Raises SandboxError; when nothing ran before, nothing runs then
    either, and the logs stay.
    """
    installed = install.find()
    layout = _layout(directory)
    home.own(layout.root)
    with home.lock(layout):
        mark = home.read_mark(layout)
        if mark is not None and mark.complete and shape is not None and _names(shape) != mark.nodes:
            raise errors.SandboxError(
                f"{layout.root} already holds a sandbox with other nodes",
                hint=f"placer sandbox slurm down --dir {layout.root}",
            )
        if mark is None or not mark.complete:
            mark = _prepare(layout, shape or emulated.default_cluster(), installed, mark)
        had_some = bool(daemons.belonging(layout, mark))
        ready = False
        try:
            daemons.start_missing(layout, mark, installed, report)
            daemons.wait_ready(layout, mark, installed, report, seconds)
            ready = True
        finally:
            if not ready and not had_some:
                daemons.stop_all(layout, mark)
    answer = status(directory)
    return msgspec.structs.replace(answer, left_out=shape.left_out) if shape is not None else answer


def down(directory: pathlib.Path, *, keep: bool = False) -> tuple[int, bool]:
    """Stop everything that belongs to the sandbox, jobs too, and remove its directory unless `keep`.

    Returns how many processes were ended and whether there was a sandbox. Raises SandboxError when the directory is
    not a sandbox of this user, or a process does not end.
    """
    layout = _layout(directory)
    if not layout.root.is_dir():
        return 0, False
    home.check_owner(layout.root)
    if not (layout.root / home.MARK_FILE).exists():
        if any(entry.name != home.LOCK_FILE for entry in layout.root.iterdir()):
            raise errors.SandboxError(f"{layout.root} is no sandbox of placer; nothing was touched")
        return 0, False
    with home.lock(layout):
        mark = home.read_mark(layout)
        ended = daemons.stop_all(layout, mark)
        if not keep:
            # The mark goes last: a removal that is interrupted can be repeated.
            for entry in layout.root.iterdir():
                if entry.name != home.MARK_FILE:
                    home.remove(entry)
            (layout.root / home.MARK_FILE).unlink(missing_ok=True)
            layout.root.rmdir()
    return ended, True


def status(directory: pathlib.Path) -> Status:
    """How a sandbox is, without changing anything."""
    layout = _layout(directory)
    mark = home.read_mark(layout)
    if mark is None:
        return Status(str(layout.root), "absent")
    records = processes.recorded(layout.run)
    found = tuple(_daemon(name, records.get(name), layout) for name in daemons.names(mark))
    running = sum(daemon.pid is not None for daemon in found)
    state = "running" if running == len(found) else "partial" if running else "stopped"
    sinfo = install.find_program("sinfo")
    states = daemons.node_states(sinfo, layout, mark) if sinfo is not None else {}
    return Status(
        directory=str(layout.root),
        state=state,
        version=mark.version,
        daemons=found,
        nodes=tuple(Node(name, states.get(name)) for name in mark.nodes),
        slurm_conf=str(layout.conf),
        topo_dir=str(layout.topo),
    )


def _layout(directory: pathlib.Path) -> slurm_files.Layout:
    return slurm_files.Layout(directory.expanduser().resolve())


def _names(shape: emulated.EmulatedCluster) -> tuple[str, ...]:
    return tuple(node.name for node in shape.nodes)


def _daemon(name: str, process: processes.Process | None, layout: slurm_files.Layout) -> Daemon:
    pid = process.pid if process is not None and processes.alive(process) else None
    # munged in the foreground writes to its output instead of its log file.
    return Daemon(name, pid, str(layout.logs / (f"{name}.out" if name == "munged" else f"{name}.log")))


def _prepare(
    layout: slurm_files.Layout, shape: emulated.EmulatedCluster, installed: install.Installation, old: home.Mark | None
) -> home.Mark:
    """Write the token, then the files, then that they are complete."""
    if old is not None:
        daemons.stop_all(layout, old)
    mark = home.Mark(
        token=secrets.token_hex(16),
        port=home.free_ports(len(shape.nodes) + 1),
        version=installed.version,
        nodes=_names(shape),
        with_munge=installed.munged is not None,
    )
    longest = max(len(name) for name in mark.nodes)
    slurm_files.check_directory(layout.root, longest)
    home.write_mark(layout, mark)
    slurm_files.write(shape, layout, installed, user=home.user(), port=mark.port)
    home.make_devices(layout, max((len(node.gpus) for node in shape.nodes), default=0))
    if mark.with_munge:
        home.make_key(layout.run / "munge.key")
    mark = msgspec.structs.replace(mark, complete=True)
    home.write_mark(layout, mark)
    return mark
