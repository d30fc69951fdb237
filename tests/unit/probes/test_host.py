"""This host, with a saved sysfs tree and an nvidia-smi of our own on PATH."""

from __future__ import annotations

import pathlib
import time

import pytest

from placer import errors
from placer.probes import _run, host, nvml
from placer.topology import types as topo

FIXTURES = pathlib.Path(__file__).parents[3] / "fixtures" / "topo"


CPUS = 32
LSTOPO = """<?xml version="1.0" encoding="UTF-8"?>
<topology version="2.0">
  <object type="Machine" os_index="0" cpuset="0xffffffff" nodeset="0x1" gp_index="1">
    <object type="Package" os_index="0" cpuset="0xffffffff" nodeset="0x1" gp_index="2">
      <object type="NUMANode" os_index="0" cpuset="0xffffffff" nodeset="0x1" gp_index="3" local_memory="2147483648"/>
    </object>
  </object>
</topology>
"""


@pytest.fixture
def sysfs(tmp_path: pathlib.Path) -> pathlib.Path:
    """One socket with 16 cores of two threads, c and c + 16; two NVIDIA GPUs and an Ethernet adapter on it."""
    root = tmp_path / "sys"
    node = root / "devices/system/node/node0"
    node.mkdir(parents=True)
    (node / "cpulist").write_text(f"0-{CPUS - 1}\n")
    (node / "meminfo").write_text("Node 0 MemTotal:       2097152 kB\n")
    for cpu in range(CPUS):
        folder = root / f"devices/system/cpu/cpu{cpu}/topology"
        folder.mkdir(parents=True)
        (folder / "thread_siblings_list").write_text(f"{cpu % 16},{cpu % 16 + 16}\n")
        (folder / "physical_package_id").write_text("0\n")
    for address, kind, vendor in (("0000:01:00.0", "0x030200", "0x10de"), ("0000:02:00.0", "0x030200", "0x10de")):
        folder = root / "bus/pci/devices" / address
        folder.mkdir(parents=True)
        for file, text in (("class", kind), ("vendor", vendor), ("numa_node", "0")):
            (folder / file).write_text(f"{text}\n")
    return root


@pytest.fixture
def tools(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> pathlib.Path:
    """A folder that is all of PATH; a test writes its tools there. nvidia-ml-py is not installed."""
    folder = tmp_path / "bin"
    folder.mkdir()
    monkeypatch.setenv("PATH", str(folder))
    monkeypatch.setattr(nvml, "available", lambda: False)
    return folder


def script(path: pathlib.Path, body: str) -> None:
    path.write_text(f"#!/bin/sh\n{body}\n")
    path.chmod(0o755)


def printing(path: pathlib.Path, texts: dict[str, str]) -> None:
    """A tool that prints a text where its arguments hold these words, and fails otherwise."""
    cases = []
    for number, (words, text) in enumerate(texts.items()):
        file = path.parent / f"{path.name}.{number}.txt"
        file.write_text(text)
        cases.append(f'*"{words}"*) exec /bin/cat {file};;')
    script(path, f'case "$*" in {" ".join(cases)} *) exit 2;; esac')


ROWS = "".join(f"{i}, 00000000:0{i + 1}:00.0, GPU-0000000{i}, NVIDIA RTX A6000, 49140\n" for i in range(2))
XML = """<?xml version="1.0" ?>
<nvidia_smi_log><attached_gpus>2</attached_gpus>
<gpu id="00000000:01:00.0"><product_name>NVIDIA RTX A6000</product_name><uuid>GPU-00000000-aaaa</uuid>
<minor_number>0</minor_number><fb_memory_usage><total>49140 MiB</total></fb_memory_usage></gpu>
<gpu id="00000000:02:00.0"><product_name>NVIDIA RTX A6000</product_name><uuid>GPU-00000001-aaaa</uuid>
<minor_number>1</minor_number><fb_memory_usage><total>49140 MiB</total></fb_memory_usage></gpu>
</nvidia_smi_log>
"""
P2P = " \tGPU0\tGPU1\t\n GPU0\tX\tGNS\t\n GPU1\tGNS\tX\t\n"


def test_read_sysfs_reads_a_saved_tree(sysfs: pathlib.Path) -> None:
    found = host.read_sysfs(sysfs, name="n1")
    assert found.numa_nodes == (topo.NumaNode(0, tuple(range(32)), 2048, 0),)
    assert found.cores[:2] == ((0, 16), (1, 17))
    assert [(gpu.bus_id, gpu.numa) for gpu in found.gpus] == [("0000:01:00.0", (0,)), ("0000:02:00.0", (0,))]
    assert found.tool == "sysfs"


def test_read_sysfs_of_an_empty_tree_says_what_is_missing(tmp_path: pathlib.Path) -> None:
    found = host.read_sysfs(tmp_path)
    assert found.partial
    assert len(found.warnings) >= 2


def test_probe_without_any_tool_keeps_what_the_kernel_tells_and_names_them(
    sysfs: pathlib.Path, tools: pathlib.Path
) -> None:
    found = host.probe(sysfs_root=sysfs)
    assert (len(found.gpus), len(found.cores)) == (2, 16)
    assert found.warnings[0] == (
        "not on this host: nvidia-smi, amd-smi or rocm-smi, lstopo, the Python package nvidia-ml-py"
    )


def test_probe_of_a_machine_without_gpus_is_whole(sysfs: pathlib.Path, tools: pathlib.Path) -> None:
    for folder in (sysfs / "bus/pci/devices").iterdir():
        (folder / "class").write_text("0x060400\n")
    found = host.probe(sysfs_root=sysfs)
    assert (found.gpus, found.partial, len(found.cores)) == ((), False, 16)


def test_probe_joins_all_that_the_tools_tell(sysfs: pathlib.Path, tools: pathlib.Path) -> None:
    matrix = (FIXTURES / "rtx-2.txt").read_text()
    printing(tools / "nvidia-smi", {"topo -m": matrix, "-p2p": P2P, "-q -x": XML})
    printing(tools / "lstopo", {"--of xml": LSTOPO})
    found = host.probe(sysfs_root=sysfs)
    assert [(gpu.id, gpu.index, gpu.bus_id, gpu.model, gpu.minor, gpu.numa) for gpu in found.gpus] == [
        ("GPU0", 0, "0000:01:00.0", "NVIDIA RTX A6000", 0, (0,)),
        ("GPU1", 1, "0000:02:00.0", "NVIDIA RTX A6000", 1, (0,)),
    ]
    assert [link.label for link in found.links] == ["PHB"]
    assert found.no_peer == (("GPU0", "GPU1"),)
    assert not found.partial
    origins = dict(found.origins)
    assert origins["gpus.model"] == "nvidia-smi -q -x"
    assert origins["links"] == "nvidia-smi topo -m"
    assert origins["numa_nodes.cpus"] == str(sysfs)
    assert any("by their numbers" in text for text in found.assumed)


def test_probe_asks_an_old_driver_by_query_where_its_log_cannot_be_read(
    sysfs: pathlib.Path, tools: pathlib.Path
) -> None:
    matrix = FIXTURES / "rtx-2.txt"
    script(
        tools / "nvidia-smi",
        f"case \"$1$2\" in topo-m) exec /bin/cat {matrix};; --query*) printf '{ROWS}';; *) exit 2;; esac",
    )
    found = host.probe(sysfs_root=sysfs)
    assert [gpu.memory_mib for gpu in found.gpus] == [49140, 49140]
    assert not found.partial


def test_probe_falls_back_to_rocm_smi(sysfs: pathlib.Path, tools: pathlib.Path) -> None:
    printing(tools / "rocm-smi", {"--showtopo": (FIXTURES / "mi300x-8.txt").read_text()})
    for number in range(3, 9):
        folder = sysfs / f"bus/pci/devices/0000:0{number}:00.0"
        folder.mkdir(parents=True)
        for file, text in (("class", "0x120000"), ("vendor", "0x1002"), ("numa_node", "0")):
            (folder / file).write_text(f"{text}\n")
    found = host.probe(sysfs_root=sysfs)
    assert "amd-smi" not in found.warnings[0]
    assert [link.label for link in found.links] == ["XGMI"] * 28


def test_probe_with_a_failing_driver_reports_its_words(sysfs: pathlib.Path, tools: pathlib.Path) -> None:
    script(tools / "nvidia-smi", "echo 'NVIDIA-SMI has failed' >&2; exit 9")
    found = host.probe(sysfs_root=sysfs)
    assert "`nvidia-smi topo -m` failed: NVIDIA-SMI has failed" in found.warnings
    assert found.partial


def test_probe_does_not_wait_for_a_tool_that_hangs(sysfs: pathlib.Path, tools: pathlib.Path) -> None:
    script(tools / "nvidia-smi", "/bin/sleep 60")
    start = time.monotonic()
    found = host.probe(sysfs_root=sysfs, timeout_seconds=0.3)
    assert time.monotonic() - start < 10
    assert "`nvidia-smi topo -m` did not answer in 0.3 s" in found.warnings


def test_probe_with_garbage_from_every_tool_still_tells_the_kernels_part(
    sysfs: pathlib.Path, tools: pathlib.Path
) -> None:
    for tool in ("nvidia-smi", "amd-smi", "lstopo"):
        script(tools / tool, "printf '\\000\\033[31m<garbage'")
    found = host.probe(sysfs_root=sysfs)
    assert (len(found.cores), found.partial) == (16, True)
    assert "\x1b" not in "".join(found.warnings)


def test_run_gives_up_in_time_and_ends_the_program(tools: pathlib.Path) -> None:
    script(tools / "nvidia-smi", "/bin/sleep 60")
    start = time.monotonic()
    with pytest.raises(errors.CommandTimeoutError, match=r"did not answer in 0\.2 s"):
        _run.run(["nvidia-smi", "topo", "-m"], timeout_seconds=0.2)
    assert time.monotonic() - start < 10


def test_run_missing_program_is_named(tools: pathlib.Path) -> None:
    with pytest.raises(errors.CommandMissingError, match="nvidia-smi is not on PATH"):
        _run.run(["nvidia-smi"], timeout_seconds=1)
