"""Strings as Slurm prints them (reference: scontrol(1), gres.conf(5), recordings)."""

from __future__ import annotations

import pytest

from placer import errors
from placer.slurm import gres


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("gpu:a100:8(S:0-1)", [("gpu", "a100", 8, None)]),
        ("gpu:a100:6(IDX:0-2,4-6)", [("gpu", "a100", 6, (0, 1, 2, 4, 5, 6))]),
        ("gpu:a100:0(IDX:N/A)", [("gpu", "a100", 0, ())]),
        ("gpu:a100:4(S:0-1),gpu:v100:2(S:1)", [("gpu", "a100", 4, None), ("gpu", "v100", 2, None)]),
        ("gpu:a100:2(IDX:0,3),gpu:v100:1(IDX:4)", [("gpu", "a100", 2, (0, 3)), ("gpu", "v100", 1, (4,))]),
        ("gpu(CNT:2)", [("gpu", None, 2, None)]),
        ("gpu:4", [("gpu", None, 4, None)]),
        ("gpu", [("gpu", None, 1, None)]),
        ("gres:gpu:2", [("gpu", None, 2, None)]),
        ("gres/gpu:2", [("gpu", None, 2, None)]),
        ("gres/gpu=4,gres/gpu:a100=4", [("gpu", None, 4, None), ("gpu", "a100", 4, None)]),
        ("craynetwork:no_consume:4K", [("craynetwork", None, 4096, None)]),
        ("(null)", []),
        ("N/A", []),
        ("", []),
    ],
)
def test_parse_forms_of_every_release(text: str, expected: list[tuple[str, str | None, int, object]]) -> None:
    assert [(one.name, one.type, one.count, one.indices) for one in gres.parse(text)] == expected


@pytest.mark.parametrize(
    "text", ["gpu:a100:8(S:0-1", "gpu:a:b:c:2", ":2", "gpu:a100=x", "gpu:1(IDX:9-2)", "gpu(CNT:x)"]
)
def test_parse_of_what_is_no_gres_raises_parse_error(text: str) -> None:
    with pytest.raises(errors.ParseError):
        gres.parse(text, source="here")


def test_parse_shares_counts_each_device() -> None:
    (shard,) = gres.parse("shard:8(-/5,5/5,3/5,0/5)")
    assert shard.shares == (0, 5, 3, 0)
    assert not shard.is_gpu


@pytest.mark.parametrize("kind", ["1g.5gb", "a100_3g.20gb", "nvidia_a100_1g.10gb", "1g.10gb+me"])
def test_is_mig_knows_slices(kind: str) -> None:
    (slice_,) = gres.parse(f"gpu:{kind}:7")
    assert slice_.is_mig
    assert not slice_.is_gpu


def test_is_mig_of_whole_gpus_is_false() -> None:
    assert all(gres.parse(f"gpu:{kind}:1")[0].is_gpu for kind in ("a100", "h100-80gb", "gtx1080", "a100_80gb"))


@pytest.mark.parametrize(
    ("text", "count", "types"),
    [
        ("cpu=32,mem=100G,node=1,billing=32,gres/gpu=4,gres/gpu:a100=4", 4, ("a100",)),
        ("gres/gpu=6,gres/gpu:a100=4,gres/gpu:v100=2", 6, ("a100", "v100")),
        ("gres/gpu:v100:2", 2, ("v100",)),
        ("cpu=2,gres/gpu=1", 1, ()),
        ("cpu=8", None, ()),
        ("", None, ()),
    ],
)
def test_ask_counts_the_same_gpus_once(text: str, count: int | None, types: tuple[str, ...]) -> None:
    ask = gres.ask(text)
    assert (ask.count, ask.types) == (count, types)


def test_ask_for_shards_and_slices_is_no_ask_for_gpus() -> None:
    ask = gres.ask("gres/shard:2,gres/gpu:1g.5gb:1")
    assert ask.count is None
    assert ask.others == ("shard", "gpu:1g.5gb")


def test_layout_gives_types_in_gres_order() -> None:
    assert gres.layout(gres.parse("gpu:a100:2(S:0),shard:8,gpu:v100:1(S:1)")) == ("a100", "a100", "v100")


def test_layout_of_absurd_count_is_none() -> None:
    assert gres.layout(gres.parse("gpu:a100:999999999999")) is None


def test_used_takes_gpus_whose_shards_are_used() -> None:
    assert gres.used(gres.parse("gpu:a100:1(IDX:0),shard:8(-/5,5/5,0/5,0/5)")) == ((0, 1), 2)


def test_used_without_indices_counts_only() -> None:
    assert gres.used(gres.parse("gpu:a100:1(IDX:2),gpu(CNT:3)")) == ((2,), 4)
