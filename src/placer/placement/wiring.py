"""A node's wiring made ready for the bandwidth model: link capacities by position, and what PCIe flows share.

Positions 0..n-1 number the GPUs of the topology; `index[p]` is the gres index of position p, which every mask and every
answer uses.
"""

from __future__ import annotations

from collections.abc import Callable

import msgspec

from placer.topology import links
from placer.topology import types as topo

_PCIE = (topo.LinkType.PIX, topo.LinkType.PXB, topo.LinkType.PHB, topo.LinkType.NODE)

# Distance of a pair for the choice among equal bandwidths. NVLink and xGMI do not pass PCIe. Unknown is farthest.
_DISTANCE = {
    topo.LinkType.NVLINK: 0,
    topo.LinkType.XGMI: 0,
    topo.LinkType.PIX: 1,
    topo.LinkType.PXB: 2,
    topo.LinkType.PHB: 4,
    topo.LinkType.NODE: 6,
    topo.LinkType.SYS: 20,
}
_UNKNOWN_DISTANCE = 40
_PAIR_STEP = 10  # the pair's distance weighs more than the NUMA nodes of its two ends
_SAME_NUMA, _OTHER_NUMA, _UNKNOWN_NUMA = 0, 1, 2


class Group(msgspec.Struct, frozen=True):
    """GPUs (a mask of positions) behind one way out of a switch, bridge or socket, of `uplink_gbps` each direction."""

    members: int
    uplink_gbps: float
    name: str


class Wiring(msgspec.Struct, frozen=True):
    """See the module. Matrices are symmetric n x n."""

    index: tuple[int, ...]
    fabric: tuple[tuple[float, ...], ...]  # NVLink or xGMI GB/s; 0 = none
    port_total: tuple[float, ...]  # all NVLinks of a GPU together
    switched: tuple[bool, ...]  # behind an NVSwitch
    in_network: float  # NVLink SHARP efficiency of the slowest GPU, 0 = none
    path: tuple[tuple[float | None, ...], ...]  # one PCIe flow alone; None = relation unknown
    groups: tuple[Group, ...]  # innermost first
    nested: tuple[tuple[int, ...], ...]  # per position: lowest member of its group at each level, socket first
    distance: tuple[tuple[int, ...], ...]
    numa: tuple[int, ...]  # -1 = unknown
    pcie: links.Pcie
    fabric_name: str  # "nvlink" or "xgmi"
    assumed: tuple[str, ...] = ()  # `pcie.assumed` comes on top where PCIe is used

    @property
    def uniform(self) -> bool:
        """Bandwidth depends on the number of GPUs alone: one NVSwitch with equal links, or one kind of PCIe path."""
        n = len(self.index)
        pairs = [(i, j) for i in range(n) for j in range(i)]
        if len({self.fabric[i][j] for i, j in pairs}) != 1:
            return False
        if all(self.switched):
            return len(set(self.port_total)) == 1
        no_fabric = not any(self.fabric[i][j] for i, j in pairs)
        return no_fabric and not self.groups and len({self.path[i][j] for i, j in pairs}) == 1


def gres_indices(node: topo.NodeTopology) -> tuple[int, ...]:
    """The gres index of each GPU of a topology: its own where all are told and differ, else its position."""
    told = [gpu.index for gpu in node.gpus if gpu.index is not None]
    return tuple(told) if len(set(told)) == len(node.gpus) else tuple(range(len(node.gpus)))


def of(node: topo.NodeTopology, *, host: links.Host | None = None) -> Wiring:
    """Work out a node's wiring. `host` tells CPU and PCIe; by default what the machine's name tells."""
    n = len(node.gpus)
    pairs = links.gpu_pairs(node)
    models = [gpu.model or node.machine for gpu in node.gpus]
    used = links.ports_used(node)
    switched = links.behind_switch(node)
    host = host or links.host_of(node)
    pcie = links.pcie(host, models)
    denied = links.denied_pairs(node)
    assumed: list[str] = []
    told = [gpu.sm or links.sm_of(model) for gpu, model in zip(node.gpus, models, strict=True)]
    sms = [told[i] or _sm(model, pairs, i, used[i], switched[i]) for i, model in enumerate(models)]
    if any(used) and None in told:
        assumed.append(f"GPU model unknown: NVLinks taken as those of compute capability {min(sm or 0 for sm in sms)}")
    if any(link.type is topo.LinkType.XGMI for link in pairs.values()) and any(
        links.xgmi_gbps(m) is None for m in models
    ):
        assumed.append(f"GPU model unknown: an xGMI peer taken as {links.XGMI_SLOWEST_GBPS:g} GB/s")
    missing = n * (n - 1) // 2 - len(pairs)
    if missing and pairs:
        assumed.append(f"{missing} GPU pairs without a readable link: their NUMA nodes stand in")
    # A pair whose peer access is denied has no use of its NVLink, and over PCIe its data bounces through host memory.
    fabric = _matrix(n, lambda i, j: 0.0 if (i, j) in denied else _capacity(pairs.get((i, j)), sms, models, i, j))
    kinds = _relations(node, pairs)
    # Without any link between GPUs the NUMA nodes still tell what lies near, but not what the wires carry.
    bouncing = denied if host.peer_access else frozenset()  # else `pcie` has the factor already
    path = _paths(pairs, kinds, pcie, bouncing) if pairs else [[None] * n for _ in range(n)]
    numa = tuple(gpu.numa[0] if gpu.numa is not None and len(gpu.numa) == 1 else -1 for gpu in node.gpus)
    levels = _levels(kinds, numa)
    return Wiring(
        index=gres_indices(node),
        fabric=fabric,
        port_total=tuple(_port_total(fabric[i], sms[i], used[i], switched[i]) for i in range(n)),
        switched=switched,
        in_network=min((links.in_network_efficiency(sm) for sm in sms), default=0.0),
        path=tuple(map(tuple, path)),
        groups=_groups(levels, pcie),
        nested=tuple(tuple(level[i] for level in reversed(levels)) for i in range(n)),
        distance=_distances(kinds, pairs, numa, n),
        numa=numa,
        pcie=pcie,
        fabric_name="xgmi" if any(link.type is topo.LinkType.XGMI for link in pairs.values()) else "nvlink",
        assumed=tuple(assumed),
    )


def _matrix(n: int, value: Callable[[int, int], float]) -> tuple[tuple[float, ...], ...]:
    rows = [[0.0] * n for _ in range(n)]
    for i in range(n):
        for j in range(i + 1, n):
            rows[i][j] = rows[j][i] = value(i, j)
    return tuple(map(tuple, rows))


def _sm(model: str | None, pairs: dict[tuple[int, int], topo.Link], i: int, used: int, switched: bool) -> int | None:
    """Compute capability; where the model is unknown by the ports seen, which behind a switch are those of one pair."""
    if switched:
        used = max(link.lanes for pair, link in pairs.items() if i in pair)
    return links.sm_of(model, lanes=used)


def _capacity(link: topo.Link | None, sms: list[int | None], models: list[str | None], i: int, j: int) -> float:
    if link is None or link.type not in (topo.LinkType.NVLINK, topo.LinkType.XGMI):
        return 0.0
    if link.bandwidth_gbps is not None:
        return link.bandwidth_gbps
    if link.type is topo.LinkType.XGMI:
        return min(links.xgmi_gbps(models[k]) or links.XGMI_SLOWEST_GBPS for k in (i, j))
    return min(links.nvlink_gbps(sms[k] or 0, link.lanes) for k in (i, j))


def _port_total(row: tuple[float, ...], sm: int | None, used: int, switched: bool) -> float:
    if switched:
        return max(row)
    ports = links.nvlink_gbps(sm, used) if sm is not None and used else sum(row)
    return min(sum(row), ports)


def _relations(node: topo.NodeTopology, pairs: dict[tuple[int, int], topo.Link]) -> list[list[topo.LinkType]]:
    """How each pair is related by PCIe. NVLink hides it in what tools print, and rows may be missing: then the NUMA
    nodes tell (NODE or SYS), or the CPUs near the GPUs where no NUMA node is printed; else UNKNOWN."""
    n = len(node.gpus)
    kinds = [[topo.LinkType.UNKNOWN] * n for _ in range(n)]
    for i in range(n):
        for j in range(i + 1, n):
            link = pairs.get((i, j))
            printed = link is not None and (link.type in _PCIE or link.type is topo.LinkType.SYS)
            kinds[i][j] = kinds[j][i] = link.type if link and printed else _by_numa(node.gpus[i], node.gpus[j])
    return kinds


def _by_numa(a: topo.Gpu, b: topo.Gpu) -> topo.LinkType:
    if a.numa is not None and b.numa is not None:
        if len(a.numa) != 1 or len(b.numa) != 1:
            return topo.LinkType.UNKNOWN
        return topo.LinkType.NODE if a.numa == b.numa else topo.LinkType.SYS
    if a.cpus and b.cpus and a.numa is None and b.numa is None:
        if a.cpus == b.cpus:
            return topo.LinkType.NODE
        if not set(a.cpus) & set(b.cpus):
            return topo.LinkType.SYS
    return topo.LinkType.UNKNOWN


def _paths(
    pairs: dict[tuple[int, int], topo.Link],
    kinds: list[list[topo.LinkType]],
    pcie: links.Pcie,
    bouncing: frozenset[tuple[int, int]],
) -> list[list[float | None]]:
    """One flow alone over the PCIe relation of each pair; None where that is unknown."""
    n = len(kinds)
    rows: list[list[float | None]] = [[None] * n for _ in range(n)]
    for i in range(n):
        for j in range(i + 1, n):
            link, kind = pairs.get((i, j)), kinds[i][j]
            if kind is not topo.LinkType.UNKNOWN:
                told = link.bandwidth_gbps if link is not None and link.type is kind else None
                rate = told if told is not None else links.path_gbps(kind, pcie)
                factor = links.NO_PEER_ACCESS_FACTOR if (i, j) in bouncing else 1.0
                rows[i][j] = rows[j][i] = rate * factor
    return rows


def _levels(kinds: list[list[topo.LinkType]], numa: tuple[int, ...]) -> list[tuple[int, ...]]:
    """For PIX, PXB, PHB, NODE: the lowest position of the group that each position is in; groups are connected parts.

    GPUs that are known to be in one NUMA node share its socket link even where the matrix calls every pair SYS.
    """
    n = len(kinds)
    group = list(range(n))
    levels = []
    for kind in _PCIE:
        for i in range(n):
            for j in range(i + 1, n):
                same_socket = (
                    kind is topo.LinkType.NODE and numa[i] == numa[j] >= 0 and kinds[i][j] is topo.LinkType.SYS
                )
                if kinds[i][j] is kind or same_socket:
                    low, high = sorted((group[i], group[j]))
                    group = [low if g == high else g for g in group]
        levels.append(tuple(group))
    return levels


def _groups(levels: list[tuple[int, ...]], pcie: links.Pcie) -> tuple[Group, ...]:
    """Each way out of a switch, root port, host bridge and socket that two GPUs or more share."""
    uplinks = (
        (pcie.link_gbps, "pcie switch uplink"),
        (pcie.through_cpu_gbps, "pcie root port"),
        (pcie.through_cpu_gbps, "host bridge"),
        (pcie.socket_gbps, "socket link"),
    )
    found = []
    for level, (uplink, name) in zip(levels, uplinks, strict=True):
        for first in sorted(set(level)):
            members = sum(1 << p for p, g in enumerate(level) if g == first)
            if members.bit_count() > 1 and members.bit_count() < len(level):
                found.append(Group(members, uplink, name))
    return tuple(found)


def _distances(
    kinds: list[list[topo.LinkType]], pairs: dict[tuple[int, int], topo.Link], numa: tuple[int, ...], n: int
) -> tuple[tuple[int, ...], ...]:
    def distance(i: int, j: int) -> int:
        link = pairs.get((i, j))
        kind = link.type if link is not None and link.type in _DISTANCE else kinds[i][j]
        ends = _UNKNOWN_NUMA if numa[i] < 0 or numa[j] < 0 else _SAME_NUMA if numa[i] == numa[j] else _OTHER_NUMA
        return _PAIR_STEP * _DISTANCE.get(kind, _UNKNOWN_DISTANCE) + ends

    rows = [[0] * n for _ in range(n)]
    for i in range(n):
        for j in range(i + 1, n):
            rows[i][j] = rows[j][i] = distance(i, j)
    return tuple(map(tuple, rows))
