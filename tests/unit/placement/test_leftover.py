"""Leftover damage by hand computation, and the cluster's own mix of jobs."""

from __future__ import annotations

import numpy as np
import pytest

from placer.cluster import types as cluster
from placer.placement import fgd, leftover


def _halves() -> leftover.Remainder:
    """Eight equal GPUs on two sockets: any set is fast; those inside a socket lie nearest."""
    everyone, low, high = 0xFF, 0x0F, 0xF0
    near = (low, high)
    return leftover.Remainder(
        [
            leftover.Family(1, groups=(everyone,), weight=2),
            leftover.Family(2, groups=(everyone,)),
            leftover.Family(2, groups=near),
            leftover.Family(4, groups=(everyone,)),
            leftover.Family(4, sets=near),
            leftover.Family(8, groups=(everyone,), weight=2),
        ],
        8,
    )


@pytest.mark.parametrize(
    ("free", "taken", "thousandths"),
    [
        # ones 2x2, pairs 2+2, quads 4+4, eight 8x2: all in eighths
        (0xFF, 0x03, (4 + 4 + 8 + 16) * 1000 // 8),
        (0x03, 0x03, (4 + 4) * 1000 // 8),  # an exact hole of two
        (0x0F, 0x0F, (8 + 8 + 8) * 1000 // 8),  # an exact hole of four
        (0xFF, 0x0F, (8 + 8 + 8 + 16) * 1000 // 8),
        (0x3F, 0x30, (4 + 4) * 1000 // 8),  # the spare pair: the quad stays
        (0x3F, 0x03, (4 + 4 + 4) * 1000 // 8),  # out of the quad: the near quad is lost
        (0x07, 0x04, 2 * 1000 // 8),  # the odd one of three
        (0xFF, 0x00, 0),
    ],
)
def test_damage_counts_the_sets_that_no_longer_fit(free: int, taken: int, thousandths: int) -> None:
    found = _halves().damage(np.array([free], dtype=np.int64), np.array([taken], dtype=np.int64))
    assert found.tolist() == [thousandths]


def test_damage_prefers_exact_holes_over_untouched_nodes() -> None:
    remainder = _halves()
    free = np.array([0x03, 0x0F, 0x3F, 0xFF], dtype=np.int64)
    taken = np.array([0x03, 0x03, 0x30, 0x03], dtype=np.int64)
    hole, quad, spare, untouched = remainder.damage(free, taken).tolist()
    assert hole == spare < quad < untouched


def test_counter_of_a_ring_of_pairs_is_a_matching() -> None:
    """Pairs 0-1, 1-2, 2-3, 3-4, 4-0 of a five-ring: at most two disjoint, one once a middle is gone."""
    pairs = tuple(1 << i | 1 << (i + 1) % 5 for i in range(5))
    counter = leftover.Counter(leftover.Family(2, pairs), 5)
    assert counter.groups is None
    assert counter.of(np.array([0b11111, 0b11101, 0b00111, 0b00101, 0], dtype=np.int64)).tolist() == [2, 2, 1, 0, 0]
    wide = leftover.Counter(leftover.Family(2, pairs), 12)
    assert wide.of(np.array([0b11111, 0b11101, 0b00111, 0b00101, 0], dtype=np.int64)).tolist() == [2, 2, 1, 0, 0]


def test_whole_groups_finds_sockets_and_refuses_partial_families() -> None:
    inside = tuple(1 << a | 1 << b for half in ((0, 1, 2), (3, 4, 5)) for a in half for b in half if a < b)
    assert leftover.whole_groups(leftover.Family(2, inside)) == (0b000111, 0b111000)
    assert leftover.whole_groups(leftover.Family(2, inside[:-1])) is None


def test_popcount_of_any_shape() -> None:
    masks = np.array([[0, 1, 0xFF], [1 << 61, (1 << 62) - 1, 0b1011]], dtype=np.int64)
    assert leftover.popcount(masks).tolist() == [[0, 1, 8], [1, 62, 3]]


def _job(**request: object) -> cluster.Job:
    return cluster.Job(id="1", request=cluster.JobRequest(**request))  # type: ignore[arg-type]


def test_mix_counts_one_pod_for_each_node_of_a_job() -> None:
    jobs = [
        _job(nodes=3, gpus_per_node=4, ntasks_per_node=4, cpus_per_task=8),
        _job(gpus=1, cpus_per_gpu=6, gpu_type="A100"),
    ]
    mix = leftover.mix(jobs)
    assert mix == (
        fgd.Weighted(fgd.Pod(32_000, 1000, 4), 0.75),
        fgd.Weighted(fgd.Pod(6_000, 1000, 1, ("a100",)), 0.25),
    )


def test_mix_reads_shares_tasks_and_cpu_jobs() -> None:
    assert leftover.mix([_job(gpu_share=250, cpus_per_task=2)])[0].pod == fgd.Pod(2_000, 250, 1)
    assert leftover.mix([_job(gpus_per_task=1, ntasks=8, nodes=2)])[0].pod == fgd.Pod(4_000, 1000, 4)
    assert leftover.mix([_job(ntasks=16)])[0].pod == fgd.Pod(16_000, 0, 0)
    assert leftover.mix([]) == ()


def test_fgd_node_counts_free_gpus_that_the_mix_cannot_use() -> None:
    mix = leftover.mix([_job(nodes=1, gpus_per_node=4, cpus_per_gpu=4)])
    assert leftover.fgd_node(0b1111, 4, 16, mix) == 0
    assert leftover.fgd_node(0b0111, 4, 16, mix) == 3000  # three free, four wanted
    assert leftover.fgd_node(0b1111, 4, 15, mix) == 4000  # a CPU too few
    assert leftover.fgd_node(0b0011, 4, 16, mix, shares=[500, 250, 0, 0]) == 750
    assert leftover.fgd_node(0b1111, 4, 16, ()) == 0
