"""All-reduce bus bandwidth of a GPU set, the part that the network sets, and the time of a collective.

busbw = f S / t with f = 2(n-1)/n for n ranks and S bytes. For a set S of k GPUs of one node, P the port total of a GPU,
C a PCIe link, Q a socket link (`topology.links`):

* NVSwitch: a ring gives P. Where the switch reduces (NVLink SHARP, efficiency e), a GPU sends its S bytes up and its
  reduced S/k again, so nvls = e P 2(k-1)/(k+1), and B = max(P, nvls) for 4 < k <= 8. Up to 4 GPUs NCCL stays on the
  ring (measured); beyond 8 the formula is too high (NVL72: 22 %), so the ring is promised.
* NVLink or xGMI mesh: the best packing of rings over S (`rings`), at most the port total.
* no such ring over S: one ring that also uses PCIe. Every directed flow over a switch uplink, host bridge or socket
  link shares it: B = min(slowest edge, min over those ways out of capacity / flows that leave). The order of the ring
  decides the flows, so rank order belongs to the answer.

A relation that is not known gives no bandwidth (None), never a guess. Against published measurements 14 of 15 points
are within 8 %.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import msgspec

from placer.placement import pcie_ring, rings, wiring
from placer.topology import links
from placer.topology import types as topo

IN_NETWORK_GPUS = range(5, 9)
"""Set sizes for which NVLink SHARP is counted on."""

ALPHA_SECONDS = 100e-6
"""Start-up time of a collective for each node (fitted to five published sweeps)."""

_MIB = 1 << 20


class SetBandwidth(msgspec.Struct, frozen=True):
    """`busbw_gbps` None = not known, or one GPU, which has nothing to exchange. `order`: gres indices in ring order."""

    busbw_gbps: float | None
    order: tuple[int, ...]
    limited_by: str
    assumed: tuple[str, ...] = ()


class CollectiveTime(msgspec.Struct, frozen=True):
    """Predicted seconds, and the range in which the model was found to err."""

    seconds: float
    low: float
    high: float


def of_set(machine: topo.NodeTopology | wiring.Wiring, gpus: Sequence[int], *, in_network: bool = True) -> SetBandwidth:
    """Bus bandwidth of the GPUs with these gres indices, all on one node.

    `in_network` False leaves NVLink SHARP out: it serves all-reduce alone, and `NCCL_NVLS_ENABLE=0` turns it off.
    """
    wired = machine if isinstance(machine, wiring.Wiring) else wiring.of(machine)
    order = tuple(sorted(gpus))
    if len(order) < 2:
        return SetBandwidth(None, order, "single GPU" if order else "no GPU")
    if not set(order) <= set(wired.index):
        return SetBandwidth(None, order, "unknown wiring")
    found = at_positions(wired, tuple(wired.index.index(gpu) for gpu in order), in_network=in_network)
    ring = rings.normal(tuple(wired.index[p] for p in found.order))
    return SetBandwidth(found.busbw_gbps, ring, found.limited_by, _assumed(wired, found.order))


def _assumed(wired: wiring.Wiring, places: tuple[int, ...]) -> tuple[str, ...]:
    """What was taken for granted; PCIe and CPU only where a ring uses them."""
    if all(wired.switched[p] for p in places) or all(wired.fabric[a][b] for a, b in rings.edges(places)):
        return wired.assumed
    known = all(wired.fabric[a][b] or wired.path[a][b] for a, b in rings.edges(places))
    return wired.assumed + wired.pcie.assumed if known else wired.assumed


def at_positions(wired: wiring.Wiring, places: tuple[int, ...], *, in_network: bool = True) -> SetBandwidth:
    """As `of_set` for two or more positions of the wiring, in ascending order; `order` are positions too."""
    k = len(places)
    fabric = wired.fabric
    if all(wired.switched[p] for p in places):
        total = min(wired.port_total[p] for p in places)
        if all(fabric[p][q] for i, p in enumerate(places) for q in places[:i]):
            reduced = wired.in_network * total * 2 * (k - 1) / (k + 1) if in_network and k in IN_NETWORK_GPUS else 0.0
            return SetBandwidth(
                round(max(total, reduced), 6), places, "nvswitch in-network" if reduced > total else "nvswitch"
            )
        adjacent = [sum(1 << i for i, q in enumerate(places) if fabric[p][q]) for p in places]
        order = next(rings.cycles(adjacent), None) if k > 2 else None
        if order is not None:  # some pair is not told or broken: a ring goes round it, the switch gives it the total
            return SetBandwidth(total, tuple(places[p] for p in order), "nvswitch")
    else:
        ring = rings.pack(tuple(tuple(fabric[p][q] for q in places) for p in places))
        if ring.order:
            total = min(wired.port_total[p] for p in places)
            name = f"{wired.fabric_name} ring" if k > 2 else f"{wired.fabric_name} link"
            return SetBandwidth(min(ring.busbw_gbps, total), tuple(places[p] for p in ring.order), name)
    best = pcie_ring.best(wired, places)
    return SetBandwidth(best.busbw_gbps, best.order, best.limited_by)


def of_ring(machine: topo.NodeTopology, order: Sequence[int]) -> SetBandwidth:
    """What one ring in exactly this order of gres indices gives, alone and without an NVSwitch's full mesh.

    For advice on rank order: a ring that alternates between two sockets shares the socket link among all its flows.
    """
    wired = wiring.of(machine)
    given = tuple(order)
    if len(given) < 2 or len(set(given)) < len(given) or not set(given) <= set(wired.index):
        return SetBandwidth(None, given, "single GPU" if len(given) == 1 else "unknown wiring")
    places = tuple(wired.index.index(gpu) for gpu in given)
    if all(wired.switched[p] for p in places):
        return of_set(wired, given, in_network=False)
    found = pcie_ring.rate(wired, places)
    if found.busbw_gbps is not None and all(wired.fabric[a][b] for a, b in rings.edges(places)):
        # A ring of NVLinks alone is run both ways.
        return SetBandwidth(
            found.busbw_gbps * (2 if len(given) > 2 else 1), given, f"{wired.fabric_name} ring", wired.assumed
        )
    return SetBandwidth(found.busbw_gbps, given, found.limited_by, _assumed(wired, places))


def nic_bound(node: topo.NodeTopology, gpu_indices: Sequence[int]) -> float | None:
    """GB/s that the NICs near these GPUs carry to other nodes: Σ min(12 r / 100, C) over the NICs with r Gb/s.

    Near a GPU are the NICs that the matrix puts closest to it. All that leaves a GPU passes its PCIe link, so no more
    than C per GPU. None where no NIC is known, one has no known speed, or a GPU's relation to all of them is unknown.
    """
    index = wiring.gres_indices(node)
    wanted = [node.gpus[index.index(gpu)].id for gpu in gpu_indices if gpu in index]
    if not node.nics or not wanted or len(wanted) < len(gpu_indices):
        return None
    near: set[str] = set()
    for gpu in wanted:
        closest = _closest_nics(node, gpu)
        if not closest:
            return None
        near |= closest
    models = [gpu.model or node.machine for gpu in node.gpus]
    link = links.pcie(links.host_of(node), models).link_gbps
    speeds = [nic.speed_gbits for nic in node.nics if nic.id in near]
    if any(speed is None for speed in speeds):
        return None
    carried = sum(min(links.nic_gbps(speed), link) for speed in speeds if speed is not None)
    return min(carried, link * len(wanted))


def _closest_nics(node: topo.NodeTopology, gpu: str) -> set[str]:
    names = {nic.id for nic in node.nics if nic.rdma is not False}
    rank: dict[str, int] = {}
    for link in node.links:
        if gpu in (link.a, link.b) and link.type is not topo.LinkType.UNKNOWN:
            other = link.b if link.a == gpu else link.a
            if other in names:
                rank[other] = topo.CLOSENESS[link.type]
    best = min(rank.values(), default=None)
    return {nic for nic, r in rank.items() if r == best}


def across_nodes(
    per_node: Sequence[float | None], nic: Sequence[float | None], oversubscription: Sequence[float]
) -> float | None:
    """Bus bandwidth of a collective over several nodes: the slowest node, or its NICs.

    B = min( min_i B_i, min_i N_i / Π o_l ) with B_i from `of_set` (math.inf for a node that gives one GPU), N_i from
    `nic_bound` and o_l the oversubscription of every switch level that is crossed. None where a part is unknown. This
    is the flat ring over all NICs; on exactly two nodes a tree may reach up to twice the NICs' part.
    """
    inside = [value for value in per_node if value is not None]
    outside = [value for value in nic if value is not None]
    if len(inside) < len(per_node) or len(outside) < len(nic) or not outside:
        return None
    return min(min(inside, default=math.inf), min(outside) / math.prod(oversubscription))


def collective_seconds(busbw: float, ranks: int, nodes: int, bytes: float) -> CollectiveTime:  # noqa: A002 - the unit
    """Time of an all-reduce of `bytes` over `ranks` GPUs on `nodes` nodes: t = α nodes + 2(n-1)/n bytes / busbw.

    The range is what published sweeps showed: 15 % from 512 MiB, 30 % from 64 MiB, below that only the order of
    magnitude (newer NCCL is up to four times faster there).
    """
    if ranks < 2:
        return CollectiveTime(0.0, 0.0, 0.0)
    seconds = ALPHA_SECONDS * max(1, nodes) + 2 * (ranks - 1) / ranks * bytes / (busbw * 1e9)
    if bytes >= 512 * _MIB:
        return CollectiveTime(seconds, seconds * 0.85, seconds * 1.15)
    if bytes >= 64 * _MIB:
        return CollectiveTime(seconds, seconds * 0.7, seconds * 1.3)
    return CollectiveTime(seconds, seconds / 5, seconds * 3)
