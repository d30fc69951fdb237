"""From what a job asks for to the shapes it may take: how many nodes, and what each must give.

A total of GPUs without a node count leaves the shape open: every count that divides it is a shape, and so are the
smallest uneven one and, last, whatever fills nodes one by one. The rest of the request fixes it.
"""

from __future__ import annotations

import msgspec

from placer import errors
from placer.cluster import types as cluster


class Demand(msgspec.Struct, frozen=True):
    """What one node must give. `memory_mib` None = all of the node's memory."""

    gpus: int
    cpus: int
    memory_mib: int | None
    tasks: int


class Shape(msgspec.Struct, frozen=True):
    """`count` nodes of `demand`; the first `extra` of them give one GPU more. `ranks` in all.

    With `fill` the nodes give that many GPUs in all, in units of `demand.gpus`, each node at least one unit; `steps[i]`
    is what a node must give for i + 1 units. `count` is then the least number of nodes and `most` the largest;
    `exactly` says that they are the same.
    """

    count: int
    demand: Demand
    extra: int = 0
    ranks: int = 0
    fill: int = 0
    exactly: bool = True
    most: int = 0
    steps: tuple[Demand, ...] = ()

    @property
    def gpus(self) -> int:
        """GPUs of the whole job."""
        return self.fill or self.count * self.demand.gpus + self.extra


def of(
    request: cluster.JobRequest, *, most_gpus: int, most_nodes: int, defaults: cluster.Partition | None = None
) -> tuple[Shape, ...]:
    """The shapes a request allows, fewest nodes first, at most 16; the one that fills nodes comes last.

    `most_gpus` is the largest number of suitable GPUs on one node, `most_nodes` the number of nodes; both only bound
    the enumeration. `defaults` is the partition whose default memory and CPUs per GPU apply. Raises RequestError when
    the request contradicts itself.
    """
    _check(request)
    request = with_tasks(request)
    counts = _node_counts(request, most_gpus, most_nodes)
    shapes = [shape for count in counts if (shape := _shape(request, count, defaults)) is not None]
    filled = _filled(request, counts[0], most_gpus, defaults)
    if not shapes and not filled:
        raise errors.RequestError(_no_shape(request), hint="`placer place --help` lists the options that set the shape")
    return (*shapes[:16], *filled)


def with_tasks(request: cluster.JobRequest) -> cluster.JobRequest:
    """The same request with the number of tasks that all GPUs and GPUs for each task imply, as sbatch counts them."""
    if request.ntasks is not None or not request.gpus or not request.gpus_per_task:
        return request
    return msgspec.structs.replace(request, ntasks=request.gpus // request.gpus_per_task)


def _filled(
    request: cluster.JobRequest, least: int, most_gpus: int, defaults: cluster.Partition | None
) -> tuple[Shape, ...]:
    """A total that no even shape can give may still be filled node by node; Slurm's `--gpus` allows that."""
    total = total_gpus(request)
    if total is None or total < 2 or request.gpus_per_node is not None or request.ntasks_per_node is not None:
        return ()
    fixed = request.nodes is not None and request.nodes_max in (None, request.nodes)
    unit, tasks = _unit(request, total, fixed)
    steps = tuple(
        _demand(request, units * unit, units * tasks or 1, defaults)
        for units in range(1, min(total, most_gpus) // unit + 1)
    )
    most = least if fixed else min(request.nodes_max or total, request.ntasks or total, total // unit)
    one = _demand(request, unit, 1, defaults)
    return (Shape(least, one, 0, request.ntasks or least, fill=total, exactly=fixed, most=most, steps=steps),)


def _unit(request: cluster.JobRequest, total: int, fixed: bool) -> tuple[int, int]:
    """GPUs that stay together, and the most tasks that come with them; 0 tasks: one on each node."""
    tasks = request.ntasks
    if tasks is None or (fixed and tasks == request.nodes and request.gpus_per_task is None):
        return 1, 0
    return (total // tasks, 1) if total % tasks == 0 else (1, -(-tasks // total))


def _check(request: cluster.JobRequest) -> None:
    numbers = {
        "nodes": request.nodes,
        "gpus": request.gpus,
        "gpus_per_node": request.gpus_per_node,
        "gpus_per_task": request.gpus_per_task,
        "ntasks": request.ntasks,
        "ntasks_per_node": request.ntasks_per_node,
        "cpus_per_task": request.cpus_per_task,
        "cpus_per_gpu": request.cpus_per_gpu,
    }
    for name, value in numbers.items():
        if value is not None and not 0 <= value <= 1_000_000:
            raise errors.RequestError(f"`{name}` must be between 0 and 1000000, not {value}")
    for name in ("nodes", "ntasks", "ntasks_per_node", "cpus_per_task"):
        if numbers[name] == 0:
            raise errors.RequestError(f"`{name}` must be at least 1")
    if request.gpu_share is not None:
        raise errors.RequestError(
            "shares of a GPU cannot be placed yet", hint="ask for whole GPUs with `--gpus-per-node`"
        )
    if request.nodes and request.nodes_max and request.nodes_max < request.nodes:
        raise errors.RequestError(
            f"at most {request.nodes_max} nodes is less than the least number of nodes {request.nodes}"
        )
    _check_totals(request)


def _check_totals(request: cluster.JobRequest) -> None:
    """GPUs counted in two ways must agree, as sbatch itself wants it."""
    total, each, per_task = request.gpus, request.gpus_per_node, request.gpus_per_task
    if total and each and total % each:
        raise errors.RequestError(
            f"{total} GPUs in all are not a multiple of {each} GPUs on each node",
            hint="leave out one of `--gpus`, `--gpus-per-node`",
        )
    if total and each and request.nodes and not request.nodes <= total // each <= (request.nodes_max or request.nodes):
        raise errors.RequestError(
            f"{request.nodes} nodes with {each} GPUs each are not {total} GPUs in all",
            hint="leave out one of `--nodes`, `--gpus-per-node`, `--gpus`",
        )
    if total and per_task and (total % per_task or request.ntasks not in {None, total // per_task}):
        tasks = "" if request.ntasks is None else f"{request.ntasks} tasks with "
        raise errors.RequestError(
            f"{tasks}{per_task} GPUs for each task are not {total} GPUs in all",
            hint="leave out one of `--gpus`, `--gpus-per-task`, `--ntasks`",
        )
    least = _least_nodes(request)
    if total and per_task and total // per_task < least:
        raise errors.RequestError(
            f"{total // per_task} tasks with {per_task} GPUs each are fewer than {least} nodes",
            hint="leave out one of `--gpus`, `--gpus-per-task`, `--nodes`",
        )
    if total is not None and each is None and 0 < total < least:
        raise errors.RequestError(
            f"{total} GPUs in all are fewer than {least} nodes", hint="ask for at least one GPU on each node"
        )
    most = request.nodes_max or request.nodes
    if most and request.ntasks and request.ntasks_per_node and most * request.ntasks_per_node < request.ntasks:
        raise errors.RequestError(
            f"{request.ntasks} tasks are more than {request.ntasks_per_node} on each of {most} nodes",
            hint="leave out one of `--nodes`, `--ntasks`, `--ntasks-per-node`",
        )


def total_gpus(request: cluster.JobRequest) -> int | None:
    """GPUs of the whole job when the request fixes them; None while they depend on the node count."""
    if request.gpus is not None:
        return request.gpus
    if request.gpus_per_task is not None and request.ntasks is not None:
        return request.gpus_per_task * request.ntasks
    return None


def _node_counts(request: cluster.JobRequest, most_gpus: int, most_nodes: int) -> list[int]:
    total = total_gpus(request)
    if request.nodes is not None:
        first = _least_nodes(request)
        last = min(
            request.nodes_max or request.nodes, request.ntasks or request.nodes_max or first, total or first + 64
        )
        return list(range(first, max(first, min(last, first + 64)) + 1))
    if request.gpus_per_node and total is not None:
        return [-(-total // request.gpus_per_node)]
    if total and not request.gpus_per_node:
        most = min(total, request.ntasks or total)  # a task does not span nodes
        least = min(most, -(-total // max(most_gpus, 1)))
        even = [n for n in range(least, min(most, max(most_nodes, least)) + 1) if total % n == 0]
        return sorted({*even, least})
    if request.ntasks and request.ntasks_per_node:
        return [-(-request.ntasks // request.ntasks_per_node)]
    return [1]


def _least_nodes(request: cluster.JobRequest) -> int:
    """The number of nodes asked for; sbatch takes fewer where there are fewer tasks."""
    return min(request.nodes or 1, request.ntasks or request.nodes or 1)


def _shape(request: cluster.JobRequest, count: int, defaults: cluster.Partition | None) -> Shape | None:
    gpus, extra = _gpus_per_node(request, count)
    total = total_gpus(request)
    if request.gpus_per_node and total is not None and not total <= gpus * count <= (request.gpus or gpus * count):
        return None
    tasks = _tasks_per_node(request, count)
    if request.ntasks is not None and tasks * count < request.ntasks:
        return None
    if request.gpus_per_task and request.gpus_per_node is None and (extra or gpus != tasks * request.gpus_per_task):
        return None  # the tasks cannot be dealt out evenly with their GPUs
    demand = _demand(request, gpus + (1 if extra else 0), tasks, defaults)
    ranks = request.ntasks if request.ntasks is not None else tasks * count
    return Shape(count, msgspec.structs.replace(demand, gpus=gpus), extra, ranks)


def _demand(request: cluster.JobRequest, gpus: int, tasks: int, defaults: cluster.Partition | None) -> Demand:
    cpus = _cpus(request, gpus, tasks, defaults)
    return Demand(gpus, cpus, _memory(request, gpus, cpus, defaults), tasks)


def _gpus_per_node(request: cluster.JobRequest, count: int) -> tuple[int, int]:
    if request.gpus_per_node is not None:
        return request.gpus_per_node, 0
    total = total_gpus(request)
    if total is not None:
        return divmod(total, count)
    if request.gpus_per_task is not None:
        return request.gpus_per_task * _tasks_per_node(request, count), 0
    if request.gpus_per_socket is not None:
        return request.gpus_per_socket * (request.sockets_per_node or 1), 0
    return 0, 0


def _tasks_per_node(request: cluster.JobRequest, count: int) -> int:
    if request.ntasks_per_node is not None:
        return request.ntasks_per_node
    return -(-request.ntasks // count) if request.ntasks is not None else 1


def _cpus(request: cluster.JobRequest, gpus: int, tasks: int, defaults: cluster.Partition | None) -> int:
    per_gpu = request.cpus_per_gpu
    if per_gpu is None and request.cpus_per_task is None and defaults is not None:
        per_gpu = defaults.default_cpus_per_gpu
    return max(tasks * (request.cpus_per_task or 1), gpus * (per_gpu or 0))


def _memory(request: cluster.JobRequest, gpus: int, cpus: int, defaults: cluster.Partition | None) -> int | None:
    if request.whole_memory:
        return None
    if request.memory_per_node_mib is not None:
        return request.memory_per_node_mib
    if request.memory_per_gpu_mib is not None:
        return request.memory_per_gpu_mib * gpus
    if request.memory_per_cpu_mib is not None:
        return request.memory_per_cpu_mib * cpus
    if defaults is not None and defaults.default_memory_per_node_mib is not None:
        return defaults.default_memory_per_node_mib
    if defaults is not None and defaults.default_memory_per_cpu_mib is not None:
        return defaults.default_memory_per_cpu_mib * cpus
    return None if takes_all_memory(request, defaults) else 0


def takes_all_memory(request: cluster.JobRequest, defaults: cluster.Partition | None) -> bool:
    """Whether a job gets all memory of its nodes because it names none and the partition has no other default."""
    told = (request.memory_per_node_mib, request.memory_per_gpu_mib, request.memory_per_cpu_mib)
    if request.whole_memory or defaults is None or any(amount is not None for amount in told):
        return False
    return defaults.default_whole_memory


def _no_shape(request: cluster.JobRequest) -> str:
    return f"{total_gpus(request)} GPUs cannot be given as {request.gpus_per_node} GPUs on each node"
