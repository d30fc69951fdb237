"""Random trees and random labels: what a fabric promises, checked against naive walks over the input."""

from __future__ import annotations

import msgspec
from hypothesis import given, settings
from hypothesis import strategies as st

from placer import errors, hostlist
from placer.slurm import topology_conf
from placer.topology import checks, fabric, index
from placer.topology import types as topo

FEW = settings(max_examples=100, deadline=None)


@st.composite
def trees(draw: st.DrawFn) -> list[topo.Switch]:
    """A forest: every switch is below a later one or a root; leaves hold one to four nodes. In random order."""
    leaves = draw(st.integers(1, 8))
    uppers = draw(st.integers(0, 5))
    children: list[list[str]] = [[] for _ in range(uppers)]
    for leaf in range(leaves):
        parent: int = draw(st.integers(-1, uppers - 1))
        if parent >= 0:
            children[parent].append(f"l{leaf}")
    for low in range(uppers - 1):
        above: int = draw(st.integers(low, uppers - 1))
        if children[low] and above > low:
            children[above].append(f"u{low}")
    numbers = iter(draw(st.permutations(range(40))))
    made = [
        topo.Switch(f"l{leaf}", nodes=tuple(f"n{next(numbers)}" for _ in range(draw(st.integers(1, 4)))))
        for leaf in range(leaves)
    ]
    made += [topo.Switch(f"u{upper}", switches=tuple(below)) for upper, below in enumerate(children) if below]
    shuffled: list[topo.Switch] = draw(st.permutations(made))
    return shuffled


def ancestors(switches: list[topo.Switch], name: str) -> list[str]:
    """The switch and all above it, by walking the input."""
    chain = [name]
    while True:
        above = [switch.name for switch in switches if chain[-1] in switch.switches]
        if not above:
            return chain
        chain += above


def without_lines(made: topo.Fabric) -> topo.Fabric:
    domains = tuple(msgspec.structs.replace(domain, line=None) for domain in made.domains)
    return msgspec.structs.replace(made, domains=domains)


@FEW
@given(trees())
def test_from_switches_every_node_in_its_leaf_and_all_above(switches: list[topo.Switch]) -> None:
    made = fabric.from_switches(switches, source="t")
    leaf_of = fabric.domain_of_node(made, 0)
    assert leaf_of == {node: switch.name for switch in switches for node in switch.nodes}
    for node, leaf in leaf_of.items():
        holding = {d.name for d in made.domains if node in d.nodes}
        assert holding == set(ancestors(switches, leaf))
    errors_found = [f for f in checks.check_fabric(made, []) if f.severity is checks.Severity.ERROR]
    assert errors_found == []


@FEW
@given(trees())
def test_from_switches_order_of_the_input_does_not_matter(switches: list[topo.Switch]) -> None:
    backwards = list(reversed(switches))
    assert fabric.from_switches(switches, source="t") == fabric.from_switches(backwards, source="t")


@FEW
@given(trees())
def test_write_reads_back_equal(switches: list[topo.Switch]) -> None:
    made = fabric.from_switches(switches, source="t")
    again = topology_conf.read(topology_conf.write(made), source="t")
    assert without_lines(again) == made


@FEW
@given(trees(), st.lists(st.integers(0, 45), unique=True))
def test_index_equals_naive_lookups(switches: list[topo.Switch], wanted: list[int]) -> None:
    made = fabric.from_switches(switches, source="t")
    nodes = hostlist.sort(f"n{i}" for i in range(42))
    dense = index.build(topo.ClusterTopology(nodes=nodes, machine_of=(0,) * len(nodes), fabric=made))
    names = [f"n{i}" for i in wanted]
    for level in range(len(made.levels)):
        row = dense.domain_of[level, dense.rows(names)]
        got = [dense.domains[level][number] if number >= 0 else None for number in row]
        assert got == [next((d.name for d in made.domains if d.level == level and n in d.nodes), None) for n in names]
        for number, name in enumerate(dense.domains[level]):
            parent = next(d.parent for d in made.domains if (d.level, d.name) == (level, name))
            above = dense.parents[level][number]
            assert (dense.domains[level + 1][above] if above >= 0 else None) == parent
    part = dense.restrict(names)
    assert part.nodes == tuple(node for node in nodes if node in names)
    assert part.domain_of.tolist() == dense.domain_of[:, [*dense.rows(part.nodes), -1]].tolist()


LABELS = st.dictionaries(
    st.sampled_from([f"n{i}" for i in range(12)]),
    st.fixed_dictionaries(
        {}, optional={level: st.sampled_from(["", "a", "b", "a/b"]) for level in ("rack", "block", "zone")}
    ),
)


@FEW
@given(LABELS)
def test_from_node_domains_keeps_every_promise(told: dict[str, dict[str, str]]) -> None:
    made = fabric.from_node_domains(["rack", "block", "zone"], told, source="t")
    assert [f for f in checks.check_fabric(made, []) if f.severity is checks.Severity.ERROR] == []
    assert {node for d in made.domains for node in d.nodes} <= set(told)
    # two nodes that say the same share every domain
    same = [(a, b) for a in told for b in told if told[a] == told[b]]
    for level in range(len(made.levels)):
        domain_of = fabric.domain_of_node(made, level)
        assert all(domain_of.get(a) == domain_of.get(b) for a, b in same)


@FEW
@given(LABELS)
def test_from_node_domains_different_names_never_share_a_domain(told: dict[str, dict[str, str]]) -> None:
    made = fabric.from_node_domains(["rack", "block", "zone"], told, source="t")
    for at, level in enumerate(made.levels):
        domain_of = fabric.domain_of_node(made, at)
        for a in told:
            for b in told:
                if told[a].get(level.name) and told[b].get(level.name) and told[a][level.name] != told[b][level.name]:
                    assert domain_of.get(a) is None or domain_of.get(a) != domain_of.get(b)


@settings(max_examples=200, deadline=None)
@given(
    st.one_of(
        st.text(max_size=200),
        st.lists(
            st.sampled_from(
                [
                    "SwitchName=",
                    "Nodes=",
                    "Switches=",
                    "BlockName=",
                    "BlockSizes=",
                    "n[1-3]",
                    "a",
                    "b",
                    ",",
                    " ",
                    "\n",
                    "\\\n",
                    '"',
                    "#",
                    "[",
                    "4",
                ]
            ),
            max_size=40,
        ).map("".join),
    )
)
def test_read_any_text_fabric_or_parse_error(text: str) -> None:
    made = _read_or_none(text)
    if made is not None:
        assert [f for f in checks.check_fabric(made, []) if f.severity is checks.Severity.ERROR] == []


def _read_or_none(text: str) -> topo.Fabric | None:
    try:
        return topology_conf.read(text, source="t")
    except errors.ParseError:
        return None
