"""This host: what nvidia-smi and sysfs tell, merged. What is missing is named in the warnings."""

from __future__ import annotations

import pathlib
import socket
from typing import Final

import msgspec

from placer import errors
from placer.probes import _run
from placer.topology import types as topo
from placer.topology.readers import merge, nvidia_query, nvidia_smi, sysfs

SYSFS: Final = pathlib.Path("/sys")
_MAX_FILE: Final = 1 << 16
_MAX_FILES: Final = 40_000

MATRIX_COMMAND: Final = ("nvidia-smi", "topo", "-m")
QUERY_COMMAND: Final = (
    "nvidia-smi",
    f"--query-gpu={','.join(nvidia_query.FIELDS)}",
    "--format=csv,noheader,nounits",
)


def probe(*, sysfs_root: pathlib.Path = SYSFS, timeout_seconds: float = 10.0) -> topo.NodeTopology:
    """The topology of this host, named after it. Never fails: a host without GPUs has none, and a warning says so."""
    name = socket.gethostname().split(".")[0] or "localhost"
    parts: list[topo.NodeTopology] = []
    warnings: list[str] = []
    for command in (MATRIX_COMMAND, QUERY_COMMAND):
        source = " ".join(command[:3])
        reader = nvidia_smi.read_matrix if command is MATRIX_COMMAND else nvidia_query.read
        try:
            text = _run.run(command, timeout_seconds=timeout_seconds)
            parts.append(reader(text, source=source, name=name))
        except errors.CommandMissingError:
            warnings.append("nvidia-smi is not on PATH: GPUs and their links stay unknown")
            break
        except errors.PlacerError as error:
            warnings.append(error.message)
    parts.append(read_sysfs(sysfs_root, name=name))
    return _merged(parts, warnings, name)


def read_sysfs(root: pathlib.Path, *, name: str | None = None) -> topo.NodeTopology:
    """NUMA nodes, cores and adapters of a machine from its `/sys`, or from a copy of that tree at `root`."""
    files: dict[str, str] = {}
    for pattern in sysfs.PATTERNS:
        try:
            paths = sorted(root.glob(pattern))[: _MAX_FILES - len(files)]
        except OSError:  # a folder that may not be listed: its files are missing, which the reader notes
            continue
        for path in paths:
            text = _read(path)
            if text is not None:
                files[path.relative_to(root).as_posix()] = text
    return sysfs.read(files, source=str(root), name=name or root.name or "localhost")


def _read(path: pathlib.Path) -> str | None:
    try:
        with path.open("rb") as stream:
            return stream.read(_MAX_FILE).decode(errors="replace")
    except OSError:
        return None


def _merged(parts: list[topo.NodeTopology], warnings: list[str], name: str) -> topo.NodeTopology:
    try:
        whole = merge.merge(parts, name=name)
    except errors.InputError as error:
        # GPUs came or went between two commands: believe the first, which tells the wiring.
        whole, warnings = parts[0], [*warnings, error.message]
    partial = whole.partial or bool(warnings)
    return msgspec.structs.replace(whole, partial=partial, warnings=(*warnings, *whole.warnings))
