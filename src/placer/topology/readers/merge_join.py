"""Which device of one source is which device of another.

A GPU is its UUID or its PCI address, never its number: inside a job or a container numbers start at 0 again. Sources
that tell neither (matrices) can only be joined by number, which is done where both list equally many GPUs and those of
the other source are in the order of their addresses, as the driver numbers them; it is said. An adapter is its verbs
name or its PCI address.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final

import msgspec

from placer import errors
from placer.topology import types as topo
from placer.topology.readers import _pcie, merge_trust

_LISTED: Final = re.compile(r"GPU\d{1,4}")
_NUMBERED: Final = re.compile(r"NIC\d{1,5}")


class Group(msgspec.Struct):
    """One device: what each part (by position) says of it."""

    gpus: dict[int, topo.Gpu] = msgspec.field(default_factory=dict)
    nics: dict[int, topo.Nic] = msgspec.field(default_factory=dict)


class Join(msgspec.Struct):
    """All devices, in the order of the most trusted part; `names` maps each part's device names to the joint ones."""

    gpus: list[tuple[str, Group]]
    nics: list[tuple[str, Group]]
    names: list[dict[str, str]]
    assumed: list[str]


def join(parts: Sequence[topo.NodeTopology], findings: merge_trust.Findings) -> Join:
    """Join the devices of parts that are in order of trust. Raises InputError for parts of different nodes."""
    assumed: list[str] = []
    groups = _gpus(parts, findings, assumed)
    adapters = _nics(parts)
    names: list[dict[str, str]] = [{} for _ in parts]
    gpus = _named([(group, _gpu_names(group)) for group in groups], set())
    taken = {name for name, _ in gpus}
    nics = _named([(group, [nic.id for nic in group.nics.values()]) for group in adapters], taken)
    for name, group in (*gpus, *nics):
        for at, gpu in group.gpus.items():
            names[at][gpu.id] = name
        for at, nic in group.nics.items():
            names[at][nic.id] = name
    return Join(gpus, nics, names, assumed)


def _gpu_names(group: Group) -> list[str]:
    """Names in order of preference: as the driver's tools list a GPU, then whatever a part calls it."""
    ids = [gpu.id for gpu in group.gpus.values()]
    numbered = [gpu.id for gpu in group.gpus.values() if gpu.index is not None and _LISTED.fullmatch(gpu.id)]
    return [*numbered, *(name for name in ids if _LISTED.fullmatch(name)), *ids]


def _named(groups: list[tuple[Group, list[str]]], taken: set[str]) -> list[tuple[str, Group]]:
    """A distinct name for each group: its best one that is free, else its address, else a number behind."""
    used = set(taken)
    found = []
    for group, names in groups:
        buses = [*(gpu.bus_id for gpu in group.gpus.values()), *(nic.bus_id for nic in group.nics.values())]
        addresses = [address for address in buses if address]
        numbered = (f"{names[0]}.{number}" for number in range(1, 1 << 20))
        name = next((n for n in (*names, *addresses) if n not in used), None) or next(
            n for n in numbered if n not in used
        )
        used.add(name)
        found.append((name, group))
    return found


# --- GPUs


def _identified(part: topo.NodeTopology) -> bool:
    return any(gpu.bus_id or gpu.uuid for gpu in part.gpus)


def _gpus(parts: Sequence[topo.NodeTopology], findings: merge_trust.Findings, assumed: list[str]) -> list[Group]:
    known = [at for at, part in enumerate(parts) if _identified(part)]
    _one_node([parts[at] for at in known])
    groups = _by_identity(parts, known)
    anonymous = [at for at, part in enumerate(parts) if part.gpus and at not in known]
    if not known and anonymous:
        base = max(anonymous, key=lambda at: (len(parts[at].gpus), -at))
        groups = [Group(gpus={base: gpu}) for gpu in parts[base].gpus]
        _by_name(parts, base, [at for at in anonymous if at != base], groups)
        return groups
    for at in anonymous:
        target = next((other for other in known if _in_pci_order(parts[other], parts[at])), None)
        if target is None:
            counts = " and ".join(f"{len(parts[other].gpus)} by {parts[other].source}" for other in known[:3])
            findings.say(
                f"{parts[at].source} lists {len(parts[at].gpus)} GPUs without addresses, and there are {counts}: which "
                "is which cannot be told, so its GPUs and their links are left out"
            )
            continue
        place = {id(gpu): group for group in groups if (gpu := group.gpus.get(target)) is not None}
        theirs = sorted(parts[target].gpus, key=lambda gpu: _pcie.bus_id(gpu.bus_id) or "")
        for mine, other in zip(_by_index(parts[at].gpus), theirs, strict=True):
            place[id(other)].gpus[at] = mine
        assumed.append(
            f"GPUs of {parts[at].source} are those of {parts[target].source} by their numbers: both list "
            f"{len(theirs)}, in the order of their PCI addresses"
        )
    return groups


def _by_index(gpus: Sequence[topo.Gpu]) -> list[topo.Gpu]:
    return sorted(gpus, key=lambda gpu: (gpu.index is None, gpu.index or 0))


def _in_pci_order(known: topo.NodeTopology, numbered: topo.NodeTopology) -> bool:
    """Whether the numbers 0, 1, … of one part can only mean the GPUs of the other by address."""
    if len(known.gpus) != len(numbered.gpus) or any(_pcie.bus_id(gpu.bus_id) is None for gpu in known.gpus):
        return False
    told = [gpu.index for gpu in _by_index(numbered.gpus) if gpu.index is not None]
    if told and told != list(range(len(numbered.gpus))):
        return False
    by_address = sorted(known.gpus, key=lambda gpu: _pcie.bus_id(gpu.bus_id) or "")
    indices = [gpu.index for gpu in by_address if gpu.index is not None]
    return indices == sorted(indices)


def _by_name(
    parts: Sequence[topo.NodeTopology],
    base: int,
    others: Sequence[int],
    groups: list[Group],
) -> None:
    """Join parts none of which tells an address: by the GPUs' names. Raises InputError when they list others."""
    place = {group.gpus[base].id: group for group in groups}
    for at in others:
        if {gpu.id for gpu in parts[at].gpus} != place.keys():
            what = f"{len(place)} and {len(parts[at].gpus)} GPUs without addresses, or other names for them"
            raise _different(parts[base], parts[at], f"contradict each other: {what}")
        for gpu in parts[at].gpus:
            place[gpu.id].gpus[at] = gpu


def _by_identity(parts: Sequence[topo.NodeTopology], known: Sequence[int]) -> list[Group]:
    groups: list[Group] = []
    keys: dict[str, Group] = {}
    for at in known:
        for gpu in parts[at].gpus:
            address = _pcie.bus_id(gpu.bus_id)
            mine = [key for key in (gpu.uuid and f"uuid {gpu.uuid}", address and f"pci {address}") if key]
            found = [keys[key] for key in mine if key in keys]
            group = next((one for one in found if at not in one.gpus), None)
            if group is None:
                group = Group()
                groups.append(group)
            for other in found:
                # One part told the UUID, another the address, and this one both: the two are one GPU.
                if other is not group and not other.gpus.keys() & group.gpus.keys():
                    group.gpus |= other.gpus
                    keys |= {key: group for key, one in keys.items() if one is other}
                    groups = [one for one in groups if one is not other]
            group.gpus[at] = gpu
            keys |= {key: group for key in mine if key not in keys}
    for group in groups:
        group.gpus = dict(sorted(group.gpus.items()))
    return groups


def _one_node(parts: Sequence[topo.NodeTopology]) -> None:
    """Raises InputError when two parts share addresses and have other UUIDs at every one of them."""
    for at, a in enumerate(parts):
        mine = {_pcie.bus_id(gpu.bus_id): gpu.uuid for gpu in a.gpus if gpu.bus_id and gpu.uuid}
        for b in parts[at + 1 :]:
            theirs = {_pcie.bus_id(gpu.bus_id): gpu.uuid for gpu in b.gpus if gpu.bus_id and gpu.uuid}
            common = mine.keys() & theirs.keys()
            if common and all(mine[address] != theirs[address] for address in common):
                raise _different(a, b, "are about different nodes: every GPU has another UUID")


def _different(a: topo.NodeTopology, b: topo.NodeTopology, what: str) -> errors.InputError:
    return errors.InputError(
        f"{errors.printable(a.source)} and {errors.printable(b.source)} {what}",
        hint=f"give the sources of one node only: `placer topo {errors.printable(b.source)}` shows the second alone",
    )


# --- adapters


def _nics(parts: Sequence[topo.NodeTopology]) -> list[Group]:
    """Those with a verbs name first, so that what knows only an address finds them; in the order of the parts."""
    groups: list[Group] = []
    position: dict[int, tuple[int, int]] = {}
    listed = [(at, place, nic) for at, part in enumerate(parts) for place, nic in enumerate(part.nics)]
    for at, place, nic in sorted(listed, key=lambda one: (one[2].name is None, one[2].bus_id is None, *one[:2])):
        group = next((one for one in groups if at not in one.nics and _same_nic(nic, one)), None)
        if group is None:
            group = Group()
            groups.append(group)
        group.nics[at] = nic
        position[id(group)] = min(position.get(id(group), (at, place)), (at, place))
    for group in groups:
        group.nics = dict(sorted(group.nics.items()))
    return sorted(groups, key=lambda group: position[id(group)])


def _same_nic(nic: topo.Nic, group: Group) -> bool:
    names = {other.name for other in group.nics.values() if other.name}
    if nic.name and names:
        return nic.name in names
    address = _pcie.bus_id(nic.bus_id)
    addresses = {_pcie.bus_id(other.bus_id) for other in group.nics.values() if other.bus_id}
    if address and addresses:
        return address in addresses
    # Nothing to compare: a device name like eth0 is one adapter, while NIC0 is a number that each tool gives anew.
    nameless = not (nic.name or names or address or addresses)
    return (nameless or _NUMBERED.fullmatch(nic.id) is None) and nic.id in {other.id for other in group.nics.values()}
