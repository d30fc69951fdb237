"""Several sets of nodes at once, exactly: a controller beside its workers, the components of a heterogeneous job.

Symbols beyond those of `gang_problem`: sets s = 1..m, each wants K_s nodes that fit it; S_s is its choice, the S_s are
disjoint, S = ∪ S_s, and K = Σ K_s. Each set rates a node for itself: b_is, c_is, d_is. With
v_is(h) = min(b_is, c_is / O_h), and v_is(h) = b_is when K = 1, the terms of the key are those of one job over all sets:

    ( used_p(S) - 1,  1 / B(S),  Σ_l 4^l used_l(S),  Σ_s Σ_{i∈S_s} d_is ),    B(S) = min_s min_{i∈S_s} v_is(h(S))

A set that exchanges nothing (one GPU in all, independent ranks) has b = c = inf and so never limits B.

1. Some domain D can hold all sets disjointly from eligible nodes E_s exactly when for every group T of sets (Hall)

       |∪_{s∈T} E_s ∩ D|  >=  Σ_{s∈T} K_s                                                    T ⊆ {1..m}, not empty

   so the greatest B is found by bisection over the values v_is(h), as for one job.
2. Among the choices with that B, a knapsack over the tree whose state is how many nodes of each set were taken:

       F_g(k_1..k_m) = least cost of a group g of nodes that gives k_s nodes to each set s

   built node by node inside the closest domains and by min-plus convolution above; all terms are packed into one
   integer as in `gang_tree`. Inside a closest domain only the K nodes of least d_is of each set can be needed: with a
   worse one, one of those K is left over and costs less.

The state has Π (K_s + 1) cells. Where that is more than `MOST_CELLS`, the sets are placed one after the other, and the
answer is called FEASIBLE.
"""

from __future__ import annotations

import itertools
import math

import msgspec
import numpy as np
import numpy.typing as npt

from placer import errors
from placer.placement import gang_problem as gang
from placer.placement import gang_tree, milp, pod_sets_tables
from placer.placement import types as place

METHOD = "tree search over sets"
MOST_CELLS = 4096
"""Cells of the state; two sets of 60 nodes, or four of 7."""


class SetsProblem(msgspec.Struct, frozen=True, kw_only=True, eq=False):
    """m sets over n nodes in natural name order; the other fields are those of `GangProblem`.

    counts     K_s, each at least 1
    fits       bool [m, n]: the node can take part in the set
    bandwidth  float [m, n], nic float [m, n], damage int [m, n]: as the set rates the node
    forced     bool [m, n]: the node must be chosen for that set
    """

    counts: tuple[int, ...]
    domain_of: npt.NDArray[np.integer]
    fits: gang.Mask
    bandwidth: gang.Floats
    nic: gang.Floats
    damage: gang.Ints
    forced: gang.Mask
    required: int | None = None
    preferred: int | None = None
    oversubscription: tuple[float, ...] = ()
    spans_roots: bool = False

    def __post_init__(self) -> None:
        wanted = (len(self.counts), int(self.domain_of.shape[1]))
        if any(a.shape != wanted for a in (self.fits, self.bandwidth, self.nic, self.damage, self.forced)):
            raise errors.RequestError("the columns of a placement question differ in length")
        if not self.counts or min(self.counts) < 1:
            raise errors.RequestError("every set of nodes needs at least one node")

    @property
    def whole(self) -> gang.GangProblem:
        """All sets as one job: its tree, levels and limits. What rates a node is left out."""
        n = int(self.domain_of.shape[1])
        return gang.GangProblem(
            count=sum(self.counts),
            domain_of=self.domain_of,
            bandwidth=np.full(n, np.inf),
            nic=np.full(n, np.inf),
            damage=np.zeros(n, dtype=np.int64),
            forced=np.asarray(self.forced.any(axis=0)),
            required=self.required,
            preferred=self.preferred,
            oversubscription=self.oversubscription,
            spans_roots=self.spans_roots,
        )

    def values(self, whole: gang.GangProblem, height: int) -> gang.Floats:
        """v_is(h), float [m, n]; -inf where the node does not fit the set."""
        values = np.nan_to_num(self.bandwidth, nan=0.0, posinf=np.inf)
        if whole.count > 1:
            nic = np.nan_to_num(self.nic, nan=np.inf, posinf=np.inf)
            values = np.minimum(values, nic / whole.crossing(height))
        return np.where(self.fits, values, -np.inf)


class SetsSolution(msgspec.Struct, frozen=True, kw_only=True):
    """`chosen[s]` are the nodes of set s in rank order; () when nothing fits or no answer came in time.

    The other fields are those of `GangSolution`, for all sets together.
    """

    solve: place.SolveResult
    chosen: tuple[tuple[int, ...], ...] = ()
    key: tuple[float, ...] = ()
    busbw: float | None = None
    common_level: int | None = None
    domains_used: tuple[int, ...] = ()


def solve(problem: SetsProblem, limits: place.SolveLimits = milp.NO_LIMITS) -> SetsSolution:
    """The best choice of nodes for all sets. Raises RequestError where the domains do not nest."""
    search = _Search(problem, gang.Deadline(limits))
    if not search.forest.nested:
        raise errors.RequestError(
            "several sets of nodes can only be placed where the levels of the fabric nest", hint="placer topo fabric"
        )
    return search.run()


def weigh(
    problem: SetsProblem, whole: gang.GangProblem, forest: gang.Forest, chosen: tuple[gang.Ints, ...]
) -> gang.Worth:
    """The key of a choice, by the definitions above."""
    everyone = np.concatenate(chosen)
    worth = gang.weigh(whole, forest, everyone)
    values = problem.values(whole, worth.common_level)
    busbw = min(float(values[s][nodes].min()) for s, nodes in enumerate(chosen))
    damage = sum(int(problem.damage[s][nodes].sum()) for s, nodes in enumerate(chosen))
    slowness = math.inf if busbw == 0.0 else 1.0 / busbw
    return gang.Worth(
        (worth.key[0], slowness, worth.key[2], float(damage)), busbw, worth.common_level, worth.domains_used
    )


class _Meeting(msgspec.Struct, frozen=True, eq=False):
    """Choices that meet in one domain of level `height`; `homes` are the domains there that can hold them."""

    height: int
    eligible: gang.Mask  # bool [m, n]
    homes: gang.Ints
    unmet: int


class _Search:
    """One question while it is answered."""

    def __init__(self, problem: SetsProblem, deadline: gang.Deadline) -> None:
        self.problem, self.deadline = problem, deadline
        self.whole = problem.whole
        self.forest = gang.Forest(self.whole)
        self.best: tuple[gang.Key, tuple[gang.Ints, ...]] | None = None

    def run(self) -> SetsSolution:
        values = [self.problem.values(self.whole, height) for height in range(self.whole.highest + 1)]
        if math.prod(count + 1 for count in self.problem.counts) > MOST_CELLS:
            return self._one_after_the_other(values)
        try:
            for meeting in self._fastest(values):
                self._try(meeting)
            proven = True
        except pod_sets_tables.LateError:
            proven = False
        return self._answer(proven=proven)

    def _fastest(self, values: list[gang.Floats]) -> list[_Meeting]:
        """Where choices with the fewest preferred domains and the greatest B can meet; highest first, distinct."""
        found = self._meetings(values, -np.inf)
        if not found:
            return []
        if self.problem.preferred is None:
            self._try(min(found, key=lambda meeting: meeting.height))  # an answer for a limit that strikes later
        unmet = min(meeting.unmet for meeting in found)
        steps = np.unique(np.concatenate([column[np.isfinite(column) | (column == np.inf)] for column in values]))
        low, high = 0, len(steps) - 1
        while low < high:
            middle = (low + high + 1) // 2
            better = self._meetings(values, float(steps[middle]))
            if better and min(meeting.unmet for meeting in better) == unmet:
                low, found = middle, better
            else:
                high = middle - 1
        found = sorted((m for m in found if m.unmet == unmet), key=lambda m: -m.height)
        return [m for i, m in enumerate(found) if not any(np.array_equal(m.eligible, o.eligible) for o in found[:i])]

    def _meetings(self, values: list[gang.Floats], threshold: float) -> list[_Meeting]:
        found = []
        for height, column in enumerate(values):
            eligible = self.problem.fits & (column >= threshold)
            homes = self._homes(height, eligible)
            if len(homes):
                meeting = _Meeting(height, eligible, homes, 0)
                preferred = self.problem.preferred
                if preferred is not None and preferred < height:
                    unmet = gang.weigh(self.whole, self.forest, np.concatenate(self._try(meeting))).key[0]
                    meeting = msgspec.structs.replace(meeting, unmet=int(unmet))
                found.append(meeting)
        return found

    def _homes(self, height: int, eligible: gang.Mask) -> gang.Ints:
        """The domains of a level in which all sets find room, by Hall's condition; forced nodes are taken first."""
        forced, around = self.problem.forced, self.forest.domain[height]
        inside = np.ones(len(self.forest.first[height]), dtype=np.bool_)
        taken = forced.any(axis=0)
        if taken.any():
            if (forced & ~eligible).any() or (forced.sum(axis=0) > 1).any():
                return np.zeros(0, dtype=np.int64)
            inside[:] = False
            if len(np.unique(around[taken])) == 1:
                inside[around[taken][0]] = True
        left = np.array(self.problem.counts) - forced.sum(axis=1)
        inside &= bool((left >= 0).all())
        for size in range(1, len(left) + 1):
            for group in itertools.combinations(range(len(left)), size):
                members = eligible[list(group)].any(axis=0) & ~taken
                inside &= np.bincount(around[members], minlength=len(inside)) >= left[list(group)].sum()
        return np.flatnonzero(inside)

    def _try(self, meeting: _Meeting) -> tuple[gang.Ints, ...]:
        """The cheapest choice of a meeting, kept if it is the best so far."""
        if self.deadline.passed:
            raise pod_sets_tables.LateError
        around = self.forest.domain[meeting.height]
        nodes = np.flatnonzero(meeting.eligible.any(axis=0) & np.isin(around, meeting.homes))
        groups = [self.forest.domain[level][nodes] for level in range(meeting.height + 1)]
        damage = self.problem.damage[:, nodes]
        chosen = pod_sets_tables.cheapest(
            groups,
            np.where(meeting.eligible[:, nodes], damage, -1),
            self.problem.forced[:, nodes],
            self._weights(groups, damage),
            self.problem.counts,
            lambda: self.deadline.passed,
        )
        picked = tuple(nodes[list(part)] for part in chosen)
        key = weigh(self.problem, self.whole, self.forest, picked).key
        if self.best is None or key < self.best[0]:
            self.best = (key, picked)
        return picked

    def _weights(self, groups: list[gang.Ints], damage: gang.Ints) -> list[int]:
        """What touching a domain of each level costs, in the packed unit of `gang_tree`."""
        damages = 1 + self.whole.count * int(damage.max())
        levels = self.whole.levels
        base = [gang.SPREAD_BASE**level if level < levels else 0 for level in range(len(groups))]
        touched = [min(self.whole.count, len(np.unique(group))) for group in groups]
        spreads = 1 + sum(w * n for w, n in zip(base, touched, strict=True))
        return [(w + spreads * (level == self.problem.preferred)) * damages for level, w in enumerate(base)]

    def _answer(self, *, proven: bool, termination: place.Termination | None = None) -> SetsSolution:
        seconds = self.deadline.seconds
        if self.best is None:
            ended = place.Termination.INFEASIBLE if proven else place.Termination.LIMIT
            return SetsSolution(solve=place.SolveResult(METHOD, termination or ended, seconds=seconds))
        key, chosen = self.best
        worth = weigh(self.problem, self.whole, self.forest, chosen)
        bound = worth.scalar if proven else min(self._floor(), worth.scalar)
        ended = termination or (place.Termination.OPTIMAL if proven else place.Termination.LIMIT)
        gap = (worth.scalar - bound) / max(abs(worth.scalar), 1e-9)
        return SetsSolution(
            solve=place.SolveResult(METHOD, ended, worth.scalar, bound, gap, seconds),
            chosen=tuple(self._in_rank_order(nodes) for nodes in chosen),
            key=key,
            busbw=worth.busbw or None,
            common_level=worth.common_level,
            domains_used=worth.domains_used,
        )

    def _one_after_the_other(self, values: list[gang.Floats]) -> SetsSolution:
        """A good choice where the state is too large: the set with the fewest nodes first, each exactly by itself.

        Where the sets' nodes are nested, as those of smaller and larger demands are, Hall's condition makes sure that
        the later ones find room.
        """
        for height, column in enumerate(values):
            eligible = self.problem.fits & (column > -np.inf)
            for home in self._homes(height, eligible):
                chosen = self._each(eligible & (self.forest.domain[height] == home))
                if chosen is not None:
                    self.best = (weigh(self.problem, self.whole, self.forest, chosen).key, chosen)
                    return self._answer(proven=False, termination=place.Termination.FEASIBLE)
        return self._answer(proven=not any(len(self._homes(h, self.problem.fits)) for h in range(len(values))))

    def _each(self, eligible: gang.Mask) -> tuple[gang.Ints, ...] | None:
        problem = self.problem
        chosen: dict[int, gang.Ints] = {}
        free: gang.Mask = ~np.any(problem.forced, axis=0)
        for s in sorted(range(len(problem.counts)), key=lambda s: (int(eligible[s].sum()), s)):
            nodes = np.flatnonzero(eligible[s] & (free | problem.forced[s]))
            one = msgspec.structs.replace(
                self.whole,
                count=problem.counts[s],
                domain_of=problem.domain_of[:, nodes],
                bandwidth=problem.bandwidth[s][nodes],
                nic=problem.nic[s][nodes],
                damage=problem.damage[s][nodes],
                forced=problem.forced[s][nodes],
            )
            answer = gang_tree.solve(one, self.deadline.rest)
            if not answer.chosen:
                return None
            chosen[s] = nodes[answer.indices]
            free[chosen[s]] = False
        return tuple(chosen[s] for s in range(len(problem.counts)))

    def _in_rank_order(self, nodes: gang.Ints) -> tuple[int, ...]:
        order = np.lexsort((nodes, *(self.forest.domain[level][nodes] for level in range(self.whole.levels))))
        return tuple(nodes[order].tolist())

    def _floor(self) -> float:
        """No choice has a smaller objective: one domain of each level, for each set its least damages."""
        spread = sum(gang.SPREAD_BASE**level for level in range(self.whole.levels))
        rows = zip(self.problem.damage, self.problem.fits, self.problem.counts, strict=True)
        return gang.scalar(spread, sum(int(np.sort(row[fits])[:count].sum()) for row, fits, count in rows))
