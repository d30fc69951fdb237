"""`nvidia-smi -q -x`: identity, states and what they mean."""

from __future__ import annotations

import pathlib

import pytest

from placer import errors
from placer.topology import types as topo
from placer.topology.readers import nvidia_xml

FIXTURE = pathlib.Path(__file__).parents[3] / "fixtures" / "topo" / "tools" / "nvidia-smi-q-a100-4.xml"
MINIMAL = "<nvidia_smi_log><attached_gpus>1</attached_gpus><gpu id='00000009:01:00.0'>{}</gpu></nvidia_smi_log>"

DEPRECATED = "Requested functionality has been deprecated"


def read(text: str) -> topo.NodeTopology:
    return nvidia_xml.read(text, source="log", name="n1")


def only(body: str) -> tuple[topo.Gpu, tuple[str, ...]]:
    node = read(MINIMAL.format(body))
    return node.gpus[0], node.warnings


def test_read_log_gives_identity_memory_and_pcie_state() -> None:
    node = read(FIXTURE.read_text())
    assert node.gpus[0] == topo.Gpu(
        "GPU0",
        0,
        "0000:07:00.0",
        "GPU-00000000-1111-2222-3333-444444444444",
        "NVIDIA A100-SXM4-80GB",
        memory_mib=81920,
        healthy=True,
        minor=2,
        module=4,
        pcie_gen=1,
        pcie_gen_max=4,
        pcie_width=16,
        pcie_width_max=16,
        mig="Disabled",
    )
    assert [gpu.bus_id for gpu in node.gpus] == ["0000:07:00.0", "0000:0f:00.0", "0000:47:00.0", "0000:4e:00.0"]
    assert node.partial


def test_read_log_health_and_warnings_follow_the_states() -> None:
    node = read(FIXTURE.read_text())
    assert [gpu.healthy for gpu in node.gpus] == [True, True, True, False]
    assert node.warnings == (
        "GPU2: memory rows are to be remapped at the next reset",
        "GPU2: its PCIe link runs with 8 of 16 lanes",
        "GPU3: a memory row could not be remapped",
        "GPU3: 3 uncorrected memory errors since the last reset",
    )


def test_read_log_of_mig_tells_its_instances() -> None:
    gpu = read(FIXTURE.read_text()).gpus[1]
    assert gpu.mig == "Enabled"
    assert gpu.mig_devices == (
        "instance 1/0, 42 multiprocessors, 40192 MiB",
        "instance 5/0, 28 multiprocessors, 19968 MiB",
    )


def test_read_log_without_states_knows_no_health() -> None:
    gpu, warnings = only("<product_name>[Unknown Error]</product_name><uuid>N/A</uuid>")
    assert gpu == topo.Gpu("GPU0", 0, "0009:01:00.0")
    assert warnings == ()


@pytest.mark.parametrize(
    ("body", "healthy", "words"),
    [
        ("<ecc_errors><volatile><double_bit><total>2</total></double_bit></volatile></ecc_errors>", False, "2 uncorr"),
        ("<ecc_errors><volatile><dram_uncorrectable>N/A</dram_uncorrectable></volatile></ecc_errors>", None, None),
        ("<retired_pages><pending_blacklist>Yes</pending_blacklist></retired_pages>", True, "retired at the next"),
        ("<gpu_recovery_action>None</gpu_recovery_action>", True, None),
        ("<gpu_recovery_action>Drain and Reset</gpu_recovery_action>", False, "Drain and Reset"),
        (
            "<ecc_errors><aggregate><sram_threshold_exceeded>Yes</sram_threshold_exceeded></aggregate></ecc_errors>",
            False,
            "SRAM",
        ),
        (f"<gpu_reset_status><reset_required>{DEPRECATED}</reset_required></gpu_reset_status>", None, None),
    ],
)
def test_read_log_each_state_has_its_meaning(body: str, healthy: bool | None, words: str | None) -> None:
    gpu, warnings = only(body)
    assert gpu.healthy is healthy
    assert (warnings == ()) == (words is None)
    assert words is None or words in warnings[0]


FABRIC = "<fabric><state>{}</state><status>{}</status><cliqueId>{}</cliqueId><clusterUuid>{}</clusterUuid></fabric>"
CLUSTER = "5CD30DC8-0000-1111-2222-333333333333"


@pytest.mark.parametrize(
    ("fabric", "clique", "warned"),
    [
        (("Completed", "Success", "388", CLUSTER), f"{CLUSTER.lower()}.388", False),
        (("Completed", "Success", "0", "00000000-0000-0000-0000-000000000000"), None, False),
        (("N/A", "N/A", "N/A", "N/A"), None, False),
        (("In Progress", "N/A", "N/A", "N/A"), None, True),
        (("Completed", "Not Supported", "1", "N/A"), None, True),
    ],
)
def test_read_log_clique_is_cluster_and_number(fabric: tuple[str, ...], clique: str | None, warned: bool) -> None:
    gpu, warnings = only(FABRIC.format(*fabric))
    assert gpu.clique == clique
    assert bool(warnings) == warned


@pytest.mark.parametrize(
    ("state", "current", "most", "device", "words"),
    [
        ("P8", 1, 4, 4, None),  # idle: saves power
        ("P0", 1, 4, 4, "runs at generation 1 of 4"),
        ("P0", 3, 3, 4, "slot allows PCIe generation 3"),
        ("P0", 4, 4, 4, None),
    ],
)
def test_read_log_slow_link_is_a_fault_under_load_only(
    state: str, current: int, most: int, device: int, words: str | None
) -> None:
    _, warnings = only(
        f"<performance_state>{state}</performance_state><pci><pci_gpu_link_info><pcie_gen>"
        f"<max_link_gen>{most}</max_link_gen><current_link_gen>{current}</current_link_gen>"
        f"<max_device_link_gen>{device}</max_device_link_gen></pcie_gen></pci_gpu_link_info></pci>"
    )
    assert (warnings == ()) == (words is None)
    assert words is None or words in warnings[0]


def test_read_log_of_some_gpus_does_not_number_them() -> None:
    node = read(MINIMAL.format("").replace(">1<", ">8<"))
    assert node.gpus == (topo.Gpu("0009:01:00.0", None, "0009:01:00.0"),)
    assert "1 of 8" in node.warnings[0]


@pytest.mark.parametrize("text", ["<nvidia_smi_log/>", "<gpu/>", "<nvidia_smi_log><gpu></nvidia_smi_log>"])
def test_read_log_without_gpus_is_a_parse_error(text: str) -> None:
    with pytest.raises(errors.ParseError):
        read(text)
