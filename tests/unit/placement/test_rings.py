"""Ring packings against published values of DGX-1V and against an LP-free search on a grid."""

from __future__ import annotations

import itertools

import pytest

from placer.placement import rings

# DGX-1V: NVLink pairs with two links (40 GB/s) and with one (20 GB/s), GPUs counted from 0.
DOUBLE = ((0, 3), (0, 4), (1, 2), (1, 5), (2, 3), (4, 7), (5, 6), (6, 7))
SINGLE = ((0, 1), (0, 2), (1, 3), (2, 6), (3, 7), (4, 5), (4, 6), (5, 7))


def _dgx1v(members: tuple[int, ...]) -> rings.Matrix:
    c = {frozenset(p): 40.0 for p in DOUBLE} | {frozenset(p): 20.0 for p in SINGLE}
    return tuple(tuple(c.get(frozenset((i, j)), 0.0) if i != j else 0.0 for j in members) for i in members)


@pytest.mark.parametrize(
    ("size", "counts"),
    [
        (2, {40.0: 8, 20.0: 8, 0.0: 12}),
        (3, {40.0: 8, 0.0: 48}),
        (4, {80.0: 2, 40.0: 6, 0.0: 62}),
        (5, {40.0: 24, 0.0: 32}),
        (6, {80.0: 4, 40.0: 24}),
        (8, {120.0: 1}),
    ],
)
def test_pack_dgx1v_sets_gives_the_published_counts(size: int, counts: dict[float, int]) -> None:
    found: dict[float, int] = {}
    for members in itertools.combinations(range(8), size):
        value = rings.pack(_dgx1v(members)).busbw_gbps
        found[value] = found.get(value, 0) + 1
    assert found == counts


def test_pack_dgx1v_best_sixes_are_one_and_its_mirrors() -> None:
    best = [s for s in itertools.combinations(range(8), 6) if rings.pack(_dgx1v(s)).busbw_gbps == 80]
    assert (0, 1, 2, 4, 5, 6) in best
    assert len(best) == 4


def test_pack_ring_order_uses_only_links_that_exist() -> None:
    for size in range(3, 9):
        for members in itertools.combinations(range(8), size):
            capacity = _dgx1v(members)
            order = rings.pack(capacity).order
            assert not order or sorted(order) == list(range(size))
            assert all(capacity[a][b] > 0 for a, b in rings.edges(order)) if order else True


@pytest.mark.parametrize("size", [3, 4, 5, 6, 7, 8])
def test_pack_complete_equal_mesh_uses_every_link(size: int) -> None:
    capacity = tuple(tuple(0.0 if i == j else 48.0 for j in range(size)) for i in range(size))
    assert rings.pack(capacity).busbw_gbps == 48 * (size - 1)


def test_pack_four_matches_a_grid_search() -> None:
    for c01, c02, c03, c12, c13, c23 in itertools.product((0, 1, 3), (0, 2), (1, 2), (0, 2), (1, 3), (2, 3)):
        m = ((0, c01, c02, c03), (c01, 0, c12, c13), (c02, c12, 0, c23), (c03, c13, c23, 0))
        ways = ((0, 1, 2, 3), (0, 1, 3, 2), (0, 2, 1, 3))
        best = 0.0
        for x in itertools.product([h / 2 for h in range(7)], repeat=3):
            used: dict[frozenset[int], float] = {}
            for amount, ring in zip(x, ways, strict=True):
                for a, b in itertools.pairwise((*ring, ring[0])):
                    used[frozenset((a, b))] = used.get(frozenset((a, b)), 0) + amount
            if all(u <= m[min(e)][max(e)] for e, u in used.items()):
                best = max(best, 2 * sum(x))
        capacity = tuple(tuple(map(float, row)) for row in m)
        assert rings.pack(capacity).busbw_gbps == best


def test_pack_open_chain_has_no_ring() -> None:
    chain = ((0.0, 40.0, 0.0), (40.0, 0.0, 40.0), (0.0, 40.0, 0.0))
    assert rings.pack(chain) == rings.NO_RING
    star = tuple(tuple(20.0 if 0 in (i, j) and i != j else 0.0 for j in range(6)) for i in range(6))
    assert rings.pack(star) == rings.NO_RING


def test_pack_two_squares_joined_at_a_corner_has_no_ring() -> None:
    joined = [(0, 1), (1, 2), (2, 3), (3, 0), (0, 4), (4, 5), (5, 6), (6, 0)]
    m = [[0.0] * 7 for _ in range(7)]
    for a, b in joined:
        m[a][b] = m[b][a] = 20.0
    assert rings.pack(tuple(map(tuple, m))) == rings.NO_RING


@pytest.mark.parametrize(("size", "count"), [(3, 1), (4, 3), (5, 12), (6, 60), (7, 360)])
def test_cycles_of_complete_graph_number_half_of_k_minus_one_factorial(size: int, count: int) -> None:
    complete = [((1 << size) - 1) & ~(1 << i) for i in range(size)]
    found = list(rings.cycles(complete))
    assert len(set(found)) == len(found) == count
    assert found == sorted(found)


def test_cycles_of_petersen_graph_are_none() -> None:
    outer = [(i, (i + 1) % 5) for i in range(5)]
    inner = [(5 + i, 5 + (i + 2) % 5) for i in range(5)]
    spokes = [(i, 5 + i) for i in range(5)]
    adjacent = [0] * 10
    for a, b in outer + inner + spokes:
        adjacent[a] |= 1 << b
        adjacent[b] |= 1 << a
    assert list(rings.cycles(adjacent)) == []


def test_falls_apart_two_hubs_cannot_join_three_islands() -> None:
    hubs_and_islands = [0b11110, 0b11101, 0b00011, 0b00011, 0b00011]
    assert rings.falls_apart(hubs_and_islands)
    assert list(rings.cycles(hubs_and_islands)) == []
    assert not rings.falls_apart([0b1010, 0b0101, 0b1010, 0b0101])


def test_normal_turns_and_mirrors_to_one_form() -> None:
    ring = (2, 5, 1, 3)
    turns = [ring[i:] + ring[:i] for i in range(4)]
    assert {rings.normal(t) for t in turns + [t[::-1] for t in turns]} == {(1, 3, 2, 5)}
