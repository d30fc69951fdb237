"""The best ring over GPUs that NVLink alone does not join.

A ring v_1 … v_k sends one flow along each directed edge. An edge with NVLink has that link's bandwidth; any other edge
that of its PCIe path, and it leaves every group (PCIe switch, root port, host bridge, socket) that holds its start but
not its end. With f_g(ring) the flows that leave group g and u_g its way out,

    B(ring) = min( min over edges of the edge's bandwidth, min over g of u_g / f_g(ring) )

A ring that visits each socket once, in it each host bridge once, and so on, has f_g <= 1 everywhere; that is the first
one tried. Where it stays below an upper bound that every ring obeys, all rings are searched.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from placer.placement import rings, wiring

MOST_STEPS = 20_000
"""Steps of the search over all rings of one set; then the best ring found stands, which is surely there."""


class Ring(msgspec.Struct, frozen=True):
    """`order` as positions of the wiring; `busbw_gbps` None = an edge is unknown."""

    busbw_gbps: float | None
    order: tuple[int, ...]
    limited_by: str


def rate(wired: wiring.Wiring, order: Sequence[int]) -> Ring:
    """B(ring) of one ring of two or more positions."""
    best, limit = float("inf"), ""
    flows = [0] * len(wired.groups)
    for a, b in rings.edges(order):
        link = wired.fabric[a][b]
        edge = link or wired.path[a][b]
        if edge is None:
            return Ring(None, tuple(order), "unknown wiring")
        if edge < best:
            best, limit = edge, f"{wired.fabric_name} link" if link else _edge_limit(wired, edge)
        if not link:
            for g, group in enumerate(wired.groups):
                flows[g] += group.members >> a & 1 and not group.members >> b & 1
    for flow, group in zip(flows, wired.groups, strict=True):
        if flow and group.uplink_gbps / flow < best:
            best, limit = group.uplink_gbps / flow, group.name
    return Ring(best, tuple(order), limit)


def _edge_limit(wired: wiring.Wiring, edge: float) -> str:
    return "socket link" if edge <= wired.pcie.socket_gbps < wired.pcie.through_cpu_gbps else "pcie"


def best(wired: wiring.Wiring, places: tuple[int, ...]) -> Ring:
    """The ring over `places` with the largest B; among equal ones the nested one, else the first in order."""
    nested = rate(wired, sorted(places, key=lambda p: (wired.nested[p], p)))
    if len(places) < 4:  # one ring only
        return nested
    bound = _upper_bound(wired, places)
    if bound is None or (nested.busbw_gbps or 0.0) >= bound:
        return nested if bound is not None else Ring(None, places, "unknown wiring")
    known = [sum(1 << i for i, q in enumerate(places) if q != p and _edge(wired, p, q)) for p in places]
    if nested.busbw_gbps is None and rings.falls_apart(known):
        return nested
    return _Search(wired, places, nested, bound).run()


def _edge(wired: wiring.Wiring, a: int, b: int) -> float:
    return wired.fabric[a][b] or wired.path[a][b] or 0.0


def _upper_bound(wired: wiring.Wiring, places: tuple[int, ...]) -> float | None:
    """Two edges of a ring meet every position and cross the border of every group: none is better than the second best.

    None = some position has fewer than two known edges: no ring is known.
    """
    bound = float("inf")
    for p in places:
        two = sorted((_edge(wired, p, q) for q in places if q != p), reverse=True)[:2]
        bound = min(bound, two[1])
    for group in wired.groups:
        inside = [p for p in places if group.members >> p & 1]
        outside = [p for p in places if not group.members >> p & 1]
        if inside and outside:
            crossing = sorted((_edge(wired, p, q) for p in inside for q in outside), reverse=True)
            bound = min(bound, crossing[min(1, len(crossing) - 1)])
    return bound or None


class _Search:
    """Depth-first over all rings from the first position, cut where an edge so far is no better than the best ring."""

    def __init__(self, wired: wiring.Wiring, places: tuple[int, ...], start: Ring, bound: float) -> None:
        self.wired, self.places, self.best, self.bound = wired, places, start, bound
        self.steps = 0

    def run(self) -> Ring:
        self._extend((self.places[0],), self.places[1:], float("inf"))
        return self.best

    def _extend(self, path: tuple[int, ...], rest: tuple[int, ...], narrowest: float) -> None:
        self.steps += 1
        have = self.best.busbw_gbps or 0.0
        if self.steps > MOST_STEPS or narrowest <= have or have >= self.bound:
            return
        if not rest:
            found = rate(self.wired, path)
            if found.busbw_gbps is not None and found.busbw_gbps > have:
                self.best = found
            return
        for step in rest:
            edge = _edge(self.wired, path[-1], step)
            if edge:
                self._extend((*path, step), tuple(r for r in rest if r != step), min(narrowest, edge))
