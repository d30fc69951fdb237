"""Eligibility of all nodes at once equals the plain definition, node by node, reason by reason."""

from __future__ import annotations

import random

from hypothesis import given, settings
from hypothesis import strategies as st

from placer.cluster import capacity
from placer.cluster import types as cluster
from placer.placement import eligible, features, shapes

UP, DRAINED, DOWN, RESERVED = cluster.NodeCondition


def snapshot(draw: random.Random) -> cluster.ClusterSnapshot:
    """Up to 30 nodes of few kinds, some hidden use, some jobs whose GPU indices nobody tells."""
    names = [f"n{i}" for i in range(draw.randrange(1, 31))]
    kinds = [
        tuple(
            cluster.GpuSlot(index=i, type=draw.choice(["a100", "A100", "v100", None]), healthy=draw.random() > 0.1)
            for i in range(draw.choice([0, 2, 4, 8]))
        )
        for _ in range(3)
    ]
    nodes = tuple(
        cluster.NodeState(
            name=name,
            gpus=draw.choice(kinds),
            cpus=draw.choice([0, 16, 64]),
            memory_mib=draw.choice([100, 500]),
            condition=draw.choice([UP, UP, UP, DOWN, DRAINED, RESERVED]),
            partitions=draw.choice([(), ("gpu",), ("gpu", "big"), ("big",)]),
            features=draw.choice([(), ("ib",), ("ib", "nvme")]),
            cpus_used=draw.choice([0, 0, 3, 20]),
            gpus_used_count=draw.choice([0, 0, 0, 1, 3]),
        )
        for name in names
    )
    jobs = tuple(
        cluster.Job(
            id=str(i),
            state=cluster.JobState.RUNNING,
            allocations=(
                cluster.Allocation(
                    draw.choice(names),
                    gpus=draw.choice([None, (), (0,), (1, 2), (0, 1, 2, 3)]),
                    gpu_count=draw.randrange(4),
                    cpus=draw.randrange(20),
                    memory_mib=draw.choice([0, 50, 400]),
                ),
            ),
        )
        for i in range(draw.randrange(20))
    )
    partitions = (
        cluster.Partition(name="gpu", default=True, max_nodes=draw.choice([None, 2])),
        cluster.Partition(name="big", up=draw.random() > 0.3, max_time=draw.choice([None, 100])),
    )
    return cluster.ClusterSnapshot(nodes=nodes, jobs=jobs, partitions=partitions)


def plain(
    free: capacity.FreeNode,
    state: cluster.ClusterSnapshot,
    asked: cluster.JobRequest,
    count: int,
    demand: shapes.Demand,
    variant: features.Variant,
    empty: bool,
) -> str | None:
    """The first reason against one node, written out in the order that is promised."""
    node = free.node
    through = [
        partition
        for partition in state.partitions
        if partition.name in node.partitions
        and (partition.name == asked.partition if asked.partition else partition.default)
    ]
    within = [
        partition
        for partition in through
        if count <= (partition.max_nodes or 99) and (asked.time_limit or 0) <= (partition.max_time or 9999)
    ]
    listed = set((asked.nodelist or "").split(",")) - {""}
    working = {slot.index for slot in node.gpus if slot.healthy}
    kind = asked.gpu_type
    mine = {s.index for s in node.gpus if s.healthy and (kind is None or (s.type or "").lower() == kind)}
    ever = [
        ("partition", not through),
        ("partition limit", not within),
        ("nodelist", bool(listed) and len(listed) >= count and node.name not in listed),
        ("excluded", node.name in (asked.exclude or "").split(",")),
        ("features", not variant.every(frozenset(node.features))),
        ("gpu-type", bool(demand.gpus and not mine and asked.gpu_type and node.gpus)),
        ("node-shape", len(mine) < demand.gpus or 0 < node.cpus < demand.cpus),
        ("node-shape", node.memory_mib < (demand.memory_mib or 0)),
    ]
    idle = {slot.index for slot in node.gpus if slot.healthy and free.gpu_mask >> slot.index & 1}
    memory = node.memory_mib if demand.memory_mib is None else demand.memory_mib
    now = [
        ("partition down", not any(partition.up for partition in within)),
        ("down", node.condition is DOWN),
        ("drained", node.condition is DRAINED),
        ("reserved", node.condition is RESERVED and asked.reservation is None),
        ("in use", asked.exclusive and (free.cpus < node.cpus or idle != working or free.unplaced > 0)),
        ("gpus", len(idle & mine) - free.unplaced < demand.gpus),
        ("cpu", node.cpus > 0 and (free.cpus < demand.cpus or free.cpus < 1)),
        ("memory", free.memory_mib < memory),
    ]
    return next((reason for reason, applies in (ever if empty else ever + now) if applies), None)


@settings(max_examples=200, deadline=None)
@given(seed=st.integers(0, 2**32), empty=st.booleans())
def test_check_on_any_cluster_equals_the_definition_of_one_node(seed: int, empty: bool) -> None:
    draw = random.Random(seed)
    state = snapshot(draw)
    some = ",".join(draw.sample([node.name for node in state.nodes], draw.randrange(1, len(state.nodes) + 1)))
    asked = cluster.JobRequest(
        partition=draw.choice([None, "gpu", "big"]),
        gpu_type=draw.choice([None, None, "a100", "h100"]),
        nodelist=some if draw.random() < 0.2 else None,
        exclude=some if draw.random() < 0.2 else None,
        constraint=draw.choice([None, None, "ib", "ib&nvme"]),
        exclusive=draw.random() < 0.2,
        reservation="r" if draw.random() < 0.3 else None,
        time_limit=draw.choice([None, 50, 200]),
    )
    demand = shapes.Demand(draw.choice([0, 1, 2, 4, 8]), draw.choice([1, 8, 40]), draw.choice([None, 0, 100, 300]), 1)
    count = draw.randrange(1, 5)
    (variant,) = features.parse(asked.constraint)
    free = capacity.of(state)
    found = eligible.check(free, eligible.wanted(state, asked, variant, count), demand, empty=empty)
    told = [plain(node, state, asked, count, demand, variant, empty) for node in free.nodes]
    assert found.positions == tuple(i for i, reason in enumerate(told) if reason is None)
    assert dict(found.fits.excluded) == {reason: told.count(reason) for reason in set(told) - {None}}
    for position, mask in zip(found.positions, found.masks, strict=True):
        node = free.nodes[position]
        for slot in node.node.gpus:
            right = asked.gpu_type is None or (slot.type or "").lower() == asked.gpu_type
            idle = empty or node.gpu_mask >> slot.index & 1
            assert bool(mask >> slot.index & 1) == bool(slot.healthy and right and idle)
