"""What changed between two states of a node: a GPU gone, a link down, a PCIe link narrower, another NUMA node.

GPUs are the same by UUID, else by PCI address, else by their id in the source: an index alone is renumbered.
"""

from __future__ import annotations

import enum
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TypeVar

import msgspec

from placer import errors, ranges
from placer.topology import types as topo

Device = TypeVar("Device", topo.Gpu, topo.Nic)


class Direction(enum.StrEnum):
    """Whether the later state has less, more, or something else."""

    WORSE = "worse"
    BETTER = "better"
    OTHER = "other"


class Change(msgspec.Struct, frozen=True):
    """One difference. `what` names the devices, `before` and `after` are in words; all is printable."""

    direction: Direction
    what: str
    before: str
    after: str


def diff(before: topo.NodeTopology, after: topo.NodeTopology) -> tuple[Change, ...]:
    """Every change from `before` to `after`: devices first, then what they say of themselves, then links.

    What only one of the two tells (a source without PCIe widths) is no change.
    """
    gpus, gpu_changes = _pairs("GPU", before.gpus, after.gpus, _gpu_keys)
    nics, nic_changes = _pairs("adapter", before.nics, after.nics, _nic_keys)
    found = [*gpu_changes, *nic_changes]
    for old, new in gpus:
        found += _gpu(old, new)
    for old_nic, new_nic in nics:
        found += _facts(old_nic.id, [("NUMA node", _list(old_nic.numa), _list(new_nic.numa))])
        found += _less(old_nic.id, "speed in Gbit/s", old_nic.speed_gbits, new_nic.speed_gbits)
    names = {new.id: old.id for old, new in gpus} | {new.id: old.id for old, new in nics}
    found += _links(before, after, names)
    found += _cpus(before, after)
    return tuple(found)


def _change(direction: Direction, what: str, before: str, after: str) -> Change:
    return Change(direction, *(errors.printable(text, 120) for text in (what, before, after)))


def _gpu_keys(gpu: topo.Gpu) -> Sequence[str | None]:
    return (gpu.uuid, gpu.bus_id, gpu.id)


def _nic_keys(nic: topo.Nic) -> Sequence[str | None]:
    return (nic.bus_id, nic.name, nic.id)


def _pairs(
    noun: str, before: Sequence[Device], after: Sequence[Device], keys: Callable[[Device], Sequence[str | None]]
) -> tuple[list[tuple[Device, Device]], list[Change]]:
    """Devices that are the same in both, and a change for each that is in one alone.

    The first kind of key that both states tell of every device decides; so a swapped GPU in the same slot is seen.
    """
    everyone = list(before) + list(after)
    if not everyone:
        return [], []
    told = [keys(device) for device in everyone]
    kind = next(k for k in range(len(told[0])) if all(own[k] is not None for own in told))  # an id is always told
    old = {keys(device)[kind]: device for device in before}
    new = {keys(device)[kind]: device for device in after}
    pairs = [(device, new[key]) for key, device in old.items() if key in new]
    gone = [device for key, device in old.items() if key not in new]
    come = [device for key, device in new.items() if key not in old]
    changes = [_change(Direction.WORSE, f"{noun} {device.id}", _identity(device), "gone") for device in gone]
    changes += [_change(Direction.BETTER, f"{noun} {device.id}", "not there", _identity(device)) for device in come]
    return pairs, changes


def _identity(device: topo.Gpu | topo.Nic) -> str:
    own = [device.model, device.uuid] if isinstance(device, topo.Gpu) else [device.name]
    return " ".join(word for word in (*own, device.bus_id) if word) or device.id


def _gpu(old: topo.Gpu, new: topo.Gpu) -> Iterator[Change]:
    yield from _facts(
        old.id,
        [
            ("model", old.model, new.model),
            ("PCI address", old.bus_id, new.bus_id),
            ("NUMA node", _list(old.numa), _list(new.numa)),
            ("CPUs", _list(old.cpus), _list(new.cpus)),
            ("MIG", old.mig, new.mig),
            ("clique", old.clique, new.clique),
        ],
    )
    yield from _less(old.id, "PCIe lanes", old.pcie_width, new.pcie_width)
    yield from _less(old.id, "most PCIe lanes", old.pcie_width_max, new.pcie_width_max)
    yield from _less(old.id, "PCIe generation", old.pcie_gen_max, new.pcie_gen_max)
    yield from _less(old.id, "memory in MiB", old.memory_mib, new.memory_mib)
    if old.healthy is not None and new.healthy is not None and old.healthy != new.healthy:
        direction = Direction.BETTER if new.healthy else Direction.WORSE
        yield _change(
            direction, f"{old.id}: health", *("well" if well else "unwell" for well in (old.healthy, new.healthy))
        )


def _facts(name: str, facts: Sequence[tuple[str, str | None, str | None]]) -> Iterator[Change]:
    for what, old, new in facts:
        if old is not None and new is not None and old != new:
            yield _change(Direction.OTHER, f"{name}: {what}", old, new)


def _less(name: str, what: str, old: float | None, new: float | None) -> Iterator[Change]:
    if old is not None and new is not None and old != new:
        direction = Direction.WORSE if new < old else Direction.BETTER
        yield _change(direction, f"{name}: {what}", f"{old:g}", f"{new:g}")


def _list(numbers: tuple[int, ...] | None) -> str | None:
    return None if numbers is None else ranges.format(numbers)


def _links(before: topo.NodeTopology, after: topo.NodeTopology, names: Mapping[str, str]) -> Iterator[Change]:
    """Pairs of devices that both states have. `names` gives the earlier id of a later one."""
    old = {frozenset((link.a, link.b)): link for link in before.links}
    new = {
        frozenset((names[link.a], names[link.b])): link for link in after.links if link.a in names and link.b in names
    }
    stayed = set(names.values())
    for pair, link in old.items():
        if not pair <= stayed:
            continue
        what = f"{link.a} - {link.b}"
        other = new.get(pair)
        if other is None and after.links:
            yield _change(Direction.WORSE, what, link.label, "not told")
        elif other is not None and other.label != link.label:
            yield _change(_compare(link, other), what, link.label, other.label)
    if before.links:
        for pair, link in new.items():
            if pair not in old:
                yield _change(Direction.BETTER, " - ".join(sorted(pair)), "not told", link.label)


def _compare(old: topo.Link, new: topo.Link) -> Direction:
    was = (-topo.CLOSENESS[old.type], old.lanes)
    now = (-topo.CLOSENESS[new.type], new.lanes)
    return Direction.WORSE if now < was else Direction.BETTER


def _cpus(before: topo.NodeTopology, after: topo.NodeTopology) -> Iterator[Change]:
    old = {numa.id: numa for numa in before.numa_nodes}
    new = {numa.id: numa for numa in after.numa_nodes}
    if not old or not new:
        return
    for number in sorted(old.keys() | new.keys()):
        if number not in new:
            yield _change(Direction.WORSE, f"NUMA node {number}", "there", "gone")
        elif number not in old:
            yield _change(Direction.BETTER, f"NUMA node {number}", "not there", "there")
        else:
            was, now = old[number], new[number]
            yield from _facts(f"NUMA node {number}", [("CPUs", _list(was.cpus), _list(now.cpus))])
            yield from _less(f"NUMA node {number}", "memory in MiB", was.memory_mib, now.memory_mib)
