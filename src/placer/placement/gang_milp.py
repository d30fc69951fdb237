"""One job over many nodes as a MILP (symbols of `gang_problem`): for constraints that cross the tree of domains.

Nodes that are alike are one class, never single binaries. For a wanted speed t, class c holds n_c nodes with the same
domains, the same highest level H_c with v_i(H_c) >= t, and the same memberships; none is made for nodes too slow at
every level. M_c ⊆ {side constraints} are its memberships.

    x_c ∈ {0..n_c}      nodes taken of class c; x_c = n_c where they are forced
    y_ld ∈ {0, 1}       domain d of level l is used
    m_h ∈ {0, 1}        all chosen nodes meet at level h, h = 0..highest
    z_cs ∈ [0, n_cs]    nodes taken of class c with the s-th least damage, n_cs of them (only when damage is minimised)

    (size)      Σ_c x_c = K
    (touch)     Σ_{c in d} x_c <= min(K, Σ_{c in d} n_c) y_ld                    every l, d
    (meet)      Σ_h m_h = 1;   Σ_d y_hd <= 1 + (|D_h| - 1) (1 - m_h)             h < L
    (speed)     x_c <= n_c Σ_{h <= H_c} m_h                                      where H_c < highest
    (required)  Σ_d y_rd <= 1
    (most)      Σ_d y_ld <= most                                                 every (l, most) of max_domains
    (side)      at_least <= Σ_{c: q ∈ M_c} x_c <= at_most                        every side constraint q
    (damage)    x_c = Σ_s z_cs                    the cost of z_cs rises with s, so cheap nodes go first by themselves

Solved one after the other, each result a row of the next: min Σ_d y_pd; the greatest t for which the model has a point
(bisection over the values v_i(h), from above at the relaxed tree's answer); min Σ_l 4^l Σ_d y_ld; min Σ d_cs z_cs.
Inside a class the nodes of least damage, then of natural order, are taken.
"""

from __future__ import annotations

import msgspec
import numpy as np

from placer.placement import gang_problem as gang
from placer.placement import gang_tree, milp
from placer.placement import types as place

METHOD = "milp"


class _OutOfTimeError(Exception):
    """The time was over before a step had proven what the next one needs."""


class _Classes(msgspec.Struct, frozen=True, eq=False):
    """Nodes alike at one t: `members[c]` by (damage, natural order), `reach[c]` = H_c."""

    members: list[gang.Ints]
    reach: list[int]


class _Model(msgspec.Struct, frozen=True, eq=False):
    """The model under construction, and where its variables are."""

    milp: milp.Model
    classes: _Classes
    x: list[int]
    y: list[dict[int, int]]  # per level: domain -> variable


def solve(problem: gang.GangProblem, limits: place.SolveLimits = milp.NO_LIMITS) -> gang.GangSolution:
    """The best choice under all constraints; the domains need not be nested."""
    return search(problem, gang.Forest(problem), gang.Deadline(limits))


def search(
    problem: gang.GangProblem,
    forest: gang.Forest,
    deadline: gang.Deadline,
    relaxed: gang.GangSolution | None = None,
) -> gang.GangSolution:
    """`solve` for a forest that is built already; `relaxed` = a proven answer without what crosses the tree, if any."""
    if problem.nodes < problem.count:
        return gang.nothing(METHOD, place.Termination.INFEASIBLE, deadline.seconds)
    steps = _Steps(problem, forest, deadline)
    try:
        chosen = steps.run(relaxed)
    except _OutOfTimeError:
        chosen = steps.best
        floor = gang_tree.floor_of_all(problem, forest)
        if chosen is None:
            return gang.nothing(METHOD, place.Termination.LIMIT, deadline.seconds, floor)
        return gang.answer(problem, forest, chosen, method=METHOD, floor=floor, seconds=deadline.seconds)
    if chosen is None:
        return gang.nothing(METHOD, place.Termination.INFEASIBLE, deadline.seconds)
    return gang.answer(problem, forest, chosen, method=METHOD, floor=None, seconds=deadline.seconds)


class _Steps:
    """The successive solves; `best` is the best choice that any of them has found."""

    def __init__(self, problem: gang.GangProblem, forest: gang.Forest, deadline: gang.Deadline) -> None:
        self.problem, self.forest, self.deadline = problem, forest, deadline
        self.values = [problem.values(height) for height in range(problem.highest + 1)]
        self.best: gang.Ints | None = None

    def run(self, relaxed: gang.GangSolution | None) -> gang.Ints | None:
        """The proven best choice, None when there is none. Raises _OutOfTimeError."""
        model = self._model(0.0)
        if self.problem.preferred is not None:
            model.milp.minimise((y, 1.0) for y in model.y[self.problem.preferred].values())
        if not self._solve(model):
            return None
        unmet = self._worth().key[0]
        model = self._fastest(unmet, relaxed)
        spread_terms = [(y, float(gang.SPREAD_BASE**le)) for le, level in enumerate(model.y) for y in level.values()]
        model.milp.minimise(spread_terms)
        self._solve(model)
        model.milp.row(spread_terms, high=self._worth().key[2])
        _add_damage(self.problem, model)
        self._solve(model)
        return self.best

    def _worth(self) -> gang.Worth:
        if self.best is None:
            raise _OutOfTimeError
        return gang.weigh(self.problem, self.forest, self.best)

    def _fastest(self, unmet: float, relaxed: gang.GangSolution | None) -> _Model:
        """The model of the greatest speed that leaves `unmet`, ready for the next objective."""
        steps = np.unique(np.concatenate(self.values))
        low = int(np.searchsorted(steps, self._worth().busbw))
        high = len(steps) - 1
        if relaxed is not None and relaxed.solve.termination is place.Termination.OPTIMAL and relaxed.key[0] == unmet:
            high = max(low, int(np.searchsorted(steps, relaxed.busbw or 0.0)))
        middle = high  # the relaxed answer's speed is the likeliest
        while low < high:
            if self._solve(self._model(float(steps[middle]), unmet)):
                low = max(middle, int(np.searchsorted(steps, self._worth().busbw)))
            else:
                high = middle - 1
            middle = (low + high + 1) // 2
        return self._model(float(steps[low]), unmet)

    def _model(self, threshold: float, unmet: float | None = None) -> _Model:
        model = _build(self.problem, self.forest, _classes(self.problem, self.forest, self.values, threshold))
        if unmet is not None and self.problem.preferred is not None:
            model.milp.row(((y, 1.0) for y in model.y[self.problem.preferred].values()), high=unmet + 1)
        return model

    def _solve(self, model: _Model) -> bool:
        """Whether the model has a point; its proven optimum becomes `best`. Raises _OutOfTimeError."""
        answer = milp.solve(model.milp, self.deadline.rest)
        if answer.values:
            chosen = _chosen(self.problem, model, answer.values)
            if self.best is None or gang.weigh(self.problem, self.forest, chosen).key < self._worth().key:
                self.best = chosen
        if answer.termination is place.Termination.LIMIT:
            raise _OutOfTimeError
        return bool(answer.values)


def _classes(problem: gang.GangProblem, forest: gang.Forest, values: list[gang.Floats], threshold: float) -> _Classes:
    """The classes at t. A forced node that is too slow has one, too: its row (speed) says that there is no choice."""
    fast = np.array([column >= threshold for column in values])
    reach = np.where(fast.any(axis=0), len(values) - 1 - np.argmax(fast[::-1], axis=0), -1)
    nodes = np.flatnonzero((reach >= 0) | problem.forced)
    traits = np.array([*forest.domain[:-1], reach, problem.forced, *(rule.members for rule in problem.side)])
    _, number = np.unique(traits[:, nodes], axis=1, return_inverse=True)
    order = np.lexsort((problem.damage[nodes], number.ravel()))
    ends = np.flatnonzero(np.diff(number.ravel()[order])) + 1
    members = [group for group in np.split(nodes[order], ends) if len(group)]
    return _Classes(members, [int(reach[group[0]]) for group in members])


def _build(problem: gang.GangProblem, forest: gang.Forest, classes: _Classes) -> _Model:
    """All rows of the module's docstring but (damage)."""
    model = milp.Model()
    lead = np.array([group[0] for group in classes.members], dtype=np.int64)
    sizes = [len(group) for group in classes.members]
    x = [
        model.variable(n if problem.forced[i] else 0, n, integer=True)
        for i, n in zip(lead.tolist(), sizes, strict=True)
    ]
    model.row(((x_c, 1.0) for x_c in x), low=problem.count, high=problem.count)
    y = [_touch(problem, model, forest.domain[level][lead], x, sizes) for level in range(problem.levels)]
    meet = [model.variable(upper=1, integer=True) for _ in range(problem.highest + 1)]
    model.row(((m_h, 1.0) for m_h in meet), low=1, high=1)
    for y_h, m_h in zip(y, meet, strict=False):
        model.row([*((y_hd, 1.0) for y_hd in y_h.values()), (m_h, len(y_h) - 1.0)], high=len(y_h))
    for x_c, n_c, reach in zip(x, sizes, classes.reach, strict=True):
        if reach < problem.highest:
            model.row([(x_c, 1.0), *((m_h, -float(n_c)) for m_h in meet[: reach + 1])], high=0)
    limits = problem.max_domains if problem.required is None else (*problem.max_domains, (problem.required, 1))
    for level, most in limits:
        model.row(((y_ld, 1.0) for y_ld in y[level].values()), high=most)
    for rule in problem.side:
        inside = [(x_c, 1.0) for x_c, i in zip(x, lead.tolist(), strict=True) if rule.members[i]]
        model.row(inside, low=rule.at_least, high=problem.count if rule.at_most is None else rule.at_most)
    return _Model(model, classes, x, y)


def _touch(
    problem: gang.GangProblem, model: milp.Model, domain: gang.Ints, x: list[int], sizes: list[int]
) -> dict[int, int]:
    """The y of one level and its rows (touch)."""
    inside: dict[int, list[int]] = {}
    for c, d in enumerate(domain.tolist()):
        inside.setdefault(d, []).append(c)
    used = {}
    for d, parts in inside.items():
        used[d] = model.variable(upper=1, integer=True)
        room = min(problem.count, sum(sizes[c] for c in parts))
        model.row([*((x[c], 1.0) for c in parts), (used[d], -float(room))], high=0)
    return used


def _add_damage(problem: gang.GangProblem, model: _Model) -> None:
    """The rows (damage) and their objective."""
    terms = []
    for x_c, members in zip(model.x, model.classes.members, strict=True):
        damages, counts = np.unique(problem.damage[members], return_counts=True)
        z = [model.milp.variable(upper=int(n)) for n in counts]
        model.milp.row([(x_c, 1.0), *((z_cs, -1.0) for z_cs in z)], low=0, high=0)
        terms += list(zip(z, damages.astype(float).tolist(), strict=True))
    model.milp.minimise(terms)


def _chosen(problem: gang.GangProblem, model: _Model, values: tuple[float, ...]) -> gang.Ints:
    """The nodes of a point: of each class the first x_c."""
    return np.concatenate([m[: int(values[x_c])] for x_c, m in zip(model.x, model.classes.members, strict=True)])
