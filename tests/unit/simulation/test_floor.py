"""The floor on clusters small enough to see the answer, and admission control by it."""

from __future__ import annotations

import numpy as np
import pytest

from placer.placement import fgd
from placer.simulation import admission, floor, openb

WHOLE = fgd.Pod(1000, 1000, 1)


def nodes(count: int = 1, gpus: int = 2, cpu: int = 64000, model: str = "T4") -> list[openb.Node]:
    return [openb.Node(f"n{i}", cpu, 1, gpus, model) for i in range(count)]


def test_pack_fills_gpus_with_what_goes_together() -> None:
    packed = floor.Bound(nodes()).pack({fgd.Pod(1000, 810, 1): 5, fgd.Pod(1000, 190, 1): 1})
    assert packed is not None
    assert packed.used_milli == pytest.approx(810 + 810 + 190)


def test_pack_knows_that_two_of_510_do_not_share_a_gpu() -> None:
    packed = floor.Bound(nodes()).pack({fgd.Pod(1000, 510, 1): 9})
    assert packed is not None
    assert packed.placed == pytest.approx({fgd.Pod(1000, 510, 1): 2.0})


def test_pack_is_bound_by_cpu_and_by_models() -> None:
    bound = floor.Bound([*nodes(cpu=3000), *nodes(model="A10", cpu=500)])
    packed = bound.pack({fgd.Pod(2000, 1000, 1, ("T4",)): 9, fgd.Pod(400, 500, 1, ("A10",)): 9})
    assert packed is not None  # T4: 3 CPUs for pods of 2; A10: half a CPU for pods of .4
    assert packed.used_milli == pytest.approx(1500 + 625)


def test_pack_that_must_place_too_much_is_impossible() -> None:
    assert floor.Bound(nodes()).pack({WHOLE: 3}, {WHOLE: 3}) is None


def test_pack_counts_pods_of_several_gpus_whole() -> None:
    packed = floor.Bound(nodes(gpus=8)).pack({fgd.Pod(1000, 1000, 4): 1, fgd.Pod(1000, 600, 1): 9})
    assert packed is not None
    assert packed.used_milli == pytest.approx(4000 + 4 * 600)


def test_floor_of_policies_that_place_is_above_that_of_any() -> None:
    """Two GPUs. 600s come first and fill 1.2; who had declined them could have taken the whole ones."""
    pods = [openb.Pod(f"a{i}", 1000, 1, 600, 1) for i in range(2)]
    pods += [openb.Pod(f"b{i}", 1000, 1, 1000, 1) for i in range(2)]
    found = floor.floor(nodes(), pods)
    assert found.any_pct == 0.0
    assert found.placing_pct == pytest.approx(40.0)  # 2 x 600 of 2000 in use
    assert 60 <= found.prefix_pct < 110


def test_chances_decline_what_leaves_holes() -> None:
    pods = [openb.Pod(f"a{i}", 1000, 1, 810, 1) for i in range(10)]
    pods += [openb.Pod(f"b{i}", 1000, 1, 1000, 1) for i in range(10)]
    chance = admission.chances(nodes(gpus=8), pods)
    assert chance[fgd.Pod(1000, 1000, 1)] == pytest.approx(1.0)
    assert 0 < chance[fgd.Pod(1000, 810, 1)] < 1


def test_accept_declines_nothing_before_its_time() -> None:
    pods = [openb.Pod(f"a{i}", 1000, 1, 1000, 1) for i in range(6)]
    chance = {WHOLE: 0.0}
    assert admission.accept(pods, chance, after_milli=4000, rng=np.random.default_rng(1)) == [True] * 4 + [False] * 2
