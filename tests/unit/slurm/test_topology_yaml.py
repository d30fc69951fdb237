from __future__ import annotations

import os
import pathlib

import pytest
import yaml

from placer import errors, hostlist
from placer.slurm import topology_blocks, topology_conf, topology_yaml
from placer.topology import fabric as fabrics
from placer.topology import types as topo

ROOT = pathlib.Path(__file__).parents[3]
DATA = pathlib.Path(os.environ.get("PLACER_DATA", ROOT.parent / "shared" / "data"))
FOUR = (ROOT / "fixtures" / "fabric" / "two-islands.yaml").read_text()


def test_read_default_topology_and_name_the_others() -> None:
    made = topology_yaml.read(FOUR, source="f")
    assert [level.name for level in made.levels] == ["leaf", "spine", "core"]
    assert [(d.name, d.parent, hostlist.fold(d.nodes)) for d in made.domains[:2]] == [
        ("leaf1", "spine1", "gpu[01-04]"),
        ("leaf2", "spine1", "gpu[05-08]"),
    ]
    assert made.domains[0].line == 12
    assert made.warnings == ("f: topology `gpus` is read; others are racks, rest, loop",)


def test_read_block_by_name_like_the_same_blocks_in_topology_conf() -> None:
    text = "BlockName=r1 Nodes=gpu[01-04]\nBlockName=r2 Nodes=gpu[05-08]\nBlockName=r3 Nodes=gpu[09-12]\n"
    text += "BlockName=r4 Nodes=gpu[13-16]\nBlockSizes=4,8\n"
    made, conf = topology_yaml.read(FOUR, source="f", name="racks"), topology_conf.read(text, source="f")
    assert made.levels == conf.levels
    assert [(d.name, d.nodes, d.parent) for d in made.domains] == [(d.name, d.nodes, d.parent) for d in conf.domains]
    assert [(level.name, level.size) for level in made.levels] == [("block", 4), ("aggregated8", 8)]


def test_read_flat_and_ring_are_kept() -> None:
    assert topology_yaml.read(FOUR, source="f", name="rest").kind == "flat"
    ring = topology_yaml.read(FOUR, source="f", name="loop")
    assert (ring.kind, ring.levels) == ("ring", ())
    assert ring.kept == '{"rings": [{"ring": "ring1", "nodes": "gpu[01-16]"}]}'


def test_read_no_default_takes_the_first() -> None:
    assert topology_yaml.read("- topology: a\n  flat: true\n- topology: b\n  flat: true\n", source="f").kind == "flat"


def test_read_unknown_name_request_error_lists_them() -> None:
    with pytest.raises(errors.RequestError, match="there are gpus, racks, rest, loop"):
        topology_yaml.read(FOUR, source="f", name="cpus")


@pytest.mark.parametrize(
    ("text", "line", "column", "words"),
    [
        ("", 1, 1, "empty"),
        ("[]", 1, 1, "no topology"),
        ("a: 1\n", 1, 1, "must be a list"),
        ("- tree: {}\n", 1, 3, "needs `topology"),
        ("- topology: a\n", 1, 3, "needs one of"),
        ("- topology: a\n  flat: true\n  tree: {}\n", 1, 3, "needs one of"),
        ("- topology: a\n  flat: false\n", 2, 9, "must be true"),
        ("- topology: a\n  fat: true\n", 2, 3, "has no place"),
        ("- topology: a\n  tree:\n    switches:\n    - switch: s\n      children: x\n", 4, 1, "not defined"),
        ("- topology: a\n  block:\n    block_sizes: [4, 6]\n    blocks: []\n", 3, 18, "power of two"),
        ("- topology: a\n  block:\n    block_sizes: [0]\n", 3, 19, "above zero"),
        ("- topology: a\n  block:\n    blocks:\n    - block: b\n    - block: b\n", 5, 7, "first in line 4"),
        ("- topology: a\n  flat: true\n- topology: a\n  flat: true\n", 3, 3, "defined twice"),
        ("- topology: a\n\tflat: true\n", 2, 1, "broken YAML"),
        ("- topology: a\n  cluster_default: perhaps\n  flat: true\n", 2, 20, "true or false"),
        ("- topology: a\n  tree: {switches: [{switch: s, nodes: 'n[1-9999999]'}]}\n", 2, 40, "more than"),
        ("- topology: a\n  ring: &a {x: *a}\n", 2, 9, "anchors"),
    ],
)
def test_read_broken_parse_error_with_its_place(text: str, line: int, column: int, words: str) -> None:
    with pytest.raises(errors.ParseError, match=words) as caught:
        topology_yaml.read(text, source="f")
    assert (caught.value.line, caught.value.column) == (line, column)


def test_write_is_yaml_that_another_reader_takes_as_slurms_manual_has_it() -> None:
    every = topology_yaml.read_all(FOUR, source="f")
    loaded = yaml.safe_load(topology_yaml.write(every))
    assert [(entry["topology"], entry["cluster_default"]) for entry in loaded] == [
        ("gpus", True),
        ("racks", False),
        ("rest", False),
        ("loop", False),
    ]
    assert {"switch": "spine1", "children": "leaf[1-2]"} in loaded[0]["tree"]["switches"]
    assert loaded[1]["block"]["block_sizes"] == [4, 8]
    assert loaded[1]["block"]["blocks"][3] == {"block": "r4", "nodes": "gpu[13-16]"}
    assert loaded[2]["flat"] is True
    assert loaded[3]["ring"] == {"rings": [{"ring": "ring1", "nodes": "gpu[01-16]"}]}


def test_write_read_again_every_kind_is_equal() -> None:
    every = topology_yaml.read_all(FOUR, source="f")
    again = topology_yaml.read_all(topology_yaml.write(every), source="f")
    for old, new in zip(every, again, strict=True):
        assert (new.name, new.is_default, new.fabric.kind, new.fabric.kept) == (
            old.name,
            old.is_default,
            old.fabric.kind,
            old.fabric.kept,
        )
        assert new.fabric.levels == old.fabric.levels
        assert [(d.level, d.name, d.nodes, d.parent) for d in new.fabric.domains] == [
            (d.level, d.name, d.nodes, d.parent) for d in old.fabric.domains
        ]


def test_switches_are_those_of_the_default_tree() -> None:
    found = topology_yaml.switches(FOUR, source="f")
    assert [(s.name, s.line) for s in found][:2] == [("core", 6), ("spine1", 8)]


# --- blocks


def of(text: str) -> topo.Fabric:
    return topology_conf.read(text, source="f")


@pytest.mark.parametrize(
    "text",
    [
        "BlockName=b1 Nodes=n[1-4]\nBlockName=b2 Nodes=n[5-8]\nBlockSizes=4\n",
        "BlockName=b1 Nodes=n[1-4]\nBlockName=b2 Nodes=n[5-8]\nBlockName=b3 Nodes=n[9-11]\nBlockSizes=4,8\n",
        # 18 nodes in a rack of which Slurm counts 16, twice and four times
        "".join(f"BlockName=r{r} Nodes=m{r}-[01-18]\n" for r in range(1, 6)) + "BlockSizes=16,32,64\n",
    ],
)
def test_write_blocks_is_the_file_itself(text: str) -> None:
    assert topology_conf.write_blocks(of(text)) == text


def test_write_blocks_incomplete_aggregate_comes_last_whatever_its_name() -> None:
    text = "BlockName=z1 Nodes=n1\nBlockName=z2 Nodes=n2\nBlockName=a1 Nodes=n3\nBlockSizes=1,2\n"
    made = of(text)
    assert [d.name for d in fabrics.domains_of(made, 1)] == ["a1", "z[1-2]"]
    assert topology_conf.write_blocks(made) == text


def test_write_blocks_of_a_tree_sizes_from_levels_that_are_even() -> None:
    made = of(
        "".join(f"SwitchName=l{i} Nodes=n[{4 * i + 1}-{4 * i + 4}]\n" for i in range(6))
        + "SwitchName=s0 Switches=l[0-1]\nSwitchName=s1 Switches=l[2-3]\nSwitchName=s2 Switches=l[4-5]\n"
        + "SwitchName=top Switches=s[0-2]\n"
    )
    # six leaves below the top are no power of two, so only the pairs below the spines are a size
    assert topology_conf.write_blocks(made).splitlines()[-1] == "BlockSizes=4,8"
    assert topology_conf.write_blocks(made, level=1).splitlines()[0] == "BlockName=s0 Nodes=n[1-8]"
    assert topology_conf.write_blocks(made, sizes=[2, 4, 16]).splitlines()[-1] == "BlockSizes=2,4,16"


@pytest.mark.parametrize("sizes", [[], [0], [4, 6], [4, 4], [8, 4], [4, 12]])
def test_write_blocks_sizes_that_slurm_refuses_input_error(sizes: list[int]) -> None:
    with pytest.raises(errors.InputError):
        topology_conf.write_blocks(of("BlockName=b Nodes=n1\n"), sizes=sizes)


def test_write_blocks_names_become_readable_and_distinct() -> None:
    made = fabrics.from_node_domains(["rack"], {"n1": {"rack": "a/b"}, "n2": {"rack": "a b"}}, source="f")
    lines = topology_conf.write_blocks(made).splitlines()
    assert lines == ["BlockName=a_b Nodes=n2", "BlockName=a_b-2 Nodes=n1", "BlockSizes=1"]


def test_aggregates_of_consecutive_blocks() -> None:
    blocks = [topology_blocks.Block(f"b{i}", (f"n{i}",)) for i in range(5)]
    found = topology_blocks.aggregates(blocks, [1, 2, 4])
    assert [(group.name, group.size) for group in found] == [
        ("b[0-1]", 2),
        ("b[2-3]", 2),
        ("b4", 2),
        ("b[0-3]", 4),
        ("b4", 4),
    ]


@pytest.mark.parametrize("release", ["24.11", "25.11", "26.05"])
def test_scontrol_json_prints_the_text_form(release: str) -> None:
    """`scontrol show topology --json` ignores `--json`: so recorded; there is no JSON to read."""
    recorded = DATA / "slurm" / release / "scontrol_show_topology_json.txt"
    if not recorded.is_file():
        pytest.skip(f"no {recorded}: set PLACER_DATA")
    assert of(recorded.read_text()) == of(
        (ROOT / "fixtures/slurm" / release / "scontrol_show_topology.txt").read_text()
    )
