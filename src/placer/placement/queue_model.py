"""The queue as a MILP over node classes (symbols of `queue_problem`; classes c of `queue_classes`).

Sets: groups t of n_t jobs with the same modes, value and tier; homes h of a mode m: the whole cluster, or each domain
of level l_m that could hold it; cells e of a class: its nodes in one domain of every level at which jobs are bound,
for those jobs, and all of them for the others. C(m, h) are the cells that home h has; n_c and n_e count nodes.

    s_tm ∈ [0, n_t]      jobs of group t that start in mode m (whole where a group has several modes)
    u_mh ∈ {0, 1, …}     jobs that start in mode m in home h
    y_mhpe ∈ {0, 1, …}   nodes of cell e that give piece p to them; = k_p u_mh where C(m, h) is a single cell
    z_cπ ∈ {0, 1, …}     nodes of class c that are filled by pattern π (patterns only)
    d_mhd ∈ {0, 1}       domain d is used (modes with `most`; such modes, like all that are not simple, have one job)

    max Σ_tm (v_t + ε bonus_m) s_tm     for one tier; those before it keep what they have

    (once)      Σ_m s_tm <= n_t                                                 every t
    (start)     Σ_{t ∋ m} s_tm = Σ_h u_mh                                       every m
    (pieces)    Σ_{e ∈ C(m,h)} y_mhpe = k_p u_mh                                every m, h, p
    (apart)     Σ_p y_mhpe <= min(k_m, nodes of e that fit) u_mh                every m, h, e with k_m > 1
    (nested)    Σ_{q: s_q >= s} (s_q/s) Y_qc + floor(f_c/s) W_c <= Σ_{i ∈ c} floor(f_i/s)    every size s
    (patterns)  Y_κc <= Σ_π π_κ z_cπ,   Σ_π z_cπ + W_c <= n_c                   every kind κ of piece
    (sums)      Σ_q need_qd Y_qc + min_i room_di W_c <= Σ_{i ∈ c} room_di       every d, and (nested) with floor(s_q/s)
    (cell)      Σ_{bound} Y_qe + floor(f_c/s) W_e <= Σ_{i ∈ e} floor(f_i/s),  W_e <= n_e     s the largest size
    (domains)   Σ_p y_mhpe <= k_m d_mhd,  Σ_d d_mhd <= most u_mh
    (forced)    Σ_{p, e ⊆ forced} y_mhpe = (forced nodes) u_mh
    (at least)  Σ_{p, e ⊆ group} y_mhpe >= least u_mh

Y sums the y of a class or cell over all modes, homes and parts that share a node, W those that take one whole.
"""

from __future__ import annotations

import copy
from collections.abc import Iterable, Sequence

import msgspec
import numpy as np

from placer.placement import milp
from placer.placement import queue_classes as classes
from placer.placement import queue_problem as queue

Ints = queue.Ints
Term = tuple[int, float]


class Cell(msgspec.Struct, frozen=True, eq=False):
    """Nodes of one class, all of them or those in one domain of each of its levels."""

    of: int  # number of the class
    nodes: Ints
    domain: tuple[tuple[int, int], ...] = ()  # (level, domain)
    part: bool = False  # some of the class, for jobs that are bound to domains; the others see the class


class Home(msgspec.Struct, frozen=True, eq=False):
    """u_mh, and for each part p and cell e the y_mhpe as a term."""

    mode: int
    jobs: int  # u_mh
    parts: tuple[tuple[tuple[int, Term], ...], ...]  # [p] (cell, y)


class Group(msgspec.Struct, frozen=True):
    """Jobs that nothing tells apart, in their order, and s_tm for each of their modes."""

    jobs: tuple[int, ...]
    starts: tuple[tuple[int, int], ...]  # (mode, variable)


class Model(msgspec.Struct, frozen=True, eq=False):
    """The model under construction, and where its variables are."""

    milp: milp.Model
    classes: tuple[classes.NodeClass, ...]
    cells: tuple[Cell, ...]
    groups: tuple[Group, ...]
    homes: tuple[Home, ...]
    patterns: tuple[tuple[int, ...], ...]  # [class] z_cπ


def build(problem: queue.Problem, found: list[classes.NodeClass]) -> Model:
    """All rows of the module's docstring; the objective is `aim`'s."""
    model = milp.Model()
    groups = _groups(problem, model)
    cells = _cells(problem, found)
    homes = _Starts(problem, model, groups, found, cells).homes()
    patterns = _room(problem, model, found, cells, homes)
    return Model(model, tuple(found), tuple(cells), tuple(groups), tuple(homes), patterns)


def aim(problem: queue.Problem, model: Model, tier: int) -> list[Term]:
    """Set the objective of one tier; gives Σ v_t s_tm of it."""
    values, bonuses = [], []
    least = min((job.value for job in problem.jobs if job.value > 0), default=1.0)
    epsilon = queue.BONUS_SHARE * least / max(1, len(problem.jobs))
    for group in model.groups:
        job = problem.jobs[group.jobs[0]]
        if job.tier == tier:
            values += [(s, job.value) for _, s in group.starts]
            bonuses += [(s, epsilon) for mode, s in group.starts if problem.modes[mode].bonus]
    model.milp.minimise((s, -value) for s, value in (*values, *bonuses))
    return values


def relaxed(model: Model) -> milp.Model:
    """The same without whole numbers; its least value bounds that of the model."""
    linear = copy.copy(model.milp)
    linear.integer = [False] * len(linear.lower)
    return linear


CORE = 16
"""Groups on each side of the last one that starts in the relaxation of a mode; the others are as it says."""


def core(problem: queue.Problem, model: Model, linear: Sequence[float]) -> milp.Model | None:
    """The model in which only groups near the edge of its relaxation are open; None when that leaves most of it.

    Its answers are answers of the model. Jobs of one mode start in the order of their values, so that a group far
    before the edge starts in nearly every good answer and one far behind it in none.
    """
    of_mode: dict[int, list[Group]] = {}
    for group in model.groups:
        if len(group.starts) == 1:
            of_mode.setdefault(group.starts[0][0], []).append(group)
    fixed = copy.copy(model.milp)
    fixed.lower, fixed.upper = list(fixed.lower), list(fixed.upper)
    closed = 0
    for groups in of_mode.values():
        jobs = problem.jobs
        groups.sort(key=lambda g: (jobs[g.jobs[0]].tier, -jobs[g.jobs[0]].value, g.jobs))
        full = [linear[g.starts[0][1]] > len(g.jobs) - 0.5 for g in groups]
        edge = full.index(False) if False in full else len(full)
        for at, group in enumerate(groups):
            s = group.starts[0][1]
            if at < edge - CORE:
                fixed.lower[s] = fixed.upper[s]
            elif at > edge + CORE:
                fixed.upper[s] = 0.0
            closed += abs(at - edge) > CORE
    return fixed if 2 * closed > len(model.groups) else None


def _groups(problem: queue.Problem, model: milp.Model) -> list[Group]:
    alike: dict[tuple[tuple[int, ...], float, int], list[int]] = {}
    for number, job in enumerate(problem.jobs):
        alike.setdefault((job.modes, job.value, job.tier), []).append(number)
    groups = []
    for (modes, _, _), jobs in alike.items():
        several = len(modes) > 1
        starts = tuple((mode, model.variable(upper=len(jobs), integer=several)) for mode in modes)
        if several:
            model.row(((s, 1.0) for _, s in starts), high=len(jobs))
        groups.append(Group(tuple(jobs), starts))
    return groups


def _cells(problem: queue.Problem, found: list[classes.NodeClass]) -> list[Cell]:
    """Of each class the cell of all its nodes, then, where they lie in several domains, those of the domains."""
    cells = []
    for number, c in enumerate(found):
        domains = problem.nodes.domain_of[list(c.levels)][:, c.nodes]
        parts = classes.groups(domains, np.arange(len(c.nodes))) if c.levels else [np.arange(len(c.nodes))]
        if len(parts) > 1:
            cells.append(Cell(number, c.nodes))
        for rows in parts:
            place = tuple((level, int(d)) for level, d in zip(c.levels, domains[:, rows[0]], strict=True))
            cells.append(Cell(number, c.nodes[rows], place, len(parts) > 1))
    return cells


class _Starts:
    """The homes of all modes with their rows (start), (pieces), (apart), (domains), (forced), (at least)."""

    def __init__(
        self,
        problem: queue.Problem,
        model: milp.Model,
        groups: list[Group],
        found: list[classes.NodeClass],
        cells: list[Cell],
    ) -> None:
        self.problem, self.model, self.cells = problem, model, cells
        self.starts: dict[int, list[int]] = {}
        self.jobs: dict[int, int] = {}
        for group in groups:
            for mode, s in group.starts:
                self.starts.setdefault(mode, []).append(s)
                self.jobs[mode] = self.jobs.get(mode, 0) + len(group.jobs)
        self.users = [{q for kind in c.kinds for q in kind} | set(c.wholes) for c in found]
        self.apart = {e for e, cell in enumerate(cells) if cell.part}
        self.together = {e - 1 for e in self.apart} - self.apart
        self._room: dict[int, dict[int, int]] = {}

    def homes(self) -> list[Home]:
        """Mode by mode."""
        return [home for mode in sorted(self.starts) for home in self._mode(mode)]

    def _mode(self, number: int) -> list[Home]:
        mode = self.problem.modes[number]
        unused = self.apart if queue.bound_at(mode) is None else self.together
        room = [{e: n for e, n in self._fitting(q).items() if e not in unused} for _, q in mode.parts]
        homes = []
        for inside in _homes(mode, self.cells, room):
            rooms = [{e: r[e] for e in inside if e in r} for r in room]
            if all(sum(r.values()) >= count for r, (count, _) in zip(rooms, mode.parts, strict=True)):
                homes.append(_home(self.problem, self.model, number, self.jobs[number], rooms, self.cells))
        s = [(v, 1.0) for v in self.starts[number]]
        self.model.row([*s, *((home.jobs, -1.0) for home in homes)], low=0, high=0)
        return homes

    def _fitting(self, piece: int) -> dict[int, int]:
        """For each cell the number of its nodes on which a piece fits, where there are any."""
        if piece not in self._room:
            fits = self.problem.fits[piece]
            here = (
                (e, int(fits[cell.nodes].sum())) for e, cell in enumerate(self.cells) if piece in self.users[cell.of]
            )
            self._room[piece] = {e: nodes for e, nodes in here if nodes}
        return self._room[piece]


def _homes(mode: queue.Mode, cells: list[Cell], room: list[dict[int, int]]) -> Iterable[list[int]]:
    """The cells of each home."""
    everywhere = sorted({e for r in room for e in r})
    if mode.level is None:
        yield everywhere
        return
    inside: dict[int, list[int]] = {}
    for e in everywhere:
        inside.setdefault(dict(cells[e].domain)[mode.level], []).append(e)
    for domain in sorted(inside):
        yield inside[domain]


def _home(
    problem: queue.Problem, model: milp.Model, number: int, jobs: int, rooms: list[dict[int, int]], cells: list[Cell]
) -> Home:
    mode = problem.modes[number]
    u = model.variable(upper=jobs, integer=True)
    parts: list[tuple[tuple[int, Term], ...]] = []
    at: dict[int, list[Term]] = {}
    for (count, _), room in zip(mode.parts, rooms, strict=True):
        if len(room) == 1:
            y = [(e, (u, float(count))) for e in room]
        else:
            most = {e: n * jobs if count > 1 else None for e, n in room.items()}
            y = [(e, (model.variable(upper=most[e] or float("inf"), integer=True), 1.0)) for e in room]
            model.row([*(term for _, term in y), (u, -float(count))], low=0, high=0)
        parts.append(tuple(y))
        for e, term in y:
            at.setdefault(e, []).append(term)
    if mode.nodes > 1:
        for e, terms in at.items():
            fit = len(cells[e].nodes) if len(mode.parts) > 1 else rooms[0][e]
            model.row([*terms, (u, -float(min(mode.nodes, fit)))], high=0)
    _together(problem, model, mode, u, at, cells)
    return Home(number, u, tuple(parts))


def _together(
    problem: queue.Problem, model: milp.Model, mode: queue.Mode, u: int, at: dict[int, list[Term]], cells: list[Cell]
) -> None:
    """What a mode says of all its nodes: (domains), (forced), (at least)."""

    def among(group: int) -> list[Term]:
        return [term for e, terms in at.items() if problem.allowed[group][cells[e].nodes[0]] for term in terms]

    if mode.forced is not None:
        many = float(problem.allowed[mode.forced].sum())
        model.row([*among(mode.forced), (u, -many)], low=0, high=0)
    for group, least in mode.at_least:
        model.row([*among(group), (u, -float(least))], low=0)
    if mode.most is not None:
        level, most = mode.most
        used: dict[int, int] = {}
        for e, terms in at.items():
            domain = dict(cells[e].domain)[level]
            used.setdefault(domain, model.variable(upper=1, integer=True))
            model.row([*terms, (used[domain], -float(mode.nodes))], high=0)
        model.row([*((d, 1.0) for d in used.values()), (u, -float(most))], high=0)


def _room(
    problem: queue.Problem, model: milp.Model, found: list[classes.NodeClass], cells: list[Cell], homes: list[Home]
) -> tuple[tuple[int, ...], ...]:
    """The rows (nested), (patterns), (sums), (cell); gives z."""
    taken: list[dict[int, list[Term]]] = [{} for _ in cells]  # per cell: piece -> its y
    bound: list[dict[int, list[Term]]] = [{} for _ in cells]  # those of modes that are bound to domains
    for home in homes:
        mode = problem.modes[home.mode]
        for (_, piece), y in zip(mode.parts, home.parts, strict=True):
            for e, term in y:
                taken[e].setdefault(piece, []).append(term)
                if queue.bound_at(mode) is not None:
                    bound[e].setdefault(piece, []).append(term)
    z: list[tuple[int, ...]] = []
    for number, c in enumerate(found):
        mine = [e for e, cell in enumerate(cells) if cell.of == number]
        merged: dict[int, list[Term]] = {}
        for e in mine:
            for piece, terms in taken[e].items():
                merged.setdefault(piece, []).extend(terms)
        z.append(_class_rows(problem, model, c, merged))
        for e in mine:
            if cells[e].part:
                _cell_rows(problem, model, c, cells[e], bound[e])
    return tuple(z)


def _class_rows(
    problem: queue.Problem, model: milp.Model, c: classes.NodeClass, taken: dict[int, list[Term]]
) -> tuple[int, ...]:
    whole = [term for q in c.wholes for term in taken.get(q, [])]
    kinds = [[term for q in kind for term in taken.get(q, [])] for kind in c.kinds]
    if whole:
        model.row(whole, high=len(c.nodes))
    if c.form == classes.PATTERNS:
        z = tuple(model.variable(upper=len(c.nodes), integer=True) for _ in c.patterns)
        for at, terms in enumerate(kinds):
            if terms:
                model.row([*terms, *((v, -float(p[at])) for v, p in zip(z, c.patterns, strict=True))], high=0)
        model.row([*whole, *((v, 1.0) for v in z)], high=len(c.nodes))
        return z
    sizes = [problem.pieces[kind[0]].gpus for kind in c.kinds]
    for s in sorted(set(sizes) - {0}):
        rows = [(v, f * (size // s)) for size, terms in zip(sizes, kinds, strict=True) if size >= s for v, f in terms]
        slots = c.slots(s)
        model.row([*rows, *((v, f * int(slots.min())) for v, f in whole)], high=int(slots.sum()))
    if c.form == classes.SUMS:
        for d in range(len(c.room)):
            rows = [
                (v, f * need)
                for kind, terms in zip(c.kinds, kinds, strict=True)
                if (need := int(problem.needs(problem.pieces[kind[0]], c.nodes[:1])[d, 0]))
                for v, f in terms
            ]
            model.row([*rows, *((v, f * int(c.room[d].min())) for v, f in whole)], high=int(c.room[d].sum()))
    return ()


def _cell_rows(
    problem: queue.Problem, model: milp.Model, c: classes.NodeClass, cell: Cell, bound: dict[int, list[Term]]
) -> None:
    whole = [term for q in c.wholes for term in bound.get(q, [])]
    if whole:
        model.row(whole, high=len(cell.nodes))
    largest = max((problem.pieces[kind[0]].gpus for kind in c.kinds), default=0)
    if largest:
        slots = c.slots(largest)[np.isin(c.nodes, cell.nodes)]
        rows = [term for kind in c.kinds for q in kind for term in bound.get(q, [])]
        model.row([*rows, *((v, f * int(slots.min())) for v, f in whole)], high=int(slots.sum()))
