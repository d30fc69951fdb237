"""The facts of a merge: for each device the value that the most trusted source tells.

CPUs near a GPU. Let M be the CPUs of the GPU's NUMA node as the machine's map has them, A a list that a source shows
beside the GPU. A strictly inside M, or inside another source's list, is what a job or container may use (a cpuset): M
is taken, A is kept as the topology's `cpuset`, and it is said.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

import msgspec

from placer.topology import types as topo
from placer.topology.readers import _pcie, merge_join, merge_trust

# What every source must agree on, in the words of a warning.
_IDENTITY: Final = {
    "index": "the number",
    "uuid": "the UUID",
    "minor": "the minor number",
    "module": "the module",
    "sm": "the compute capability",
    "memory_numa": "the memory node",
    "clique": "the NVLink clique",
    "mig": "the MIG mode",
}
# What may change between two readings, or is rounded and named in several ways.
_STATE: Final = (
    "model",
    "memory_mib",
    "pcie_gen",
    "pcie_gen_max",
    "pcie_width",
    "pcie_width_max",
    "host_gbps",
    "mig_devices",
)


class Parts(msgspec.Struct, frozen=True):
    """The parts as they were joined (in order of trust for wiring), with the rank of each for places."""

    parts: tuple[topo.NodeTopology, ...]
    place_rank: tuple[int, ...]

    def by_place(self) -> list[int]:
        """Positions of the parts, the most trusted for places first."""
        return sorted(range(len(self.parts)), key=lambda at: self.place_rank[at])

    def source(self, at: int, path: str, device: str = "") -> str:
        """Where a part has a fact from: itself, or what its own merge says."""
        origins = dict(self.parts[at].origins)
        group, _, field = path.partition(".")
        own = f"{group}[{device}].{field}" if field else f"{group}[{device}]"
        return origins.get(own) or origins.get(path) or self.parts[at].source


def gpu(
    name: str,
    group: merge_join.Group,
    parts: Parts,
    nodes: Mapping[int, topo.NumaNode],
    findings: merge_trust.Findings,
) -> tuple[topo.Gpu, tuple[int, ...]]:
    """One GPU, and the CPUs of it that only a cpuset told (usually none)."""
    values: dict[str, object] = {"id": name}

    def told(field: str, *, places: bool = False) -> list[merge_trust.Told]:
        order = [at for at in parts.by_place() if at in group.gpus] if places else sorted(group.gpus)
        return [
            merge_trust.Told(
                getattr(group.gpus[at], field),
                parts.source(at, f"gpus.{field}", group.gpus[at].id),
                merge_trust.PLACES[merge_trust.tool(parts.parts[at])],
            )
            for at in order
        ]

    def keep(field: str, one: merge_trust.Told | None) -> None:
        if one is not None:
            values[field] = one.value
            findings.origins[f"gpus[{name}].{field}"] = one.source

    address = merge_trust.pick(
        told("bus_id"),
        "the PCI address",
        name,
        findings,
        same=lambda x, y: _pcie.bus_id(str(x)) == _pcie.bus_id(str(y)),
    )
    if address is not None:
        address = merge_trust.Told(_pcie.bus_id(str(address.value)) or address.value, address.source)
    keep("bus_id", address)
    for field, words in _IDENTITY.items():
        keep(field, merge_trust.pick(told(field), words, name, findings, same=lambda x, y: x == y))
    for field in _STATE:
        keep(field, merge_trust.pick(told(field), field, name, findings))
    keep("healthy", _health(told("healthy"), name, findings))
    numa = near(told("numa", places=True), name, nodes, findings)
    keep("numa", numa)
    cpus, cpuset = _cpus(told("cpus", places=True), numa, nodes, findings)
    keep("cpus", cpus)
    return msgspec.convert(values, topo.Gpu), cpuset


def _health(told: list[merge_trust.Told], name: str, findings: merge_trust.Findings) -> merge_trust.Told | None:
    """A GPU that any source calls broken is not used."""
    bad_first = sorted(told, key=lambda one: one.value is not False)
    return merge_trust.pick(bad_first, "the health", name, findings, same=lambda x, y: x == y)


def near(
    told: list[merge_trust.Told], name: str, nodes: Mapping[int, topo.NumaNode], findings: merge_trust.Findings
) -> merge_trust.Told | None:
    """The NUMA node: what all sources allow ("one of these" is cut down), memory nodes left out."""
    known = [
        merge_trust.Told(_with_cpus(one.value, nodes), one.source)
        for one in told
        if isinstance(one.value, tuple) and one.value
    ]
    if not known:
        return None
    kept = known[0]
    for other in known[1:]:
        common = sorted(set(_numbers(kept.value)) & set(_numbers(other.value)))
        if not common:
            findings.clash("the NUMA node", name, kept, other)
        elif len(common) < len(_numbers(kept.value)):
            kept = merge_trust.Told(tuple(common), other.source)
    return kept


def _numbers(value: object) -> tuple[int, ...]:
    return value if isinstance(value, tuple) else ()


def _with_cpus(numa: tuple[int, ...], nodes: Mapping[int, topo.NumaNode]) -> tuple[int, ...]:
    """Without nodes that are known to have no CPUs, unless nothing is left."""
    return tuple(n for n in numa if n not in nodes or nodes[n].cpus != ()) or numa


def _cpus(
    told: list[merge_trust.Told],
    numa: merge_trust.Told | None,
    nodes: Mapping[int, topo.NumaNode],
    findings: merge_trust.Findings,
) -> tuple[merge_trust.Told | None, tuple[int, ...]]:
    lists = [(one, frozenset(_numbers(one.value))) for one in told if one.value]
    if not lists:
        return None, ()
    machine = _map(numa, nodes, findings)
    if machine is not None:
        lists.append((machine, frozenset(_numbers(machine.value))))
        # Only what asks the driver about this very machine precedes the machine's own map.
        lists.sort(key=lambda one: one[0] is not machine and one[0].rank >= merge_trust.PLACES[merge_trust.Tool.SYSFS])
    best, most = lists[0]
    for one, cpus in lists[1:]:
        if most < cpus and best is not machine:
            best, most = one, cpus
    inside = [(one, cpus) for one, cpus in lists if cpus < most and one is not machine]
    for one, cpus in lists:
        if not cpus <= most:
            findings.clash("the CPU list", "a GPU", best, one)
    for one, _ in inside:
        findings.clash_of_cpuset(one, best)
    return best, tuple(sorted({cpu for _, cpus in inside for cpu in cpus}))


def _map(
    numa: merge_trust.Told | None, nodes: Mapping[int, topo.NumaNode], findings: merge_trust.Findings
) -> merge_trust.Told | None:
    """The CPUs of the one NUMA node that a GPU is on, if that is known."""
    number = _numbers(numa.value) if numa is not None else ()
    cpus = nodes[number[0]].cpus if len(number) == 1 and number[0] in nodes else None
    return merge_trust.Told(cpus, findings.origins[f"numa_nodes[{number[0]}].cpus"]) if cpus else None


def nic(
    name: str,
    group: merge_join.Group,
    parts: Parts,
    nodes: Mapping[int, topo.NumaNode],
    findings: merge_trust.Findings,
) -> topo.Nic:
    """One adapter."""
    values: dict[str, object] = {"id": name}
    for field in ("name", "bus_id", "numa", "speed_gbits", "rdma"):
        order = [at for at in parts.by_place() if at in group.nics] if field == "numa" else sorted(group.nics)
        told = [
            merge_trust.Told(getattr(group.nics[at], field), parts.source(at, f"nics.{field}", group.nics[at].id))
            for at in order
        ]
        one = near(told, name, nodes, findings) if field == "numa" else merge_trust.pick(told, field, name, findings)
        if one is not None:
            values[field] = one.value
            findings.origins[f"nics[{name}].{field}"] = one.source
    if isinstance(values.get("bus_id"), str):
        values["bus_id"] = _pcie.bus_id(str(values["bus_id"])) or values["bus_id"]
    return msgspec.convert(values, topo.Nic)


def numa_nodes(parts: Parts, findings: merge_trust.Findings) -> tuple[topo.NumaNode, ...]:
    """All NUMA nodes that any part lists, by number; numbers may have gaps.

    Of two CPU lists the one that holds the other is the machine's. A node that is a GPU's own memory has no CPUs.
    """
    found: dict[int, dict[int, topo.NumaNode]] = {}
    for at in parts.by_place():
        for node in parts.parts[at].numa_nodes:
            found.setdefault(node.id, {})[at] = node
    memory = {gpu.memory_numa for part in parts.parts for gpu in part.gpus if gpu.memory_numa is not None}
    return tuple(_numa_node(number, found[number], number in memory, parts, findings) for number in sorted(found))


def _numa_node(
    number: int, told: Mapping[int, topo.NumaNode], is_memory: bool, parts: Parts, findings: merge_trust.Findings
) -> topo.NumaNode:
    def values(field: str) -> list[merge_trust.Told]:
        return [
            merge_trust.Told(getattr(node, field), parts.source(at, f"numa_nodes.{field}", str(number)))
            for at, node in told.items()
        ]

    cpus = [one for one in values("cpus") if one.value is not None]
    best = max(cpus, key=lambda one: len(_numbers(one.value)), default=None)
    for one in cpus:
        if best is not None and not set(_numbers(one.value)) <= set(_numbers(best.value)):
            findings.clash("the CPU list", f"NUMA node {number}", cpus[0], one if one is not cpus[0] else best)
            best = cpus[0]
            break
    memory = merge_trust.pick(values("memory_mib"), "the memory", f"NUMA node {number}", findings)
    package = merge_trust.pick(
        values("package"), "the package", f"NUMA node {number}", findings, same=lambda x, y: x == y
    )
    kept = {"cpus": best, "memory_mib": memory, "package": package}
    known = {field: value for field, value in kept.items() if value is not None}
    for field, value in known.items():
        findings.origins[f"numa_nodes[{number}].{field}"] = value.source
    plain: dict[str, object] = {field: value.value for field, value in known.items()}
    if is_memory and not plain.get("cpus"):
        plain["cpus"] = ()
    return msgspec.convert({"id": number, **plain}, topo.NumaNode)


def cores(parts: Parts, findings: merge_trust.Findings) -> tuple[tuple[int, ...], ...]:
    """The cores of the most trusted part that holds the cores of the others; each core's threads ascending."""
    told = [(at, parts.parts[at].cores) for at in parts.by_place() if parts.parts[at].cores]
    if not told:
        return ()
    at, best = max(told, key=lambda one: len({cpu for core in one[1] for cpu in core}))
    known = {frozenset(core) for core in best}
    for other, theirs in told:
        if not {frozenset(core) for core in theirs} <= known:
            first = merge_trust.Told(f"{len(best)} cores", parts.source(at, "cores"))
            findings.clash(
                "the set of cores",
                "the node",
                first,
                merge_trust.Told(f"{len(theirs)} others", parts.source(other, "cores")),
            )
    findings.origins["cores"] = parts.source(at, "cores")
    return best


def switches(
    parts: Parts, names: Sequence[Mapping[str, str]], findings: merge_trust.Findings
) -> tuple[topo.PcieSwitch, ...]:
    """PCIe switches of the most trusted part that lists any, with the joint names of their devices."""
    for at in parts.by_place():
        if parts.parts[at].switches:
            findings.origins["switches"] = parts.source(at, "switches")
            return tuple(
                msgspec.structs.replace(
                    switch, devices=tuple(names[at].get(device, device) for device in switch.devices)
                )
                for switch in parts.parts[at].switches
            )
    return ()
