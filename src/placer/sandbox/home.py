"""The directory of a sandbox: whose it is, what is written down in it, and its ports, keys and device files."""

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
from collections.abc import Iterator
from typing import Final

import msgspec

from placer import errors
from placer.sandbox import slurm_files

MARK_FILE: Final = "sandbox.json"
"""Its presence says that a directory is a sandbox of ours; without it nothing is ever removed."""
LOCK_FILE: Final = "lock"
# Below the range that Linux hands out to outgoing connections (32768 and up), so that none takes a port of ours.
_PORTS: Final = range(20_000, 32_000)


class Mark(msgspec.Struct, frozen=True):
    """What `up` writes first."""

    token: str
    port: int
    version: str
    nodes: tuple[str, ...]
    with_munge: bool
    complete: bool = False  # all files are written


def own(root: pathlib.Path) -> None:
    """Make the directory, or make sure that an existing one is a sandbox of this user or empty."""
    try:
        root.mkdir(mode=0o755, parents=True, exist_ok=True)
    except OSError as error:
        raise errors.SandboxError(f"cannot make {root}: {error.strerror}") from None
    check_owner(root)
    if not (root / MARK_FILE).exists() and any(entry.name != LOCK_FILE for entry in root.iterdir()):
        raise errors.SandboxError(
            f"{root} holds something else; a sandbox wants a directory of its own",
            hint="placer sandbox slurm up --dir DIR",
        )


def check_owner(root: pathlib.Path) -> None:
    """Another user's directory, or one that others may write to, could make us run or remove what is not ours."""
    info = root.lstat()
    if not stat.S_ISDIR(info.st_mode) or info.st_uid != os.getuid() or info.st_mode & 0o022:
        raise errors.SandboxError(
            f"{root} is not a directory that this user alone can write to", hint="placer sandbox slurm up --dir DIR"
        )


@contextlib.contextmanager
def lock(layout: slurm_files.Layout) -> Iterator[None]:
    """One `up` or `down` at a time for one directory; the kernel gives the lock back when a process dies."""
    with (layout.root / LOCK_FILE).open("w") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            raise errors.SandboxError(f"another placer is starting or stopping the sandbox in {layout.root}") from None
        yield


def read_mark(layout: slurm_files.Layout) -> Mark | None:
    """What `up` wrote down; None when there is no sandbox. Raises SandboxError for a broken file."""
    path = layout.root / MARK_FILE
    try:
        return msgspec.json.decode(path.read_bytes(), type=Mark)
    except (FileNotFoundError, NotADirectoryError):
        return None
    except (OSError, msgspec.DecodeError) as error:
        raise errors.SandboxError(f"{path} cannot be read: {error}") from None


def write_mark(layout: slurm_files.Layout, mark: Mark) -> None:
    """Replace the mark in one step, so that a crash leaves the old or the new one."""
    draft = layout.root / f"{MARK_FILE}.draft"
    draft.write_bytes(msgspec.json.encode(mark))
    draft.replace(layout.root / MARK_FILE)


def user() -> str:
    """The name of the user who runs this; SlurmUser takes a number too, where the user has no name."""
    try:
        return pwd.getpwuid(os.getuid()).pw_name
    except KeyError:
        return str(os.getuid())


def free_ports(count: int) -> int:
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


def make_devices(layout: slurm_files.Layout, count: int) -> None:
    """Character devices that stand in for GPUs: the null device (1, 3), by link where only root may make nodes."""
    for i in range(count):
        path = layout.devices / f"nvidia{i}"
        path.unlink(missing_ok=True)
        try:
            os.mknod(path, stat.S_IFCHR | 0o666, os.makedev(1, 3))
        except OSError:
            path.symlink_to("/dev/null")


def make_key(path: pathlib.Path) -> None:
    """A new secret for munged, readable by its user alone."""
    path.unlink(missing_ok=True)
    handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(handle, "wb") as file:
        file.write(secrets.token_bytes(128))


def remove(path: pathlib.Path) -> None:
    """Remove a file or a whole directory; a link goes, not what it points to."""
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)
