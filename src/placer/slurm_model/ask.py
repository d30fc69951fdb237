"""Section 1 of the rules: the numbers that Slurm takes from the options of a submission."""

from __future__ import annotations

from typing import Final

from placer import hostlist
from placer.cluster import types as cluster
from placer.slurm_model import types
from placer.slurm_model.release import R22, R24, R26, Release

ONE_THREAD_HINTS: Final = frozenset({"nomultithread", "compute_bound", "memory_bound"})
"""Values of --hint that use one thread of each core."""


def build(
    request: cluster.JobRequest, release: Release, *, default_memory_mib: int = 0, tasks_said: bool | None = None
) -> types.Ask:
    """The numbers of a request on a release. Memory that is not asked for is `default_memory_mib` of each node.

    `tasks_said`: whether -n was given, which `request.ntasks` does not tell where tasks follow from GPUs; None = it was
    if the request has tasks. Raises ParseError for a node list that cannot be read.
    """
    said = request.ntasks is not None if tasks_said is None else tasks_said
    required = tuple(hostlist.expand(request.nodelist)) if request.nodelist else ()
    s, one_thread, refused = _sockets(request, release)
    n, n_set = _tasks(request, release, s=s, one_thread=one_thread, said=said, pinned=bool(required))
    per_task, per_sock = request.gpus_per_task or 0, request.gpus_per_socket or 0
    job_gpus = request.gpus or n * per_task
    nodes = request.nodes or 1
    nodes_max = _most_nodes(request, release, n, n_set, job_gpus)
    if nodes_max is not None and nodes_max < nodes:
        refused = refused or "fewer GPUs than nodes"
    cpt, npn = _cpus_per_task(request), request.ntasks_per_node or 0
    return types.Ask(
        release=release,
        n=n,
        n_set=n_set,
        cpt=cpt,
        npn=npn,
        nps=request.ntasks_per_socket or 0,
        one_thread=one_thread,
        cpg=request.cpus_per_gpu or 0,
        q=request.ntasks_per_gpu or 0,
        per_node=request.gpus_per_node or 0,
        per_sock=per_sock,
        per_task=per_task,
        P=job_gpus,
        s=s,
        gpu_type=request.gpu_type,
        enforce=request.enforce_binding,
        exclusive=request.exclusive,
        memory_mib=request.memory_per_node_mib or default_memory_mib,
        nodes=nodes,
        nodes_max=nodes_max,
        required=required,
        min_cpus=_min_cpus(request, release, n=n, cpt=cpt, job_gpus=job_gpus, s=s, said=said),
        pn_min=npn * cpt if npn and n > 1 else cpt,
        refused=refused,
    )


def _sockets(request: cluster.JobRequest, release: Release) -> tuple[int, bool, str | None]:
    """s, whether one thread of each core is used, and why the two are refused together.

    [22][24] --hint throws --sockets-per-node away, without which --gpus-per-socket is refused; [26] the reverse.
    """
    s, one_thread = request.sockets_per_node or 0, request.threads_per_core == 1
    if not s or request.hint not in ONE_THREAD_HINTS:
        return s, one_thread, None
    if release >= R26:
        return s, False, None
    return (
        0,
        one_thread,
        "GPUs per socket need sockets per node, which the hint undoes" if _per_socket(request) else None,
    )


def _per_socket(request: cluster.JobRequest) -> bool:
    return bool(request.gpus_per_socket)


def _tasks(
    request: cluster.JobRequest, release: Release, *, s: int, one_thread: bool, said: bool, pinned: bool
) -> tuple[int, bool]:
    """n (0 = unknown), and whether Slurm counts it as given."""
    if request.ntasks_per_gpu or (said and request.ntasks):
        return request.ntasks or 0, said
    npn, nodes = request.ntasks_per_node or 0, request.nodes or 1
    if release == R22 and npn:
        return nodes * npn, True
    # A node list without -N counts as one node here. [24+] tasks per node put these rules out of force.
    fixed = request.nodes_max is None and (pinned or request.nodes is not None)
    if fixed and not npn and s:
        return nodes * s, True
    if fixed and not npn and one_thread:
        return nodes, True
    return npn * nodes, False


def _most_nodes(request: cluster.JobRequest, release: Release, n: int, n_set: bool, job_gpus: int) -> int | None:
    """The most nodes; None = no limit."""
    if request.nodes is None:
        return n if release >= R26 and n else None
    most = request.nodes_max or request.nodes
    if n_set and request.ntasks:
        most = min(most, request.ntasks)
    return min(most, job_gpus) if job_gpus else most


def _cpus_per_task(request: cluster.JobRequest) -> int:
    """cpt: as given, else the CPUs of a task's GPUs, which Slurm forgets where the GPUs have a type."""
    if request.cpus_per_task:
        return request.cpus_per_task
    if request.gpus_per_task and request.cpus_per_gpu and request.gpu_type is None:
        return request.gpus_per_task * request.cpus_per_gpu
    return 1


def _min_cpus(
    request: cluster.JobRequest, release: Release, *, n: int, cpt: int, job_gpus: int, s: int, said: bool
) -> int:
    """CPUs of the whole job. [22][24] tasks that follow from GPUs count only if they are more than N*cpt."""
    nodes = request.nodes or 1
    least = (n or nodes * (request.ntasks_per_node or 1)) * cpt
    if release <= R24 and request.ntasks_per_gpu and not said and n <= nodes * cpt:
        least = nodes * cpt
    if release >= R24:
        gpus = job_gpus or nodes * (request.gpus_per_node or (request.gpus_per_socket or 0) * s)
        least = max(least, (request.cpus_per_gpu or 0) * gpus)
    return least
