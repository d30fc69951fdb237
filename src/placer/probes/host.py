"""This host: what its tools and sysfs tell, merged. What is not there is named in the warnings.

nvidia-smi (matrix, peer access, log), NVML, amd-smi or rocm-smi, lstopo and sysfs are asked at the same time, each for
a limited time. No one of them is needed.
"""

from __future__ import annotations

import concurrent.futures
import itertools
import pathlib
import socket
from collections.abc import Callable, Iterable
from typing import Final

import msgspec

from placer import errors
from placer.probes import _run, nvml
from placer.topology import types as topo
from placer.topology.readers import (
    amd_smi,
    hwloc_xml,
    merge,
    merge_trust,
    nvidia_query,
    nvidia_smi,
    nvidia_xml,
    p2p,
    rocm_smi,
    sysfs,
)

SYSFS: Final = pathlib.Path("/sys")
_MAX_FILE: Final = 1 << 16
_MAX_FILES: Final = 40_000

_Reader = Callable[..., topo.NodeTopology]


class Command(msgspec.Struct, frozen=True):
    """A command to ask, the reader of its output, and what wrote it; `instead` is asked where this one is not there."""

    words: tuple[str, ...]
    read: _Reader
    tool: merge_trust.Tool
    instead: Command | None = None


_QUERY: Final = Command(
    ("nvidia-smi", f"--query-gpu={','.join(nvidia_query.FIELDS)}", "--format=csv,noheader,nounits"),
    nvidia_query.read,
    merge_trust.Tool.NVIDIA_XML,
)

COMMANDS: Final = (
    Command(("nvidia-smi", "topo", "-m"), nvidia_smi.read_matrix, merge_trust.Tool.MATRIX),
    Command(("nvidia-smi", "topo", "-p2p", "r"), p2p.read, merge_trust.Tool.MATRIX),
    Command(("nvidia-smi", "-q", "-x"), nvidia_xml.read, merge_trust.Tool.NVIDIA_XML, _QUERY),
    Command(
        ("amd-smi", "topology"),
        amd_smi.read,
        merge_trust.Tool.AMD,
        Command(("rocm-smi", "--showtopo"), rocm_smi.read, merge_trust.Tool.AMD),
    ),
    Command(("lstopo", "--of", "xml", "-"), hwloc_xml.read, merge_trust.Tool.HWLOC),
)
"""What is asked, beside NVML and sysfs."""

_OPTIONAL: Final = ("nvidia-smi", "topo", "-p2p", "r")
"""Old drivers do not know it, and one GPU has no peers."""


class _Answer(msgspec.Struct, frozen=True):
    part: topo.NodeTopology | None = None
    missing: str | None = None
    failure: str | None = None


def probe(*, sysfs_root: pathlib.Path = SYSFS, timeout_seconds: float = 10.0) -> topo.NodeTopology:
    """The topology of this host, named after it. Never fails: a host without GPUs has none.

    `partial` when something failed, or when nothing could tell whether there are GPUs. Takes no longer than the slowest
    tool, at most twice `timeout_seconds`.
    """
    name = socket.gethostname().split(".")[0] or "localhost"
    with concurrent.futures.ThreadPoolExecutor(len(COMMANDS) + 1) as pool:
        waiting = [pool.submit(_ask, command, name, timeout_seconds) for command in COMMANDS]
        waiting.append(pool.submit(_ask_nvml, name, timeout_seconds))
        kernel = read_sysfs(sysfs_root, name=name)
        answers = [future.result() for future in waiting]
    parts = [answer.part for answer in answers if answer.part is not None]
    failures = list(dict.fromkeys(answer.failure for answer in answers if answer.failure is not None))
    missing = list(dict.fromkeys(answer.missing for answer in answers if answer.missing is not None))
    warnings = [*([f"not on this host: {', '.join(missing)}"] if missing else []), *failures]
    whole = _merged([*parts, kernel], warnings, name)
    untold = not whole.gpus and not kernel.switches and not _lists_devices(sysfs_root)
    partial = whole.partial or bool(failures) or untold
    return msgspec.structs.replace(whole, partial=partial, warnings=(*warnings, *whole.warnings))


def _ask(command: Command, name: str, timeout_seconds: float) -> _Answer:
    source = " ".join(command.words)
    try:
        text = _run.run(command.words, timeout_seconds=timeout_seconds)
        part = command.read(text, source=source, name=name)
    except errors.CommandMissingError:
        if command.instead is None or command.instead.words[0] == command.words[0]:
            return _Answer(missing=command.words[0])
        other = _ask(command.instead, name, timeout_seconds)
        return _Answer(missing=f"{command.words[0]} or {other.missing}") if other.missing else other
    except errors.PlacerError as error:
        if command.words == _OPTIONAL:
            return _Answer()
        if command.instead is None or command.instead.words[0] != command.words[0]:
            return _Answer(failure=error.message)
        other = _ask(command.instead, name, timeout_seconds)
        return other if other.part is not None else _Answer(failure=error.message)
    return _Answer(part=msgspec.structs.replace(part, tool=command.tool.value))


def _ask_nvml(name: str, timeout_seconds: float) -> _Answer:
    try:
        return _Answer(part=nvml.probe(name=name, timeout_seconds=timeout_seconds))
    except errors.CommandMissingError:
        return _Answer(missing=f"the Python package {nvml.PACKAGE}")
    except errors.PlacerError as error:
        return _Answer(failure=error.message)


def read_sysfs(root: pathlib.Path, *, name: str | None = None) -> topo.NodeTopology:
    """NUMA nodes, cores, PCIe devices and adapters from a machine's `/sys`, or from a copy of that tree at `root`."""
    files: dict[str, str] = {}
    for pattern in (*sysfs.PATTERNS, *sysfs.PCI_PATTERNS):
        for path in _matching(root, pattern, _MAX_FILES - len(files)):
            text = _read(path)
            if text is not None:
                files[path.relative_to(root).as_posix()] = text
    found = sysfs.read(files, source=str(root), name=name or root.name or "localhost")
    return msgspec.structs.replace(found, tool=merge_trust.Tool.SYSFS.value)


def _matching(root: pathlib.Path, pattern: str, most: int) -> Iterable[pathlib.Path]:
    """Files in a stable order; a folder that may not be listed has none, which the reader notes."""
    try:
        return sorted(itertools.islice(root.glob(pattern), most))
    except OSError:
        return ()


def _lists_devices(root: pathlib.Path) -> bool:
    return next(iter(_matching(root, "bus/pci/devices/*/class", 1)), None) is not None


def _read(path: pathlib.Path) -> str | None:
    try:
        with path.open("rb") as stream:
            return stream.read(_MAX_FILE).decode(errors="replace")
    except OSError:
        return None


def _merged(parts: list[topo.NodeTopology], warnings: list[str], name: str) -> topo.NodeTopology:
    try:
        return merge.merge(parts, name=name)
    except errors.InputError as error:
        # GPUs were exchanged between two commands: believe the first, which tells the wiring.
        warnings.append(error.message)
        return merge.merge([parts[0], parts[-1]], name=name)
