"""ibnetdiscover, topograph, tables and Kubernetes objects -> fabrics, against counts made in another way."""

from __future__ import annotations

import collections
import csv
import json
import os
import pathlib
import re
from typing import Any

import pytest

from placer import errors, hostlist
from placer.slurm import topology_conf
from placer.topology import fabric as fabrics
from placer.topology import fabric_parts
from placer.topology import types as topo
from placer.topology.fabrics import csv_table, ibnetdiscover, kubernetes, topograph

ROOT = pathlib.Path(__file__).parents[3]
FIXTURES = ROOT / "fixtures" / "fabric"
DATA = pathlib.Path(os.environ.get("PLACER_DATA", ROOT.parent / "shared" / "data"))
needs_data = pytest.mark.skipif(not (DATA / "topograph").is_dir(), reason=f"no data in {DATA}: set PLACER_DATA")


def groups(fabric: topo.Fabric, level: int) -> list[str]:
    """The node sets of a level, whatever the names."""
    return sorted(hostlist.fold(domain.nodes) for domain in fabrics.domains_of(fabric, level))


# --- ibnetdiscover


def test_ibnetdiscover_rails_are_one_leaf_group_with_speeds() -> None:
    """Two rails: each host on two leaves. 4 hosts of 400 Gbit/s stand over 2 uplinks of 400."""
    made = ibnetdiscover.read((FIXTURES / "rails.ibnetdiscover").read_text(), source="f")
    assert [(level.name, level.oversubscription) for level in made.levels] == [("leaf", 2.0), ("spine", None)]
    assert [(d.name, d.parent, hostlist.fold(d.nodes)) for d in made.domains] == [
        ("leaf-r1-g1", "spine-1", "gpu[01-04]"),
        ("leaf-r1-g2", "spine-1", "gpu[05-08]"),
        ("spine-1", None, "gpu[01-08]"),
    ]
    assert made.warnings == ()


@needs_data
def test_ibnetdiscover_public_dump_is_the_tree_that_its_own_project_expects() -> None:
    """topograph's test of this dump names 34 nodes and expects of them three leaves below one switch.

    It joins adapters to hosts by name as we do; nodes of whom no adapter carries the name are in neither answer.
    """
    dump = DATA / "topograph" / "output" / "ibnetdiscover" / "example.out"
    wanted = ["a05-p1-dgx-01-c[03-04]", "a06-p1-dgx-02-c[01-04,07,10-12,14,16,18]", "b05-p1-dgx-05-c[01-18]"]
    asked = hostlist.expand("a05-p1-dgx-01-c[03-04],a06-p1-dgx-02-c[01-18],b05-p1-dgx-05-c[01-18]")
    made = fabric_parts.restrict(ibnetdiscover.read(dump.read_text(), source="f"), asked)
    written = topology_conf.read(topology_conf.write(made), source="w")
    assert groups(written, 0) == wanted
    assert groups(written, 1) == [",".join(wanted)]


@needs_data
def test_ibnetdiscover_public_dump_whole_has_eight_groups_of_hosts() -> None:
    """Counted with other means: hosts that hang on leaves of one number (LEAF-<rail>-<group>)."""
    text = (DATA / "topograph" / "output" / "ibnetdiscover" / "example.out").read_text()
    by_group = collections.defaultdict(set)
    for match in re.finditer(r"^Switch.*?IBLEAF-\d+-(\d+).*?\n(.*?)\n\n", text, re.MULTILINE | re.DOTALL):
        for host in re.findall(r'# "([ab]\d\d-\S+) ', match[2]):
            by_group[match[1]].add(host)
    made = ibnetdiscover.read(text, source="f")
    nodes = {n for hosts in by_group.values() for n in hosts}
    assert groups(fabric_parts.restrict(made, nodes), 0) == sorted(map(hostlist.fold, by_group.values()))
    assert len(by_group) == 8
    # the switch with 18 hosts' ports and the fewest uplinks: 18 x 400 over 15 x 400
    assert made.levels[0].oversubscription == pytest.approx(18 / 15)


@needs_data
def test_ibnetdiscover_dump_without_switches_is_no_fabric() -> None:
    text = (DATA / "topograph" / "output" / "ibnetdiscover" / "example-bad.out").read_text()
    made = ibnetdiscover.read(text, source="f")
    assert (made.levels, made.domains) == ((), ())
    assert "no switch" in made.warnings[0]


def test_ibnetdiscover_management_host_on_a_spine_makes_no_leaf_of_it() -> None:
    text = (FIXTURES / "rails.ibnetdiscover").read_text()
    spine = re.search(r'Switch.*"(S-\w+)".*spine-1.*', text)
    assert spine is not None
    text = text.replace(spine[0], spine[0] + '\n[40]\t"H-99"[1](99)\t\t# "ufm01 mlx5_0" lid 9 4xNDR')
    made = ibnetdiscover.read(text, source="f")
    assert [level.name for level in made.levels] == ["leaf", "spine"]
    assert groups(made, 0) == ["gpu[01-04]", "gpu[05-08]"]
    assert groups(made, 1) == ["gpu[01-08],ufm01"]


@pytest.mark.parametrize(
    ("text", "line", "words"),
    [
        ("hello\n", 1, "not a line"),
        ("", 1, "no switch"),
        ('Switch x "S-1"\n', 1, "expected"),
        ('[1] "H-1"[1] # "a"\n', 1, "expected"),
        ('Switch 4 "S-1" # "a"\n\nSwitch 4 "S-1" # "b"\n', 3, "defined twice, first in line 1"),
        ('Switch 4 "S-1" # "a"\n[1] what\n', 2, "expected"),
        ("Switch 4 " + "x" * 5000, 1, "too long"),
    ],
)
def test_ibnetdiscover_broken_parse_error_with_its_line(text: str, line: int, words: str) -> None:
    with pytest.raises(errors.ParseError, match=words) as caught:
        ibnetdiscover.read(text, source="f")
    assert caught.value.line == line


# --- topograph


@needs_data
def test_topograph_large_model_gives_the_topology_conf_that_its_project_expects() -> None:
    folder = DATA / "topograph"
    made = topograph.read((folder / "models" / "large.yaml").read_text(), source="m")
    expected = topology_conf.read((folder / "ci" / "expected.slinky-oci-sim-tree.conf").read_text(), source="e")
    written = topology_conf.read(topology_conf.write(fabric_parts.network(made)), source="w")
    assert len(written.levels) == len(expected.levels) == 3
    for level in range(3):
        assert groups(written, level) == groups(expected, level)


@needs_data
def test_topograph_large_model_as_blocks_is_what_its_project_expects() -> None:
    folder = DATA / "topograph"
    made = topograph.read((folder / "models" / "large.yaml").read_text(), source="m")
    expected = topology_conf.read((folder / "ci" / "expected.slinky-dra-block.conf").read_text(), source="e")
    written = topology_conf.read(topology_conf.write_blocks(made, sizes=[8, 16, 32]), source="w")
    assert [level.name for level in written.levels] == ["block", "aggregated16", "aggregated32"]
    for level in range(3):
        assert groups(written, level) == groups(expected, level)


@needs_data
@pytest.mark.parametrize(
    ("name", "nodes", "levels"),
    [
        ("small-tree", 6, [("nvlink-domain", 2), ("leaf", 2), ("spine", 1)]),
        ("medium", 8, [("nvlink-domain", 4), ("leaf", 4), ("spine", 2), ("core", 1)]),
        ("nvl72", 72, [("nvlink-domain", 4), ("leaf", 4), ("spine", 2), ("core", 1)]),
        # three spines to an NVLink domain: their figure in the model's own comment
        (
            "dual-xclr-regular",
            96,
            [("nvlink-sub-domain", 12), ("leaf", 12), ("spine", 6), ("nvlink-domain", 2), ("core", 1)],
        ),
        # 14 + 15 active racks of 9, less what the comment lists: 13 x 9 + 7 + 14 x 9 + 5
        (
            "dual-xclr-irregular",
            255,
            [("nvlink-sub-domain", 29), ("leaf", 29), ("nvlink-domain", 2), ("spine", 2), ("core", 1)],
        ),
    ],
)
def test_topograph_models_levels_and_sizes(name: str, nodes: int, levels: list[tuple[str, int]]) -> None:
    made = topograph.read((DATA / "topograph" / "models" / f"{name}.yaml").read_text(), source="m")
    assert [(level.name, len(fabrics.domains_of(made, at))) for at, level in enumerate(made.levels)] == levels
    assert len(fabrics.nodes_of(made)) == nodes


def test_topograph_leaf_without_nodes_is_told_with_its_line() -> None:
    made = topograph.read(
        "switches:\n  s:\n    switches:\n    - a\n    - b\nblocks:\n- {switch: a, nodes: [n1]}\n", source="m"
    )
    assert made.warnings == ("m:5: switch `b` has neither nodes nor switches below; left out",)


@pytest.mark.parametrize(
    ("text", "line", "column", "words"),
    [
        ("", 1, 1, "empty"),
        ("a: 1\n", 1, 1, "no `switches:`"),
        ("switches:\n  a: [x]\n", 2, 6, "must be a mapping"),
        ("blocks:\n- nodes: [n1]\n", 2, 3, "needs `switch`"),
        ("blocks:\n- {switch: a, nodes: ['n[2-1]']}\n", 2, 23, "ascend"),
        ("switches: &x\n  a: *x\n", 1, 11, "anchors"),
        ("switches:\n  a: {}\n  a: {}\n", 3, 3, "twice"),
        ("switches: {a: {switches: [a]}}\n", 1, 1, "cycle"),
    ],
)
def test_topograph_broken_parse_error_with_its_place(text: str, line: int, column: int, words: str) -> None:
    with pytest.raises(errors.ParseError, match=words) as caught:
        topograph.read(text, source="m")
    assert (caught.value.line, caught.value.column) == (line, column)


# --- tables


@pytest.mark.skipif(not (DATA / "lingjun").is_dir(), reason=f"no data in {DATA}: set PLACER_DATA")
@pytest.mark.parametrize("columns", ["host=ip,rack=PSW+ASW,pod=PSW,site=DSW", None])
def test_csv_public_clos_has_119_racks_of_the_sizes_that_a_count_gives(columns: str | None) -> None:
    """A rack is a pair of PSW and ASW: counted here from the file itself."""
    text = (DATA / "lingjun" / "topo.csv").read_text()
    rows = list(csv.DictReader(text.splitlines()))
    counted: list[collections.Counter[Any]] = [
        collections.Counter((row["DSW"], row["PSW"], row["ASW"]) for row in rows),
        collections.Counter((row["DSW"], row["PSW"]) for row in rows),
        collections.Counter(row["DSW"] for row in rows),
    ]
    made = csv_table.read(text, source="f", columns=csv_table.parse_columns(columns) if columns else None)
    assert len(fabrics.nodes_of(made)) == len(rows) == 847
    assert len(fabrics.domains_of(made, 0)) == 119
    for level, counts in enumerate(counted):
        sizes = sorted(len(domain.nodes) for domain in fabrics.domains_of(made, level))
        assert sizes == sorted(counts.values())


def test_csv_racks_numbered_anew_in_every_pod_are_different() -> None:
    made = csv_table.read((FIXTURES / "hosts.csv").read_text(), source="f")
    assert [(d.level, d.name, hostlist.fold(d.nodes)) for d in made.domains][:3] == [
        (0, "p1/1", "gpu[01-02]"),
        (0, "p1/2", "gpu[03-04]"),
        (0, "p2/1", "gpu[05-06]"),
    ]


def test_csv_columns_broadest_first_are_turned_and_told() -> None:
    made = csv_table.read("host,pod,rack\na,p1,r1\nb,p1,r2\nc,p2,r3\n", source="f")
    assert [level.name for level in made.levels] == ["rack", "pod"]
    assert made.warnings == ("f: columns are taken broadest first: pod > rack",)


def test_csv_semicolons_quotes_comments_and_empty_cells() -> None:
    made = csv_table.read('# ours\nnode;rack\n\n"a";"r;1"\nb;\n', source="f")
    assert [(d.name, d.nodes) for d in made.domains] == [("r;1", ("a",))]


@pytest.mark.parametrize(
    ("text", "line", "words"),
    [
        ("a,b\n1,2\n", 1, "expected a header"),
        ("host,host\n", 1, "header of its own"),
        ("host,rack\na\n", 2, "1 values under 2 headers"),
        ("host,rack\na,r\na,s\n", 3, "stands twice"),
        ("host,rack\n,r\n", 2, "without a node"),
        ('host,rack\n"a,r\n', 2, "not a line of a table"),
        ("host,rack\na\x1bb,r\n", 2, "cannot be printed"),
        ("", 1, "expected a header"),
    ],
)
def test_csv_broken_parse_error_with_its_line(text: str, line: int, words: str) -> None:
    with pytest.raises(errors.ParseError, match=words) as caught:
        csv_table.read(text, source="f")
    assert caught.value.line == line


@pytest.mark.parametrize("text", ["host", "rack=a", "host=a", "host=a,=b", "host=a,rack=b++c"])
def test_csv_columns_that_make_no_sense_request_error(text: str) -> None:
    with pytest.raises(errors.RequestError):
        csv_table.parse_columns(text)


def test_csv_columns_that_are_not_there_parse_error() -> None:
    with pytest.raises(errors.ParseError, match="no column `hall`"):
        csv_table.read("host,rack\na,r\n", source="f", columns=csv_table.parse_columns("host=host,hall=hall"))


# --- Kubernetes


def test_kubernetes_nodes_as_yaml_and_as_json_list_agree() -> None:
    import yaml

    text = (FIXTURES / "nodes.yaml").read_text()
    made = kubernetes.read([(text, "f")])
    items = json.dumps({"apiVersion": "v1", "kind": "List", "items": list(yaml.safe_load_all(text))})
    assert kubernetes.read([(items, "f")]) == made
    assert [level.name for level in made.levels] == ["clique", "tier-0", "tier-1", "zone", "region"]
    assert groups(made, 2) == ["gpu[01-04]", "gpu[05-08]"]


def test_kubernetes_topology_chooses_the_labels_whose_order_is_broadest_first() -> None:
    topology = (
        "apiVersion: kueue.x-k8s.io/v1beta2\nkind: Topology\nmetadata: {name: t}\nspec:\n  levels:\n"
        "  - nodeLabel: example.net/hall\n  - nodeLabel: example.net/rack\n  - nodeLabel: kubernetes.io/hostname\n"
    )
    made = kubernetes.read([(topology, "t"), ((FIXTURES / "nodes.yaml").read_text(), "n")])
    assert [level.label for level in made.levels] == ["example.net/rack", "example.net/hall"]
    alone = kubernetes.read([(topology, "t")])
    assert [level.label for level in alone.levels] == ["example.net/rack", "example.net/hall"]
    assert (alone.domains, "give the nodes" in alone.warnings[0]) == ((), True)


HYPER = """
apiVersion: topology.volcano.sh/v1alpha1
kind: HyperNode
metadata: {name: s4}
spec:
  tier: 2
  members:
  - {type: HyperNode, selector: {exactMatch: {name: s0}}}
  - {type: HyperNode, selector: {exactMatch: {name: s1}}}
---
apiVersion: topology.volcano.sh/v1alpha1
kind: HyperNode
metadata: {name: s0}
spec:
  tier: 1
  tierName: rack
  members:
  - {type: Node, selector: {exactMatch: {name: node-1}}}
  - {type: Node, selector: {exactMatch: {name: node-0}}}
---
apiVersion: topology.volcano.sh/v1alpha1
kind: HyperNode
metadata: {name: s1}
spec:
  tier: 1
  tierName: rack
  members:
  - {type: Node, selector: {labelMatch: {matchLabels: {rack: b}}}}
  - {type: Node, selector: {regexMatch: {pattern: "(a+)+$"}}}
---
{apiVersion: v1, kind: Node, metadata: {name: node-2, labels: {rack: b}}}
"""


def test_kubernetes_hyper_nodes_are_a_tree() -> None:
    made = kubernetes.read([(HYPER, "f")])
    assert [level.name for level in made.levels] == ["rack", "spine"]
    assert [(d.name, d.nodes, d.parent) for d in made.domains] == [
        ("s0", ("node-0", "node-1"), "s4"),
        ("s1", ("node-2",), "s4"),
        ("s4", ("node-0", "node-1", "node-2"), None),
    ]
    assert made.warnings == ("f: HyperNode `s1` selects members by a pattern, which is not read",)


@pytest.mark.parametrize(
    ("text", "line", "words"),
    [
        ("", 1, "no Node, Topology or HyperNode"),
        ("{", 1, "broken JSON"),
        ('{"kind": "Node", "metadata": {"name": 5}}', 1, "broken JSON"),
        ("kind: Node\n", 1, "metadata.name"),
        ("kind: HyperNode\nmetadata: {name: a}\n", 1, "without `spec`"),
        ("kind: HyperNode\nmetadata: {name: a}\nspec:\n  tier: x\n", 4, "whole number"),
        ("kind: Node\nmetadata:\n  name: a\n  labels: [x]\n", 4, "must be a mapping"),
        ("- kind: Node\n", 1, "must be a mapping"),
    ],
)
def test_kubernetes_broken_parse_error_with_its_line(text: str, line: int, words: str) -> None:
    with pytest.raises(errors.ParseError, match=words) as caught:
        kubernetes.read([(text, "f")])
    assert caught.value.line == line
