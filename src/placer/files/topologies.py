"""Saved topology outputs: one file, standard input, or a directory with one file a node."""

from __future__ import annotations

import codecs
import os
import pathlib
import sys
from typing import Final

from placer import errors, hostlist
from placer.topology import types as topo
from placer.topology.readers import sniff

MAX_BYTES: Final = 64 << 20
"""Largest text that is read; the largest real output is below 100 KB."""

STDIN: Final = "-"

_UTF16: Final = (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)


def read(path: str | os.PathLike[str], *, name: str | None = None) -> topo.NodeTopology:
    """The topology of one node from a file, or from standard input for `-`.

    `name` of the node defaults to the file's stem (`stdin` for standard input). Raises InputError when the file cannot
    be read or is larger than `MAX_BYTES`, ParseError when its text is no topology.
    """
    text = read_text(path)
    if os.fspath(path) == STDIN:
        return sniff.read(text, source="stdin", name=name or "stdin")
    return sniff.read(text, source=os.fspath(path), name=name or pathlib.Path(path).stem)


def read_directory(path: str | os.PathLike[str]) -> tuple[tuple[topo.NodeTopology, ...], tuple[str, ...]]:
    """A directory of `<node>.txt` outputs: the topologies in natural order of the nodes' names, and warnings.

    A file that is no topology does not spoil the others: it is left out, and a warning says why. Raises InputError when
    the directory itself cannot be read.
    """
    folder = pathlib.Path(path)
    try:
        files = [entry for entry in folder.iterdir() if entry.suffix == ".txt" and not entry.name.startswith(".")]
    except (OSError, ValueError) as error:  # ValueError: a path with a NUL byte
        raise _unreadable(folder, error) from None
    nodes, warnings = [], []
    for file in sorted(files, key=lambda file: hostlist.natural_key(file.stem)):
        try:
            nodes.append(read(file))
        except errors.InputError as error:
            warnings.append(error.message)
    return tuple(nodes), tuple(warnings)


def read_text(path: str | os.PathLike[str]) -> str:
    """A whole text of at most `MAX_BYTES`, UTF-8 or UTF-16 with a byte-order mark; broken bytes become `\\ufffd`."""
    if os.fspath(path) == STDIN:
        if sys.stdin is None:
            raise errors.InputError("standard input is closed", hint="nvidia-smi topo -m | placer topo -")
        return _decode(sys.stdin.buffer.read(MAX_BYTES + 1), "stdin")
    file = pathlib.Path(path)
    try:
        # A named pipe or a device may never end: the limit holds for what is read, not for what stat tells.
        with file.open("rb") as stream:
            data = stream.read(MAX_BYTES + 1)
    except (OSError, ValueError) as error:  # ValueError: a path with a NUL byte
        raise _unreadable(file, error) from None
    return _decode(data, os.fspath(path))


def _decode(data: bytes, source: str) -> str:
    if len(data) > MAX_BYTES:
        limit = MAX_BYTES >> 20
        raise errors.InputError(
            f"{errors.printable(source)} is larger than {limit} MiB, which no topology output is",
            hint="save the output of `nvidia-smi topo -m` alone",
        )
    encoding = "utf-16" if data.startswith(_UTF16) else "utf-8-sig"
    return data.decode(encoding, errors="replace")


def _unreadable(path: pathlib.Path, error: OSError | ValueError) -> errors.InputError:
    shown = errors.printable(str(path), 300)
    if isinstance(error, FileNotFoundError):
        return errors.InputError(f"{shown} does not exist", hint=f"ls -l {errors.printable(str(path.parent), 300)}")
    if isinstance(error, NotADirectoryError):
        return errors.InputError(f"{shown} is a file, not a directory", hint=f"ls -l {shown}")
    if isinstance(error, IsADirectoryError):
        return errors.InputError(f"{shown} is a directory, not a file", hint=f"ls -l {shown}")
    if isinstance(error, PermissionError):
        return errors.InputError(f"{shown} may not be read by this user", hint=f"ls -l {shown}")
    reason = error.strerror if isinstance(error, OSError) else "not a path"
    return errors.InputError(f"{shown} cannot be read: {reason}", hint=f"ls -ld {shown}")
