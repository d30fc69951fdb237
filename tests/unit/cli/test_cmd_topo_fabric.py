"""`placer topo fabric|export|check|diff` as a person runs them."""

from __future__ import annotations

import io
import json
import pathlib
import sys
from typing import Any

import pytest
import yaml

from placer.cli import _topo_forms, main

ROOT = pathlib.Path(__file__).parents[3]


@pytest.fixture(autouse=True)
def _at_root(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT)


def run(capsys: pytest.CaptureFixture[str], *args: str) -> tuple[int, str, str]:
    code = main.invoke(["topo", *args])
    out, err = capsys.readouterr()
    return code, out, err


def document(capsys: pytest.CaptureFixture[str], *args: str) -> dict[str, Any]:
    code, out, err = run(capsys, *args, "-o", "json")
    assert code in (0, 1), err
    found: dict[str, Any] = json.loads(out)
    return found


@pytest.mark.parametrize(
    ("name", "form"),
    [
        ("fabric/two-islands.yaml", "yaml"),
        ("fabric/model.yaml", "model"),
        ("fabric/rails.ibnetdiscover", "ib"),
        ("fabric/nodes.yaml", "kubernetes"),
        ("fabric/hypernodes.yaml", "kubernetes"),
        ("fabric/hosts.csv", "table"),
        ("fabric/faulty.conf", "conf"),
        ("slurm/26.05/scontrol_show_topology.txt", "conf"),
        ("topo/dgx-1v.txt", None),
        ("topo/mi300x-8.txt", None),
    ],
)
def test_form_of_every_fixture_is_recognised(name: str, form: str | None) -> None:
    assert _topo_forms.form_of((ROOT / "fixtures" / name).read_text()) == form


@pytest.mark.parametrize(
    ("args", "levels", "kind"),
    [
        (["rails.ibnetdiscover"], ["leaf", "spine"], "tree"),
        (["two-islands.yaml"], ["leaf", "spine", "core"], "tree"),
        (["two-islands.yaml", "--topology", "racks"], ["block", "aggregated8"], "block"),
        (["model.yaml"], ["leaf", "nvlink-domain", "spine", "core"], "tree"),
        (["nodes.yaml"], ["clique", "tier-0", "tier-1", "zone", "region"], "labels"),
        (["nodes.yaml", "--labels", "example.net/rack,example.net/hall"], ["rack", "hall"], "labels"),
        (["hosts.csv"], ["rack", "pod"], "labels"),
        (["hosts.csv", "--columns", "host=host,cell=pod+rack"], ["cell"], "labels"),
        (["hypernodes.yaml"], ["leaf", "spine"], "tree"),
    ],
)
def test_fabric_reads_every_form(
    capsys: pytest.CaptureFixture[str], args: list[str], levels: list[str], kind: str
) -> None:
    found = document(capsys, "fabric", f"fixtures/fabric/{args[0]}", *args[1:])
    assert [level["name"] for level in found["levels"]] == levels
    assert (found["kind"], found["type"]) == ("Fabric", kind)


def test_fabric_only_some_nodes(capsys: pytest.CaptureFixture[str]) -> None:
    found = document(capsys, "fabric", "fixtures/fabric/model.yaml", "--only", "gpu[01,16]")
    assert [(d["name"], d["nodes"]) for d in found["domains"] if d["level"] == "leaf"] == [
        ("leaf-1", "gpu01"),
        ("leaf-4", "gpu16"),
    ]
    code, _, err = run(capsys, "fabric", "fixtures/fabric/model.yaml", "--only", "cpu1")
    assert (code, "has no node cpu1" in err) == (1, True)


def test_fabric_of_stdin(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    text = (ROOT / "fixtures/fabric/rails.ibnetdiscover").read_bytes()
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(text)))
    assert document(capsys, "fabric", "-")["source"] == "stdin"


def test_fabric_of_a_snapshot_with_labels_and_no_levels(
    capsys: pytest.CaptureFixture[str], tmp_path: pathlib.Path
) -> None:
    nodes = [
        {"name": f"n{i}", "labels": {"fabric.topograph.run/tier-0": f"l{i // 2}", "own/row": "r"}} for i in range(4)
    ]
    path = tmp_path / "snapshot.json"
    path.write_text(json.dumps({"apiVersion": "placer/v1", "kind": "ClusterSnapshot", "nodes": nodes}))
    for args in ([str(path)], ["--snapshot", str(path)]):
        found = document(capsys, "fabric", *args)
        assert [level["label"] for level in found["levels"]] == ["fabric.topograph.run/tier-0"]
        assert [d["nodes"] for d in found["domains"]] == ["n[0-1]", "n[2-3]"]
        own = document(capsys, "fabric", *args, "--labels", "own/row")
        assert [d["nodes"] for d in own["domains"]] == ["n[0-3]"]


def test_fabric_labels_of_the_configuration_count_where_none_are_asked_for(
    capsys: pytest.CaptureFixture[str], tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "config.yaml").write_text("level_labels: [example.net/hall]\n")
    monkeypatch.setenv("PLACER_CONFIG", str(tmp_path / "config.yaml"))
    assert [v["name"] for v in document(capsys, "fabric", "fixtures/fabric/nodes.yaml")["levels"]] == ["hall"]
    asked = document(capsys, "fabric", "fixtures/fabric/nodes.yaml", "--labels", "example.net/rack")
    assert [v["name"] for v in asked["levels"]] == ["rack"]


@pytest.mark.parametrize(
    ("args", "code", "words"),
    [
        (["fabric", "fixtures/topo/dgx-1v.txt"], 1, "dgx-1v.txt:1:9: no fabric"),
        (["fabric", "fixtures/topo/fabric-two-level.conf", "fixtures/fabric/moved.conf"], 2, "Kubernetes objects"),
        (["fabric", "fixtures/fabric/two-islands.yaml", "--topology", "no"], 1, "no topology `no`"),
        (["fabric", "fixtures/fabric/hosts.csv", "--columns", "host"], 1, "NAME=HEADER"),
        (["fabric", "-", "-"], 2, "only once"),
        (["export", "fixtures/fabric/model.yaml"], 2, "--to"),
        (["export", "fixtures/fabric/model.yaml", "--to", "nccl"], 2, "needs a node"),
        (["export", "fixtures/topo/dgx-1v.txt", "--to", "kueue"], 2, "needs a fabric"),
        (["export", "fixtures/fabric/model.yaml", "--to", "slurm-block", "--block-sizes", "4,6"], 1, "power of two"),
        (["export", "fixtures/fabric/model.yaml", "--to", "slurm-block", "--block-sizes", "x"], 2, "whole numbers"),
        (["export", "fixtures/fabric/model.yaml", "--to", "slurm-block", "--level", "x"], 1, "no level `x`"),
        (["diff", "fixtures/fabric/model.yaml", "fixtures/topo/dgx-1v.txt"], 2, "cannot be mixed"),
        (["diff", "fixtures/fabric/model.yaml"], 2, "B"),
    ],
)
def test_mistakes_have_their_exit_code(
    capsys: pytest.CaptureFixture[str], args: list[str], code: int, words: str
) -> None:
    found, out, err = run(capsys, *args)
    assert (found, out) == (code, "")
    assert words in err


@pytest.mark.parametrize("target", ["slurm-tree", "slurm-yaml", "hypernode"])
def test_export_reads_back_as_the_same_fabric(
    capsys: pytest.CaptureFixture[str], tmp_path: pathlib.Path, target: str
) -> None:
    path = tmp_path / "again"
    code, out, _ = run(capsys, "export", "fixtures/fabric/two-islands.yaml", "--to", target)
    assert code == 0
    path.write_text(out)
    assert run(capsys, "diff", "fixtures/fabric/two-islands.yaml", str(path))[0] == 0


def test_export_kueue_is_one_topology(capsys: pytest.CaptureFixture[str]) -> None:
    args = ("export", "fixtures/fabric/nodes.yaml", "--labels", "example.net/rack,example.net/hall", "--to", "kueue")
    code, out, _ = run(capsys, *args, "--name", "site")
    assert code == 0
    assert yaml.safe_load(out)["spec"]["levels"] == [
        {"nodeLabel": "example.net/hall"},
        {"nodeLabel": "example.net/rack"},
        {"nodeLabel": "kubernetes.io/hostname"},
    ]


@pytest.mark.parametrize(
    ("source", "target", "start"),
    [
        ("fixtures/topo/dgx-1v.txt", "svg", "<svg"),
        ("fixtures/topo/dgx-1v.txt", "dot", "graph"),
        ("fixtures/fabric/model.yaml", "svg", "<svg"),
        ("fixtures/fabric/model.yaml", "dot", "graph"),
        ("fixtures/fabric/model.yaml", "csv", "host,leaf,nvlink-domain,spine,core"),
    ],
)
def test_export_pictures_and_tables(capsys: pytest.CaptureFixture[str], source: str, target: str, start: str) -> None:
    code, out, _ = run(capsys, "export", source, "--to", target)
    assert code == 0
    assert start in out[:200]


def test_check_prints_one_line_a_finding_and_fails_on_errors(capsys: pytest.CaptureFixture[str]) -> None:
    code, out, _ = run(capsys, "check", "fixtures/fabric/faulty.conf")
    assert code == 1
    assert len(out.splitlines()) == 8
    assert (
        out.splitlines()[1] == "fixtures/fabric/faulty.conf:4: error: switch `leaf2` is defined twice, first in line 3"
    )


def test_check_warnings_alone_are_no_failure(capsys: pytest.CaptureFixture[str], tmp_path: pathlib.Path) -> None:
    path = tmp_path / "t.conf"
    path.write_text("SwitchName=a Nodes=n[1-2]\nSwitchName=b Nodes=n[2-3]\nSwitchName=s Switches=a,b\n")
    code, out, _ = run(capsys, "check", str(path))
    assert (code, out) == (0, f"{path}:2: warning: nodes of `b` are on `a` too: n2\n")


def test_check_unreadable_text_is_a_finding_and_others_are_still_looked_at(
    capsys: pytest.CaptureFixture[str], tmp_path: pathlib.Path
) -> None:
    path = tmp_path / "t.conf"
    path.write_text("SwitchName=a Nodes=n[1-\n")
    found = document(capsys, "check", str(path), "fixtures/fabric/faulty.conf")
    assert [(f["line"], f["severity"]) for f in found["findings"]][:2] == [(1, "error"), (3, "warning")]
    assert len(found["findings"]) == 9


def test_check_of_sound_sources_says_nothing_on_stdout(capsys: pytest.CaptureFixture[str]) -> None:
    code, out, err = run(capsys, "check", "fixtures/topo/hgx-a100-4.txt", "fixtures/topo/fabric-two-level.conf")
    assert (code, out, err) == (0, "", "nothing looks wrong\n")


def test_check_of_a_cluster_finds_its_node_in_no_domain(
    capsys: pytest.CaptureFixture[str], tmp_path: pathlib.Path
) -> None:
    path = tmp_path / "cluster.json"
    nodes = [{"name": "n1", "domains": {"leaf": "a"}}, {"name": "n2", "domains": {"leaf": "a"}}, {"name": "n3"}]
    document = {"apiVersion": "placer/v1", "kind": "ClusterSnapshot", "levels": ["leaf"], "nodes": nodes}
    path.write_text(json.dumps(document))
    code, out, _ = run(capsys, "check", "--snapshot", str(path))
    assert (code, out) == (0, f"{path}: warning: 1 of 3 nodes are in no domain: n3\n")


def test_diff_of_nodes_exit_code_tells_whether_something_changed(capsys: pytest.CaptureFixture[str]) -> None:
    code, out, _ = run(capsys, "diff", "fixtures/topo/dgx-1v.txt", "fixtures/fabric/dgx-1v-link-down.txt")
    assert code == 1
    assert out.splitlines()[2].split() == ["worse", "GPU0", "-", "GPU3", "NV2", "NV1"]
    code, out, err = run(capsys, "diff", "fixtures/topo/dgx-1v.txt", "fixtures/topo/dgx-1v.txt")
    assert (code, out, err) == (0, "", "nothing changed\n")


def test_diff_of_fabrics_as_document(capsys: pytest.CaptureFixture[str]) -> None:
    found = document(capsys, "diff", "fixtures/topo/fabric-two-level.conf", "fixtures/fabric/moved.conf")
    assert found["kind"] == "TopologyDiff"
    assert found["changes"] == [
        {"direction": "other", "what": "leaf of gpu04", "before": "leaf1", "after": "leaf2"},
        {"direction": "other", "what": "leaf of gpu05", "before": "leaf2", "after": "leaf1"},
    ]
