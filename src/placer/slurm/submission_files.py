"""Finds and reads batch scripts and node files where sbatch would."""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Mapping
from typing import Final

from placer.slurm import submission_types as types

MAX_BYTES: Final = 64 << 20
"""Larger files are not read; Slurm's own limit for a script (max_script_size) is 4 MiB unless configured."""


def reader(environ: Mapping[str, str], standard_input: bytes = b"") -> types.ReadScript:
    """A reader that looks names up like sbatch and gives `standard_input` for None."""

    def read_script(name: str | None) -> bytes:
        return standard_input if name is None else read_file(find(name, environ))

    return read_script


def find(name: str, environ: Mapping[str, str]) -> str:
    """The path that sbatch takes: absolute and dotted names as they are, others in the directory, then on PATH."""
    if name.startswith(("/", ".")) or os.access(name, os.R_OK):
        return name
    for folder in environ.get("PATH", "").split(os.pathsep):
        path = os.path.join(folder, name)  # noqa: PTH118 - as sbatch joins them
        if os.path.isfile(path) and os.access(path, os.R_OK):  # noqa: PTH113
            return path
    return name


def read_file(path: str) -> bytes:
    """The bytes of a regular file. Raises OSError; a pipe is not read, for what we took sbatch could not read again."""
    with open(path, "rb", opener=_without_waiting) as file:
        status = os.fstat(file.fileno())
        if not stat.S_ISREG(status.st_mode):
            raise OSError(errno.EINVAL, "not a regular file")
        if status.st_size > MAX_BYTES:
            raise OSError(errno.EFBIG, "larger than a batch script can be")
        return file.read(MAX_BYTES)


def _without_waiting(path: str, flags: int) -> int:
    return os.open(path, flags | os.O_NONBLOCK)
