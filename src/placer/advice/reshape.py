"""The same job on another number of nodes: the same GPUs, tasks, CPUs and memory in all."""

from __future__ import annotations

import msgspec

from placer.cluster import types as cluster
from placer.placement import shapes

MOST_COUNTS = 12
"""At most so many numbers of nodes are compared."""


def fixed(request: cluster.JobRequest) -> str | None:
    """Why the shape of a request cannot be changed; None where it can."""
    if request.nodelist is not None:
        return "its nodes are named"
    if request.exclusive or request.whole_memory:
        return "it asks for whole nodes"
    if request.gpus_per_socket or request.ntasks_per_socket or request.sockets_per_node:
        return "it counts by sockets"
    if request.ntasks_per_gpu:
        return "it counts tasks by GPU"
    if request.memory_per_cpu_mib and request.cpus_per_gpu:
        return "its memory depends on CPUs by GPU"
    return None


def counts(total: int, asked: int, most_gpus: int, most_nodes: int) -> tuple[int, ...]:
    """Other numbers of nodes that share `total` GPUs evenly, the ones near to `asked` first."""
    found = [
        count
        for count in range(1, min(total, most_nodes) + 1)
        if total % count == 0 and count != asked and total // count <= most_gpus
    ]
    return tuple(sorted(found, key=lambda count: (max(count, asked) / min(count, asked), count))[:MOST_COUNTS])


def on_nodes(request: cluster.JobRequest, asked: shapes.Shape, count: int) -> cluster.JobRequest | None:
    """The request on `count` nodes instead of `asked.count`; None where tasks or GPUs do not divide.

    One task for several GPUs of a node stays one on each node, with CPUs in proportion: it starts the others itself.
    Otherwise the number of tasks stays.
    """
    total = asked.gpus
    if asked.fill or asked.extra or total % count:
        return None
    tasks = asked.demand.tasks * asked.count
    one_each = asked.demand.tasks == 1 < asked.demand.gpus and request.gpus_per_task is None
    if not one_each and tasks % count:
        return None
    cpus = request.cpus_per_task
    if one_each and cpus is not None:
        cpus = -(-cpus * asked.count // count)
    memory = request.memory_per_node_mib
    if memory is not None:
        memory = -(-memory * asked.count // count)
    new_tasks = count if one_each else tasks
    return msgspec.structs.replace(
        request,
        nodes=count,
        nodes_max=None,
        gpus_per_node=None if request.gpus_per_task is not None else total // count,
        ntasks=None if request.ntasks is None else new_tasks,
        ntasks_per_node=None if one_each and _says_no_tasks(request) else new_tasks // count,
        cpus_per_task=cpus,
        memory_per_node_mib=memory,
    )


def _says_no_tasks(request: cluster.JobRequest) -> bool:
    return request.ntasks is None and request.ntasks_per_node is None
