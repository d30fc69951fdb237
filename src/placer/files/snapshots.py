"""Snapshot documents on disk: YAML or JSON, also gzipped."""

from __future__ import annotations

import gzip
import io
import os
import pathlib
import re
import shlex
import zlib

import msgspec

from placer import errors
from placer.cluster import codec, types
from placer.files import _atomic, _yaml, topologies
from placer.topology import types as topo

MAX_BYTES = 256 << 20
"""Largest document that is read, after decompression."""

_GZIP_MAGIC = b"\x1f\x8b"
_JSON_START = re.compile(rb"\s*(?:\{\s*[\"}]|\[)")
_JSON_AT = re.compile(r"(.*?)(?: \(byte (\d+)\))?(?: - at `.*`)?\Z", re.DOTALL)


def read(
    path: str | os.PathLike[str],
    *,
    read_topology: codec.ReadTopology | None = None,
    find_machine: codec.FindMachine | None = None,
) -> types.ClusterSnapshot:
    """The snapshot in a file. What it is (JSON, YAML, gzip) is told by its content.

    `topology_file` names are taken relative to the file, unless `read_topology` is given. Raises InputError when the
    file cannot be read or is too large, ParseError when it is neither JSON nor YAML, DocumentError when it is no
    snapshot.
    """
    file = pathlib.Path(path)
    source = os.fspath(path)

    def beside(name: str) -> topo.NodeTopology:
        return topologies.read(file.parent / name)

    return codec.decode(
        load_document(file), source=source, read_topology=read_topology or beside, find_machine=find_machine
    )


def write(path: str | os.PathLike[str], snapshot: types.ClusterSnapshot) -> None:
    """Writes a snapshot, whole or not at all: `.json` as JSON, else YAML; gzipped when the name ends in `.gz`.

    Raises InputError; the file that was there then stays.
    """
    file = pathlib.Path(path)
    gzipped = file.suffix == ".gz"
    suffix = pathlib.Path(file.stem).suffix if gzipped else file.suffix
    try:
        data = to_json(snapshot) if suffix == ".json" else to_yaml(snapshot)
    except UnicodeEncodeError:
        raise errors.InputError(f"cannot write {path}: a text in the snapshot is not Unicode") from None
    _atomic.write_bytes(file, gzip.compress(data, 6, mtime=0) if gzipped else data)


def to_json(snapshot: types.ClusterSnapshot) -> bytes:
    """The document as indented JSON with a newline at the end."""
    return msgspec.json.format(msgspec.json.encode(codec.encode(snapshot)), indent=1) + b"\n"


def to_yaml(snapshot: types.ClusterSnapshot) -> bytes:
    """The document as YAML."""
    return _yaml.dump(codec.encode(snapshot)).encode()


def load_document(path: str | os.PathLike[str]) -> object:
    """What stands in a YAML or JSON file, gzipped or not, as plain builtins. Raises InputError and ParseError."""
    source = os.fspath(path)
    data = _read_bytes(pathlib.Path(path))
    if data.startswith(_GZIP_MAGIC):
        data = _unzipped(data, source)
    if len(data) > MAX_BYTES:
        raise errors.InputError(f"{source} is larger than {MAX_BYTES >> 20} MiB")
    return parse_document(data, source=source)


def parse_document(data: bytes, *, source: str) -> object:
    """YAML or JSON as plain builtins. Raises ParseError with line and column."""
    data = data.removeprefix(b"\xef\xbb\xbf")
    if _JSON_START.match(data):
        return _parse_json(data, source)
    try:
        text = data.decode()
    except UnicodeDecodeError as error:
        line, column = _position(data, error.start)
        raise errors.ParseError("not UTF-8 text", source=source, line=line, column=column) from None
    return _yaml.load(text, source=source)


def _parse_json(data: bytes, source: str) -> object:
    try:
        return msgspec.json.decode(data)
    except RecursionError:
        raise errors.ParseError("broken JSON: nested too deep", source=source) from None
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        match = _JSON_AT.match(str(error))
        reason = match[1] if match else str(error)
        at = int(match[2]) if match and match[2] else len(data)
        line, column = _position(data, at)
        raise errors.ParseError(f"broken JSON: {reason}", source=source, line=line, column=column) from None


def _position(data: bytes, at: int) -> tuple[int, int]:
    before = data[:at]
    line_start = before.rfind(b"\n") + 1
    return before.count(b"\n") + 1, len(before[line_start:].decode(errors="replace")) + 1


def _read_bytes(file: pathlib.Path) -> bytes:
    try:
        with file.open("rb") as stream:
            return stream.read(MAX_BYTES + 1)
    except IsADirectoryError:
        raise errors.InputError(
            f"{file} is a directory, not a snapshot document", hint=f"ls {shlex.quote(str(file))}"
        ) from None
    except FileNotFoundError:
        raise errors.InputError(f"there is no file {file}", hint=f"ls {shlex.quote(str(file.parent))}") from None
    except (OSError, ValueError) as error:  # ValueError: a path with a NUL byte
        reason = getattr(error, "strerror", None) or str(error)
        raise errors.InputError(f"cannot read {file}: {reason}", hint=f"ls -l {shlex.quote(str(file))}") from None


def _unzipped(data: bytes, source: str) -> bytes:
    try:
        with gzip.GzipFile(fileobj=io.BytesIO(data)) as stream:
            return stream.read(MAX_BYTES + 1)
    except (OSError, EOFError, zlib.error):
        raise errors.InputError(f"{source} is not a whole gzip file", hint=f"gzip -t {shlex.quote(source)}") from None
