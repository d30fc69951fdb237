"""MAPA's comparison: regression and tables by hand and brute force, published results, and placer's own policies."""

from __future__ import annotations

import functools
import itertools
import json
import os
import pathlib
import random

import numpy as np
import pytest

from placer import errors
from placer.simulation import mapa, mapa_ahead, mapa_server

DATA = pathlib.Path(os.environ.get("PLACER_DATA", pathlib.Path(__file__).parents[4] / "shared" / "data"))
FIXTURE = pathlib.Path(__file__).parents[3] / "fixtures" / "mapa" / "dgx-1v.json"
PUBLISHED = {policy.name: policy for policy in mapa.PUBLISHED}


@functools.cache
def _tables(machine: str) -> mapa_server.Tables:
    path = DATA / "mapa" / "topologies.json"
    if not path.is_file():
        pytest.skip(f"no {path}: set PLACER_DATA")
    servers = mapa_server.parse(path.read_text(), source=path.name)
    return mapa_server.Tables(next(server for server in servers if server.name == machine))


@functools.cache
def _dgx1v() -> mapa_server.Tables:
    return mapa_server.Tables(mapa_server.parse(FIXTURE.read_text(), source=FIXTURE.name)[0])


@functools.cache
def _runs(machine: str, policy: mapa.Policy, seeds: range, jobs: int) -> tuple[tuple[float, ...], ...]:
    return tuple(mapa.replay(_tables(machine), mapa.draw(random.Random(seed), jobs), policy) for seed in seeds)


def _summary(machine: str, policy: mapa.Policy, seeds: range, jobs: int) -> mapa.Summary:
    return mapa.summary([value for run in _runs(machine, policy, seeds, jobs) for value in run])


@pytest.mark.parametrize(
    ("links", "gbps"),
    # Published for a DGX-1V: a pair with one link 27.7, over PCIe 10.4; the triples of a quad 57.9 or 44.1.
    [((0, 2, 0), 27.7), ((0, 0, 2), 10.4), ((2, 1, 0), 57.9), ((1, 2, 0), 44.1)],
)
def test_predicted_gbps_rings_published_values(links: tuple[int, int, int], gbps: float) -> None:
    x, y, z = (np.array(float(count)) for count in links)
    assert float(mapa_server.predicted_gbps(x, y, z)) == pytest.approx(gbps, abs=0.05)


def _best_ring(gpus: tuple[int, ...]) -> float:
    """The best ring over a set of the DGX-1V, all orders tried."""
    server = _dgx1v().server
    found = []
    for order in itertools.permutations(gpus):
        kinds = [server.classes[a][b] for a, b in zip(order, (*order[1:], order[0]), strict=True)]
        counts = (np.array(float(kinds.count(kind))) for kind in range(3))
        found.append(float(mapa_server.predicted_gbps(*counts)))
    return max(found)


@pytest.mark.parametrize("size", mapa_server.SIZES)
def test_tables_dgx1v_equal_brute_force(size: int) -> None:
    tables = _dgx1v()
    sets = list(itertools.combinations(range(8), size))
    rated = {gpus: _best_ring(gpus) for gpus in sets[::3]}
    for gpus, value in rated.items():
        assert tables.sets[size].predicted[sets.index(gpus)] == pytest.approx(value)
    for free in (0b11111111, 0b10110111, 0b00011110, 0b1):
        inside = [g for g in range(8) if free >> g & 1]
        best = max((_best_ring(gpus) for gpus in itertools.combinations(inside, size)), default=0.0)
        assert tables.best[size][free] == pytest.approx(best)
    # GPUs 0 to 3 are joined by three double links and three single ones: 3 x 50 + 3 x 25.
    assert tables.nvlink_gbps[0b1111] == 225.0


def _names(policy: str, free: int, size: int, sensitive: bool) -> tuple[int, ...]:
    tables = _dgx1v()
    at = PUBLISHED[policy].choose(tables, mapa.Moment(mapa.Job(size, 5, sensitive), free, (), 0))
    mask = int(tables.sets[size].masks[at])
    return tuple(g for g in range(8) if mask >> g & 1)


def test_policies_dgx1v_choices_by_hand() -> None:
    # Free 1, 2, 4, 5, 6, 7; double links 1-2, 1-5, 4-7, 5-6, 6-7.
    free = 0b11110110
    assert _names("baseline", free, 3, True) == (1, 2, 4)
    assert _names("topo-aware", free, 3, True) == (4, 5, 6)
    assert _names("greedy", free, 2, True) == (1, 2)
    assert _names("preserve", free, 2, True) == (1, 2)
    # Not sensitive: 1-4 have no link, and without them the rest keeps 2-6, 5-6, 5-7, 6-7 … of the most bandwidth.
    left: dict[tuple[int, ...], float] = {
        pair: _dgx1v().nvlink_gbps[free & ~(1 << pair[0]) & ~(1 << pair[1])]
        for pair in itertools.combinations((1, 2, 4, 5, 6, 7), 2)
    }
    assert left[_names("preserve", free, 2, False)] == max(left.values())


def test_replay_first_job_holds_up_the_queue() -> None:
    # 5 + 3 GPUs run; a job of 4 waits for the 5 that end at 10 and not for the 3 that end at 12.
    moments: list[mapa.Moment] = []

    def choose(tables: mapa_server.Tables, moment: mapa.Moment) -> int:
        moments.append(moment)
        return int(tables.inside(moment.free, moment.job.size)[0])

    jobs = [mapa.Job(5, 10, True), mapa.Job(3, 12, False), mapa.Job(4, 9, True), mapa.Job(2, 5, False)]
    found = mapa.replay(_dgx1v(), jobs, mapa.Policy("spy", choose))
    assert [(moment.now, moment.free) for moment in moments] == [
        (0, 0b11111111),
        (0, 0b11100000),
        (10, 0b00011111),
        (12, 0b11110000),
    ]
    assert len(found) == 2


def test_draw_seeded_sequence_is_that_of_the_protocol() -> None:
    draws = random.Random(7)
    expected = [(draws.randrange(2, 6), draws.randrange(5, 25), draws.choice(range(6))) for _ in range(50)]
    assert mapa.draw(random.Random(7), 50) == tuple(mapa.Job(k, t, net < 4) for k, t, net in expected)


def test_summary_numbers_by_hand() -> None:
    assert mapa.summary([4.0, 1.0, 3.0, 2.0, 10.0]) == mapa.Summary(5, 4.0, 2.0, 1.0)
    assert mapa.summary([]) == mapa.Summary(0)


PUBLISHED_MEANS = {
    # server: (jobs, (policy, mean of sensitive jobs)); published by an independent replay with 20 seeds 100-119
    "dgx-v": (1000, {"greedy": 57.89, "preserve": 58.21}),
    "dgx-p": (1000, {"greedy": 32.81, "preserve": 36.94}),
    "summit": (1000, {"greedy": 44.49, "preserve": 44.38}),
    "torus-2d": (300, {"greedy": 42.29, "preserve": 42.96}),
    "cubeMesh-16": (300, {"greedy": 39.19, "preserve": 44.90}),
}


@pytest.mark.parametrize("machine", PUBLISHED_MEANS)
def test_published_policies_reach_their_means(machine: str) -> None:
    jobs, means = PUBLISHED_MEANS[machine]
    for name, mean in means.items():
        found = _summary(machine, PUBLISHED[name], range(100, 120), jobs)
        assert found.mean == pytest.approx(mean, rel=0.02), name


def test_published_policies_dgx_v_paper_rows() -> None:
    for name, mean, p25, least in (
        ("baseline", 44.97, 27.7, 3.2),
        ("greedy", 57.65, 53.5, 10.4),
        ("preserve", 58.24, 53.6, 10.4),
    ):
        found = _summary("dgx-v", PUBLISHED[name], range(5), 1000)
        assert found.mean == pytest.approx(mean, rel=0.02)
        assert found.p25 == pytest.approx(p25, abs=0.06)
        assert found.min == pytest.approx(least, abs=0.06)


@pytest.mark.parametrize("machine", PUBLISHED_MEANS)
def test_placer_policies_20_seeds_gain_over_preserve_on_the_same_jobs(machine: str) -> None:
    seeds, jobs = range(20), 60 if _tables(machine).server.gpus > 8 else 100
    preserve = np.array([np.mean(run) for run in _runs(machine, PUBLISHED["preserve"], seeds, jobs)])
    online = np.array([np.mean(run) for run in _runs(machine, mapa_ahead.online(), seeds, jobs)])
    ahead = np.array([np.mean(run) for run in _runs(machine, mapa_ahead.look_ahead(3), seeds, jobs)])
    assert (ahead - preserve).mean() > 0.3
    # Without the queue nothing is to be gained on Summit, which is two equal triangles.
    assert (online - preserve).mean() > (-1e-9 if machine == "summit" else 0.2)


def test_expected_worth_of_a_set_equals_all_orders_of_ending() -> None:
    tables = _dgx1v()
    left, held = 0b00000001, [0b00000110, 0b00011000, 0b11100000]
    total = 0.0
    for size in mapa_server.SIZES:
        values = []
        for order in itertools.permutations(held):
            mask = left
            for gpus in order:
                if mask.bit_count() >= size:
                    break
                mask |= gpus
            values.append(float(tables.best[size][mask]))
        total += sum(values) / len(values)
    found = mapa_ahead.expected(tables, np.array([left]), held)
    assert float(found[0]) == pytest.approx(total / 4)


def test_look_ahead_leaves_a_better_pair_to_the_sensitive_job_behind() -> None:
    tables = _dgx1v()
    jobs = (mapa.Job(2, 20, False), mapa.Job(2, 20, True))
    free = 0b00000111  # 0-1 one link, 0-2 one link, 1-2 two: the first job must not take part in 1-2
    held = ((30, 0b11111000),)
    at = mapa_ahead.look_ahead(1).choose(tables, mapa.Moment(jobs[0], free | 0b00010000, held, 0, jobs, 1))
    assert int(tables.sets[2].masks[at]) & 0b110 == 0


def _written() -> dict[str, dict[str, object]]:
    return dict(json.loads(FIXTURE.read_text()))


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"gpus": 4}, "4 GPUs"),
        ({"gpus": 17}, "17 GPUs"),
        ({"gpus_per_socket_block": 0}, "0 of 8"),
        ({"links": [[1, 2, 25, "SingleNVLink"]]}, "1 links for 28"),
        ({"links": [[1, 9, 25, "SingleNVLink"]]}, "1 and 9"),
        ({"links": [[1, 2, 25, "Ethernet"]]}, "Ethernet"),
        ({"links": [[1, 2, 25, "PCIe"], [2, 1, 25, "PCIe"]]}, "its pair has one"),
        ({"links": [[1, 2, -1, "PCIe"]]}, "no bandwidth"),
    ],
)
def test_parse_faulty_server_says_where(change: dict[str, object], said: str) -> None:
    written = _written()
    written["dgx-1v"] |= change
    with pytest.raises(errors.DocumentError, match=said):
        mapa_server.parse(json.dumps(written), source="x.json")


@pytest.mark.parametrize("text", ["", "[]", "{", '{"a": 1}', "[" * 5000, '{"a": {"gpus": 8}}', '"\ud800"'])
def test_parse_other_text_is_a_parse_error(text: str) -> None:
    with pytest.raises(errors.ParseError):
        mapa_server.parse(text, source="x.json")
