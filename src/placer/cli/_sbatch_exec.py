"""Becoming sbatch, salloc or srun: what PATH finds, with the environment, streams and signals of a direct call."""

from __future__ import annotations

import contextlib
import errno
import os
import select
import shlex
import signal
import stat
import sys
from collections.abc import Mapping, Sequence
from typing import Final, NoReturn

from placer import errors

_GUARD: Final = "_PLACER_SBATCH"
"""PID and paths, `:` between: set only for an sbatch that is itself a script, which may call placer again."""


def path_of(program: str, environ: Mapping[str, str], skip: Sequence[str] = ()) -> str:
    """The first `program` on PATH that is neither placer itself nor in `skip`. Raises CommandMissingError."""
    me = os.path.realpath(sys.argv[0])
    for folder in environ.get("PATH", os.defpath).split(os.pathsep):
        path = os.path.join(folder or ".", program)  # noqa: PTH118 - as the shell joins them
        if path not in skip and os.access(path, os.X_OK) and os.path.isfile(path) and os.path.realpath(path) != me:  # noqa: PTH113
            return path
    raise errors.CommandMissingError(f"`{program}` is not on PATH", hint="module load slurm, or use a login node")


def tried(environ: Mapping[str, str]) -> tuple[str, ...]:
    """The sbatch scripts that led here: called by placer, they called placer. Empty for a call from outside.

    The mark names a process, for it would otherwise be inherited by a job and silence placer there.
    """
    pid, _, paths = environ.get(_GUARD, "").partition(":")
    if not (pid.isascii() and pid.isdigit() and int(pid) in _ancestors()):
        return ()
    return tuple(paths.split(os.pathsep))


def _ancestors() -> set[int]:
    """This process and those above it."""
    found: set[int] = set()
    pid = os.getpid()
    while pid > 1 and pid not in found:
        found.add(pid)
        try:
            with open(f"/proc/{pid}/stat", "rb") as file:  # noqa: PTH123 - no need for pathlib on the fast path
                pid = int(file.read().rpartition(b")")[2].split()[1])
        except (OSError, ValueError, IndexError):
            found.add(os.getppid())
            break
    return found


def become(path: str, words: Sequence[str], added: Sequence[str], skip: Sequence[str]) -> NoReturn:
    """Replace this process by `PROGRAM ADDED… WORDS…`. Raises CommandFailedError when the system refuses."""
    program = os.path.basename(path)  # noqa: PTH119
    sys.stdout.flush()
    sys.stderr.flush()
    for number in (signal.SIGPIPE, signal.SIGXFSZ):  # the interpreter ignores them, sbatch must not inherit that
        signal.signal(number, signal.SIG_DFL)
    environment = original_environment()
    environment.pop(os.fsencode(_GUARD), None)
    if _is_script(path):
        mark = os.pathsep.join((str(os.getpid()), *skip, path))
        environment[os.fsencode(_GUARD)] = os.fsencode(mark)
    if added:
        with contextlib.suppress(OSError):  # too long with what we add: go on without it
            _execute(path, [program, *added, *words], environment)
    try:
        _execute(path, [program, *words], environment)
    except OSError as error:
        raise errors.CommandFailedError(f"cannot run {errors.printable(path)}: {error.strerror}") from None


def _execute(path: str, argv: list[str], environment: dict[bytes, bytes]) -> NoReturn:
    try:
        os.execve(path, argv, environment)  # noqa: S606 - no shell wanted
    except OSError as error:
        if error.errno != errno.ENOEXEC:
            raise
        os.execve("/bin/sh", ["/bin/sh", path, *argv[1:]], environment)  # noqa: S606 - as execvp does for a script


def _is_script(path: str) -> bool:
    try:
        with open(path, "rb") as file:  # noqa: PTH123
            return file.read(4) != b"\x7fELF"
    except OSError:
        return True


def original_environment() -> dict[bytes, bytes]:
    """The environment this process was started with: in the C locale the interpreter sets LC_CTYPE for itself."""
    environment = dict(os.environb)
    try:
        with open("/proc/self/environ", "rb") as file:  # noqa: PTH123
            started = dict(entry.partition(b"=")[::2] for entry in file.read().split(b"\0") if b"=" in entry)
    except OSError:
        return environment
    if b"LC_CTYPE" in started:
        environment[b"LC_CTYPE"] = started[b"LC_CTYPE"]
    else:
        environment.pop(b"LC_CTYPE", None)
    return environment


def standard_input() -> bytes:
    """The script on standard input, which stays there for sbatch: a file is not moved on, a pipe is kept in memory."""
    try:
        if not stat.S_ISREG(os.fstat(0).st_mode):
            return _from_pipe()
        position = os.lseek(0, 0, os.SEEK_CUR)
    except OSError:
        return b""  # closed; sbatch will say so
    chunks: list[bytes] = []
    while chunk := os.pread(0, 1 << 20, position):
        chunks.append(chunk)
        position += len(chunk)
    return b"".join(chunks)


def _from_pipe() -> bytes:
    """Read a pipe to its end and put what it held in its place."""
    chunks: list[bytes] = []
    with contextlib.suppress(OSError):  # an error is the end, as far as sbatch could read either
        while chunk := _next_chunk():
            chunks.append(chunk)
    data = b"".join(chunks)
    if data:
        kept = os.memfd_create("batch script", 0)
        view = memoryview(data)
        while view:
            view = view[os.write(kept, view) :]
        os.lseek(kept, 0, os.SEEK_SET)
        os.dup2(kept, 0)
        os.close(kept)
    return data


def _next_chunk() -> bytes:
    while True:
        try:
            return os.read(0, 1 << 20)
        except BlockingIOError:
            select.select([0], [], [])


def line(words: Sequence[str]) -> str:
    """A command as one line that a shell reads back to the same words."""
    return " ".join(_quoted(word) for word in words)


def _quoted(word: str) -> str:
    """Quoted where needed; control characters and stray bytes in `$'…'`, so that the line stays one line."""
    if word.isprintable():
        return shlex.quote(word)
    data = "".join(_escaped(char) for char in word)
    return f"$'{data}'"


def _escaped(char: str) -> str:
    if char in "\\'":
        return f"\\{char}"
    if char.isprintable():
        return char
    return "".join(f"\\{byte:03o}" for byte in os.fsencode(char))
