"""Section 1 of the rules: the numbers that Slurm takes from the options."""

from __future__ import annotations

import math

from placer import hostlist
from placer.cluster import types as cluster
from placer.slurm_model import types
from placer.slurm_model.release import R22, R24, R26, Release

_ONE_THREAD_HINTS = frozenset({"nomultithread", "compute_bound", "memory_bound"})


def build(request: cluster.JobRequest, release: Release, default_memory_mib: int = 0, tasks_said: bool = True) -> types.Ask:
    s, hinted = request.sockets_per_node or 0, request.hint in _ONE_THREAD_HINTS
    one_thread = request.threads_per_core == 1
    impossible = None
    if hinted and s and release <= R24:
        s = 0
        impossible = "sockets per node and a hint" if request.gpus_per_socket else None
    elif hinted and s:
        one_thread = False
    npn, nps, q = request.ntasks_per_node or 0, request.ntasks_per_socket or 0, request.ntasks_per_gpu or 0
    said, required = request.nodes is not None, tuple(hostlist.expand(request.nodelist)) if request.nodelist else ()
    nodes = request.nodes or 1
    as_if_said = said or bool(required)
    n, n_set = _tasks(request, release, npn, s, q, nodes if as_if_said else 0, one_thread, tasks_said)
    per_node, per_task = request.gpus_per_node or 0, request.gpus_per_task or 0
    P = request.gpus or n * per_task
    nodes_max: int | None = None
    if said:
        nodes_max = request.nodes_max or nodes
        if n_set and request.ntasks:
            nodes_max = min(nodes_max, request.ntasks)
        if P and P < nodes_max:
            nodes_max = P
        if nodes_max < nodes:
            impossible = impossible or "fewer GPUs than nodes"
    elif release >= R26 and n:
        nodes_max = n
    cpg = request.cpus_per_gpu or 0
    cpt = request.cpus_per_task or 0
    if not cpt:
        cpt = per_task * cpg if per_task and cpg and request.gpu_type is None else 1
    min_cpus = (n or nodes * (npn or 1)) * cpt
    if release <= R24 and q and not tasks_said and n <= nodes * cpt:
        min_cpus = nodes * cpt
    gpus = P or nodes * (per_node or (request.gpus_per_socket or 0) * s)
    if release >= R24:
        min_cpus = max(min_cpus, cpg * gpus)
    if release >= R26:
        min_cpus = max(min_cpus, n * cpt)
    return types.Ask(
        release=release, n=n, n_set=n_set, cpt=cpt, npn=npn, nps=nps, one_thread=one_thread, cpg=cpg, q=q,
        per_node=per_node, per_sock=request.gpus_per_socket or 0, per_task=per_task, P=P, s=s,
        gpu_type=request.gpu_type, enforce=request.enforce_binding, exclusive=request.exclusive,
        memory_mib=request.memory_per_node_mib or default_memory_mib,
        nodes=nodes, nodes_max=nodes_max, nodes_said=said, required=required,
        min_cpus=min_cpus, pn_min=npn * cpt if npn and n > 1 else cpt, impossible=impossible,
    )


def _tasks(
    request: cluster.JobRequest, release: Release, npn: int, s: int, q: int, nodes: int, one_thread: bool, tasks_said: bool
) -> tuple[int, bool]:
    if q:
        return request.ntasks or 0, tasks_said
    if request.ntasks:
        return request.ntasks, True
    if release == R22 and npn:
        return max(nodes, 1) * npn, True
    if nodes and not (release >= R24 and npn):
        if s:
            return nodes * s, True
        if one_thread and request.nodes_max is None:
            return nodes, True
    return npn * max(nodes, 1), False
