"""GPU sets on machines that nobody designed: random matrices, missing rows, unknown NUMA nodes."""

from __future__ import annotations

import itertools
from collections.abc import Sequence

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from placer.placement import bandwidth, gpuset, wiring
from placer.topology import links
from placer.topology import types as topo

L = topo.LinkType
HOST = links.Host(links.Cpu.INTEL_SKYLAKE, 3)
RELATIONS = [
    (L.NVLINK, 1),
    (L.NVLINK, 2),
    (L.PIX, 0),
    (L.PXB, 0),
    (L.PHB, 0),
    (L.NODE, 0),
    (L.SYS, 0),
    (L.UNKNOWN, 0),
    None,
]


@st.composite
def machines(
    draw: st.DrawFn, most: int = 6, relations: Sequence[tuple[topo.LinkType, int] | None] = RELATIONS
) -> topo.NodeTopology:
    count = draw(st.integers(2, most))
    numa = st.sampled_from([None, (0,), (1,), (0, 1)])
    gpus = tuple(topo.Gpu(f"GPU{i}", i, model="v100", numa=draw(numa)) for i in range(count))
    pairs = []
    for a, b in itertools.combinations(gpus, 2):
        relation = draw(st.sampled_from(relations))
        if relation is not None:
            pairs.append(topo.Link(a.id, b.id, *relation))
    return topo.NodeTopology("n", "random", gpus=gpus, links=tuple(pairs))


@settings(max_examples=60, deadline=None)
@given(machines(), st.integers(1, 6))
def test_best_is_the_first_by_bandwidth_locality_damage_and_index(machine: topo.NodeTopology, size: int) -> None:
    count = len(machine.gpus)
    table = gpuset.SetTable(machine, count, host=HOST)
    wired = wiring.of(machine, host=HOST)
    masks = np.arange(1 << count, dtype=np.int64)
    chosen, _, damages = table.best_many(masks, size)
    for mask in range(1 << count):
        free = gpuset.indices(mask)
        if len(free) < size:
            assert chosen[mask] == 0
            continue
        keys = []
        for members in itertools.combinations(free, size):
            busbw = bandwidth.of_set(wired, members).busbw_gbps
            spread = sum(wired.distance[a][b] for a, b in itertools.combinations(members, 2))
            taken = sum(1 << g for g in members)
            keys.append((-round(busbw, 6) if busbw is not None else 1.0, spread, table.damage(mask, taken), members))
        best = min(keys)
        assert gpuset.indices(int(chosen[mask])) == best[3]
        assert damages[mask] == best[2] >= 0


PCIE = [(L.PIX, 0), (L.PXB, 0), (L.PHB, 0), (L.NODE, 0), (L.SYS, 0), (L.NVLINK, 1)]


def _brute_ring(machine: topo.NodeTopology) -> float:
    """Best of all orders: slowest edge, and each way out shared by the flows that leave through it."""
    count = len(machine.gpus)
    kind = {frozenset((k.a, k.b)): k.type for k in machine.links}
    order = [L.PIX, L.PXB, L.PHB, L.NODE]
    ids = [gpu.id for gpu in machine.gpus]
    # What a matrix hides behind NVLink, the NUMA nodes tell.
    real = dict(kind)
    for pair, seen in kind.items():
        if seen is L.NVLINK:
            a, b = (next(g for g in machine.gpus if g.id == end) for end in sorted(pair))
            real[pair] = L.NODE if a.numa == b.numa else L.SYS
    numa = {gpu.id: gpu.numa for gpu in machine.gpus}
    groups: list[tuple[set[str], float]] = []
    for depth, out in zip(range(4), (12.0, 10.0, 10.0, 10.0), strict=True):
        left = set(ids)
        while left:
            part = {left.pop()}
            grown = True
            while grown:
                grown = False
                for one, two in itertools.product(list(part), list(left)):
                    near = real[frozenset((one, two))]
                    joined = near in order[: depth + 1] or (depth == 3 and near is L.SYS and numa[one] == numa[two])
                    if joined and two in left:
                        part.add(two)
                        left.discard(two)
                        grown = True
            groups.append((part, out))
    speed = {L.PIX: 12.0, L.PXB: 12.0, L.PHB: 10.0, L.NODE: 10.0, L.SYS: 10.0, L.NVLINK: 20.0}
    best = 0.0
    for rest in itertools.permutations(ids[1:]):
        ring = (ids[0], *rest)
        steps = list(zip(ring, (*ring[1:], ring[0]), strict=True))
        value = min(speed[kind[frozenset(s)]] for s in steps)
        for part, out in groups:
            flows = sum(kind[frozenset(s)] is not L.NVLINK and s[0] in part and s[1] not in part for s in steps)
            value = min(value, out / flows) if flows else value
        best = max(best, value)
    assert count > 1
    return best


@settings(max_examples=150, deadline=None)
@given(machines(most=6, relations=PCIE), st.lists(st.sampled_from([(0,), (1,)]), min_size=6, max_size=6))
def test_pcie_ring_is_the_best_of_all_orders(machine: topo.NodeTopology, numa: list[tuple[int]]) -> None:
    gpus = tuple(topo.Gpu(g.id, g.index, model="v100", numa=numa[i]) for i, g in enumerate(machine.gpus))
    machine = topo.NodeTopology("n", "random", gpus=gpus, links=machine.links)
    found = bandwidth.of_set(wiring.of(machine, host=HOST), range(len(gpus)))
    assert found.busbw_gbps is not None
    if found.limited_by in ("nvlink ring", "nvlink link"):
        return
    assert abs(found.busbw_gbps - _brute_ring(machine)) < 1e-9


@settings(max_examples=60, deadline=None)
@given(machines(most=5))
def test_bandwidth_is_known_or_said_to_be_unknown(machine: topo.NodeTopology) -> None:
    for size in range(1, len(machine.gpus) + 1):
        for members in itertools.combinations(range(len(machine.gpus)), size):
            found = bandwidth.of_set(machine, members)
            assert sorted(found.order) == list(members)
            assert (found.busbw_gbps is None) == (found.limited_by in ("single GPU", "unknown wiring"))
            assert found.busbw_gbps is None or 0 < found.busbw_gbps < 1000
