"""The reader of `nvidia-smi topo -m`: what each oddity of a saved text must come to, by hand."""

from __future__ import annotations

import pathlib

import pytest

from placer import errors
from placer.topology import types as topo
from placer.topology.readers import nvidia_smi

FIXTURES = pathlib.Path(__file__).parents[3] / "fixtures" / "topo"

# NVIDIA's DGX-1 white paper: two links between some pairs, six a GPU.
DGX1_LINKS = {
    ("GPU0", "GPU1", 1),
    ("GPU0", "GPU2", 1),
    ("GPU0", "GPU3", 2),
    ("GPU0", "GPU4", 2),
    ("GPU1", "GPU2", 2),
    ("GPU1", "GPU3", 1),
    ("GPU1", "GPU5", 2),
    ("GPU2", "GPU3", 2),
    ("GPU2", "GPU6", 1),
    ("GPU3", "GPU7", 1),
    ("GPU4", "GPU5", 1),
    ("GPU4", "GPU6", 1),
    ("GPU4", "GPU7", 2),
    ("GPU5", "GPU6", 2),
    ("GPU5", "GPU7", 1),
    ("GPU6", "GPU7", 2),
}


def read(text: str) -> topo.NodeTopology:
    return nvidia_smi.read_matrix(text, source="saved.txt", name="n1")


def fixture(name: str) -> topo.NodeTopology:
    return read((FIXTURES / name).read_text())


def labels(node: topo.NodeTopology) -> dict[tuple[str, str], str]:
    return {(link.a, link.b): link.label for link in node.links}


def span(first: int, last: int) -> tuple[int, ...]:
    return tuple(range(first, last + 1))


def test_read_matrix_hybrid_cube_mesh_has_the_published_links() -> None:
    node = fixture("dgx-1v.txt")
    nvlinks = {(link.a, link.b, link.lanes) for link in node.links if link.type is topo.LinkType.NVLINK}
    assert nvlinks == DGX1_LINKS
    assert labels(node)["GPU0", "GPU5"] == "SYS"
    assert labels(node)["GPU2", "mlx5_1"] == "PIX"
    assert len(node.links) == 12 * 11 // 2
    assert [(nic.id, nic.name) for nic in node.nics] == [(f"mlx5_{k}", f"mlx5_{k}") for k in range(4)]
    assert (node.name, node.source, node.partial, node.warnings) == ("n1", "saved.txt", False, ())


def test_read_matrix_dgx_a100_keeps_the_unordered_numa_nodes() -> None:
    node = fixture("dgx-a100.txt")
    assert [gpu.numa for gpu in node.gpus] == [(3,), (3,), (1,), (1,), (7,), (7,), (5,), (5,)]
    assert node.gpus[4].cpus == span(112, 127) + span(240, 255)
    assert [gpu.index for gpu in node.gpus] == [0, 1, 2, 3, 4, 5, 6, 7]
    assert {gpu.memory_numa for gpu in node.gpus} == {None}
    assert node.nics[9] == topo.Nic("NIC9", "mlx5_9")
    assert labels(node)["GPU7", "NIC9"] == "PXB"
    assert labels(node)["GPU0", "NIC4"] == "SYS"


def test_read_matrix_hgx_h100_has_one_adapter_at_each_gpu() -> None:
    node = fixture("hgx-h100.txt")
    near = {(link.a, link.b) for link in node.links if link.type is topo.LinkType.PIX}
    assert near == {(f"GPU{i}", f"NIC{i}") for i in range(8)} | {("NIC8", "NIC9")}
    assert {link.lanes for link in node.links if link.type is topo.LinkType.NVLINK} == {18}


@pytest.mark.parametrize(
    ("name", "kinds"),
    [
        ("hgx-a100-4.txt", {"NV4": 6, "NODE": 2, "SYS": 2}),
        ("pcie-8.txt", {"PIX": 4, "PXB": 8, "SYS": 16 + 4, "NODE": 4}),
        ("a100-pcie-bridges.txt", {"NV12": 2, "SYS": 4}),
        ("rtx-2.txt", {"PHB": 1}),
    ],
)
def test_read_matrix_other_machines_count_their_pairs(name: str, kinds: dict[str, int]) -> None:
    found = [link.label for link in fixture(name).links]
    assert {kind: found.count(kind) for kind in set(found)} == kinds


def test_read_matrix_old_word_soc_is_sys() -> None:
    node = read("\tGPU0\tGPU1\tCPU Affinity\nGPU0\t X \tSOC\t0-5\nGPU1\tSOC\t X \t6-11\n")
    assert labels(node) == {("GPU0", "GPU1"): "SYS"}
    assert [gpu.numa for gpu in node.gpus] == [None, None]


def test_read_matrix_unclosed_colour_is_removed() -> None:
    node = read("\t\x1b[4mGPU0\tGPU1\tCPU Affinity\nGPU0\t X \tNV2\t0-3\nGPU1\tNV2\t X \t0-3\n")
    assert [gpu.id for gpu in node.gpus] == ["GPU0", "GPU1"]
    assert node.gpus[1].cpus == (0, 1, 2, 3)


def test_read_matrix_windows_line_ends_and_mark_are_removed() -> None:
    node = read("\ufeff\tGPU0\tGPU1\tCPU Affinity\r\nGPU0\t X \tPIX\t0-3\r\nGPU1\tPIX\t X \t0-3\r\n")
    assert (labels(node), node.warnings) == ({("GPU0", "GPU1"): "PIX"}, ())


def test_read_matrix_double_spaced_text_keeps_all_rows() -> None:
    node = read("\tGPU0\tGPU1\tCPU Affinity\n\nGPU0\t X \tPIX\t0-3\n\nGPU1\tPIX\t X \t4-7\n\n")
    assert [gpu.cpus for gpu in node.gpus] == [(0, 1, 2, 3), (4, 5, 6, 7)]


def test_read_matrix_second_matrix_is_ignored() -> None:
    first = "\tGPU0\tGPU1\tCPU Affinity\nGPU0\t X \tPIX\t0-3\n"
    node = read(first + "\n\tGPU0\tGPU1\tCPU Affinity\nGPU0\t X \tSYS\t0-3\nGPU1\tSYS\t X \t9\n")
    assert (labels(node), node.gpus[1].cpus) == ({("GPU0", "GPU1"): "PIX"}, None)


def test_read_matrix_several_numa_nodes_mean_one_of_them() -> None:
    text = "\tGPU0\tGPU1\tCPU Affinity\tNUMA Affinity\nGPU0\t X \tPHB\t0-63\t0-1\nGPU1\tPHB\t X \t0-63\t0-1\n"
    assert [gpu.numa for gpu in read(text).gpus] == [(0, 1), (0, 1)]


def test_read_matrix_gpu_numa_id_is_the_memory_node() -> None:
    text = (
        "        GPU0    GPU1    CPU Affinity    NUMA Affinity   GPU NUMA ID\n"
        "GPU0     X      NV18    0-71    0,3-9           2\n"
        "GPU1    NV18     X      72-143  1,19-25         N/A\n"
    )
    node = read(text)
    assert [(gpu.numa, gpu.memory_numa) for gpu in node.gpus] == [
        ((0, 3, 4, 5, 6, 7, 8, 9), 2),
        ((1, 19, 20, 21, 22, 23, 24, 25), None),
    ]


def test_read_matrix_empty_tab_field_is_an_empty_value() -> None:
    text = "\tGPU0\tCPU Affinity\tNUMA Affinity\tGPU NUMA ID\nGPU0\t X \t\t1\t\t8\n"
    gpu = read(text).gpus[0]
    assert (gpu.cpus, gpu.numa, gpu.memory_numa) == (None, (1,), 8)


def test_read_matrix_blanks_with_a_missing_value_trust_only_the_heading_above() -> None:
    text = (
        "        GPU0    GPU1    CPU Affinity    NUMA Affinity\n"
        "GPU0     X      PIX                     1\n"
        "GPU1    PIX      X      3       \n"
    )
    node = read(text)
    assert [(gpu.cpus, gpu.numa) for gpu in node.gpus] == [(None, (1,)), ((3,), None)]


def test_read_matrix_missing_row_is_completed_by_symmetry() -> None:
    text = "\tGPU0\tGPU1\tGPU2\tCPU Affinity\nGPU0\t X \tPIX\tSYS\t0-3\nGPU1\tPIX\t X \tSYS\t0-3\n"
    node = read(text)
    assert labels(node) == {("GPU0", "GPU1"): "PIX", ("GPU0", "GPU2"): "SYS", ("GPU1", "GPU2"): "SYS"}
    assert (node.gpus[2].cpus, node.partial) == (None, True)
    assert "GPU2" in node.warnings[0]


def test_read_matrix_cut_row_does_not_believe_its_last_cell() -> None:
    # The last line was `GPU2 NV12 NV12 X NV12`; what is left of its last cell looks like a whole NV1.
    text = (
        "        GPU0    GPU1    GPU2    GPU3    CPU Affinity\n"
        "GPU0     X      NV12    NV12    NV12    0-3\n"
        "GPU1    NV12     X      NV12    NV12    0-3\n"
        "GPU2    NV12    NV12     X"
    )
    assert ("GPU2", "GPU3") not in labels(read(text))
    assert ("GPU1", "GPU2") not in labels(read(text[: text.rindex("\nGPU1")] + "\nGPU1    NV12     X      NV1"))


def test_read_matrix_unreadable_cell_stays_unknown_with_its_line() -> None:
    text = "\tGPU0\tGPU1\tGPU2\nGPU0\t X \tPIX\tP?X\nGPU1\tPIX\t X \tSYS\nGPU2\t\tSYS\t X \n"
    node = read(text)
    assert labels(node) == {("GPU0", "GPU1"): "PIX", ("GPU1", "GPU2"): "SYS"}
    assert node.partial
    assert node.warnings[0].startswith("line 2: GPU0 to GPU2 is unreadable (`P?X`)")


def test_read_matrix_contradicting_halves_are_unknown() -> None:
    text = "\tGPU0\tGPU1\tGPU2\nGPU0\t X \tNV4\tSYS\nGPU1\tPIX\t X \tSYS\nGPU2\tSYS\tSYS\t X \n"
    node = read(text)
    assert labels(node) == {("GPU0", "GPU2"): "SYS", ("GPU1", "GPU2"): "SYS"}
    assert (node.partial, node.warnings[0]) == (
        True,
        "GPU0 and GPU1 contradict each other (NV4 and PIX): taken as unknown",
    )


def test_read_matrix_shifted_row_is_dropped_as_a_whole() -> None:
    text = "  GPU0  GPU1  GPU2  CPU Affinity\nGPU0  X  PIX  SYS  0-3\nGPU1  X  SYS  0-3\nGPU2  SYS  SYS  X  4-7\n"
    node = read(text)
    assert node.gpus[1].cpus is None
    assert labels(node)["GPU0", "GPU1"] == "PIX"
    assert any("line 3: the row of GPU1 does not fit" in text for text in node.warnings)


def test_read_matrix_swallowed_cell_does_not_turn_cpus_into_a_relation() -> None:
    text = "  GPU0  GPU1  GPU2  CPU Affinity\nGPU0  X  PIX  0-3\nGPU1  PIX  X  SYS  0-3\n"
    node = read(text)
    assert labels(node) == {("GPU0", "GPU1"): "PIX", ("GPU1", "GPU2"): "SYS"}
    assert node.gpus[0].cpus is None


def test_read_matrix_adapter_columns_before_gpus_keep_their_names() -> None:
    text = "\tmlx5_10\tGPU0\tmlx5_2\tCPU Affinity\nmlx5_10\t X \tPIX\tSYS\nGPU0\tPIX\t X \tSYS\t0-3\n"
    node = read(text)
    assert [nic.id for nic in node.nics] == ["mlx5_10", "mlx5_2"]
    assert labels(node) == {
        ("mlx5_10", "GPU0"): "PIX",
        ("mlx5_10", "mlx5_2"): "SYS",
        ("GPU0", "mlx5_2"): "SYS",
    }


def test_read_matrix_numbered_adapter_without_legend_has_no_name() -> None:
    assert read("\tGPU0\tNIC0\tCPU Affinity\nGPU0\t X \tNODE\t0-3\n").nics == (topo.Nic("NIC0", None),)


def test_read_matrix_huge_cpu_list_is_refused_not_expanded() -> None:
    node = read("\tGPU0\tGPU1\tCPU Affinity\nGPU0\t X \tPIX\t0-999999\nGPU1\tPIX\t X \t5-2\n")
    assert [gpu.cpus for gpu in node.gpus] == [None, None]
    assert len(node.warnings) == 2


@pytest.mark.parametrize(
    ("text", "line", "column", "words"),
    [
        ("", 1, 1, "empty"),
        ("\n \n\t\n", 1, 1, "empty"),
        ("\n  GPU0 is broken\n", 2, 3, "no topology matrix"),
        ("\x00\x00\x00", 1, 1, "no topology matrix"),
        ("\tGPU0\tGPU1\n", 1, 2, "no row that can be read"),
        ("\tGPU0\tGPU1\nGPU0\tfoo\tbar\n", 1, 2, "no row that can be read"),
        ("x\n\tGPU0\tGPU1\tGPU0\nGPU0\t X \tPIX\t X \n", 2, 2, "column GPU0 stands twice"),
        (" \tGPU0\tGPU1\t\n GPU0\tX\tGNS\t\n GPU1\tGNS\tX\t\n", 2, 2, "topo -p2p"),
        (" ".join(f"GPU{i}" for i in range(10_000)), 1, 1, "more than 512 device columns"),
    ],
)
def test_read_matrix_other_text_is_a_parse_error_at_its_place(text: str, line: int, column: int, words: str) -> None:
    with pytest.raises(errors.ParseError, match=words) as caught:
        read(text)
    assert (caught.value.line, caught.value.column, caught.value.source) == (line, column, "saved.txt")
    assert caught.value.hint is not None
    assert "nvidia-smi topo -m" in caught.value.hint
