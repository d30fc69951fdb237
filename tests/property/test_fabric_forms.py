"""Fabrics in every form: what is read, written and read again is equal; any bytes give a Fabric or a ParseError."""

from __future__ import annotations

import pathlib
import time
from collections.abc import Callable, Sequence

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from placer import errors
from placer.slurm import topology_conf, topology_yaml
from placer.topology import fabric as fabrics
from placer.topology import fabric_checks, labels
from placer.topology import types as topo
from placer.topology.exports import kubernetes as exports
from placer.topology.fabrics import csv_table, ibnetdiscover, kubernetes, topograph

ROOT = pathlib.Path(__file__).parents[2]
TEXTS = [p.read_text() for p in sorted((ROOT / "fixtures" / "fabric").glob("*.*")) if p.suffix != ".md"]
TEXTS += [p.read_text() for p in sorted((ROOT / "fixtures" / "topo").glob("*.conf"))]

Reader = Callable[..., topo.Fabric]
READERS: dict[str, Reader] = {
    "conf": topology_conf.read,
    "yaml": topology_yaml.read,
    "ib": ibnetdiscover.read,
    "topograph": topograph.read,
    "csv": csv_table.read,
    "kubernetes": lambda text, *, source: kubernetes.read([(text, source)]),
}


def shape(fabric: topo.Fabric) -> list[tuple[int, str, tuple[str, ...], str | None]]:
    return [(d.level, d.name, d.nodes, d.parent) for d in fabric.domains]


@st.composite
def trees(draw: st.DrawFn) -> topo.Fabric:
    """A switch tree of one to four levels, even or not, of one island or several."""
    count = draw(st.integers(1, 12))
    width = [f"n{i}" for i in range(1, 3 * count)]
    rows: list[topo.Switch] = []
    tier: list[str] = []
    for i in range(count):
        size = draw(st.integers(1, 3))
        nodes, width = width[:size], width[size:]
        if nodes:
            rows.append(topo.Switch(f"l{i}", tuple(nodes)))
            tier.append(f"l{i}")
    for height in range(draw(st.integers(0, 3))):
        left = list(tier)
        above: list[str] = []
        while left and len(above) < 6:
            size = draw(st.integers(1, len(left)))
            name = f"s{height}x{len(above)}"
            rows.append(topo.Switch(name, switches=tuple(left[:size])))
            above.append(name)
            left = left[size:]
        tier = [*above, *(left if draw(st.booleans()) else [])]
    return fabrics.from_switches(rows, source="f")


@st.composite
def blocks(draw: st.DrawFn) -> topo.Fabric:
    base = draw(st.sampled_from([1, 2, 3, 18]))
    count = draw(st.integers(1, 9))
    sizes = [base << k for k in sorted(draw(st.sets(st.integers(1, 4), max_size=3)))]
    text = "".join(f"BlockName=b{i} Nodes=n{i}-[1-{base + draw(st.integers(0, 2))}]\n" for i in range(count))
    return topology_conf.read(text + f"BlockSizes={','.join(map(str, [base, *sizes]))}\n", source="f")


@settings(max_examples=150, deadline=None)
@given(trees())
def test_tree_written_and_read_again_is_equal_in_every_form(fabric: topo.Fabric) -> None:
    assert shape(topology_conf.read(topology_conf.write(fabric), source="w")) == shape(fabric)
    written = topology_yaml.write_one(fabric)
    assert shape(topology_yaml.read(written, source="w")) == shape(fabric)
    again = kubernetes.read([(exports.to_yaml(exports.hyper_nodes(fabric)), "w")])
    assert shape(again) == shape(fabric)
    assert [level.name for level in again.levels] == [level.name for level in fabric.levels]
    labelled = exports.to_yaml([exports.topology(fabric, exports.KAI), *exports.node_labels(fabric)])
    assert shape(kubernetes.read([(labelled, "w")])) == shape(fabric)
    columns = csv_table.Columns("host", tuple((level.name, (level.name,)) for level in fabric.levels))
    assert shape(csv_table.read(csv_table.write(fabric), source="w", columns=columns)) == shape(fabric)


@settings(max_examples=150, deadline=None)
@given(blocks())
def test_blocks_written_and_read_again_are_equal(fabric: topo.Fabric) -> None:
    for again in (
        topology_conf.read(topology_conf.write_blocks(fabric), source="w"),
        topology_yaml.read(topology_yaml.write_one(fabric), source="w"),
    ):
        assert shape(again) == shape(fabric)
        assert again.levels == fabric.levels


NAMES = st.sampled_from(["a", "b", "c", "d", "e"])


@settings(max_examples=200, deadline=None)
@given(
    st.lists(
        st.builds(
            topo.Switch,
            name=NAMES,
            nodes=st.lists(st.sampled_from(["n1", "n2", "n3"]), max_size=2).map(tuple),
            switches=st.lists(NAMES, max_size=2).map(tuple),
            line=st.integers(1, 99),
        ),
        max_size=6,
    )
)
def test_check_finds_an_error_exactly_where_no_tree_can_be_made(switches: Sequence[topo.Switch]) -> None:
    found = fabric_checks.check(switches)
    wrong = any(entry.severity == "error" for entry in found)
    try:
        made = fabrics.from_switches(switches, source="f")
    except errors.ParseError:
        assert wrong
    else:
        assert not wrong
        # what the reader repairs or leaves out is a finding too
        assert found or not made.warnings


KEYS = [
    "nvidia.com/gpu.clique",
    "fabric.topograph.run/tier-0",
    "fabric.topograph.run/tier-1",
    "site/rack",
    "topology.k8s.aws/network-node-layer-1",
    "topology.kubernetes.io/zone",
    "accelerator.topograph.run/domain",
]


@settings(max_examples=150, deadline=None)
@given(st.dictionaries(st.sampled_from([f"n{i}" for i in range(8)]), st.dictionaries(st.sampled_from(KEYS), NAMES)))
def test_labels_never_put_together_what_no_label_does(table: dict[str, dict[str, str]]) -> None:
    made = labels.fabric_of(table.items())
    for level, tier in enumerate(made.levels):
        seen: set[str] = set()
        for domain in fabrics.domains_of(made, level):
            assert not seen & set(domain.nodes)
            seen |= set(domain.nodes)
            told = {table[node].get(tier.label or "") for node in domain.nodes} - {None, ""}
            # a domain has one value of its label; nodes without it share the domain below or above
            assert len(told) <= 1


def outcome(reader: Reader, text: str) -> topo.Fabric | errors.ParseError:
    try:
        return reader(text, source="mutant")
    except errors.ParseError as error:
        return error


def check_total(reader: Reader, text: str) -> None:
    start = time.process_time()
    found = outcome(reader, text)
    assert time.process_time() - start < 2
    if isinstance(found, errors.ParseError):
        assert found.line >= 1
        assert found.column >= 1
        assert str(found).isprintable()
    else:
        assert all(warning.isprintable() for warning in found.warnings)
        assert len({(d.level, d.name) for d in found.domains}) == len(found.domains)


@st.composite
def mutants(draw: st.DrawFn) -> str:
    """A fixture with pieces cut, doubled, exchanged or overwritten."""
    text = draw(st.sampled_from(TEXTS))
    for _ in range(draw(st.integers(1, 4))):
        at = draw(st.integers(0, len(text)))
        end = min(len(text), at + draw(st.integers(0, 40)))
        piece = draw(
            st.sampled_from(["", "\x00", "[1-99999999]", "{", "]", '"', "\n", "&a *a", "\ud800", text[at:end] * 2])
        )
        text = text[:at] + piece + text[end:]
    return text


@pytest.mark.parametrize("name", READERS)
@settings(max_examples=60, deadline=None)
@given(text=mutants())
def test_reader_of_a_mutated_fixture_fabric_or_parse_error(name: str, text: str) -> None:
    check_total(READERS[name], text)


@pytest.mark.parametrize("name", READERS)
@settings(max_examples=60, deadline=None)
@given(text=st.text(max_size=200) | st.text(alphabet="{}[]:,-#\n \t\"'&*|>?=SwitchNamehost123", max_size=200))
def test_reader_of_any_text_fabric_or_parse_error(name: str, text: str) -> None:
    check_total(READERS[name], text)


BOMBS = {
    "aliases": "a: &a [x]\n"
    + "".join(f"{chr(98 + i)}: &{chr(98 + i)} [*{chr(97 + i)}, *{chr(97 + i)}]\n" for i in range(20)),
    "deep": "[" * 100_000,
    "deep json": '{"a":' * 100_000,
    "long line": "x" * 5_000_000,
    "many names": "SwitchName=a Nodes=" + ",".join(["n[1-99999]"] * 500),
    "NUL": "SwitchName=a\x00 Nodes=n1\n",
    "columns": "host," + ",".join(f"c{i}" for i in range(10_000)) + "\n",
    "many switches of one host": "".join(
        f'Switch 4 "S-{i}" # "s{i}"\n[1] "H-1"[{i}] # "h x" lid 1 4xNDR\n' for i in range(20_000)
    ),
    "ring of switches": "".join(f"SwitchName=s{i} Switches=s{i + 1}\n" for i in range(20_000)) + "SwitchName=s20000\n",
}


@pytest.mark.parametrize("bomb", BOMBS)
@pytest.mark.parametrize("name", READERS)
def test_reader_of_a_bomb_ends_soon(name: str, bomb: str) -> None:
    check_total(READERS[name], BOMBS[bomb])
