"""Ranks of one node -> GPUs, disjoint groups of whole cores, memory nodes, NICs.

GPUs follow the ring order given: rank i of as many ranks as GPUs has the i-th; fewer ranks get runs of it, the first
ones one more when it does not divide; more ranks go round (rank mod GPUs).

A rank's share of cores is what is near it, fairly divided: Σ over the cores near it of 1 / (ranks that the core is near
to), rounded down, or the cores that `cpus_per_rank` fills. Where nothing near is left or known, a rank gets the even
share of all. The assignment is the model of `affinity_model`: a deal with a proof that it is optimal, else the MILP.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence

import msgspec

from placer.cluster import types as cluster
from placer.placement import affinity_cores, affinity_milp, affinity_model
from placer.placement import types as plan
from placer.topology import types as topo

NIC_PRIOR: dict[topo.LinkType, int] = {
    topo.LinkType.PIX: 0,
    topo.LinkType.PXB: 1,
    topo.LinkType.PHB: 3,
    topo.LinkType.NODE: 5,
    topo.LinkType.SYS: 20,
}
"""Cost of a GPU's way to a NIC by relation; the prior of the railmap tool (0, 1, 3, 5, 20)."""


class AffinityResult(msgspec.Struct, frozen=True):
    """One binding a rank, the named terms of their cost, how they were found, and what had to be assumed."""

    ranks: tuple[plan.RankBinding, ...]
    score: tuple[plan.ScoreTerm, ...]
    solve: plan.SolveResult
    warnings: tuple[str, ...] = ()


class _Core(msgspec.Struct, frozen=True):
    cpus: tuple[int, ...]  # the threads that may be used
    numa: int | None


def bind(
    node: topo.NodeTopology | None,
    gpus: Sequence[int],
    ranks: int,
    *,
    first_rank: int = 0,
    cpuset: Sequence[int] | None = None,
    cpus_per_rank: int | None = None,
    workload: cluster.Workload = cluster.Workload.ALLREDUCE,
    limits: plan.SolveLimits = plan.SolveLimits(),  # noqa: B008 - frozen value
) -> AffinityResult:
    """Bind `ranks` (>= 1) ranks of one node.

    `gpus` are gres indices in ring order. `cpuset` holds the OS CPUs that may be used, None = all that the topology
    names. `cpus_per_rank` counts logical CPUs, None = the fair share of what is near. `first_rank` is the global number
    of local rank 0. `workload` decides where host memory goes when a rank's cores are not near its GPU.
    """
    machine = node if node is not None else topo.NodeTopology(name="", source="unknown")
    dealt = deal_gpus(gpus, max(1, ranks))
    mapped = affinity_cores.cores_of(machine, cpuset or ())
    cores = _usable(machine, mapped, cpuset)
    warnings = [mapped.note] if mapped.note and cores else []
    near = [_near(machine, own) for own in dealt]
    problem, classes = _core_problem(machine, cores, near, cpus_per_rank, warnings)
    nic_problem, users, names = _nic_problem(machine, gpus, warnings)
    deal = _solve(problem, nic_problem, limits)
    held = _hand_out(problem, classes, deal.cores)
    nic_of = dict(zip(users, (names[n] for n in deal.nics), strict=True)) if deal.nics else {}
    bindings = tuple(
        plan.RankBinding(
            rank=first_rank + r,
            local_rank=r,
            gpus=own,
            cpus=tuple(sorted(cpu for core in held[r] for cpu in core.cpus)),
            memory_nodes=_memory(machine, own, held[r], workload),
            nics=tuple(dict.fromkeys(nic_of[gpu] for gpu in own if gpu in nic_of)),
        )
        for r, own in enumerate(dealt)
    )
    if any(sight is None for sight in near) and gpus and cores:
        unknown = sum(sight is None for sight in near)
        warnings.append(f"which CPUs are near the GPUs of {unknown} of {len(near)} ranks is not known")
    score = _score(problem, deal, nic_problem)
    return AffinityResult(bindings, score, deal.solve, tuple(warnings))


def deal_gpus(gpus: Sequence[int], ranks: int) -> tuple[tuple[int, ...], ...]:
    """The GPUs of each local rank: one each, runs of the ring order for fewer ranks, rank mod GPUs for more."""
    if not gpus:
        return ((),) * ranks
    if ranks >= len(gpus):
        return tuple((gpus[r % len(gpus)],) for r in range(ranks))
    share, extra = divmod(len(gpus), ranks)
    bounds = [r * share + min(r, extra) for r in range(ranks + 1)]
    return tuple(tuple(gpus[a:b]) for a, b in itertools.pairwise(bounds))


def _usable(machine: topo.NodeTopology, mapped: affinity_cores.CoreMap, cpuset: Sequence[int] | None) -> list[_Core]:
    """Cores with at least one usable thread, by NUMA node (unknown last), then by first thread."""
    allowed = None if cpuset is None else frozenset(cpuset)
    numa = affinity_cores.numa_of_cpus(machine)
    found = []
    for core in mapped.cores:
        cpus = core if allowed is None else tuple(cpu for cpu in core if cpu in allowed)
        if cpus:
            found.append(_Core(cpus, numa.get(core[0])))
    return sorted(found, key=lambda core: (core.numa is None, core.numa or 0, core.cpus[0]))


def _near(machine: topo.NodeTopology, gpus: Sequence[int]) -> affinity_cores.NearCpus | None:
    """CPUs near any of a rank's GPUs; None when that is unknown for one of them."""
    sights = []
    for index in gpus:
        gpu = affinity_cores.gpu_at(machine, index)
        sight = affinity_cores.near_cpus(machine, gpu) if gpu is not None else None
        if sight is None:
            return None
        sights.append(sight)
    if not sights:
        return None
    cpus = frozenset().union(*(sight.cpus for sight in sights))
    return affinity_cores.NearCpus(cpus, all(sight.certain for sight in sights))


def _core_problem(
    machine: topo.NodeTopology,
    cores: Sequence[_Core],
    near: Sequence[affinity_cores.NearCpus | None],
    cpus_per_rank: int | None,
    warnings: list[str],
) -> tuple[affinity_model.CoreProblem, list[list[_Core]]]:
    """The model's numbers, and the cores of each class in ascending order."""
    package = affinity_cores.package_of_numa(machine)
    numa = affinity_cores.numa_of_cpus(machine)
    home = [{package[numa[c]] for c in s.cpus if numa.get(c) in package} if s is not None else set() for s in near]
    rows = [tuple(_distance(core, s, home[r], package) for r, s in enumerate(near)) for core in cores]
    groups: dict[tuple[int | None, tuple[int, ...]], list[_Core]] = {}
    for core, row in zip(cores, rows, strict=True):
        groups.setdefault((core.numa, row), []).append(core)
    keys = list(groups)
    demand = _demand(cores, rows, len(near), cpus_per_rank, warnings)
    problem = affinity_model.CoreProblem(
        demand=tuple(demand),
        size=tuple(len(groups[key]) for key in keys),
        distance=tuple(tuple(key[1][r] for key in keys) for r in range(len(near))),
        numa=tuple(key[0] for key in keys),
        turns=max(1, math.ceil(len(near) / len(cores))) if cores else 1,
    )
    return problem, [groups[key] for key in keys]


def _distance(core: _Core, sight: affinity_cores.NearCpus | None, home: set[int], package: dict[int, int]) -> int:
    if sight is None:
        return affinity_model.UNKNOWN
    if core.cpus[0] in sight.cpus:
        return affinity_model.NEAR if sight.certain else affinity_model.POSSIBLE
    own = package.get(core.numa) if core.numa is not None else None
    return affinity_model.SAME_PACKAGE if own is not None and own in home else affinity_model.FAR


def _demand(
    cores: Sequence[_Core],
    rows: Sequence[tuple[int, ...]],
    ranks: int,
    cpus_per_rank: int | None,
    warnings: list[str],
) -> list[int]:
    """k_r: how many cores each rank gets."""
    if not cores:
        return [0] * ranks
    if len(cores) < ranks:
        warnings.append(f"{ranks} ranks share {len(cores)} cores")
        return [1] * ranks
    if cpus_per_rank is not None:
        threads = max(len(core.cpus) for core in cores)
        want = max(1, math.ceil(cpus_per_rank / threads))
        if want * ranks > len(cores):
            want = len(cores) // ranks
            warnings.append(f"{cpus_per_rank} CPUs for each of {ranks} ranks do not fit: {want} cores each")
        return [want] * ranks
    share = [0.0] * ranks
    for row in rows:
        claims = [r for r, d in enumerate(row) if d <= affinity_model.POSSIBLE]
        for r in claims:
            share[r] += 1 / len(claims)
    even = len(cores) // ranks
    demand = [int(s + 1e-9) or even for s in share]
    while sum(demand) > len(cores):
        # The richest gives, the last of equals first.
        demand[max(range(ranks), key=lambda r: (demand[r], r))] -= 1
    return demand


def _nic_problem(
    machine: topo.NodeTopology, gpus: Sequence[int], warnings: list[str]
) -> tuple[affinity_model.NicProblem, list[int], list[str]]:
    """The model's numbers, the GPUs that reach a NIC by a known way, and the NICs' names."""
    named = [nic for nic in machine.nics if nic.name is not None]
    if machine.nics and not named and gpus:
        warnings.append("the NICs have no names here: none is chosen")
    links = {frozenset((link.a, link.b)): link.type for link in machine.links}
    users, prior = [], []
    for index in gpus:
        gpu = affinity_cores.gpu_at(machine, index)
        row = tuple(_prior(gpu, nic, links) for nic in named) if gpu is not None else ()
        if any(p is not None for p in row):
            users.append(index)
            prior.append(row)
    return affinity_model.NicProblem(tuple(prior)), users, [nic.name or "" for nic in named]


def _prior(gpu: topo.Gpu, nic: topo.Nic, links: dict[frozenset[str], topo.LinkType]) -> int | None:
    """The relation that is told, else what the NUMA nodes say; None = unknown."""
    kind = links.get(frozenset((gpu.id, nic.id)))
    if kind in NIC_PRIOR:
        return NIC_PRIOR[kind]
    if gpu.numa is None or nic.numa is None or len(gpu.numa) != 1 or len(nic.numa) != 1:
        return None
    return NIC_PRIOR[topo.LinkType.NODE if gpu.numa == nic.numa else topo.LinkType.SYS]


def _solve(
    cores: affinity_model.CoreProblem, nics: affinity_model.NicProblem, limits: plan.SolveLimits
) -> affinity_milp.Deal:
    """The deals when they are proven, else the MILP; the deals again, unproven, when it found nothing in time."""
    dealt, chosen = affinity_model.deal_cores(cores), affinity_model.deal_nics(nics)
    value = affinity_model.core_objective(cores, dealt) + affinity_model.nic_objective(nics, chosen)
    bound = affinity_model.core_lower_bound(cores)
    if affinity_model.core_objective(cores, dealt) <= bound + 1e-9 and affinity_model.nics_are_optimal(nics, chosen):
        proven = plan.SolveResult("closed-form", plan.Termination.OPTIMAL, value, value, 0.0)
        return affinity_milp.Deal(dealt, chosen, proven)
    answer = affinity_milp.solve(cores, nics, limits)
    if answer.cores:
        return answer
    gap = (value - bound) / max(abs(value), 1e-9)
    late = plan.SolveResult("deal", plan.Termination.LIMIT, value, bound, gap, answer.solve.seconds)
    return affinity_milp.Deal(dealt, chosen, late)


def _hand_out(
    problem: affinity_model.CoreProblem, classes: Sequence[Sequence[_Core]], deal: Sequence[Sequence[int]]
) -> list[list[_Core]]:
    """Counts to cores: each class in ascending order, ranks in order; round again where cores are shared."""
    given = [0] * len(classes)
    held: list[list[_Core]] = []
    for ys in deal:
        own = []
        for j, count in enumerate(ys):
            own += [classes[j][(given[j] + i) % len(classes[j])] for i in range(count)]
            given[j] += count
        held.append(own)
    return held


def _memory(
    machine: topo.NodeTopology, gpus: Sequence[int], cores: Sequence[_Core], workload: cluster.Workload
) -> tuple[int, ...]:
    """NUMA nodes for host memory: those of the rank's cores; those of its GPUs for host-bound work or without cores.

    GPU memory that shows as a NUMA node, and nodes known to have no memory, are never among them.
    """
    found = [gpu for index in gpus if (gpu := affinity_cores.gpu_at(machine, index)) is not None]
    barred = {gpu.memory_numa for gpu in machine.gpus} | {n.id for n in machine.numa_nodes if n.memory_mib == 0}
    by_gpu = {gpu.numa[0] for gpu in found if gpu.numa is not None and len(gpu.numa) == 1} - barred
    by_core = {core.numa for core in cores if core.numa is not None} - barred
    first, second = (by_gpu, by_core) if workload is cluster.Workload.HOST_BOUND else (by_core, by_gpu)
    return tuple(sorted(first or second))


def _score(
    cores: affinity_model.CoreProblem, deal: affinity_milp.Deal, nics: affinity_model.NicProblem
) -> tuple[plan.ScoreTerm, ...]:
    """The cost in terms a person reads."""
    terms = []
    total = sum(cores.demand)
    if total:
        pairs = [
            (d, y) for row, ys in zip(cores.distance, deal.cores, strict=True) for d, y in zip(row, ys, strict=True)
        ]
        for name, distances, why in (
            (
                "cores_far",
                (affinity_model.SAME_PACKAGE, affinity_model.FAR),
                "in another NUMA node than the rank's GPU",
            ),
            ("cores_unknown", (affinity_model.POSSIBLE, affinity_model.UNKNOWN), "not known to be near the rank's GPU"),
        ):
            count = sum(y for d, y in pairs if d in distances)
            terms.append(plan.ScoreTerm(name, float(count), "cores", f"of {total}: {why}"))
    if deal.nics:
        cost = sum(row[n] or 0 for row, n in zip(nics.prior, deal.nics, strict=True))
        terms.append(plan.ScoreTerm("nic_distance", float(cost), "", "ways from GPUs to NICs: PIX 0 … NODE 5, SYS 20"))
        most = max(deal.nics.count(n) for n in deal.nics)
        terms.append(plan.ScoreTerm("nic_sharing", float(most), "GPUs", "use the busiest NIC"))
    return tuple(terms)
