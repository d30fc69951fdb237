"""Merging: the order of the parts is of no account, twice is once, and nothing that is told is lost."""

from __future__ import annotations

import msgspec
from hypothesis import given, settings
from hypothesis import strategies as st

from placer.topology import types as topo
from placer.topology.readers import merge, merge_trust

FACTS = ("index", "bus_id", "uuid", "model", "numa", "memory_mib", "sm", "minor", "healthy", "host_gbps")


@st.composite
def node_and_views(draw: st.DrawFn) -> tuple[topo.NodeTopology, list[topo.NodeTopology]]:
    """A whole node, and parts that each tell some of its facts, all true."""
    count = draw(st.integers(1, 4))
    nodes = tuple(topo.NumaNode(n, (2 * n, 2 * n + 1), 1024) for n in range(2))
    gpus = tuple(
        topo.Gpu(
            id=f"GPU{i}",
            index=i,
            bus_id=f"0000:{i + 16:02x}:00.0",
            uuid=f"GPU-{i}",
            model="NVIDIA A100",
            numa=(i % 2,),
            memory_mib=81920,
            minor=i,
            sm=80,
            healthy=True,
            host_gbps=24.0,
        )
        for i in range(count)
    )
    nics = (topo.Nic("NIC0", "mlx5_0", "0000:80:00.0", (1,), 200.0, True),)
    names = [*(gpu.id for gpu in gpus), "NIC0"]
    links = tuple(
        topo.Link(a, b, topo.LinkType.NVLINK if b.startswith("GPU") else topo.LinkType.SYS, 12 if b != "NIC0" else 0)
        for i, a in enumerate(names)
        for b in names[i + 1 :]
    )
    whole = topo.NodeTopology("n", "whole", gpus, nics, links, nodes)
    views = [_view(draw, whole, f"source{at}") for at in range(draw(st.integers(2, 4)))]
    return whole, views


def _view(draw: st.DrawFn, whole: topo.NodeTopology, source: str) -> topo.NodeTopology:
    """Some of the GPUs, under other names, each with its address or UUID and some other facts."""
    chosen = draw(st.lists(st.sampled_from(whole.gpus), unique_by=lambda gpu: gpu.id))
    identity = draw(st.sampled_from(["bus_id", "uuid"])) if draw(st.booleans()) else "both"
    hidden = draw(st.sets(st.sampled_from([f for f in FACTS if f not in ("bus_id", "uuid")])))
    if identity != "both":
        hidden |= {"bus_id", "uuid"} - {identity}
    prefix = draw(st.sampled_from(["GPU", "card"]))
    names = {gpu.id: f"{prefix}{gpu.index}" for gpu in chosen}
    gpus = tuple(msgspec.structs.replace(gpu, id=names[gpu.id], **dict.fromkeys(sorted(hidden))) for gpu in chosen)
    links = tuple(
        msgspec.structs.replace(link, a=names[link.a], b=names[link.b])
        for link in whole.links
        if link.a in names and link.b in names and draw(st.booleans())
    )
    return topo.NodeTopology(
        "n",
        source,
        gpus,
        nics=whole.nics if draw(st.booleans()) else (),
        links=links,
        numa_nodes=whole.numa_nodes if draw(st.booleans()) else (),
        tool=draw(st.sampled_from([tool.value for tool in merge_trust.Tool])),
    )


@settings(max_examples=150, deadline=None)
@given(node_and_views(), st.randoms(use_true_random=False))
def test_merge_is_independent_of_order_and_repetition(
    made: tuple[topo.NodeTopology, list[topo.NodeTopology]], random: object
) -> None:
    _, views = made
    once = merge.merge(views, name="n")
    shuffled = list(views)
    random.shuffle(shuffled)  # type: ignore[attr-defined]
    assert merge.merge(shuffled, name="n") == once
    assert merge.merge([*views, *views], name="n") == once
    again = merge.merge([once, once], name="n")
    assert again == once
    # Merged again with what it was made of, a node knows the same things.
    more = merge.merge([once, *views], name="n")
    assert {gpu.bus_id or gpu.uuid for gpu in more.gpus} == {gpu.bus_id or gpu.uuid for gpu in once.gpus}
    assert len(more.links) == len(once.links)


@settings(max_examples=150, deadline=None)
@given(node_and_views())
def test_merge_of_true_parts_tells_nothing_false_and_warns_of_nothing(
    made: tuple[topo.NodeTopology, list[topo.NodeTopology]],
) -> None:
    whole, views = made
    found = merge.merge(views, name="n")
    assert found.warnings == ()
    truth = {gpu.bus_id: gpu for gpu in whole.gpus} | {gpu.uuid: gpu for gpu in whole.gpus}
    for gpu in found.gpus:
        true = truth[gpu.bus_id or gpu.uuid]
        assert all(getattr(gpu, fact) in (None, getattr(true, fact)) for fact in FACTS)
    told = {fact: {gpu.bus_id or gpu.uuid for v in views for gpu in v.gpus if getattr(gpu, fact)} for fact in FACTS}
    for fact in FACTS:
        assert sum(getattr(gpu, fact) not in (None, ()) for gpu in found.gpus) <= len(found.gpus)
        if told[fact]:
            assert any(getattr(gpu, fact) for gpu in found.gpus) or fact == "index"
    assert {numa.id for numa in found.numa_nodes} == {numa.id for v in views for numa in v.numa_nodes}
    ids = [gpu.id for gpu in found.gpus]
    assert len(set(ids)) == len(ids)
