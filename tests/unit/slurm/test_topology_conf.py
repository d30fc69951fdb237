from __future__ import annotations

import os
import pathlib

import msgspec
import pytest

from placer import errors
from placer.slurm import topology_conf
from placer.topology import fabric
from placer.topology import types as topo

ROOT = pathlib.Path(__file__).parents[3]
DATA = pathlib.Path(os.environ.get("PLACER_DATA", ROOT.parent / "shared" / "data"))
RELEASES = ["22.05", "24.11", "25.11", "26.05"]


def read(text: str) -> topo.Fabric:
    return topology_conf.read(text, source="f")


def fails(text: str) -> errors.ParseError:
    with pytest.raises(errors.ParseError) as caught:
        read(text)
    return caught.value


@pytest.mark.parametrize("entry", ["topology.conf", "scontrol_show_topology.txt"])
@pytest.mark.parametrize("release", RELEASES)
def test_read_recording_three_leaves_below_a_spine(release: str, entry: str) -> None:
    made = read((ROOT / "fixtures" / "slurm" / release / entry).read_text())
    assert [level.name for level in made.levels] == ["leaf", "spine"]
    assert [(d.level, d.name, d.parent, d.line) for d in made.domains] == [
        (0, "leaf1", "spine", 1),
        (0, "leaf2", "spine", 2),
        (0, "leaf3", "spine", 3),
        (1, "spine", None, 4),
    ]
    assert [d.nodes for d in made.domains[:3]] == [
        ("gpu01", "gpu02", "gpu03"),
        ("gpu04", "gpu05", "gpu06"),
        ("old1", "old2"),
    ]
    assert (made.kind, made.warnings) == ("tree", ())


@pytest.mark.parametrize("release", RELEASES)
def test_write_recording_is_the_file_itself(release: str) -> None:
    text = (ROOT / "fixtures" / "slurm" / release / "topology.conf").read_text()
    assert topology_conf.write(read(text)) == text


def test_read_comments_continuation_quotes_blanks_and_case() -> None:
    """slurmctld 22.05 makes l1 = m1..m5 and l2 = m6..m8 of this."""
    text = (
        "# a tree\n\nSwitchName=l1 Nodes=m[1-4],\\\nm5 # x\r\n"
        'SwitchName = l2 Nodes="m[6-8]"\nSWITCHNAME=s switches=l[1-2] LinkSpeed=7\n'
    )
    made = read(text)
    assert [(d.name, d.nodes) for d in made.domains[:2]] == [
        ("l1", ("m1", "m2", "m3", "m4", "m5")),
        ("l2", ("m6", "m7", "m8")),
    ]
    assert [d.line for d in made.domains] == [3, 5, 6]


@pytest.mark.parametrize("text", ["", "# nothing\n", "No topology information available\n"])
def test_read_nothing_is_no_fabric(text: str) -> None:
    made = read(text)
    assert (made.levels, made.domains, made.kind) == ((), (), "none")


def test_read_blocks_and_their_aggregates() -> None:
    made = read("BlockName=b1 Nodes=n[1-2]\nBlockName=b2 Nodes=n[3-4]\nBlockName=b3 Nodes=n[5-6]\nBlockSizes=2,4\n")
    assert [level.name for level in made.levels] == ["block", "aggregated4"]
    assert [(d.level, d.name, ",".join(d.nodes), d.parent, d.line) for d in made.domains] == [
        (0, "b1", "n1,n2", "b[1-2]", 1),
        (0, "b2", "n3,n4", "b[1-2]", 2),
        (0, "b3", "n5,n6", "b3", 3),
        (1, "b3", "n5,n6", None, None),
        (1, "b[1-2]", "n1,n2,n3,n4", None, None),
    ]
    assert made.kind == "block"


def test_read_blocks_as_scontrol_prints_them() -> None:
    """The format of Slurm 24.11: a line for each block, then one for each aggregate."""
    printed = read(
        "BlockName=b1 BlockIndex=0 Nodes=n[1-2] BlockSize=2\nBlockName=b2 BlockIndex=1 Nodes=n[3-4] BlockSize=2\n"
        "AggregatedBlock=b[1-2] BlockIndex=2 Nodes=n[1-4] BlockSize=4\n"
    )
    assert printed == read("BlockName=b1 Nodes=n[1-2]\nBlockName=b2 Nodes=n[3-4]\nBlockSizes=2,4\n")


def test_read_blocks_of_a_public_cluster() -> None:
    path = DATA / "topograph" / "ci" / "expected.slinky-dra-block.conf"
    if not path.exists():
        pytest.skip(f"no {path}: set PLACER_DATA")
    made = read(path.read_text())
    assert [level.name for level in made.levels] == ["block", "aggregated16", "aggregated32"]
    assert [len(fabric.domains_of(made, level)) for level in range(3)] == [12, 6, 3]
    assert {len(d.nodes) for d in fabric.domains_of(made, 2)} == {32}


def test_read_tree_of_a_public_cluster() -> None:
    path = DATA / "topograph" / "ci" / "expected.slinky-oci-sim-tree.conf"
    if not path.exists():
        pytest.skip(f"no {path}: set PLACER_DATA")
    made = read(path.read_text())
    assert [len(fabric.domains_of(made, level)) for level in range(3)] == [12, 6, 1]
    assert fabric.domain_of_node(made, 0)["srv4205"] == "switch.1.8"


def test_read_switches_and_blocks_switches_count() -> None:
    made = read("BlockName=b Nodes=n1\nSwitchName=s Nodes=n1\n")
    assert (made.kind, made.warnings) == ("tree", ("f: blocks are ignored, since there are switches",))


def test_read_node_in_two_blocks_warns_and_keeps_the_first() -> None:
    made = read("BlockName=a Nodes=n1\nBlockName=b Nodes=n[1-2]\n")
    assert fabric.domain_of_node(made, 0) == {"n1": "a", "n2": "b"}
    assert made.warnings == ("f:2: block `b` repeats nodes of other blocks, which keep them: n1",)


@pytest.mark.parametrize(
    ("text", "line", "column", "words"),
    [
        ("SwitchName=a Nodes=n[1-3", 1, 21, "not closed"),
        ("SwitchName=a Nodes=b,\\\nn[2-1]", 2, 3, "range must ascend"),
        ("\nFoo=1", 2, 5, "`foo=` has no place here"),
        ("SwitchName=a BlockSize=1", 1, 24, "`blocksize=` has no place here"),
        ("SwitchName=a Nodes=x Nodes=y", 1, 28, "twice in a line"),
        ("SwitchName=a Nodes=x junk", 1, 22, "expected `Key=value`"),
        ('SwitchName=a Nodes="x', 1, 20, "is not closed"),
        ("SwitchName= Nodes=x", 1, 12, "needs one name"),
        ("SwitchName=a[1-2] Nodes=x", 1, 12, "needs one name"),
        ("SwitchName=a LinkSpeed=fast Nodes=n", 1, 24, "whole number"),
        ("SwitchName=a Nodes=n[1-999999999]", 1, 20, "more than 200000 nodes"),
        ("SwitchName=a Nodes=n\nSwitchName=a Nodes=m", 2, 1, "defined twice, first in line 1"),
        ("SwitchName=a Switches=b", 1, 1, "child `b` that is not defined"),
        ("\nSwitchName=a Switches=b\nSwitchName=b Switches=a", 2, 1, "cycle: a > b > a"),
        ("BlockName=a Nodes=n\nBlockName=a Nodes=m", 2, 11, "defined twice"),
        ("BlockName=a Nodes=n\nBlockSizes=3,7", 2, 12, "power of two times 3"),
        ("BlockName=a Nodes=n\nBlockSizes=0", 2, 12, "whole numbers"),
    ],
)
def test_read_broken_parse_error_with_its_place(text: str, line: int, column: int, words: str) -> None:
    error = fails(text)
    assert (error.source, error.line, error.column) == ("f", line, column)
    assert words in error.message


def test_read_cut_line_hints_at_what_cuts_it() -> None:
    assert fails("SwitchName=a Level=0 LinkSpeed=1 Nodes=n[1-3").hint == "unset SLURM_TOPO_LEN; scontrol show topology"


def test_read_include_hints_at_the_other_file() -> None:
    assert fails("Include switches.conf").hint == "give the included file itself"


def test_read_many_lists_stop_before_memory_does() -> None:
    lines = "".join(f"SwitchName=s{i} Nodes=n{i}x[1-150000]\n" for i in range(8))
    assert "more than 100000 nodes" in fails(lines).message


def test_read_error_has_no_control_characters() -> None:
    assert "\x1b" not in fails("SwitchName=\x1b[31m Nodes=a").message


# --- writing


def test_write_uneven_tree_reads_back_equal() -> None:
    text = "SwitchName=al Nodes=m[7-8]\nSwitchName=l1 Nodes=m[1-4]\nSwitchName=l2 Nodes=m[5-6]\n"
    text += "SwitchName=s Switches=l1\nSwitchName=c Switches=l2,s\n"
    made = read(text)
    assert topology_conf.write(made) == text
    assert read(topology_conf.write(made)) == made


def test_write_nodes_beside_switches_get_a_leaf_of_their_own() -> None:
    """slurmctld 22.05 ends with `switch s has both child switches and nodes` otherwise."""
    made = read("SwitchName=l Nodes=n1\nSwitchName=s Nodes=n2 Switches=l\n")
    assert (
        topology_conf.write(made)
        == "SwitchName=l Nodes=n1\nSwitchName=s.nodes Nodes=n2\nSwitchName=s Switches=l,s.nodes\n"
    )


def test_write_labels_names_become_readable_and_distinct() -> None:
    told = {
        "n1": {"rack": "r 1", "block": "b"},
        "n2": {"rack": "r_1", "block": "b"},
        "n3": {"rack": "b", "block": "b"},
    }
    made = fabric.from_node_domains(["rack", "block"], told, source="labels")
    assert topology_conf.write(made) == (
        "SwitchName=b Nodes=n3\nSwitchName=r_1 Nodes=n1\nSwitchName=rack-r_1 Nodes=n2\n"
        "SwitchName=block-b Switches=b,r_1,rack-r_1\n"
    )


def test_write_unreadable_node_name_input_error() -> None:
    made = topo.Fabric(levels=(topo.Level("leaf"),), domains=(topo.Domain("l", 0, ("a b",)),))
    with pytest.raises(errors.InputError, match="`a b` cannot be a node name"):
        topology_conf.write(made)


def test_write_no_fabric_is_empty() -> None:
    assert topology_conf.write(topo.Fabric()) == ""


def test_link_speed_is_checked_and_forgotten() -> None:
    with_speed = read("SwitchName=a Nodes=n1 LinkSpeed=100\n")
    assert msgspec.structs.asdict(with_speed) == msgspec.structs.asdict(read("SwitchName=a Nodes=n1\n"))
