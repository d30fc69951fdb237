"""Readers are total: whatever the bytes, a topology or a ParseError, and soon."""

from __future__ import annotations

import os
import pathlib
import time
from collections.abc import Callable

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from placer import errors
from placer.topology import types as topo
from placer.topology.readers import nvidia_smi, rocm_smi, sniff, sysfs

ROOT = pathlib.Path(__file__).parents[2]
SAVED = pathlib.Path(os.environ.get("PLACER_DATA", ROOT.parent / "shared" / "data")) / "topo"
TEXTS = [
    p.read_text()
    for folder in (ROOT / "fixtures" / "topo", SAVED)
    for p in sorted(folder.glob("*.*"))
    if p.name.endswith((".txt", ".aux"))
]

READERS = (sniff.read, nvidia_smi.read_matrix, rocm_smi.read, sysfs.read_listing)


def check(text: str) -> None:
    """Run every reader; what comes out must be consistent in itself."""
    for reader in READERS:
        start = time.process_time()
        found = outcome(reader, text)
        assert time.process_time() - start < 2
        if isinstance(found, topo.NodeTopology):
            consistent(found)
        else:
            assert 1 <= found.line <= text.count("\n") + 1
            assert found.column >= 1
            assert str(found).isprintable()


def outcome(reader: Callable[..., topo.NodeTopology], text: str) -> topo.NodeTopology | errors.ParseError:
    try:
        return reader(text, source="mutant.txt", name="n1")
    except errors.ParseError as error:
        return error


def consistent(node: topo.NodeTopology) -> None:
    devices = [gpu.id for gpu in node.gpus] + [nic.id for nic in node.nics]
    assert len(set(devices)) == len(devices)
    pairs = [frozenset((link.a, link.b)) for link in node.links]
    assert len(set(pairs)) == len(pairs)
    assert all(len(pair) == 2 and pair <= set(devices) for pair in pairs)
    assert all(link.lanes > 0 for link in node.links if link.type is topo.LinkType.NVLINK)
    assert all(text.isprintable() for text in node.warnings)
    if not node.partial and node.links:
        assert len(pairs) == len(devices) * (len(devices) - 1) // 2


@st.composite
def mutants(draw: st.DrawFn) -> str:
    """A saved text after a few of the accidents that happen to saved texts."""
    text = draw(st.sampled_from(TEXTS))
    for _ in range(draw(st.integers(1, 4))):
        text = draw(st.sampled_from(ACCIDENTS))(draw, text)
    return text


def cut(draw: st.DrawFn, text: str) -> str:
    return text[: draw(st.integers(0, len(text)))]


def flip(draw: st.DrawFn, text: str) -> str:
    data = bytearray(text.encode())
    for _ in range(draw(st.integers(1, 8))):
        if data:
            data[draw(st.integers(0, len(data) - 1))] = draw(st.integers(0, 255))
    return data.decode(errors="replace")


def lose_line(draw: st.DrawFn, text: str) -> str:
    lines = text.split("\n")
    del lines[draw(st.integers(0, len(lines) - 1))]
    return "\n".join(lines)


def swap_lines(draw: st.DrawFn, text: str) -> str:
    lines = text.split("\n")
    i, j = (draw(st.integers(0, len(lines) - 1)) for _ in range(2))
    lines[i], lines[j] = lines[j], lines[i]
    return "\n".join(lines)


def double_column(draw: st.DrawFn, text: str) -> str:
    at = draw(st.integers(0, 12))
    return "\n".join(
        "\t".join([*cells[: at + 1], *cells[at:]]) for cells in (line.split("\t") for line in text.split("\n"))
    )


def other_blanks(draw: st.DrawFn, text: str) -> str:
    return draw(
        st.sampled_from(
            [
                text.replace("\t", " "),
                text.replace("\t", ""),
                text.replace("  ", "\t"),
                text.replace(" ", "\t"),
                text.replace("\n", "\r\n"),
                text.replace("\n", "\n\n"),
                text.replace("\n", " "),
                text.replace("\t", "\x1b[4m\t"),
            ]
        )
    )


def insert(draw: st.DrawFn, text: str) -> str:
    at = draw(st.integers(0, len(text)))
    return (
        text[:at]
        + draw(st.sampled_from(["\x00", "\x1b[", "\x1b[0", "é", "\u2028", "0-999999", "NV99", "GPU0", "\n", "X"]))
        + text[at:]
    )


def twice(_draw: st.DrawFn, text: str) -> str:
    return text + text


ACCIDENTS = (cut, flip, lose_line, swap_lines, double_column, other_blanks, insert, twice)


@given(mutants())
@settings(max_examples=200, deadline=None)
def test_readers_mutated_outputs_give_a_topology_or_a_parse_error(text: str) -> None:
    check(text)


@given(st.text(alphabet=st.characters(codec="utf-8"), max_size=200))
@settings(max_examples=100, deadline=None)
def test_readers_any_text_gives_a_topology_or_a_parse_error(text: str) -> None:
    check(text)


@pytest.mark.parametrize(
    "text",
    [
        "\x1b[" * 500_000,
        "GPU0 " * 500_000,
        "=" * 2_000_000,
        "\n" * 1_000_000,
        "\t" * 2_000_000,
        "\tGPU0\tGPU1\n" + "GPU0\t X \tPIX\t" + "0-8191," * 200_000,
        "\tGPU0\tGPU1\n" * 100_000,
        "\t".join(["", *(f"GPU{i}" for i in range(512))]) + "\n" + "GPU1 X\n" * 100_000,
        "== Link Type between two GPUs ==\n GPU0 GPU1\n" + "GPU0 0 " * 200_000,
        "GPU[0]: Numa Node: 0\n" * 50_000,
        "/sys/devices/system/node/node0/cpulist:0-8191\n" * 20_000,
    ],
    ids=lambda text: repr(text[:12]),
)
def test_readers_large_nonsense_takes_linear_time(text: str) -> None:
    check(text)


def test_read_largest_matrix_takes_linear_time() -> None:
    """512 devices, 130,816 pairs, 8,192 CPUs in every row."""
    names = [f"GPU{i}" for i in range(512)]
    rows = [[name, *("X" if other == name else "NV18" for other in names), "0-8191"] for name in names]
    text = "\n".join("\t".join(row) for row in [["", *names, "CPU Affinity"], *rows])
    start = time.process_time()
    node = nvidia_smi.read_matrix(text, source="large.txt", name="n1")
    assert (len(node.links), len(node.gpus[511].cpus or ())) == (512 * 511 // 2, 8192)
    assert time.process_time() - start < 10
