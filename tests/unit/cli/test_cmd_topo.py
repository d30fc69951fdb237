"""`placer topo` as a person runs it."""

from __future__ import annotations

import json
import pathlib
import re
import shlex
from typing import Any

import pytest
import yaml

from placer.cli import _topo_document, main
from placer.topology import types as topo

ROOT = pathlib.Path(__file__).parents[3]


@pytest.fixture(autouse=True)
def _at_root(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT)


def document(capsys: pytest.CaptureFixture[str], *args: str) -> dict[str, Any]:
    assert main.invoke(["topo", *args, "-o", "json"]) == 0
    found: dict[str, Any] = json.loads(capsys.readouterr().out)
    return found


def failure(capsys: pytest.CaptureFixture[str], *args: str) -> tuple[int, str]:
    code = main.invoke(["topo", *args])
    out, err = capsys.readouterr()
    assert out == ""
    return code, err


def test_topo_json_is_the_documented_kind(capsys: pytest.CaptureFixture[str]) -> None:
    found = document(capsys, "fixtures/topo/dgx-a100.txt")
    assert (found["apiVersion"], found["kind"]) == ("placer/v1", "NodeTopology")
    assert (found["name"], found["source"], found["partial"]) == ("dgx-a100", "fixtures/topo/dgx-a100.txt", False)
    gpu = found["gpus"][0]
    assert (gpu["id"], gpu["index"], gpu["numa"], gpu["cpus"], gpu["uuid"]) == ("GPU0", 0, [3], "48-63,176-191", None)
    assert found["nics"][0]["name"] == "mlx5_0"
    assert found["links"][0] == {"a": "GPU0", "b": "GPU1", "type": "NV12", "bandwidth_gbps": None}
    assert (found["numa_nodes"], found["switches"], found["warnings"]) == ([], [], [])


def test_topo_gpu_type_gives_bandwidths_and_says_so(capsys: pytest.CaptureFixture[str]) -> None:
    found = document(capsys, "fixtures/topo/dgx-1v.txt", "--gpu-type", "v100")
    speed = {link["type"]: link["bandwidth_gbps"] for link in found["links"]}
    # NCCL counts 20 GB/s for each NVLink of a V100.
    assert (speed["NV1"], speed["NV2"], speed["SYS"]) == (20.0, 40.0, None)
    assert found["assumed"] == ["GPUs are v100, as given"]


def test_topo_yaml_equals_json(capsys: pytest.CaptureFixture[str]) -> None:
    wanted = document(capsys, "fixtures/topo/rtx-2.txt")
    assert main.invoke(["topo", "-o", "yaml", "fixtures/topo/rtx-2.txt"]) == 0
    assert yaml.safe_load(capsys.readouterr().out) == wanted


def test_topo_table_shows_unknown_as_question_mark(capsys: pytest.CaptureFixture[str], tmp_path: pathlib.Path) -> None:
    path = tmp_path / "cut.txt"
    path.write_text("\tGPU0\tGPU1\tGPU2\tNIC0\tCPU Affinity\nGPU0\t X \tNV4\tSYS\tPIX\t0-3\n")
    assert main.invoke(["topo", str(path)]) == 0
    out, err = capsys.readouterr()
    assert out.splitlines()[0] == "cut: 3 GPUs, 1 adapter (partial)"
    assert out.splitlines()[2].split() == ["GPU0", "-", "NV4", "SYS", "NIC0", "?", "0-3"]
    assert out.splitlines()[3].split() == ["GPU1", "NV4", "-", "?", "?", "?", "?"]
    assert "warning: no row for GPU1, GPU2" in err


def test_topo_sources_of_one_node_are_merged(capsys: pytest.CaptureFixture[str], tmp_path: pathlib.Path) -> None:
    listing = tmp_path / "sysfs.txt"
    listing.write_text("/sys/devices/system/node/node0/cpulist:0-31\n")
    found = document(capsys, "fixtures/topo/rtx-2.txt", str(listing))
    assert found["name"] == "rtx-2"
    assert found["numa_nodes"] == [{"id": 0, "cpus": "0-31", "memory_mib": None, "package": None}]
    assert found["source"] == f"fixtures/topo/rtx-2.txt, {listing}"


def test_topo_sysfs_tree_is_a_source(capsys: pytest.CaptureFixture[str], tmp_path: pathlib.Path) -> None:
    (tmp_path / "devices/system/node/node0").mkdir(parents=True)
    (tmp_path / "devices/system/node/node0/cpulist").write_text("0-7\n")
    assert document(capsys, str(tmp_path))["numa_nodes"][0]["cpus"] == "0-7"


def test_topo_of_this_host_answers_without_gpus(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: pathlib.Path
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    found = document(capsys)
    assert (found["kind"], found["gpus"]) == ("NodeTopology", [])
    assert found["warnings"][0].startswith("not on this host: nvidia-smi, ")


def test_topo_text_that_is_none_names_its_place(capsys: pytest.CaptureFixture[str], tmp_path: pathlib.Path) -> None:
    path = tmp_path / "no.txt"
    path.write_text("\n  hello\x1b[31m\x00 world\n")
    code, err = failure(capsys, str(path))
    assert code == 1
    assert err.startswith(f"error: {path}:2:3: no topology matrix")
    assert "\x1b" not in err
    assert "hint: " in err


@pytest.mark.parametrize(
    ("args", "code", "words"),
    [
        (["no-such-file"], 1, "no-such-file does not exist"),
        (["fixtures"], 1, "fixtures is a directory, but not a sysfs tree"),
        (["fixtures/topo/rtx-2.txt", "fixtures/topo/pcie-8.txt"], 1, "contradict each other"),
        (["fixtures/topo/fabric-two-level.conf"], 1, "placer topo fabric"),
        (["-", "-"], 2, "only once"),
        (["-o", "xml"], 2, "xml"),
        (["--no-such-option"], 2, "hint: `placer topo --help`"),
    ],
)
def test_topo_mistakes_have_their_exit_code(
    capsys: pytest.CaptureFixture[str], args: list[str], code: int, words: str
) -> None:
    found, err = failure(capsys, *args)
    assert found == code
    assert words in err


def test_topo_fabric_json_lists_levels_and_domains(capsys: pytest.CaptureFixture[str]) -> None:
    found = document(capsys, "fabric", "fixtures/topo/fabric-two-level.conf")
    assert (found["kind"], found["type"]) == ("Fabric", "tree")
    assert [level["name"] for level in found["levels"]] == ["leaf", "spine"]
    assert [(d["name"], d["level"], d["parent"], d["nodes"]) for d in found["domains"]] == [
        ("leaf1", "leaf", "spine", "gpu[01-04]"),
        ("leaf2", "leaf", "spine", "gpu[05-08]"),
        ("spine", "spine", None, "gpu[01-08]"),
    ]
    assert found["warnings"] == []


def test_topo_fabric_of_two_islands_is_warned_about(capsys: pytest.CaptureFixture[str], tmp_path: pathlib.Path) -> None:
    path = tmp_path / "topology.conf"
    path.write_text("SwitchName=a Nodes=n1\nSwitchName=b Nodes=n2\n")
    assert main.invoke(["topo", "fabric", str(path)]) == 0
    out, err = capsys.readouterr()
    assert out.splitlines()[0] == "tree: leaf, 2 nodes"
    assert "2 islands" in err


def test_topo_fabric_broken_file_names_its_line(capsys: pytest.CaptureFixture[str], tmp_path: pathlib.Path) -> None:
    path = tmp_path / "topology.conf"
    path.write_text("SwitchName=a Nodes=n1\nSwitchName=s Switches=a,b\n")
    code, err = failure(capsys, "fabric", str(path))
    assert code == 1
    assert f"{path}:2:" in err


@pytest.mark.parametrize("words", [["topo"], ["topo", "fabric"]])
def test_topo_help_examples_run(capsys: pytest.CaptureFixture[str], words: list[str]) -> None:
    assert main.invoke([*words, "--help"]) == 0
    text = capsys.readouterr().out
    examples = re.findall(r"^ +placer (.+)$", text[text.index("Examples:") :], re.MULTILINE)
    assert len(examples) >= 2
    for line in examples:
        assert main.invoke(shlex.split(line)) == 0, line


def test_rows_of_adapters_and_switches_tell_what_is_known() -> None:
    node = topo.NodeTopology(
        name="n",
        source="s",
        nics=(topo.Nic("eth0", "eth0", bus_id="0000:00:04.0", numa=(1,), speed_gbits=25.0), topo.Nic("NIC1")),
        switches=(topo.PcieSwitch("sw1", devices=("GPU0", "eth0"), parent="sw0", numa=(0, 1)),),
    )
    assert _topo_document.nic_rows(node)[1] == [
        ["eth0", "eth0", "0000:00:04.0", "1", "25"],
        ["NIC1", "?", "?", "?", "?"],
    ]
    assert _topo_document.switch_rows(node)[1] == [["sw1", "GPU0 eth0", "sw0", "one of 0-1"]]
