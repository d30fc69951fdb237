from __future__ import annotations

import pathlib

import pytest

from placer.report import node_layout, node_picture
from placer.topology import types as topo
from placer.topology.readers import nvidia_smi

TOPO = pathlib.Path(__file__).parents[3] / "fixtures" / "topo"
MACHINES = ["dgx-1v", "dgx-a100", "hgx-h100", "hgx-a100-4", "pcie-8", "rtx-2", "a100-pcie-bridges"]


def machine(name: str) -> topo.NodeTopology:
    return nvidia_smi.read_matrix((TOPO / f"{name}.txt").read_text(), source=name, name="gpu01")


def picture(
    topology: topo.NodeTopology | None, count: int, used: tuple[int, ...] = (), chosen: tuple[int, ...] = ()
) -> str:
    return node_picture.node(topology, name="gpu01", gpu_count=count, used=used, chosen=chosen)


def test_node_two_sockets_drawn_side_by_side() -> None:
    node = topo.NodeTopology(
        "n",
        "t",
        gpus=tuple(topo.Gpu(f"GPU{i}", numa=(i // 2,)) for i in range(4)),
        nics=(topo.Nic("NIC0", name="mlx5_0"),),
        links=(
            topo.Link("GPU0", "GPU1", topo.LinkType.NVLINK, 4),
            topo.Link("GPU2", "GPU3", topo.LinkType.NVLINK, 4),
            *(topo.Link(f"GPU{a}", f"GPU{b}", topo.LinkType.SYS) for a in (0, 1) for b in (2, 3)),
            topo.Link("GPU2", "NIC0", topo.LinkType.PIX),
        ),
    )
    assert picture(node, 4, used=(1,), chosen=(2, 3)).splitlines() == [
        "gpu01: 4 GPUs, NVLink pairs",
        "C* chosen 2   U# used 1   F. free 1",
        "┌─ NUMA 0 ───────────────────────────┐ ┌─ NUMA 1 ───────────────────────────┐",
        "│ [0 F.] [1 U#]                      │ │ [2 C*] mlx5_0                      │",
        "│                                    │ │ [3 C*]                             │",
        "└────────────────────────────────────┘ └────────────────────────────────────┘",
        "NV4: 0-1 2-3",
        "PCIe paths: SYS across",
    ]


def test_node_pcie_rows_share_a_switch_and_brackets_share_bridges() -> None:
    lines = picture(machine("pcie-8"), 8).splitlines()
    assert lines[3].startswith("│ ┌ [0 F.] [1 F.]")
    assert lines[4].startswith("│ └ [2 F.] [3 F.]")


def test_node_cube_mesh_names_pairs_by_lanes() -> None:
    """The eight double links of a DGX-1 with V100s, as its matrix tells them."""
    assert "NV2: 0-3 0-4 1-2 1-5 2-3 4-7 5-6 6-7" in picture(machine("dgx-1v"), 8).splitlines()


def test_node_nvswitch_is_told_in_one_line() -> None:
    lines = picture(machine("hgx-h100"), 8).splitlines()
    assert "NVSwitch joins GPUs 0-7, NV18 between each two" in lines
    assert not [line for line in lines if line.startswith("NV18")]


def test_node_full_mesh_is_told_in_one_line() -> None:
    assert "NV4 between each two of GPUs 0-3" in picture(machine("hgx-a100-4"), 4).splitlines()


def test_node_unknown_topology_shows_gpus_by_index() -> None:
    lines = picture(None, 3, used=(0,), chosen=(2,)).splitlines()
    assert lines[0] == "gpu01: 3 GPUs, wiring unknown"
    assert "[0 U#] [1 F.] [2 C*]" in lines[3]
    assert "place unknown" in lines[2]


def test_node_without_gpus_is_one_line() -> None:
    assert picture(None, 0) == "gpu01: 0 GPUs, wiring unknown"


def test_node_scheduler_counts_more_gpus_than_the_topology_rest_is_unknown() -> None:
    lines = picture(machine("rtx-2"), 4).splitlines()
    assert [line for line in lines if "place unknown" in line]
    assert [line for line in lines if "[2 F.] [3 F.]" in line]


def test_node_gres_indices_of_the_source_are_used() -> None:
    node = topo.NodeTopology("n", "t", gpus=(topo.Gpu("a", index=1), topo.Gpu("b", index=0)))
    assert "[0 U#] [1 F.]" in picture(node, 2, used=(0,))
    assert node_layout.of(node, 2).boxes[0].rows[0].gpus == (0, 1)


def test_node_unhealthy_gpu_is_broken_not_free() -> None:
    node = topo.NodeTopology("n", "t", gpus=(topo.Gpu("a", healthy=False), topo.Gpu("b")))
    assert "[0 X!] [1 F.]" in picture(node, 2)


@pytest.mark.parametrize("name", MACHINES)
def test_node_every_gpu_once_no_line_too_wide_no_escape(name: str) -> None:
    topology = machine(name)
    text = picture(topology, len(topology.gpus), used=(0,), chosen=(1,))
    assert max(map(len, text.splitlines())) <= 78
    assert "\x1b" not in text
    for gpu in range(len(topology.gpus)):
        assert text.count(f"[{gpu} ") == 1


def test_node_sixteen_gpus_without_switch_pairs_are_cut() -> None:
    pairs = [(a, b) for a in range(16) for b in range(a + 1, 16) if (a, b) != (14, 15)]
    node = topo.NodeTopology(
        "n",
        "t",
        gpus=tuple(topo.Gpu(f"g{i}", model="V100") for i in range(16)),
        links=tuple(topo.Link(f"g{a}", f"g{b}", topo.LinkType.XGMI) for a, b in pairs),
    )
    lines = picture(node, 16).splitlines()
    assert len(lines) < 16
    shown = sum(
        len(line.removeprefix("XGMI:").split())
        for line in lines
        if "-" in line and "[" not in line and "GPU" not in line
    )
    more = next(int(line.split()[2]) for line in lines if "more" in line)
    assert shown + more == len(pairs)


def test_node_names_from_outside_stay_harmless() -> None:
    node = topo.NodeTopology(
        "n", "t", gpus=(topo.Gpu("a"),), nics=(topo.Nic("x", name="\x1b[31mred\n" * 9),), machine="m\x07"
    )
    text = node_picture.node(node, name="evil\x1b]0;title\x07", gpu_count=1, used=(), chosen=())
    assert not [c for c in text if c != "\n" and not c.isprintable()]
    assert max(map(len, text.splitlines())) <= 78
