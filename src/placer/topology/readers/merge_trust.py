"""Whom to believe where sources differ, and how that is said.

Places (NUMA node, CPUs, memory nodes, cores): NVML, sysfs, hwloc, the driver's XML, AMD's tools, NCCL, matrices, gres
files, the catalogue. NVML asks the driver about this very process; sysfs is what the firmware told the kernel, -1 where
it told nothing; hwloc reads sysfs; a matrix saved as text may come from inside a job.

Wiring and what a device is: NVML, the driver's XML, matrices, AMD's tools, NCCL, hwloc, sysfs, gres files, the
catalogue: the driver knows its own links, and names its products, better than PCI does.
"""

from __future__ import annotations

import enum
from collections.abc import Callable, Iterable
from typing import Final, TypeVar

import msgspec

from placer import errors, ranges
from placer.topology import types as topo

T = TypeVar("T")


class Tool(enum.StrEnum):
    """What wrote a source, as `NodeTopology.tool` has it."""

    NVML = "nvml"
    SYSFS = "sysfs"
    HWLOC = "hwloc"
    NVIDIA_XML = "nvidia-smi -q"
    AMD = "amd-smi"
    NCCL = "nccl"
    MATRIX = "matrix"
    GRES = "gres.conf"
    CATALOGUE = "catalogue"


PLACES: Final = {tool.value: rank for rank, tool in enumerate(Tool)}
"""Rank of each tool for where devices are, 0 the most trusted."""

WIRING: Final = {
    tool.value: rank
    for rank, tool in enumerate(
        (
            Tool.NVML,
            Tool.NVIDIA_XML,
            Tool.MATRIX,
            Tool.AMD,
            Tool.NCCL,
            Tool.HWLOC,
            Tool.SYSFS,
            Tool.GRES,
            Tool.CATALOGUE,
        )
    )
}
"""Rank of each tool for what devices are and how they are wired."""


def tool(part: topo.NodeTopology) -> str:
    """What wrote a part; a part that does not tell is trusted like a matrix."""
    if part.tool in PLACES:
        return part.tool
    return (Tool.CATALOGUE if part.machine is not None and part.assumed and not part.warnings else Tool.MATRIX).value


def in_order(parts: Iterable[topo.NodeTopology], ranks: dict[str, int]) -> list[topo.NodeTopology]:
    """The most trusted first; equals by their source's name and by content: the order given is of no account."""
    return sorted(parts, key=lambda part: (ranks[tool(part)], part.source, repr(part)))


class Told(msgspec.Struct, frozen=True):
    """One value, the source that told it, and that source's rank for places."""

    value: object
    source: str
    rank: int = 0


class Findings:
    """What a merge has to say: contradictions by what they are about, and where each fact came from."""

    def __init__(self) -> None:
        self._clashes: dict[tuple[str, str, str], list[str]] = {}
        self._cpusets: dict[tuple[str, str], list[str]] = {}
        self._said: list[str] = []
        self.origins: dict[str, str] = {}

    def clash(self, what: str, device: str, first: Told, second: Told) -> None:
        """Two sources differ about one device; the first is believed."""
        text = (
            f"{what} of {device} is {shown(first.value)} by {first.source} and {shown(second.value)} by {second.source}"
        )
        self._clashes.setdefault((what, first.source, second.source), []).append(text)

    def clash_of_cpuset(self, inside: Told, machine: Told) -> None:
        """A list of CPUs is smaller than the machine's: it is that of a job."""
        text = (
            f"CPUs {shown(inside.value)} near a GPU by {inside.source} are fewer than the {shown(machine.value)} by "
            f"{machine.source}: taken as the cpuset of a job, not as the machine's map"
        )
        self._cpusets.setdefault((inside.source, machine.source), []).append(text)

    def say(self, text: str) -> None:
        """Anything else that a person should know."""
        self._said.append(errors.printable(text, 400))

    def texts(self) -> tuple[str, ...]:
        """All of it: of many contradictions of one kind the first one, and how many more."""
        found = []
        for texts in self._clashes.values():
            more = f" (and {len(texts) - 1} more of the kind)" if len(texts) > 1 else ""
            found.append(errors.printable(f"{texts[0]}: the former is taken{more}", 400))
        found += [errors.printable(texts[0], 400) for texts in self._cpusets.values()]
        return (*found, *dict.fromkeys(self._said))


def shown(value: object) -> str:
    """A value in the words of a warning; sets of numbers in list syntax."""
    if isinstance(value, tuple) and all(isinstance(number, int) for number in value):
        return ranges.format(value) or "none"
    return str(value)


def pick(
    told: list[Told],
    what: str,
    device: str,
    findings: Findings,
    *,
    same: Callable[[object, object], bool] | None = None,
) -> Told | None:
    """The first value that is told; those that are not the `same` are contradictions. `told` has the trusted first.

    Without `same` nothing contradicts: what may change from one reading to the next, or has several right names.
    """
    known = [one for one in told if one.value not in (None, ())]
    if not known:
        return None
    for other in known[1:]:
        if same is not None and not same(known[0].value, other.value):
            findings.clash(what, device, known[0], other)
    return known[0]
