"""NVML through a package of our own that answers like nvidia-ml-py on a machine that the tests make up."""

from __future__ import annotations

import pathlib
import sys

import pytest

from placer import errors
from placer.probes import nvml
from placer.topology import types as topo

FAKE = """
import os, time

class NVMLError(Exception):
    pass

def nvmlInit():
    if os.environ.get("FAKE_NVML") == "broken":
        raise NVMLError("Driver/library version mismatch")
    if os.environ.get("FAKE_NVML") == "stuck":
        time.sleep(60)

def nvmlShutdown(): pass
def nvmlDeviceGetCount(): return 3

def nvmlDeviceGetHandleByIndex(i):
    if i == 2 and os.environ.get("FAKE_NVML") == "lost":
        raise NVMLError("GPU is lost")
    return i

class Pci:
    def __init__(self, i): self.busId = b"0000000%d:3B:00.0" % i

class Memory:
    total = 80 << 30

def nvmlDeviceGetPciInfo(h): return Pci(h)
def nvmlDeviceGetUUID(h): return "GPU-%d" % h if h else b"GPU-0"
def nvmlDeviceGetName(h): return "NVIDIA H100 80GB HBM3"
def nvmlDeviceGetMemoryInfo(h): return Memory()
def nvmlDeviceGetCudaComputeCapability(h): return (9, 0)
def nvmlDeviceGetMinorNumber(h): return 2 - h
def nvmlDeviceGetMigMode(h): return [0, 0]
def nvmlDeviceGetCpuAffinityWithinScope(h, words, scope): return [0b1100, 1][:words]
def nvmlDeviceGetMemoryAffinity(h, words, scope): return [0b10]

def nvmlDeviceGetNumaNodeId(h):
    raise NVMLError("Not Supported")

# 0 and 1: two links each to the other; 2 on PCIe only. 36 would be an index too far.
def nvmlDeviceGetNvLinkState(h, link):
    if link > 3: raise NVMLError("Invalid Argument")
    return 1 if h < 2 and link < 2 else 0

def nvmlDeviceGetNvLinkRemoteDeviceType(h, link): return 2 if os.environ.get("FAKE_NVML") == "switch" else 0
def nvmlDeviceGetNvLinkRemotePciInfo(h, link): return Pci(1 - h)
def nvmlDeviceGetTopologyCommonAncestor(a, b): return 50 if (a, b) == (1, 2) else 30
def nvmlDeviceGetP2PStatus(a, b, index): return 2 if (a, b) == (0, 2) else 0
"""


@pytest.fixture
def package(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "pynvml.py").write_text(FAKE)
    monkeypatch.syspath_prepend(str(tmp_path))


def test_probe_reads_gpus_places_and_links(package: None) -> None:
    found = nvml.probe(name="n1", timeout_seconds=20)
    assert (found.name, found.source, found.tool, found.warnings) == ("n1", "NVML", "nvml", ())
    assert found.gpus[1] == topo.Gpu(
        "GPU1",
        1,
        "0001:3b:00.0",
        "GPU-1",
        "NVIDIA H100 80GB HBM3",
        numa=(1,),
        cpus=(2, 3, 64),
        memory_mib=81920,
        minor=1,
        sm=90,
        mig="Disabled",
    )
    assert [(link.a, link.b, link.label) for link in found.links] == [
        ("GPU0", "GPU1", "NV2"),
        ("GPU0", "GPU2", "PHB"),
        ("GPU1", "GPU2", "SYS"),
    ]
    assert found.no_peer == (("GPU0", "GPU2"),)


def test_probe_links_through_an_nvswitch_are_those_of_each_gpu(package: None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FAKE_NVML", "switch")
    assert [link.label for link in nvml.probe(name="n", timeout_seconds=20).links] == ["NV2", "PHB", "SYS"]


def test_probe_of_a_lost_gpu_tells_the_others(package: None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FAKE_NVML", "lost")
    found = nvml.probe(name="n", timeout_seconds=20)
    assert [gpu.id for gpu in found.gpus] == ["GPU0", "GPU1"]
    assert found.warnings == ("NVML gives no access to GPU2",)


def test_probe_with_a_broken_driver_reports_its_words(package: None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FAKE_NVML", "broken")
    with pytest.raises(errors.CommandFailedError, match="NVML: Driver/library version mismatch"):
        nvml.probe(name="n", timeout_seconds=20)


def test_probe_that_never_answers_is_given_up(package: None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FAKE_NVML", "stuck")
    with pytest.raises(errors.CommandTimeoutError):
        nvml.probe(name="n", timeout_seconds=1.5)


def test_probe_without_the_package_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(nvml, "available", lambda: False)
    with pytest.raises(errors.CommandMissingError, match="nvidia-ml-py is not installed"):
        nvml.probe(name="n", timeout_seconds=1)


def test_module_is_not_loaded_by_this_process(package: None) -> None:
    nvml.probe(name="n", timeout_seconds=20)
    assert "pynvml" not in sys.modules
