"""A real Slurm on this machine: slurmctld, one slurmd for each emulated node, and their own munged, in one directory.

`up` writes down the sandbox's token before it starts anything, so that `down` finds every process of it whatever
happened in between (see `processes`). `up` on a running sandbox changes nothing; on one that lost daemons it starts
those again.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import pathlib
import pwd
import secrets
import shutil
import socket
import stat
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Final

import msgspec

from placer import errors
from placer.sandbox import emulated, install, processes, slurm_files

MARK_FILE: Final = "sandbox.json"
"""Its presence says that a directory is a sandbox of ours; without it nothing is ever removed."""
START_SECONDS: Final = 60.0
_COMMAND_SECONDS: Final = 10.0
# Below the range that Linux hands out to outgoing connections (32768 and up), so that none takes a port of ours.
_PORTS: Final = range(20_000, 32_000)

Report = Callable[[str], None]
"""Called with a line for every step of a long operation."""


class Mark(msgspec.Struct, frozen=True):
    """What `up` writes first."""

    token: str
    port: int
    version: str
    nodes: tuple[str, ...]
    with_munge: bool
    complete: bool = False  # all files are written


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
    report: Report = lambda _line: None,
    seconds: float = START_SECONDS,
) -> Status:
    """Start a sandbox, or what is missing of one, and wait until every node answers.

    `shape` None = as it was, or the default cluster. Raises SandboxError; when nothing ran before, nothing runs then
    either, and the logs stay.
    """
    installed = install.find()
    layout = _layout(directory)
    _own(layout.root)
    with _lock(layout):
        mark = _read_mark(layout)
        if mark is not None and mark.complete and shape is not None and _names(shape) != mark.nodes:
            raise errors.SandboxError(
                f"{layout.root} already holds a sandbox with other nodes",
                hint=f"placer sandbox slurm down --dir {layout.root}",
            )
        if mark is None or not mark.complete:
            mark = _prepare(layout, shape or emulated.default_cluster(), installed, mark)
        had_some = bool(processes.belonging(mark.token, logs=layout.logs, records=processes.recorded(layout.run)))
        ready = False
        try:
            _start_missing(layout, mark, installed, report)
            _wait_ready(layout, mark, installed, report, seconds)
            ready = True
        finally:
            if not ready and not had_some:
                _stop_all(layout, mark)
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
    _check_owner(layout.root)
    if not (layout.root / MARK_FILE).exists():
        if any(layout.root.iterdir()):
            raise errors.SandboxError(f"{layout.root} is no sandbox of placer; nothing was touched")
        return 0, False
    with _lock(layout):
        mark = _read_mark(layout)
        ended = _stop_all(layout, mark)
        if not keep:
            # The mark goes last: a removal that is interrupted can be repeated.
            for entry in layout.root.iterdir():
                if entry.name != MARK_FILE:
                    _remove(entry)
            (layout.root / MARK_FILE).unlink(missing_ok=True)
            layout.root.rmdir()
    return ended, True


def status(directory: pathlib.Path) -> Status:
    """How a sandbox is, without changing anything."""
    layout = _layout(directory)
    mark = _read_mark(layout)
    if mark is None:
        return Status(str(layout.root), "absent")
    records = processes.recorded(layout.run)
    daemons = tuple(_daemon(name, records.get(name), layout) for name in _daemons(mark))
    running = sum(daemon.pid is not None for daemon in daemons)
    state = "running" if running == len(daemons) else "partial" if running else "stopped"
    controller = next(daemon for daemon in daemons if daemon.name == "slurmctld")
    sinfo = install.find_program("sinfo")
    states = _node_states(sinfo, layout) if controller.pid is not None and sinfo is not None else {}
    return Status(
        directory=str(layout.root),
        state=state,
        version=mark.version,
        daemons=daemons,
        nodes=tuple(Node(name, states.get(name)) for name in mark.nodes),
        slurm_conf=str(layout.conf),
        topo_dir=str(layout.topo),
    )


def _layout(directory: pathlib.Path) -> slurm_files.Layout:
    return slurm_files.Layout(directory.expanduser().resolve())


def _names(shape: emulated.EmulatedCluster) -> tuple[str, ...]:
    return tuple(node.name for node in shape.nodes)


def _daemons(mark: Mark) -> tuple[str, ...]:
    """Names in the order in which they start."""
    return (*(["munged"] if mark.with_munge else []), "slurmctld", *(f"slurmd.{name}" for name in mark.nodes))


def _daemon(name: str, process: processes.Process | None, layout: slurm_files.Layout) -> Daemon:
    pid = process.pid if process is not None and processes.alive(process) else None
    # munged in the foreground writes to its output instead of its log file.
    return Daemon(name, pid, str(layout.logs / (f"{name}.out" if name == "munged" else f"{name}.log")))


def _own(root: pathlib.Path) -> None:
    """Make the directory, or make sure that an existing one is a sandbox of this user or empty."""
    try:
        root.mkdir(mode=0o755, parents=True, exist_ok=True)
    except OSError as error:
        raise errors.SandboxError(f"cannot make {root}: {error.strerror}") from None
    _check_owner(root)
    if not (root / MARK_FILE).exists() and any(entry.name != "lock" for entry in root.iterdir()):
        raise errors.SandboxError(
            f"{root} holds something else; a sandbox wants a directory of its own",
            hint="placer sandbox slurm up --dir DIR",
        )


def _check_owner(root: pathlib.Path) -> None:
    """Another user's directory, or one that others may write to, could make us run or remove what is not ours."""
    info = root.lstat()
    if not stat.S_ISDIR(info.st_mode) or info.st_uid != os.getuid() or info.st_mode & 0o022:
        raise errors.SandboxError(
            f"{root} is not a directory that this user alone can write to", hint="placer sandbox slurm up --dir DIR"
        )


@contextlib.contextmanager
def _lock(layout: slurm_files.Layout) -> Iterator[None]:
    """One `up` or `down` at a time for one directory; the kernel gives the lock back when a process dies."""
    with (layout.root / "lock").open("w") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            raise errors.SandboxError(f"another placer is starting or stopping the sandbox in {layout.root}") from None
        yield


def _read_mark(layout: slurm_files.Layout) -> Mark | None:
    path = layout.root / MARK_FILE
    try:
        return msgspec.json.decode(path.read_bytes(), type=Mark)
    except FileNotFoundError:
        return None
    except NotADirectoryError:
        return None
    except (OSError, msgspec.DecodeError) as error:
        raise errors.SandboxError(f"{path} cannot be read: {error}") from None


def _write_mark(layout: slurm_files.Layout, mark: Mark) -> None:
    draft = layout.root / f"{MARK_FILE}.draft"
    draft.write_bytes(msgspec.json.encode(mark))
    draft.replace(layout.root / MARK_FILE)


def _prepare(
    layout: slurm_files.Layout, shape: emulated.EmulatedCluster, installed: install.Installation, old: Mark | None
) -> Mark:
    """Write the token, then the files, then that they are complete."""
    if old is not None:
        _stop_all(layout, old)
    mark = Mark(
        token=secrets.token_hex(16),
        port=_free_ports(len(shape.nodes) + 1),
        version=installed.version,
        nodes=_names(shape),
        with_munge=installed.munged is not None,
    )
    longest = max(len(name) for name in mark.nodes)
    slurm_files.check_directory(layout.root, longest)
    _write_mark(layout, mark)
    slurm_files.write(shape, layout, installed, user=_user(), port=mark.port)
    _make_devices(layout, max((len(node.gpus) for node in shape.nodes), default=0))
    if mark.with_munge:
        _make_key(layout.run / "munge.key")
    mark = msgspec.structs.replace(mark, complete=True)
    _write_mark(layout, mark)
    return mark


def _user() -> str:
    """The name of the user who runs this; SlurmUser takes a number too, where the user has no name."""
    try:
        return pwd.getpwuid(os.getuid()).pw_name
    except KeyError:
        return str(os.getuid())


def _free_ports(count: int) -> int:
    """The first of `count` neighbouring TCP ports on 127.0.0.1 that nobody listens on."""
    for _ in range(200):
        first = _PORTS.start + secrets.randbelow(len(_PORTS) - count)
        if all(_is_free(port) for port in range(first, first + count)):
            return first
    raise errors.SandboxError(f"no {count} neighbouring ports are free below {_PORTS.stop}", hint="ss -ltn")


def _is_free(port: int) -> bool:
    with socket.socket() as probe:
        try:
            probe.bind(("127.0.0.1", port))
        except OSError:
            return False
        return True


def _make_devices(layout: slurm_files.Layout, count: int) -> None:
    """Character devices that stand in for GPUs: the null device (1, 3), by link where only root may make nodes."""
    for i in range(count):
        path = layout.devices / f"nvidia{i}"
        path.unlink(missing_ok=True)
        try:
            os.mknod(path, stat.S_IFCHR | 0o666, os.makedev(1, 3))
        except OSError:
            path.symlink_to("/dev/null")


def _make_key(path: pathlib.Path) -> None:
    path.unlink(missing_ok=True)
    handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(handle, "wb") as file:
        file.write(secrets.token_bytes(128))


def _environment(mark: Mark, layout: slurm_files.Layout) -> dict[str, str]:
    """The daemons' environment: ours without the variables that Slurm and MUNGE read, plus the token."""
    foreign = ("SLURM", "SBATCH_", "SRUN_", "SALLOC_", "MUNGE")
    kept = {key: value for key, value in os.environ.items() if not key.startswith(foreign)}
    return {**kept, processes.TOKEN_VARIABLE: mark.token, "SLURM_CONF": str(layout.conf)}


def _start_missing(layout: slurm_files.Layout, mark: Mark, installed: install.Installation, report: Report) -> None:
    """Start, in order, every daemon that does not run."""
    records = processes.recorded(layout.run)
    environ = _environment(mark, layout)
    for name in _daemons(mark):
        if not processes.alive(records.get(name)):
            report(f"starting {name}")
            argv = _command(name, layout, installed)
            output = layout.logs / f"{name}.out"
            processes.start(name, argv, records=layout.run, output=output, environ=environ)
            if name == "munged":
                _wait_socket(layout, output)


def _command(name: str, layout: slurm_files.Layout, installed: install.Installation) -> list[str]:
    if name == "munged":
        # --force: a directory above may be closed to others, which munged takes for a mistake.
        run = layout.run
        return [
            installed.munged or "munged",
            "--foreground",
            "--force",
            f"--socket={layout.munge_socket}",
            f"--key-file={run}/munge.key",
            f"--pid-file={run}/munged.pid",
            f"--seed-file={run}/munged.seed",
        ]
    if name == "slurmctld":
        return [installed.slurmctld, "-D", "-f", str(layout.conf)]
    return [installed.slurmd, "-D", "-N", name.removeprefix("slurmd."), "-f", str(layout.conf)]


def _wait_socket(layout: slurm_files.Layout, output: pathlib.Path) -> None:
    deadline = time.monotonic() + _COMMAND_SECONDS
    while time.monotonic() < deadline:
        with socket.socket(socket.AF_UNIX) as client, contextlib.suppress(OSError):
            client.connect(str(layout.munge_socket))
            return
        time.sleep(0.05)
    raise errors.SandboxError(f"munged does not answer: {_last_line(output)}", hint=f"cat {output}")


def _wait_ready(
    layout: slurm_files.Layout, mark: Mark, installed: install.Installation, report: Report, seconds: float
) -> None:
    """Wait until slurmctld knows every node as responding and every slurmd listens."""
    begin = time.monotonic()
    while True:
        _check_running(layout, mark)
        states = _node_states(installed.sinfo, layout)
        ready = [
            name for i, name in enumerate(mark.nodes) if _answers(states.get(name)) and _listens(mark.port + 1 + i)
        ]
        if len(ready) == len(mark.nodes):
            return
        report(f"{len(ready)} of {len(mark.nodes)} nodes answer")
        if time.monotonic() - begin > seconds:
            missing = next(name for name in mark.nodes if name not in ready)
            raise errors.SandboxError(
                f"{len(ready)} of {len(mark.nodes)} nodes answer after {seconds:.0f} s; node {missing} is "
                f"{states.get(missing, 'unknown to slurmctld')}",
                hint=f"tail {layout.logs}/slurmctld.log {layout.logs}/slurmd.{missing}.log",
            )
        time.sleep(0.2)


def _check_running(layout: slurm_files.Layout, mark: Mark) -> None:
    records = processes.recorded(layout.run)
    for name in _daemons(mark):
        if not processes.alive(records.get(name)):
            output = layout.logs / f"{name}.out"
            raise errors.SandboxError(f"{name} ended: {_last_line(output)}", hint=f"tail {output}")


def _last_line(path: pathlib.Path) -> str:
    with contextlib.suppress(OSError):
        lines = [line for line in path.read_text(errors="replace").splitlines() if line.strip()]
        fatal = [line for line in lines if "fatal" in line]
        return errors.printable((fatal or lines or ["it said nothing"])[-1])
    return "it left no log"


def _answers(state: str | None) -> bool:
    """Whether sinfo's word for a node says that its slurmd has registered and responds."""
    return (
        state is not None and not state.endswith("*") and not state.startswith(("unk", "down", "no_respond", "futur"))
    )


def _listens(port: int) -> bool:
    with socket.socket() as client:
        client.settimeout(1.0)
        return client.connect_ex(("127.0.0.1", port)) == 0


def _node_states(sinfo: str, layout: slurm_files.Layout) -> dict[str, str]:
    """Node -> sinfo's word for its state; empty while slurmctld does not answer."""
    argv: Sequence[str] = [sinfo, "--noheader", "-N", "-o", "%N %T"]
    environ = {key: value for key, value in os.environ.items() if not key.startswith(("SINFO_", "SLURM"))}
    try:
        answer = subprocess.run(
            argv,
            capture_output=True,
            text=True,
            timeout=_COMMAND_SECONDS,
            env={**environ, "SLURM_CONF": str(layout.conf)},
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired):
        return {}
    pairs = (line.split() for line in answer.stdout.splitlines())
    return {pair[0]: pair[1].lower() for pair in pairs if len(pair) == 2}


def _stop_all(layout: slurm_files.Layout, mark: Mark | None) -> int:
    """End every process of the sandbox; returns how many there were. Raises SandboxError for one that does not end."""
    if mark is None:
        return 0
    count = 0
    for _ in range(5):  # a daemon that is being stopped may still start a step
        records = processes.recorded(layout.run)
        found = processes.belonging(mark.token, logs=layout.logs, records=records)
        if not found:
            break
        count += len(found)
        survivors = processes.stop(found)
        if survivors:
            raise errors.SandboxError(
                f"{len(survivors)} processes of the sandbox do not end: {', '.join(str(p.pid) for p in survivors)}"
            )
    for record in layout.run.glob("*.json"):
        record.unlink(missing_ok=True)
    return count


def _remove(path: pathlib.Path) -> None:
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)
