"""Files that are there whole or not at all."""

from __future__ import annotations

import contextlib
import os
import pathlib
import secrets
import shlex
import stat

from placer import errors


def write_bytes(path: pathlib.Path, data: bytes) -> None:
    """Replaces the file, mode 0644 less the umask. Whatever happens on the way, the old file stays as it was.

    A symlink stays a symlink; a pipe or device is written into. Raises InputError.
    """
    try:
        target = pathlib.Path(os.path.realpath(path))
        if _is_stream(target):
            target.write_bytes(data)
            return
        if target.is_dir():
            raise IsADirectoryError("it is a directory")
        _replace(target, data)
    except (OSError, ValueError) as error:  # ValueError: a path with a NUL byte
        reason = getattr(error, "strerror", None) or str(error)
        raise errors.InputError(
            f"cannot write {path}: {reason}",
            hint=f"ls -ld {shlex.quote(str(path.parent))}; df {shlex.quote(str(path.parent))}",
        ) from None


def _replace(target: pathlib.Path, data: bytes) -> None:
    temporary = target.with_name(f".{target.name[:100]}.{secrets.token_hex(6)}.tmp")
    handle = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o644)
    try:
        with os.fdopen(handle, "wb") as stream:
            stream.write(data)
            stream.flush()
            os.fsync(stream.fileno())
        temporary.replace(target)
    except OSError:
        with contextlib.suppress(OSError):
            temporary.unlink()
        raise
    _sync_folder(target.parent)


def _sync_folder(folder: pathlib.Path) -> None:
    """Makes the new name last through a power cut, where the file system can."""
    with contextlib.suppress(OSError):
        handle = os.open(folder, os.O_RDONLY | os.O_CLOEXEC)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)


def _is_stream(target: pathlib.Path) -> bool:
    try:
        mode = target.stat().st_mode
    except FileNotFoundError:
        return False
    return not (stat.S_ISREG(mode) or stat.S_ISDIR(mode))
