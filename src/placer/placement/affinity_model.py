"""The two assignment problems of rank binding, and the deals that solve them without a solver where that is exact.

Cores. Ranks r want k_r whole cores each. Cores that are alike for every rank (same NUMA node, same distances) form a
class j with n_j cores; q(j) is its NUMA node. With y_rj cores of class j for rank r and u_rq = 1 if rank r has cores in
NUMA node q:

    minimise   Σ_rj d_rj y_rj + δ Σ_rq u_rq          d_rj  distance of the class from the rank's GPUs
    subject to Σ_j y_rj = k_r                        every rank gets its share
               Σ_r y_rj ≤ t n_j                      a core is used once; t > 1 only when ranks outnumber cores
               Σ_{j in q} y_rj ≤ k_r u_rq            δ = 1/(2 R Q): few NUMA nodes for each rank, distance first

NICs. GPU g uses one NIC n; L_n GPUs use NIC n:

    minimise   Σ_gn p_gn z_gn + w Σ_n L_n (L_n - 1) / 2,   Σ_n z_gn = 1,   L_n = Σ_g z_gn

Both deals come with a proof or are not used: for cores a lower bound that they reach, for NICs the absence of a
negative cycle in the residual graph (the optimality condition of convex min-cost flow).
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Final

import msgspec

# Distances of the ACPI SLIT less its local 10, as EPYC servers print them: 12 within the socket, 32 across. A core that
# may be near (its NUMA node is one of several named) is a little worse than near; unknown lies between the two.
NEAR: Final = 0
POSSIBLE: Final = 1
SAME_PACKAGE: Final = 2
UNKNOWN: Final = 11
FAR: Final = 22
SHARED_NIC: Final = 10
"""w: sharing a NIC halves its rate; worse than crossing host bridges (NODE, 5), better than crossing sockets (SYS, 20).
"""


class CoreProblem(msgspec.Struct, frozen=True):
    """`demand[r]` = k_r, `size[j]` = n_j, `distance[r][j]` = d_rj, `numa[j]` = q(j) (None = unknown), `turns` = t."""

    demand: tuple[int, ...]
    size: tuple[int, ...]
    distance: tuple[tuple[int, ...], ...]
    numa: tuple[int | None, ...]
    turns: int = 1

    @property
    def spread_weight(self) -> float:
        """δ."""
        return 1 / (2 * max(1, len(self.demand)) * max(1, len(set(self.numa))))


class NicProblem(msgspec.Struct, frozen=True):
    """`prior[g][n]` = p_gn; None = GPU g has no known way to NIC n."""

    prior: tuple[tuple[int | None, ...], ...]


def core_objective(problem: CoreProblem, deal: Sequence[Sequence[int]]) -> float:
    """The objective of y_rj."""
    far = sum(d * y for row, ys in zip(problem.distance, deal, strict=True) for d, y in zip(row, ys, strict=True))
    return far + problem.spread_weight * sum(len(_numa_used(problem, ys)) for ys in deal)


def _numa_used(problem: CoreProblem, ys: Sequence[int]) -> set[int | None]:
    return {problem.numa[j] for j, y in enumerate(ys) if y}


def core_lower_bound(problem: CoreProblem) -> float:
    """What no deal can beat: each rank alone on the machine, its nearest classes first, in as few NUMA nodes as fit."""
    total = 0.0
    for want, row in zip(problem.demand, problem.distance, strict=True):
        left = want
        room: dict[int | None, int] = {}
        for distance, j in sorted((d, j) for j, d in enumerate(row)):
            taken = min(left, problem.size[j] * problem.turns)
            total += distance * taken
            left -= taken
            room[problem.numa[j]] = room.get(problem.numa[j], 0) + problem.size[j] * problem.turns
        needed = 0
        for most in sorted(room.values(), reverse=True):
            if want <= 0:
                break
            want -= most
            needed += 1
        total += problem.spread_weight * needed
    return total


def deal_cores(problem: CoreProblem) -> tuple[tuple[int, ...], ...]:
    """Ranks in order, each from its nearest classes; of equally near NUMA nodes the first that holds all it wants."""
    left = [n * problem.turns for n in problem.size]
    deal = []
    for want, row in zip(problem.demand, problem.distance, strict=True):
        ys = [0] * len(left)
        for distance in sorted(set(row)):
            classes = [j for j, d in enumerate(row) if d == distance and left[j]]
            whole = _first_whole(problem, classes, left, want)
            for j in [*whole, *(j for j in classes if j not in whole)]:
                taken = min(want, left[j])
                ys[j] += taken
                left[j] -= taken
                want -= taken
        deal.append(tuple(ys))
    return tuple(deal)


def _first_whole(problem: CoreProblem, classes: Sequence[int], left: Sequence[int], want: int) -> list[int]:
    for numa in dict.fromkeys(problem.numa[j] for j in classes):
        own = [j for j in classes if problem.numa[j] == numa]
        if sum(left[j] for j in own) >= want:
            return own
    return []


def nic_objective(problem: NicProblem, chosen: Sequence[int]) -> float:
    """The objective when GPU g uses NIC `chosen[g]`."""
    loads = [0] * (len(problem.prior[0]) if problem.prior else 0)
    total = 0
    for row, n in zip(problem.prior, chosen, strict=True):
        total += (row[n] or 0) + SHARED_NIC * loads[n]
        loads[n] += 1
    return float(total)


def deal_nics(problem: NicProblem) -> tuple[int, ...]:
    """GPUs in order, each to the NIC that costs least given those before it. Every GPU needs one known NIC."""
    loads = [0] * (len(problem.prior[0]) if problem.prior else 0)
    chosen = []
    for row in problem.prior:
        n = min((p + SHARED_NIC * loads[n], n) for n, p in enumerate(row) if p is not None)[1]
        loads[n] += 1
        chosen.append(n)
    return tuple(chosen)


def nics_are_optimal(problem: NicProblem, chosen: Sequence[int]) -> bool:
    """Whether no chain of moves lowers the cost: from NIC to NIC by the cheapest GPU, and at its ends the loads.

    Node -1 of the residual graph stands for the loads: leaving NIC n saves w (L_n - 1), joining m costs w L_m.
    """
    count = len(problem.prior[0]) if problem.prior else 0
    loads = (
        [chosen.count(n) for n in range(count)]
        if isinstance(chosen, list)
        else [list(chosen).count(n) for n in range(count)]
    )
    length: dict[tuple[int, int], int] = {}
    for row, n in zip(problem.prior, chosen, strict=True):
        for m, p in enumerate(row):
            if p is not None and m != n:
                length[n, m] = min(length.get((n, m), 1 << 30), p - (row[n] or 0))
    for n in range(count):
        length[n, -1] = SHARED_NIC * loads[n]
        if loads[n]:
            length[-1, n] = -SHARED_NIC * (loads[n] - 1)
    nodes = range(-1, count)
    for via, a, b in itertools.product(nodes, repeat=3):
        if (a, via) in length and (via, b) in length:
            through = length[a, via] + length[via, b]
            if through < length.get((a, b), 1 << 30):
                length[a, b] = through
    return all(length.get((n, n), 0) >= 0 for n in nodes)
