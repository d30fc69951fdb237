"""This host, with a saved sysfs tree and an nvidia-smi of our own on PATH."""

from __future__ import annotations

import pathlib
import time

import pytest

from placer import errors
from placer.probes import _run, host
from placer.topology import types as topo

FIXTURES = pathlib.Path(__file__).parents[3] / "fixtures" / "topo"


@pytest.fixture
def sysfs(tmp_path: pathlib.Path) -> pathlib.Path:
    """One socket with two cores of two threads; cpu0 and cpu2 share the first."""
    root = tmp_path / "sys"
    node = root / "devices/system/node/node0"
    node.mkdir(parents=True)
    (node / "cpulist").write_text("0-3\n")
    (node / "meminfo").write_text("Node 0 MemTotal:       2097152 kB\n")
    for cpu in range(4):
        folder = root / f"devices/system/cpu/cpu{cpu}/topology"
        folder.mkdir(parents=True)
        (folder / "thread_siblings_list").write_text(f"{cpu % 2},{cpu % 2 + 2}\n")
        (folder / "physical_package_id").write_text("0\n")
    return root


@pytest.fixture
def smi(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> pathlib.Path:
    """A folder that is all of PATH; a test writes its nvidia-smi there."""
    folder = tmp_path / "bin"
    folder.mkdir()
    monkeypatch.setenv("PATH", str(folder))
    return folder / "nvidia-smi"


def script(path: pathlib.Path, body: str) -> None:
    path.write_text(f"#!/bin/sh\n{body}\n")
    path.chmod(0o755)


def test_read_sysfs_reads_a_saved_tree(sysfs: pathlib.Path) -> None:
    found = host.read_sysfs(sysfs, name="n1")
    assert found.numa_nodes == (topo.NumaNode(0, (0, 1, 2, 3), 2048, 0),)
    assert found.cores == ((0, 2), (1, 3))


def test_read_sysfs_of_an_empty_tree_says_what_is_missing(tmp_path: pathlib.Path) -> None:
    found = host.read_sysfs(tmp_path)
    assert found.partial
    assert len(found.warnings) == 2


def test_probe_without_nvidia_smi_keeps_the_cores_and_says_so(sysfs: pathlib.Path, smi: pathlib.Path) -> None:
    found = host.probe(sysfs_root=sysfs)
    assert (found.gpus, found.cores, found.partial) == ((), ((0, 2), (1, 3)), True)
    assert found.warnings == ("nvidia-smi is not on PATH: GPUs and their links stay unknown",)


def test_probe_merges_matrix_query_and_sysfs(sysfs: pathlib.Path, smi: pathlib.Path) -> None:
    rows = "\\n".join(f"{i}, 00000000:{i:02X}:00.0, GPU-{i}, NVIDIA RTX A6000, 49140" for i in range(2))
    script(smi, f"[ \"$1\" = topo ] && exec /bin/cat {FIXTURES / 'rtx-2.txt'}\nprintf '{rows}\\n'")
    found = host.probe(sysfs_root=sysfs)
    assert [(gpu.bus_id, gpu.model) for gpu in found.gpus] == [
        ("0000:00:00.0", "NVIDIA RTX A6000"),
        ("0000:01:00.0", "NVIDIA RTX A6000"),
    ]
    assert [(link.label, found.numa_nodes[0].memory_mib) for link in found.links] == [("PHB", 2048)]
    assert (found.partial, found.warnings) == (False, ())


def test_probe_with_a_failing_driver_reports_its_words(sysfs: pathlib.Path, smi: pathlib.Path) -> None:
    script(smi, "echo 'NVIDIA-SMI has failed' >&2; exit 9")
    found = host.probe(sysfs_root=sysfs)
    assert found.gpus == ()
    assert "`nvidia-smi topo -m` failed: NVIDIA-SMI has failed" in found.warnings


def test_run_gives_up_in_time_and_ends_the_program(smi: pathlib.Path) -> None:
    script(smi, "/bin/sleep 60")
    start = time.monotonic()
    with pytest.raises(errors.CommandTimeoutError, match=r"did not answer in 0\.2 s"):
        _run.run(["nvidia-smi", "topo", "-m"], timeout_seconds=0.2)
    assert time.monotonic() - start < 10


def test_run_missing_program_is_named(smi: pathlib.Path) -> None:
    with pytest.raises(errors.CommandMissingError, match="nvidia-smi is not on PATH"):
        _run.run(["nvidia-smi"], timeout_seconds=1)
