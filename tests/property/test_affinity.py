"""What holds for every binding, whatever the machine and the cpuset."""

import itertools

from hypothesis import given, settings
from hypothesis import strategies as st

from placer.placement import affinity
from placer.placement import types as plan
from placer.topology import types as topo


@st.composite
def machines(draw: st.DrawFn) -> topo.NodeTopology:
    """Nodes of 1-4 NUMA nodes with 0-4 cores of 1-2 threads; GPUs near one, one of several, or nobody knows."""
    threads = draw(st.integers(1, 2))
    sizes = draw(st.lists(st.integers(0, 4), min_size=1, max_size=4))
    total = sum(sizes)
    cores = [tuple(core + t * total for t in range(threads)) for core in range(total)]
    numa_nodes, start = [], 0
    for number, size in enumerate(sizes):
        cpus = tuple(sorted(cpu for core in cores[start : start + size] for cpu in core))
        numa_nodes.append(topo.NumaNode(number, cpus, package=draw(st.one_of(st.none(), st.just(number // 2)))))
        start += size
    localities = st.one_of(st.none(), st.lists(st.integers(0, len(sizes) - 1), min_size=1, max_size=2, unique=True))
    gpus = tuple(
        topo.Gpu(f"GPU{i}", i, numa=None if numa is None else tuple(sorted(numa)))
        for i, numa in enumerate(draw(st.lists(localities, max_size=5)))
    )
    return topo.NodeTopology(
        name="n", source="random", gpus=gpus, numa_nodes=tuple(numa_nodes), cores=tuple(cores) if total else ()
    )


@settings(max_examples=150, deadline=None)
@given(machines(), st.integers(1, 6), st.data())
def test_bind_holds_its_promises_on_every_machine(node: topo.NodeTopology, ranks: int, data: st.DataObject) -> None:
    every = [cpu for core in node.cores for cpu in core]
    cpuset = data.draw(st.one_of(st.none(), st.lists(st.sampled_from(every), unique=True))) if every else None
    per_rank = data.draw(st.one_of(st.none(), st.integers(1, 6)))
    gpus = data.draw(st.permutations([gpu.index or 0 for gpu in node.gpus]))
    result = affinity.bind(node, gpus, ranks, cpuset=cpuset, cpus_per_rank=per_rank)

    assert len(result.ranks) == ranks
    allowed = set(every if cpuset is None else cpuset)
    used = [set(rank.cpus) for rank in result.ranks]
    assert all(cpus <= allowed for cpus in used)
    usable = [core for core in node.cores if set(core) & allowed]
    owners = [[i for i, cpus in enumerate(used) if cpus & set(core)] for core in node.cores]
    if len(usable) >= ranks:
        assert all(cpus for cpus in used)
        assert all(len(own) <= 1 for own in owners)  # whole cores: siblings have one owner
    elif usable:
        assert all(cpus for cpus in used)
        most = -(-ranks // len(usable))
        assert all(len(own) <= most for own in owners)
    for own, core in zip(owners, node.cores, strict=True):
        assert all(set(core) & allowed <= used[i] for i in own)
    if per_rank is not None and usable:
        width = max(len(set(core) & allowed) for core in usable)
        want = min(-(-per_rank // width), max(1, len(usable) // ranks))
        assert [sum(bool(cpus & set(core)) for core in node.cores) for cpus in used] == [want] * ranks
    assert sorted(set(itertools.chain.from_iterable(rank.gpus for rank in result.ranks))) == sorted(
        gpus if ranks <= len(gpus) else gpus[:ranks]
    )
    assert result.solve.termination is plan.Termination.OPTIMAL
    assert result.solve.gap == 0.0


@settings(max_examples=60, deadline=None)
@given(machines(), st.integers(1, 6))
def test_bind_answers_the_same_question_with_the_same_answer(node: topo.NodeTopology, ranks: int) -> None:
    gpus = [gpu.index or 0 for gpu in node.gpus]
    assert affinity.bind(node, gpus, ranks) == affinity.bind(node, gpus, ranks)
