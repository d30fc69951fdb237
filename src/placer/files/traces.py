"""Trace files: the nodes and pods of a simulation, as CSV, plain or gzip-compressed."""

from __future__ import annotations

import gzip
import os
import pathlib
import zlib
from typing import Final

from placer import errors
from placer.simulation import openb

MAX_BYTES: Final = 256 << 20
"""Largest text that is read; the public trace's lists have 0.9 MB."""

_GZIP: Final = b"\x1f\x8b"


def read_nodes(path: str | os.PathLike[str]) -> tuple[openb.Node, ...]:
    """The nodes of a cluster. Raises InputError for what cannot be read, ParseError for what is no such table."""
    return openb.parse_nodes(read_text(path), source=os.fspath(path))


def read_pods(path: str | os.PathLike[str]) -> tuple[openb.Pod, ...]:
    """The pods of a list, in its order. Raises as `read_nodes`."""
    return openb.parse_pods(read_text(path), source=os.fspath(path))


def read_text(path: str | os.PathLike[str]) -> str:
    """A whole text of at most `MAX_BYTES`, also after decompression; broken UTF-8 becomes `\\ufffd`."""
    try:
        with pathlib.Path(path).open("rb") as file:
            data = file.read(MAX_BYTES + 1)
            if data.startswith(_GZIP):
                file.seek(0)
                with gzip.open(file) as plain:
                    data = plain.read(MAX_BYTES + 1)
    except (gzip.BadGzipFile, EOFError, zlib.error):
        raise errors.InputError(f"{errors.printable(os.fspath(path))}: broken gzip file") from None
    except (OSError, ValueError) as error:  # ValueError: a path with a NUL byte
        why = (error.strerror if isinstance(error, OSError) else None) or "cannot be read"
        raise errors.InputError(
            f"{errors.printable(os.fspath(path))}: {why}", hint="placer simulate openb --help"
        ) from None
    if len(data) > MAX_BYTES:
        raise errors.InputError(f"{errors.printable(os.fspath(path))}: larger than {MAX_BYTES >> 20} MiB")
    return data.decode("utf-8", errors="replace")
