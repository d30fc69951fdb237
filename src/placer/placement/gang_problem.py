"""One job over many nodes, in arrays: the question, the answer, and what a choice of nodes is worth.

Symbols, used by every search of this question:

    n nodes i that could take their part, in natural name order; K are wanted; S ⊆ {0..n-1}, |S| = K, is a choice
    L levels l, closest first; D_l(i) the domain of node i at level l; level L is the root above everything
    h(S) the lowest level at which one domain holds all of S
    o_l oversubscription of level l (bandwidth below over bandwidth above), O_h = Π_{l<h} max(1, o_l)
    b_i busbw of the GPU set of node i, c_i what its NICs carry, both GB/s
    B(S) = min_{i∈S} v_i(h(S)),  v_i(h) = min(b_i, c_i / O_h), and v_i(h) = b_i when K = 1     (models.md A.3's formula)
    used_l(S) = number of domains of level l that S touches;  d_i leftover damage

A choice is better when its key is less, compared term by term:

    ( used_p(S) - 1 for a preferred level p,  1 / B(S),  Σ_l 4^l used_l(S),  Σ_{i∈S} d_i )

and equal keys are decided by natural order: the first domains fill up first.

What is not known: an unknown b_i counts as 0 GB/s, so a node of known wiring always wins over it; an unknown c_i limits
nothing, since most sources tell no NIC and a guess would order nodes by what was left out. A node without a domain at
level l shares there exactly what it shares one level closer (a root that is repeated upwards, or the node alone):
unknown is never read as near. Nodes without a common domain run together only where `spans_roots` says so.
"""

from __future__ import annotations

import functools
import math

import msgspec
import numpy as np
import numpy.typing as npt

from placer import errors
from placer.placement import types as place

Ints = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]
Mask = npt.NDArray[np.bool_]

Key = tuple[float, float, float, float]
"""(domains above one at the preferred level, 1 / GB/s, spread, damage in thousandths of a GPU); less is better."""

SPREAD_BASE = 4  # a domain of one level is worth four of the level below: racks + 4 x spines
DAMAGE_WEIGHT = 1e-6  # of a thousandth of a GPU, in SolveResult's scalar: spread + 0.001 x damage in GPUs


class SideConstraint(msgspec.Struct, frozen=True, eq=False):
    """At least and at most so many of the chosen nodes are members; `members` is bool [n]."""

    members: Mask
    at_least: int = 0
    at_most: int | None = None


class GangProblem(msgspec.Struct, frozen=True, kw_only=True, eq=False):
    """K of n candidate nodes, which stand in natural name order. `L` levels, closest first.

    domain_of         int [L, n]: dense number of the node's domain at each level, -1 none
    bandwidth         float [n]: GB/s of the node's best free GPU set; nan unknown, inf not limiting
    nic               float [n]: GB/s of the NICs of that set; nan unknown
    damage            int [n]: leftover damage in thousandths of a GPU, not negative
    forced            bool [n]: must be chosen
    required          level in one domain of which all chosen lie
    preferred         level of which as few domains as possible are used
    max_domains       (level, most): at most so many domains of that level
    oversubscription  per level, 1.0 where nothing is told; empty = 1.0 everywhere
    spans_roots       whether nodes without a common domain may run together; with no level at all they may
    """

    count: int
    domain_of: npt.NDArray[np.integer]
    bandwidth: Floats
    nic: Floats
    damage: Ints
    forced: Mask
    required: int | None = None
    preferred: int | None = None
    max_domains: tuple[tuple[int, int], ...] = ()
    oversubscription: tuple[float, ...] = ()
    spans_roots: bool = False
    side: tuple[SideConstraint, ...] = ()

    def __post_init__(self) -> None:
        if self.count < 1:
            raise errors.RequestError(f"a job needs at least one node, not {self.count}")
        levels, nodes = self.domain_of.shape
        if any(len(column) != nodes for column in (self.bandwidth, self.nic, self.damage, self.forced)):
            raise errors.RequestError("the columns of a placement question differ in length")
        named = (self.required, self.preferred, *(level for level, _ in self.max_domains))
        if any(level is not None and not 0 <= level < levels for level in named):
            raise errors.RequestError(f"the fabric has {levels} levels; there is no such level")
        if len(self.oversubscription) not in {0, levels}:
            raise errors.RequestError("oversubscription is told for every level or for none")
        if nodes and int(self.damage.min()) < 0:
            raise errors.RequestError("leftover damage is not negative")

    @property
    def levels(self) -> int:
        """L."""
        return int(self.domain_of.shape[0])

    @property
    def nodes(self) -> int:
        """n."""
        return int(self.domain_of.shape[1])

    @property
    def highest(self) -> int:
        """The highest level at which the chosen nodes may meet: the root (L), or a level that is required."""
        top = self.levels if self.spans_roots or not self.levels else self.levels - 1
        limits = [level for level, most in self.max_domains if most == 1]
        return min([top, *limits] if self.required is None else [top, self.required, *limits])

    def crossing(self, height: int) -> float:
        """O_h: what the switch levels below `height` take from the NICs' bandwidth; never less than 1."""
        return math.prod(max(1.0, factor) for factor in self.oversubscription[:height])

    def values(self, height: int) -> Floats:
        """v_i(h), float [n]: GB/s that node i allows when the chosen nodes meet at level `height`."""
        known = np.nan_to_num(self.bandwidth, nan=0.0, posinf=np.inf)
        if self.count == 1:
            return known
        nic = np.nan_to_num(self.nic, nan=np.inf, posinf=np.inf)
        return np.minimum(known, nic / self.crossing(height))


class Forest:
    """The domains of a problem with every gap closed: each node has a domain at each level, numbered by first node.

    `domain[l]` int [n], `first[l]` int [domains of l] = its first node. Level L is one domain, the root.
    """

    def __init__(self, problem: GangProblem) -> None:
        self.domain: list[Ints] = []
        self.first: list[Ints] = []
        below: Ints = np.arange(problem.nodes, dtype=np.int64)
        for row in problem.domain_of:
            told = row.astype(np.int64)
            gap = told < 0
            if gap.any():
                told = np.where(gap, told.max() + 1 + below, told)
            below, first = _by_first_node(told)
            self.domain.append(below)
            self.first.append(first)
        self.domain.append(np.zeros(problem.nodes, dtype=np.int64))
        self.first.append(np.zeros(min(1, problem.nodes), dtype=np.int64))

    @functools.cached_property
    def nested(self) -> bool:
        """Whether every domain lies in one domain of the next level, as in a tree."""
        pairs = zip(self.domain, self.domain[1:], self.first, strict=False)
        return all(bool((upper == upper[first][lower]).all()) for lower, upper, first in pairs)

    def inside(self, level: int, height: int) -> Ints:
        """The domain of level `height` around each domain of `level`."""
        return self.domain[height][self.first[level]]

    def used(self, level: int, chosen: Ints) -> int:
        """used_l(S)."""
        return len(np.unique(self.domain[level][chosen]))


def _by_first_node(told: Ints) -> tuple[Ints, Ints]:
    """Domain numbers replaced by ranks of first appearance, and the first node of each."""
    nodes = len(told)
    if not nodes:
        return told, told
    first = np.full(int(told.max()) + 1, nodes, dtype=np.int64)
    first[told[::-1]] = np.arange(nodes - 1, -1, -1)  # the last write, that of the first node, stays
    order = np.argsort(first, kind="stable")[: int((first < nodes).sum())]
    rank = np.empty(len(first), dtype=np.int64)
    rank[order] = np.arange(len(order))
    return rank[told], first[order]


class GangSolution(msgspec.Struct, frozen=True, kw_only=True):
    """The chosen candidates in rank order: domain by domain, so that consecutive ranks share the closest switch.

    `chosen` is empty when nothing fits or no answer came in time. `busbw` is B(S) in GB/s; inf = nothing limits it,
    None = some wiring is unknown. `common_level` is h(S); L = only the root. `domains_used[l]` is used_l(S).
    `solve.objective` and `bound` are spread + 0.001 x damage in GPUs, the key's last two terms as one number.
    """

    solve: place.SolveResult
    chosen: tuple[int, ...] = ()
    key: tuple[float, ...] = ()
    busbw: float | None = None
    common_level: int | None = None
    domains_used: tuple[int, ...] = ()

    @property
    def indices(self) -> Ints:
        """`chosen` as an array, ascending."""
        return np.sort(np.array(self.chosen, dtype=np.int64))


class Worth(msgspec.Struct, frozen=True):
    """What a choice is worth: its key and what the key is made of."""

    key: Key
    busbw: float
    common_level: int
    domains_used: tuple[int, ...]

    @property
    def scalar(self) -> float:
        """spread + 0.001 x damage in GPUs."""
        return scalar(int(self.key[2]), int(self.key[3]))


def scalar(spread: int, damage: int) -> float:
    """The objective of SolveResult: spread + 0.001 x damage in GPUs."""
    return spread + DAMAGE_WEIGHT * damage


def weigh(problem: GangProblem, forest: Forest, chosen: Ints) -> Worth:
    """The key of a choice, by the definitions above."""
    used = tuple(forest.used(level, chosen) for level in range(problem.levels))
    common = next((level for level in range(problem.levels) if used[level] == 1), problem.levels)
    busbw = float(problem.values(common)[chosen].min())
    spread = sum(SPREAD_BASE**level * count for level, count in enumerate(used))
    unmet = 0 if problem.preferred is None else used[problem.preferred] - 1
    slowness = math.inf if busbw == 0.0 else 1.0 / busbw
    return Worth((float(unmet), slowness, float(spread), float(problem.damage[chosen].sum())), busbw, common, used)


def satisfies(problem: GangProblem, forest: Forest, chosen: Ints) -> bool:
    """Whether a choice keeps what a tree cannot promise by itself: `max_domains` and `side`."""
    return all(forest.used(level, chosen) <= most for level, most in problem.max_domains) and all(
        rule.at_least <= int(rule.members[chosen].sum()) <= (problem.count if rule.at_most is None else rule.at_most)
        for rule in problem.side
    )


def answer(
    problem: GangProblem, forest: Forest, chosen: Ints, *, method: str, floor: float | None, seconds: float
) -> GangSolution:
    """A choice as the answer of a search. `floor` None = proven best; else the bound proven before the limit."""
    worth = weigh(problem, forest, chosen)
    bound = worth.scalar if floor is None else min(floor, worth.scalar)
    termination = place.Termination.OPTIMAL if floor is None else place.Termination.LIMIT
    gap = (worth.scalar - bound) / max(abs(worth.scalar), 1e-9)
    order = np.lexsort((chosen, *(forest.domain[level][chosen] for level in range(problem.levels))))
    return GangSolution(
        solve=place.SolveResult(method, termination, worth.scalar, bound, gap, seconds),
        chosen=tuple(chosen[order].tolist()),
        key=worth.key,
        busbw=worth.busbw or None,
        common_level=worth.common_level,
        domains_used=worth.domains_used,
    )


def nothing(method: str, termination: place.Termination, seconds: float, bound: float | None = None) -> GangSolution:
    """The answer of a search that chose no nodes: INFEASIBLE, or LIMIT with what was proven."""
    return GangSolution(solve=place.SolveResult(method, termination, bound=bound, seconds=seconds))


class Deadline:
    """The caller's limit on a search, by the caller's clock."""

    def __init__(self, limits: place.SolveLimits) -> None:
        self._limits = limits
        self._begin = limits.clock()

    @property
    def passed(self) -> bool:
        """Whether the time is over; without a limit never, and the clock is not read."""
        return self._limits.seconds is not None and self.seconds >= self._limits.seconds

    @property
    def seconds(self) -> float:
        """Time since the search began."""
        return self._limits.clock() - self._begin

    @property
    def rest(self) -> place.SolveLimits:
        """The limits that a step which begins now has."""
        if self._limits.seconds is None:
            return self._limits
        left = max(0.0, self._limits.seconds - self.seconds)
        return place.SolveLimits(left, self._limits.gap, self._limits.clock)
