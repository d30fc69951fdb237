"""NUMA nodes and cores of a Linux machine from the files below `/sys`.

Pure: the caller reads the files. Wanted are those that `wants` names, as path (relative to the root, `/` between) ->
text. Formats: Documentation/ABI/stable/sysfs-devices-node, sysfs-devices-system-cpu and testing/sysfs-class-infiniband
of the kernel.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final

from placer.topology import types as topo
from placer.topology.readers import _text

HINT: Final = "save it with `grep -H . /sys/devices/system/node/node*/{cpulist,meminfo} > node.txt`"

PATTERNS: Final[tuple[str, ...]] = (
    "devices/system/node/node[0-9]*/cpulist",
    "devices/system/node/node[0-9]*/meminfo",
    "devices/system/cpu/cpu[0-9]*/topology/thread_siblings_list",
    "devices/system/cpu/cpu[0-9]*/topology/physical_package_id",
    "class/infiniband/*/device/numa_node",
)
"""Glob patterns of the files that `read` makes use of."""

_NODE_FILE = re.compile(r"devices/system/node/node(\d{1,5})/(cpulist|meminfo)")
_CPU_FILE = re.compile(r"devices/system/cpu/cpu(\d{1,5})/topology/(thread_siblings_list|physical_package_id)")
_NIC_FILE = re.compile(r"class/infiniband/([!-.0-~]{1,64})/device/numa_node")
_MEM_TOTAL = re.compile(r"MemTotal:\s*(\d{1,15}) kB")
_LISTED = re.compile(r"(?:/sys/)?((?:devices/system|class/infiniband)/[!-9;-~]{1,200}):(.*)")


def recognises(text: str) -> bool:
    """Whether the text lists sysfs files as `path:content`, the output of `grep`."""
    first = next((line for line in _text.lines(text[:10_000]) if line.strip()), "")
    return _LISTED.fullmatch(first) is not None


def read_listing(text: str, *, source: str, name: str) -> topo.NodeTopology:
    """The same as `read`, from lines `path:content`. Raises ParseError when none of them is of use."""
    files: dict[str, list[str]] = {}
    rows = _text.lines(text)
    for line in rows:
        match = _LISTED.fullmatch(line.strip()) if len(line) <= _text.MAX_LINE else None
        if match:
            files.setdefault(match[1], []).append(match[2])
    found = read({path: "\n".join(lines) for path, lines in files.items()}, source=source, name=name)
    if not (found.numa_nodes or found.cores or found.nics):
        raise _text.not_a_topology(rows, "no NUMA node, core or adapter is listed", source=source, hint=HINT)
    return found


def read(files: Mapping[str, str], *, source: str, name: str) -> topo.NodeTopology:
    """NUMA nodes (CPUs, memory, package), cores and the adapters' NUMA nodes. What is broken is noted and unknown."""
    notes = _text.Notes()
    packages, siblings = _cpu_files(files, notes)
    nodes = _numa_nodes(files, packages, notes)
    if not nodes:
        notes.add("sysfs lists no NUMA nodes")
    if not siblings:
        notes.add("sysfs tells no core siblings: which CPUs share a core stays unknown")
    return topo.NodeTopology(
        name=name,
        source=source,
        nics=_nics(files),
        numa_nodes=nodes,
        cores=tuple(sorted(set(siblings.values()))),
        partial=not (nodes and siblings),
        warnings=notes.texts(),
    )


def _cpu_files(files: Mapping[str, str], notes: _text.Notes) -> tuple[dict[int, int], dict[int, tuple[int, ...]]]:
    """Package and core siblings by CPU number."""
    packages: dict[int, int] = {}
    siblings: dict[int, tuple[int, ...]] = {}
    for path, text in files.items():
        match = _CPU_FILE.fullmatch(path)
        if match is None or int(match[1]) >= _text.MAX_CPUS:
            continue
        cpu, word = int(match[1]), text.strip()
        numbers = _text.number_list(word)
        if match[2] == "physical_package_id":
            if numbers is not None and len(numbers) == 1:
                packages[cpu] = numbers[0]
        elif numbers is None or cpu not in numbers or len(numbers) > 16:
            notes.add(f"core siblings of cpu{cpu} are unreadable (`{word[:20]}`)")
        else:
            siblings[cpu] = numbers
    return packages, siblings


def _numa_nodes(files: Mapping[str, str], packages: Mapping[int, int], notes: _text.Notes) -> tuple[topo.NumaNode, ...]:
    cpus: dict[int, tuple[int, ...] | None] = {}
    memory: dict[int, int] = {}
    for path, text in files.items():
        match = _NODE_FILE.fullmatch(path)
        if match is None:
            continue
        node = int(match[1])
        if match[2] == "meminfo":
            total = _MEM_TOTAL.search(text[: _text.MAX_LINE])
            if total:
                memory[node] = int(total[1]) // 1024
            continue
        word = text.strip()
        cpus[node] = () if not word else _text.number_list(word)
        if cpus[node] is None:
            notes.add(f"CPU list of node{node} is unreadable (`{word[:20]}`)")
    return tuple(
        topo.NumaNode(
            id=node, cpus=cpus.get(node), memory_mib=memory.get(node), package=_package(cpus.get(node), packages)
        )
        for node in sorted(cpus.keys() | memory.keys())
    )


def _package(cpus: tuple[int, ...] | None, packages: Mapping[int, int]) -> int | None:
    found = {packages[cpu] for cpu in cpus or () if cpu in packages}
    return found.pop() if len(found) == 1 else None


def _nics(files: Mapping[str, str]) -> tuple[topo.Nic, ...]:
    """Adapters by name; -1 is what the kernel writes where the firmware does not tell."""
    found = []
    for path, text in sorted(files.items()):
        match = _NIC_FILE.fullmatch(path)
        if match:
            found.append(topo.Nic(id=match[1], name=match[1], numa=_text.number_list(text.strip())))
    return tuple(found)
