"""Any recording and any request through the whole path: Advice or a PlacerError, and what fits now really fits.

Every placement is replayed on books of its own: on those kept from the snapshot where the recording was changed, on
`scontrol show node -d` as printed where it was not.
"""

from __future__ import annotations

import functools
import pathlib
import re
from typing import Any

import msgspec
from hypothesis import given, settings
from hypothesis import strategies as st

from placer import errors
from placer.advice import advise as adviser
from placer.advice import types as advice
from placer.cluster import recording as recordings
from placer.cluster import types as cluster
from placer.placement import types as plan
from placer.slurm import snapshot as slurm

FIXTURES = pathlib.Path(__file__).parents[2] / "fixtures" / "slurm"
RELEASES = ("22.05", "24.11", "25.11", "26.05")
READ = (
    slurm.CONFIG,
    slurm.NODES_TEXT,
    slurm.JOBS_TEXT,
    slurm.PARTITIONS_TEXT,
    slurm.TOPOLOGY_TEXT,
    slurm.GRES_CONF,
    *slurm.NODES_JSON,
    *slurm.JOBS_JSON,
    *slurm.PARTITIONS_JSON,
)
NASTY = st.sampled_from(
    ["", "=", ",", "[", "]", "(", "\n", "\n\n", "\x00", "\x1b[2J", "\u202e", "999999999999999999999", "-1", "-5",
     "null", "{", '"', "IDX:", "N/A", "(null)", "gpu:a100:99999999(IDX:0-99999999)", "n[1-99999999]", "1e400", "0", "9"]
)  # fmt: skip


@functools.cache
def entries(release: str, topologies: bool = True) -> tuple[tuple[str, str], ...]:
    own = [(file.name, file.read_text()) for file in sorted((FIXTURES / release).iterdir())]
    wired = [(f"topo/{file.name}", file.read_text()) for file in sorted((FIXTURES / "topo").iterdir())]
    return tuple(own + (wired if topologies else []))


# --- requests

few = st.one_of(st.none(), st.none(), st.integers(1, 9))
amounts = st.sampled_from([None, None, 1, 1024, 40960, 300_000, 999_999, 1_000_000, 1_000_001, 1 << 44])
nodes_lists = st.sampled_from([*[None] * 9, "gpu02", "gpu[02,06]", "gpu[01-06]", "old1", "gpu[05-06],old[1-2]"])


def sized(
    nodes: int | None, nodes_max: int | None, gpus: int | None, per_node: int | None, per_task: int | None
) -> dict[str, Any]:
    return {
        "nodes": nodes,
        "nodes_max": nodes_max,
        "gpus": gpus,
        "gpus_per_node": per_node,
        "gpus_per_task": per_task,
    }


sizes = st.one_of(
    st.builds(sized, st.integers(1, 4), st.none(), st.none(), st.integers(0, 9), st.none()),
    st.builds(sized, st.none(), st.none(), st.integers(1, 30), st.none(), st.none()),
    st.builds(sized, few, st.none(), st.integers(1, 30), st.none(), st.none()),
    st.builds(sized, st.integers(1, 3), st.integers(1, 9), few, few, st.none()),
    st.builds(sized, few, few, few, few, few),
)


@st.composite
def requests(draw: st.DrawFn) -> cluster.JobRequest:
    """Sensible ones and contradicting ones."""
    return cluster.JobRequest(
        **draw(sizes),
        gpu_type=draw(st.sampled_from([None, None, None, "a100", "A100", "v100", "h100"])),
        ntasks=draw(few),
        ntasks_per_node=draw(few),
        cpus_per_task=draw(st.sampled_from([None, None, 1, 3, 8, 32, 128, 1_000_000])),
        cpus_per_gpu=draw(st.sampled_from([None, None, None, 1, 4, 16, 17])),
        memory_per_node_mib=draw(st.one_of(st.just(1024), amounts)),
        memory_per_cpu_mib=draw(amounts) if draw(st.booleans()) else None,
        memory_per_gpu_mib=draw(amounts) if draw(st.booleans()) else None,
        whole_memory=draw(st.sampled_from([False, False, False, True])),
        exclusive=draw(st.sampled_from([False, False, False, True])),
        partition=draw(st.sampled_from([None, "gpu", "gpu", "old", "old,gpu", "nowhere", ","])),
        constraint=draw(st.sampled_from([*[None] * 9, "a100", "ib", "[a100|v100]", "a100*2", "a100|", "(("])),
        nodelist=draw(nodes_lists),
        exclude=draw(nodes_lists),
        switches=draw(st.sampled_from([None, None, None, 1, 2])),
        topology=cluster.TopologyConstraint(
            draw(st.sampled_from([*[None] * 5, "leaf", "spine", "rack"])), draw(st.sampled_from([None, "leaf"]))
        ),
        workload=draw(st.sampled_from(list(cluster.Workload))),
        time_limit=draw(st.sampled_from([None, None, 0, 3600, 86_401, 604_800, 604_801, 10**7])),
    )


def advise(snapshot: cluster.ClusterSnapshot, request: cluster.JobRequest) -> advice.Advice | None:
    """The advice; None after a PlacerError."""
    try:
        return adviser.advise(snapshot, request)
    except errors.PlacerError:
        return None


# --- books


class Books(msgspec.Struct):
    """What one node has free, counted here and not by the code under test."""

    free: set[int]
    of_type: dict[int, str | None]
    unplaced: int
    cpus_total: int
    cpus: int
    memory: int
    memory_total: int
    up: bool
    empty: bool
    partitions: set[str]
    features: set[str]


def books_of_snapshot(snapshot: cluster.ClusterSnapshot) -> dict[str, Books]:
    books = {}
    for node in snapshot.nodes:
        held = [a for job in snapshot.jobs for a in job.allocations if a.node == node.name]
        taken = set(node.gpus_used) | {g for a in held for g in a.gpus or ()}
        hidden = sum(a.gpu_count for a in held if a.gpus is None)
        cpus = node.cpus - max(node.cpus_used, sum(a.cpus for a in held))
        books[node.name] = Books(
            free={slot.index for slot in node.gpus if slot.healthy} - taken,
            of_type={slot.index: slot.type for slot in node.gpus},
            unplaced=max(0, hidden if not node.gpus_used else 0),
            cpus_total=node.cpus,
            cpus=cpus,
            memory=node.memory_mib - max(node.memory_used_mib, sum(a.memory_mib for a in held)),
            memory_total=node.memory_mib,
            up=node.condition is cluster.NodeCondition.UP,
            empty=not taken and not held and node.cpus_used == 0,
            partitions=set(node.partitions),
            features=set(node.features),
        )
    return books


def field(block: str, name: str) -> str:
    found = re.search(rf"(?:^|\s){name}=(\S*)", block)
    assert found is not None, name
    return found[1]


def indices(text: str) -> set[int]:
    found: set[int] = set()
    for part in re.findall(r"IDX:([\d,-]+)", text):
        for piece in part.split(","):
            first, _, last = piece.partition("-")
            found |= set(range(int(first), int(last or first) + 1))
    return found


@functools.cache
def printed_books(release: str) -> dict[str, Books]:
    """From the text that Slurm printed, by eyes other than placer's."""
    text = dict(entries(release))[slurm.NODES_TEXT]
    books = {}
    for block in text.strip().split("\n\n"):
        kinds = [kind for kind, n in re.findall(r"gpu:(\w+):(\d+)", field(block, "Gres")) for _ in range(int(n))]
        used = indices(field(block, "GresUsed"))
        state = field(block, "State")
        total = int(field(block, "CPUEfctv"))
        memory = int(field(block, "RealMemory"))
        books[field(block, "NodeName")] = Books(
            free=set(range(len(kinds))) - used,
            of_type=dict(enumerate(kinds)),
            unplaced=0,
            cpus_total=total,
            cpus=total - int(field(block, "CPUAlloc")),
            memory=memory - int(field(block, "AllocMem")),
            memory_total=memory,
            up=not re.search(r"DOWN|DRAIN|FAIL|MAINT|RESERVED|NOT_RESP|POWER", state),
            empty=state == "IDLE",
            partitions=set(field(block, "Partitions").split(",")),
            features=set(field(block, "ActiveFeatures").split(",")),
        )
    return books


# --- the replay


def hosts(text: str | None) -> set[str]:
    """The few node lists of this module, written out."""
    written = {
        "gpu[02,06]": {"gpu02", "gpu06"},
        "gpu[01-06]": {f"gpu0{i}" for i in range(1, 7)},
        "gpu[05-06],old[1-2]": {"gpu05", "gpu06", "old1", "old2"},
    }
    return set() if text is None else written.get(text, {text})


def check_replay(
    found: advice.Advice, request: cluster.JobRequest, books: dict[str, Books], snapshot: cluster.ClusterSnapshot
) -> None:
    """Every promise of a fits-now answer, one by one."""
    assert found.placement is not None
    parts = found.placement.nodes
    names = [part.name for part in parts]
    assert len(set(names)) == len(names) > 0
    check_counts(found, request)
    for part in parts:
        check_node(part.name, part.gpus, request, books[part.name])
        check_ranks(part, books[part.name])
    assert [rank.rank for part in parts for rank in part.ranks] == list(range(sum(len(p.ranks) for p in parts)))
    assert not set(names) & hosts(request.exclude)
    assert hosts(request.nodelist) <= set(names) or (request.ntasks or 99) < len(hosts(request.nodelist))
    check_partition(names, request, books, snapshot)
    check_features(names, request, books)
    check_tasks(found, request, books)
    check_domains(names, request, snapshot)


def check_counts(found: advice.Advice, request: cluster.JobRequest) -> None:
    assert found.placement is not None
    given = [len(part.gpus) for part in found.placement.nodes]
    if request.nodes is not None:  # sbatch itself takes no more nodes than tasks
        assert min(request.nodes, request.ntasks or request.nodes) <= len(given)
        assert len(given) <= (request.nodes_max or request.nodes)
    if request.gpus_per_node is not None:
        assert set(given) == {request.gpus_per_node}
    if request.gpus is not None:
        assert sum(given) == request.gpus
    elif request.gpus_per_task and request.ntasks and request.gpus_per_node is None:
        assert sum(given) == request.gpus_per_task * request.ntasks


def check_node(name: str, gpus: tuple[int, ...], request: cluster.JobRequest, node: Books) -> None:
    assert node.up, name
    assert len(set(gpus)) == len(gpus)
    assert set(gpus) <= node.free, name
    assert len(gpus) <= len(node.free) - node.unplaced
    if request.gpu_type is not None:
        assert all((node.of_type[gpu] or "").lower() == request.gpu_type.lower() for gpu in gpus)
    tasks = request.ntasks_per_node or 1
    cpus = max(tasks * (request.cpus_per_task or 1), len(gpus) * (request.cpus_per_gpu or 0))
    assert cpus <= node.cpus, name
    if request.whole_memory:
        assert node.memory == node.memory_total
    elif request.memory_per_node_mib is not None:
        assert request.memory_per_node_mib <= node.memory
    elif request.memory_per_gpu_mib is not None:
        assert request.memory_per_gpu_mib * len(gpus) <= node.memory
    elif request.memory_per_cpu_mib is not None:
        assert request.memory_per_cpu_mib * cpus <= node.memory
    if request.exclusive:
        assert node.empty


def check_ranks(part: plan.NodePlacement, node: Books) -> None:
    cpus = [cpu for rank in part.ranks for cpu in rank.cpus]
    assert len(set(cpus)) == len(cpus)
    assert all(0 <= cpu < node.cpus_total for cpu in cpus)
    assert len(cpus) <= node.cpus
    assert {gpu for rank in part.ranks for gpu in rank.gpus} <= set(part.gpus)
    assert [rank.local_rank for rank in part.ranks] == list(range(len(part.ranks)))


def check_tasks(found: advice.Advice, request: cluster.JobRequest, books: dict[str, Books]) -> None:
    """As many ranks as tasks, each with its CPUs and, where asked for, its own GPUs."""
    assert found.placement is not None
    parts = found.placement.nodes
    each = request.cpus_per_task or 1
    ranks = [len(part.ranks) for part in parts]
    tasks = request.ntasks
    if tasks is None and request.gpus and request.gpus_per_task:
        tasks = request.gpus // request.gpus_per_task
    if tasks is not None:
        assert sum(ranks) == tasks
        assert all(count * each <= books[part.name].cpus for count, part in zip(ranks, parts, strict=True))
    if request.ntasks_per_node is not None:
        assert all(count <= request.ntasks_per_node for count in ranks)
    if tasks is not None and request.gpus_per_task is not None:
        assert all(count * request.gpus_per_task <= len(part.gpus) for count, part in zip(ranks, parts, strict=True))


def check_partition(
    names: list[str], request: cluster.JobRequest, books: dict[str, Books], snapshot: cluster.ClusterSnapshot
) -> None:
    """One partition of those asked for has all nodes, is up, and admits so many nodes for so long."""
    asked = [name for name in (request.partition or "").split(",") if name]
    if not asked:
        return
    known = {partition.name: partition for partition in snapshot.partitions}
    through = [
        name
        for name in asked
        if all(name in books[node].partitions for node in names)
        and (
            name not in known
            or (
                known[name].up
                and len(names) <= (known[name].max_nodes or len(names))
                and (request.time_limit or 0) <= (known[name].max_time or 1 << 60)
            )
        )
    ]
    assert through


def check_features(names: list[str], request: cluster.JobRequest, books: dict[str, Books]) -> None:
    has = [books[name].features for name in names]
    if request.constraint in {"a100", "ib"}:
        assert all(request.constraint in features for features in has)
    elif request.constraint == "[a100|v100]":
        assert all("a100" in features for features in has) or all("v100" in features for features in has)
    elif request.constraint == "a100*2":
        assert sum("a100" in features for features in has) >= 2


def check_domains(names: list[str], request: cluster.JobRequest, snapshot: cluster.ClusterSnapshot) -> None:
    levels = [level.name for level in snapshot.topology.fabric.levels]
    if request.topology.required is not None:
        level = levels.index(request.topology.required)
        domains = [set(d.nodes) for d in snapshot.topology.fabric.domains if d.level == level]
        assert any(set(names) <= domain for domain in domains)


# --- tests


@given(st.sampled_from(RELEASES), st.booleans(), requests())
@settings(max_examples=200, deadline=None)
def test_advise_on_recording_that_fits_now_fits_by_what_slurm_printed(
    release: str, topologies: bool, request: cluster.JobRequest
) -> None:
    snapshot = slurm.build(recordings.Recording(release, entries(release, topologies)))
    found = advise(snapshot, request)
    if found is not None and found.verdict is advice.Verdict.FITS_NOW:
        check_replay(found, request, printed_books(release), snapshot)


@given(
    st.sampled_from(RELEASES),
    st.sampled_from(READ),
    st.lists(st.tuples(st.floats(0, 1), st.integers(0, 12), NASTY), max_size=8),
    st.sampled_from(["edit", "cut", "empty", "missing", "of another release", "twice"]),
    requests(),
)
@settings(max_examples=200, deadline=None)
def test_advise_on_mutated_recording_is_advice_that_fits_or_placer_error(
    release: str, name: str, edits: list[tuple[float, int, str]], how: str, request: cluster.JobRequest
) -> None:
    texts = dict(entries(release))
    text = texts.pop(name, "")
    for where, length, insert in edits if how == "edit" else ():
        at = int(where * len(text))
        text = text[:at] + insert + text[at + length :]
    if how == "cut" and edits:
        text = text[: int(edits[0][0] * len(text))]
    elif how == "of another release":
        text = dict(entries("24.11" if release != "24.11" else "22.05")).get(name, text)
    changed = {"empty": "", "twice": text + "\n" + text}.get(how, text)
    kept = tuple(texts.items()) + (() if how == "missing" else ((name, changed),))
    try:
        snapshot = slurm.build(recordings.Recording(release, kept))
    except errors.PlacerError:
        return
    found = advise(snapshot, request)
    if found is not None and found.verdict is advice.Verdict.FITS_NOW:
        check_replay(found, request, books_of_snapshot(snapshot), snapshot)
