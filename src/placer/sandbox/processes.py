"""Starts daemons of a sandbox, and stops exactly those and what they left behind. Never by name.

A process is known by its number together with the clock tick it started at and the boot it started in: a number that
was given to someone else does not match. Every daemon is started with a variable that holds the sandbox's own random
token; the kernel keeps the environment that a process was started with, so a daemon is found again even when the
`up` that started it was killed before it could write anything down.

Slurm's step daemons overwrite that environment with their title. They are found by what they hold open: a file of the
sandbox's log directory, for writing, in a process whose program is a Slurm or MUNGE daemon. A job's own processes are
found below those in the process tree, and, where they have left it, by the two variables that slurmd gives to what it
launches and to nothing else: SLURM_CONF with the sandbox's path together with SLURMD_NODENAME.
"""

from __future__ import annotations

import contextlib
import os
import pathlib
import select
import signal
import subprocess
import time
from collections.abc import Iterable, Mapping, Sequence
from typing import Final

import msgspec

from placer import errors

TOKEN_VARIABLE: Final = "PLACER_SANDBOX_TOKEN"  # noqa: S105 - a name, not a secret
PROGRAMS: Final = frozenset({"slurmctld", "slurmd", "slurmstepd", "munged"})
"""Programs that a sandbox runs; only a process of these is ever recognised by its open files."""

_PROC: Final = pathlib.Path("/proc")
_PARENT, _STATE, _START = 1, 0, 19  # fields of /proc/PID/stat after the name, counted from 0: proc(5) 4, 3 and 22


class Process(msgspec.Struct, frozen=True, order=True):
    """One running process, safe against reuse of its number."""

    pid: int
    start_ticks: int  # since boot, /proc/PID/stat field 22
    boot: str
    parent: int = 0

    def same_as(self, other: Process | None) -> bool:
        """Whether both are the same process, not merely the same number."""
        return other is not None and (self.pid, self.start_ticks, self.boot) == (
            other.pid,
            other.start_ticks,
            other.boot,
        )


def look(pid: int) -> Process | None:
    """The process that has this number now; None when there is none, or only a zombie that waits for its parent."""
    try:
        stat = (_PROC / str(pid) / "stat").read_text(errors="replace")
    except OSError:
        return None
    fields = stat.rpartition(")")[2].split()  # the name may hold blanks and brackets
    if len(fields) <= _START or fields[_STATE] in "ZX":
        return None
    return Process(pid, int(fields[_START]), _boot(), int(fields[_PARENT]))


def alive(process: Process | None) -> bool:
    """Whether this very process still runs."""
    return process is not None and process.same_as(look(process.pid))


def start(
    name: str, argv: Sequence[str], *, records: pathlib.Path, output: pathlib.Path, environ: Mapping[str, str]
) -> Process:
    """Start a daemon in the foreground of its own session, output to a file, and write down who it is.

    Raises SandboxError when the program cannot be run or ends at once.
    """
    with output.open("ab") as sink:
        try:
            child = subprocess.Popen(
                list(argv),
                stdin=subprocess.DEVNULL,
                stdout=sink,
                stderr=subprocess.STDOUT,
                env=dict(environ),
                cwd="/",
                start_new_session=True,
            )
        except OSError as error:
            raise errors.SandboxError(f"cannot start {argv[0]}: {error.strerror}") from None
    process = look(child.pid)
    if process is None:
        child.wait()
        raise errors.SandboxError(f"{name} ended: {last_words(output)}", hint=f"cat {output}")
    child.returncode = 0  # it outlives us on purpose; Popen's finaliser must not wait for it or warn
    record = records / f"{name}.json"
    draft = record.with_suffix(".draft")
    draft.write_bytes(msgspec.json.encode(process))
    draft.replace(record)
    return process


def last_words(output: pathlib.Path) -> str:
    """The line of a daemon's output that says best why it ended: the last fatal one, else the last."""
    with contextlib.suppress(OSError):
        lines = [line for line in output.read_text(errors="replace").splitlines() if line.strip()]
        fatal = [line for line in lines if "fatal" in line]
        return errors.printable((fatal or lines or ["it said nothing"])[-1])
    return "it left no log"


def recorded(records: pathlib.Path) -> dict[str, Process]:
    """Daemon name -> the process that was written down for it, running or not. Broken records are passed over."""
    found: dict[str, Process] = {}
    with contextlib.suppress(OSError):
        for path in sorted(records.glob("*.json")):
            with contextlib.suppress(OSError, msgspec.DecodeError):
                found[path.stem] = msgspec.json.decode(path.read_bytes(), type=Process)
    return found


def belonging(
    token: str, *, logs: pathlib.Path, conf: pathlib.Path, records: Mapping[str, Process]
) -> tuple[Process, ...]:
    """Every running process of a sandbox but the calling one: daemons, step daemons, jobs; parents before children."""
    table = {process.pid: process for pid in _pids() if (process := look(pid)) is not None}
    roots = {process.pid for process in records.values() if process.same_as(table.get(process.pid))}
    daemon = f"{TOKEN_VARIABLE}={token}".encode()
    task = f"SLURM_CONF={conf}".encode()
    prefix = f"{logs}/"
    for pid in table.keys() - roots:
        variables = _environment(pid)
        launched = task in variables and any(v.startswith(b"SLURMD_NODENAME=") for v in variables)
        if daemon in variables or launched or _writes_under(pid, prefix):
            roots.add(pid)
    return tuple(process for process in _with_descendants(roots, table) if process.pid != os.getpid())


def stop(processes: Iterable[Process], *, grace_seconds: float = 2.0) -> tuple[Process, ...]:
    """End processes: SIGTERM, then SIGKILL for those that stay longer than the grace. Returns what survived even that.

    Each signal goes through a handle to the process (pidfd), opened first and compared afterwards, so that a number
    that changes hands in between is never hit.
    """
    handles = {process: handle for process in processes if (handle := _handle(process)) is not None}
    try:
        _signal(handles.values(), signal.SIGTERM)
        if _wait(handles.values(), grace_seconds):
            _signal(handles.values(), signal.SIGKILL)
            _wait(handles.values(), grace_seconds)
        return tuple(process for process in handles if alive(process))
    finally:
        for process, handle in handles.items():
            with contextlib.suppress(ChildProcessError):  # ours, when the same program did `up`: leave no zombie
                os.waitpid(process.pid, os.WNOHANG)
            os.close(handle)


def _handle(process: Process) -> int | None:
    try:
        handle = os.pidfd_open(process.pid)
    except OSError:
        return None
    if alive(process):
        return handle
    os.close(handle)
    return None


def _signal(handles: Iterable[int], number: signal.Signals) -> None:
    for handle in handles:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            signal.pidfd_send_signal(handle, number)


def _wait(handles: Iterable[int], seconds: float) -> bool:
    """Wait until all have ended; True when some have not."""
    waiting = set(handles)
    deadline = time.monotonic() + seconds
    poll = select.poll()
    for handle in waiting:
        poll.register(handle, select.POLLIN)
    while waiting and (left := deadline - time.monotonic()) > 0:
        for handle, _ in poll.poll(left * 1000):
            poll.unregister(handle)
            waiting.discard(handle)
    return bool(waiting)


def _with_descendants(roots: set[int], table: Mapping[int, Process]) -> tuple[Process, ...]:
    children: dict[int, list[int]] = {}
    for process in table.values():
        children.setdefault(process.parent, []).append(process.pid)
    order: list[Process] = []
    seen: set[int] = set()
    waiting = sorted(roots, reverse=True)
    while waiting:
        pid = waiting.pop()
        if pid not in seen:
            seen.add(pid)
            order.append(table[pid])
            waiting += sorted(children.get(pid, ()), reverse=True)
    return tuple(order)


def _environment(pid: int) -> frozenset[bytes]:
    """The variables that a process was started with, as far as it has not overwritten them."""
    try:
        return frozenset((_PROC / str(pid) / "environ").read_bytes().split(b"\0"))
    except OSError:
        return frozenset()


def _writes_under(pid: int, prefix: str) -> bool:
    """Whether a daemon program holds a file under `prefix` open for writing."""
    root = _PROC / str(pid)
    try:
        program = (root / "exe").readlink().name.removesuffix(" (deleted)")
        if program.partition("-")[0] not in PROGRAMS:  # Debian: slurmstepd-wlm
            return False
        return any(_is_open_for_writing(root, handle, prefix) for handle in (root / "fd").iterdir())
    except OSError:
        return False


def _is_open_for_writing(root: pathlib.Path, handle: pathlib.Path, prefix: str) -> bool:
    try:
        if not str(handle.readlink()).startswith(prefix):
            return False
        info = (root / "fdinfo" / handle.name).read_text()
    except OSError:
        return False
    flags = next((int(line.split()[1], 8) for line in info.splitlines() if line.startswith("flags:")), 0)
    return flags & os.O_ACCMODE != os.O_RDONLY


def _pids() -> list[int]:
    return [int(entry.name) for entry in _PROC.iterdir() if entry.name.isdigit()]


def _boot() -> str:
    return (_PROC / "sys/kernel/random/boot_id").read_text().strip()
