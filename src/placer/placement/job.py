"""One job on one cluster: from a request's shape to the nodes, GPU sets and rank bindings, with proof.

Every node that can take its part (`eligible`) becomes a candidate with the bandwidth of its best free GPU set
(`gpuset`), the bound that its NICs set, and the damage that taking the set leaves behind (`leftover`). `gang` chooses
among the candidates; `affinity` binds the ranks.
"""

from __future__ import annotations

import functools
from collections.abc import Collection, Sequence

import msgspec
import numpy as np
import numpy.typing as npt

from placer import errors
from placer.cluster import capacity
from placer.cluster import types as cluster
from placer.placement import bandwidth, cost, eligible, features, fgd, fill, gang, gpuset, leftover, shapes
from placer.placement import gang_problem as problems
from placer.placement import types as plan
from placer.topology import index as topology_index
from placer.topology import links
from placer.topology import types as topo


class Site(msgspec.Struct, frozen=True, dict=True):
    """A snapshot made ready for searches: dense indices and GPU-set tables, built once and used for every question."""

    snapshot: cluster.ClusterSnapshot
    free: capacity.Capacity
    index: topology_index.TopologyIndex
    tables: tuple[gpuset.SetTable, ...]  # one for each distinct (wiring, GPU count)
    table_of: tuple[int, ...]  # per node of the snapshot
    oversubscription: tuple[float, ...]  # per level of the fabric

    def machine(self, position: int) -> topo.NodeTopology | None:
        """The wiring of a node of the snapshot; None = unknown."""
        return self.tables[self.table_of[position]].machine

    @functools.cached_property
    def table_numbers(self) -> npt.NDArray[np.int64]:
        """`table_of` as an array."""
        return np.array(self.table_of, dtype=np.int64)

    @functools.cached_property
    def domain_of(self) -> npt.NDArray[np.int32]:
        """int [L, nodes]: the domain of each node of the snapshot at each level, -1 = none."""
        return self.index.domain_of[:, self.index.rows([node.name for node in self.snapshot.nodes])]

    @functools.cached_property
    def mix(self) -> fgd.Mix:
        """What the cluster's own jobs ask for."""
        return leftover.mix(self.snapshot.jobs)

    @functools.cached_property
    def nic_bounds(self) -> dict[tuple[int, int], float | None]:
        """(table, mask of a GPU set) -> what its NICs carry, GB/s, as far as it was asked for."""
        return {}


class Question(msgspec.Struct, frozen=True):
    """What is asked of a site: one shape of one request, under one variant of its feature expression."""

    request: cluster.JobRequest
    shape: shapes.Shape
    variant: features.Variant = features.ANY
    avoid: frozenset[str] = frozenset()  # nodes that must not be used, for alternatives
    limits: plan.SolveLimits = plan.SolveLimits()


class Candidates(msgspec.Struct, frozen=True):
    """The nodes that can take their part, as arrays of equal length n."""

    positions: npt.NDArray[np.int64]  # into the snapshot's nodes
    masks: npt.NDArray[np.int64]  # free GPUs of the wanted type
    busbw: npt.NDArray[np.float64]  # nan = unknown, inf = not limiting
    nic: npt.NDArray[np.float64]  # nan = unknown
    damage: npt.NDArray[np.int64]  # thousandths of a GPU
    sure: npt.NDArray[np.bool_]  # False where nobody can say which GPUs are free
    fits: plan.Fits


def site(
    snapshot: cluster.ClusterSnapshot,
    *,
    workload: cluster.Workload = cluster.Workload.ALLREDUCE,
    oversubscription: Sequence[tuple[str, float]] = (),
    nic_gbits: float | None = None,
) -> Site:
    """Make a snapshot ready for jobs of one workload.

    `oversubscription` (by level name) and `nic_gbits` fill in what fabric and nodes do not tell.
    """
    machine_of = dict(zip(snapshot.topology.nodes, snapshot.topology.machine_of, strict=True))
    tables: list[gpuset.SetTable] = []
    known: dict[tuple[int, tuple[cluster.GpuSlot, ...]], int] = {}
    table_of: list[int] = []
    for node in snapshot.nodes:
        key = (machine_of.get(node.name, -1), node.gpus)
        if key not in known:
            known[key] = len(tables)
            machine = snapshot.topology.machines[key[0]] if key[0] >= 0 else None
            count = min(capacity.MASK_GPUS, max((gpu.index + 1 for gpu in node.gpus), default=0))
            tables.append(gpuset.SetTable(_typed(machine, node, nic_gbits), count, workload=workload))
        table_of.append(known[key])
    told = dict(oversubscription)
    ratios = tuple(level.oversubscription or told.get(level.name, 1.0) for level in snapshot.topology.fabric.levels)
    index = topology_index.build(snapshot.topology)
    return Site(snapshot, capacity.of(snapshot), index, tuple(tables), tuple(table_of), ratios)


def _typed(
    machine: topo.NodeTopology | None, node: cluster.NodeState, nic_gbits: float | None
) -> topo.NodeTopology | None:
    """Give the GPUs of a matrix the model that the scheduler knows, and its NICs a speed where nothing tells it."""
    if machine is None:
        return None
    types: dict[int | None, str | None] = {gpu.index: gpu.type for gpu in node.gpus}
    gpus = tuple(
        gpu if gpu.model is not None else msgspec.structs.replace(gpu, model=types.get(gpu.index))
        for gpu in machine.gpus
    )
    speed = nic_gbits if nic_gbits is not None else links.usual_nic_gbits([gpu.model for gpu in gpus])
    guessed = speed is not None and any(nic.speed_gbits is None for nic in machine.nics)
    nics = tuple(
        nic if nic.speed_gbits is not None else msgspec.structs.replace(nic, speed_gbits=speed) for nic in machine.nics
    )
    said = "by the configuration" if nic_gbits is not None else "usual beside these GPUs"
    assumed = (*machine.assumed, f"network adapters have {speed:g} Gbit/s each, {said}") if guessed else machine.assumed
    cores = machine.cores or _usual_cores(machine, node)
    return msgspec.structs.replace(machine, gpus=gpus, nics=nics, assumed=assumed, cores=cores)


def _usual_cores(machine: topo.NodeTopology, node: cluster.NodeState) -> tuple[tuple[int, ...], ...]:
    """The threads of each core in Linux's usual order (thread t of core c is c + t * cores), as far as it agrees.

    The scheduler tells sockets, cores and threads. Where the CPUs that the GPUs are near to do not keep both threads of
    every core together, the order is another one and nothing is said.
    """
    cores, threads = (node.sockets or 0) * (node.cores_per_socket or 0), node.threads_per_core or 0
    found = tuple(tuple(core + thread * cores for thread in range(threads)) for core in range(cores))
    for near in {gpu.cpus for gpu in machine.gpus if gpu.cpus}:
        inside = set(near)
        if any(0 < len(inside.intersection(core)) < threads for core in found):
            return ()
    return found if threads else ()


def search(
    site: Site, question: Question, *, free: capacity.Capacity | None = None, empty: bool = False
) -> plan.GangResult:
    """The best placement of one shape, proven; or none, with counted exclusions.

    `free` replaces the site's free amounts (a later moment); `empty` asks what an empty, whole cluster would give.
    The limit covers all of it; when it strikes, the best answer so far comes with termination LIMIT and a bound that
    holds. A greedy answer of a tree of domains is there whenever one exists, however short the limit.
    """
    deadline = problems.Deadline(question.limits)
    now = free or site.free
    found = candidates(site, question, now, empty=empty)
    problem = _problem(site, question, found, now)
    if question.shape.fill:
        result = _filled(site, question, found, problem, now, empty=empty)
    else:
        solution = gang.solve(problem, deadline.rest)
        result = plan.GangResult(solve=solution.solve, fits=found.fits)
        if solution.chosen:
            sizes = _sizes(question.shape, [int(found.masks[c]).bit_count() for c in solution.chosen])
            result = _result(site, question, found, solution, sizes, now)
    solve = msgspec.structs.replace(result.solve, seconds=deadline.seconds)
    return msgspec.structs.replace(result, solve=solve)


def possible(site: Site, question: Question, free: capacity.Capacity) -> bool | None:
    """Whether the shape fits at all into what is free; None when the limit came before an answer.

    Neither bandwidth nor damage decides that, so no set of GPUs is rated, and the greedy choice is enough where
    domains nest and nothing crosses them.
    """
    deadline = problems.Deadline(question.limits)
    found = _fitting(site, question, free, empty=False)
    problem = msgspec.structs.replace(_problem(site, question, found, free), preferred=None)
    if question.shape.fill:
        return bool(_given(site, question, found, problem, free, empty=False))
    for limits in (plan.SolveLimits(seconds=0.0), deadline.rest):
        solution = gang.solve(problem, limits)
        if solution.chosen or solution.solve.termination is plan.Termination.INFEASIBLE:
            return bool(solution.chosen)
    return None


def _given(
    site: Site,
    question: Question,
    found: Candidates,
    problem: problems.GangProblem,
    free: capacity.Capacity,
    *,
    empty: bool,
) -> tuple[tuple[int, int], ...]:
    """(candidate, units of GPUs) of a total that is filled node by node."""
    shape = question.shape
    most = np.array(
        [
            fill.most_units(free.nodes[p], int(mask), shape.steps, empty=empty)
            for p, mask in zip(found.positions, found.masks, strict=True)
        ],
        dtype=np.int64,
    )
    return fill.choose(
        most,
        shape.fill // shape.demand.gpus,
        problem.forced,
        problem.domain_of,
        required=problem.required,
        spans_roots=problem.spans_roots,
        least=shape.count,
        largest=min([shape.most, *_most_nodes(site, question.request)]),
    )


def _filled(
    site: Site,
    question: Question,
    found: Candidates,
    problem: problems.GangProblem,
    free: capacity.Capacity,
    *,
    empty: bool,
) -> plan.GangResult:
    """A total filled node by node; `fill` says in which sense the answer is best."""
    unit = question.shape.demand.gpus
    given = _given(site, question, found, problem, free, empty=empty)
    if not given:
        solve = plan.SolveResult("filling nodes", plan.Termination.INFEASIBLE)
        return plan.GangResult(solve=solve, fits=found.fits)
    chosen = np.array([candidate for candidate, _ in given], dtype=np.int64)
    rated = [_rate(site, found.positions[[c]], found.masks[[c]], size * unit) for c, size in given]
    part = msgspec.structs.replace(
        problem,
        count=len(given),
        domain_of=problem.domain_of[:, chosen],
        bandwidth=np.array([busbw[0] for busbw, _, _ in rated]),
        nic=np.array([nic[0] for _, nic, _ in rated]),
        damage=np.array([damage[0] for _, _, damage in rated]),
        forced=problem.forced[chosen],
    )
    floor = float(sum(problems.SPREAD_BASE**level for level in range(part.levels)))
    everyone = np.arange(len(given), dtype=np.int64)
    solution = problems.answer(part, problems.Forest(part), everyone, method="filling nodes", floor=floor, seconds=0.0)
    order = [int(chosen[i]) for i in solution.chosen]
    size_of = {candidate: units * unit for candidate, units in given}
    solved = msgspec.structs.replace(solution.solve, termination=plan.Termination.FEASIBLE)
    solution = msgspec.structs.replace(solution, chosen=tuple(order), solve=solved)
    return _result(site, question, found, solution, [size_of[c] for c in order], free)


def _most_nodes(site: Site, request: cluster.JobRequest) -> tuple[int, ...]:
    """The node limit of the partition that is asked for, if it has one."""
    return tuple(
        partition.max_nodes
        for partition in site.snapshot.partitions
        if partition.max_nodes is not None and partition.name == request.partition
    )


def candidates(site: Site, question: Question, free: capacity.Capacity, *, empty: bool = False) -> Candidates:
    """Test every node and rate the best GPU set of each that fits."""
    found = _fitting(site, question, free, empty=empty)
    busbw, nic, damage = _rate(site, found.positions, found.masks, question.shape.demand.gpus)
    busbw[~found.sure] = np.nan
    return msgspec.structs.replace(found, busbw=busbw, nic=nic, damage=damage)


def _fitting(site: Site, question: Question, free: capacity.Capacity, *, empty: bool) -> Candidates:
    """The nodes that fit, none of them rated: nothing limits and nothing is spoilt."""
    demand = question.shape.demand
    want = eligible.wanted(site.snapshot, question.request, question.variant, question.shape.count)
    if question.avoid:
        want = msgspec.structs.replace(want, exclude=want.exclude | question.avoid)
    fitting = eligible.check(free, want, demand, empty=empty)
    if eligible.lacking(free, want, fitting.positions):
        fitting = msgspec.structs.replace(fitting, positions=(), masks=())
    positions = np.array(fitting.positions, dtype=np.int64)
    masks = np.array(fitting.masks, dtype=np.int64)
    sure = np.full(len(positions), fill_value=True) if empty else free.columns.unplaced[positions] == 0
    n = len(positions)
    unlimited, unknown = np.full(n, np.inf), np.full(n, np.nan)
    return Candidates(positions, masks, unlimited, unknown, np.zeros(n, dtype=np.int64), sure, fitting.fits)


def _rate(
    site: Site, positions: npt.NDArray[np.int64], masks: npt.NDArray[np.int64], gpus: int
) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.float64], npt.NDArray[np.int64]]:
    n = len(positions)
    busbw, nic = np.full(n, np.inf), np.full(n, np.nan)
    damage = np.zeros(n, dtype=np.int64)
    if gpus == 0:
        return busbw, nic, damage
    table_of = site.table_numbers[positions]
    for number in np.unique(table_of):
        rows = np.flatnonzero(table_of == number)
        table = site.tables[number]
        chosen, busbw[rows], damage[rows] = table.best_many(masks[rows], gpus)
        if gpus == 1:
            busbw[rows] = np.inf  # one GPU has nobody to talk to inside its node
        sets, which = np.unique(chosen, return_inverse=True)
        bounds = [_nic_bound(site, int(number), mask) for mask in sets.tolist()]
        nic[rows] = np.array([np.nan if bound is None else bound for bound in bounds])[which]
    return busbw, nic, damage


def _nic_bound(site: Site, number: int, mask: int) -> float | None:
    machine = site.tables[number].machine
    if machine is None:
        return None
    if (number, mask) not in site.nic_bounds:
        site.nic_bounds[number, mask] = bandwidth.nic_bound(machine, gpuset.indices(mask))
    return site.nic_bounds[number, mask]


def _problem(site: Site, question: Question, found: Candidates, free: capacity.Capacity) -> problems.GangProblem:
    shape, request = question.shape, question.request
    levels = [level.name for level in site.snapshot.topology.fabric.levels]
    want = eligible.wanted(site.snapshot, request, question.variant, shape.count)
    limit = request.switches if request.switches is not None and levels else None
    required = level_index(levels, request.topology.required, "required")
    if limit == 1:
        required = 0 if required is None else min(required, 0)
    return problems.GangProblem(
        domain_of=site.domain_of[:, found.positions],
        bandwidth=found.busbw,
        nic=found.nic,
        damage=found.damage,
        count=shape.count,
        forced=eligible.forced(free, want, found.positions),
        required=required,
        preferred=level_index(levels, request.topology.preferred, "preferred"),
        max_domains=((0, limit),) if limit is not None and limit > 1 else (),
        oversubscription=site.oversubscription,
        spans_roots=not one_tree(site.snapshot),
        side=_side(question, found, free),
    )


def one_tree(snapshot: cluster.ClusterSnapshot) -> bool:
    """Whether nodes without a common switch never run one job, as Slurm's topology/tree has it."""
    fabric = snapshot.topology.fabric
    return snapshot.source.system == "slurm" and fabric.kind == "tree" and bool(fabric.levels)


def level_index(levels: Sequence[str], name: str | None, what: str) -> int | None:
    """Position of a level, closest first; None for none. Raises RequestError that lists the levels."""
    if name is None:
        return None
    if name not in levels:
        shown = ", ".join(levels) or "none (the fabric of this cluster is not known)"
        raise errors.RequestError(
            f"there is no level `{errors.printable(name)}` for `{what}`; the levels are: {shown}",
            hint="`placer topo fabric --help` says where levels come from",
        )
    return levels.index(name)


def _side(question: Question, found: Candidates, free: capacity.Capacity) -> tuple[problems.SideConstraint, ...]:
    """Constraints that no domain tree can hold: counted features, and nodes that must give one GPU more."""
    sides = []
    classes = free.classes
    for feature, least in question.variant.at_least:
        has = np.array([feature in node.features for node in classes.nodes], dtype=np.bool_)
        sides.append(problems.SideConstraint(members=has[classes.of[found.positions]], at_least=least))
    if question.shape.extra:
        wider = leftover.popcount(found.masks) > question.shape.demand.gpus
        sides.append(problems.SideConstraint(members=wider, at_least=question.shape.extra))
    return tuple(sides)


def _result(
    site: Site,
    question: Question,
    found: Candidates,
    solution: problems.GangSolution,
    sizes: Sequence[int],
    free: capacity.Capacity,
) -> plan.GangResult:
    chosen = [
        cost.Part(
            position=int(found.positions[c]),
            mask=int(found.masks[c]),
            gpus=size,
            sure=bool(found.sure[c]),
            nic=float(found.nic[c]),
        )
        for c, size in zip(solution.chosen, sizes, strict=True)
    ]
    tables = [site.tables[site.table_of[part.position]] for part in chosen]
    sets = [
        table.best(part.mask, part.gpus) if part.gpus and part.sure else None
        for table, part in zip(tables, chosen, strict=True)
    ]
    levels = [level.name for level in site.snapshot.topology.fabric.levels]
    predicted = cost.predict(sets, chosen, solution, levels)
    assumed = [text for s in sets if s is not None for text in s.assumed]
    if len(chosen) > 1:
        assumed += [text for table in tables if table.machine is not None for text in table.machine.assumed]
    return plan.GangResult(
        solve=solution.solve,
        fits=found.fits,
        placement=cost.placement(site.snapshot, chosen, sets),
        score=cost.terms(
            site.mix,
            free,
            chosen,
            sets,
            question.shape.demand.cpus,
            predicted,
            question.request.topology.preferred,
        ),
        prediction=predicted,
        assumed=tuple(dict.fromkeys(assumed)),
    )


def _sizes(shape: shapes.Shape, free_counts: Collection[int]) -> list[int]:
    """GPUs of each chosen node; the first nodes that have room for one more give it."""
    extra, sizes = shape.extra, []
    for free in free_counts:
        more = extra > 0 and free > shape.demand.gpus
        extra -= more
        sizes.append(shape.demand.gpus + more)
    return sizes
