from __future__ import annotations

import pytest

from placer import errors
from placer.slurm import gres_conf

# The wiring of a DGX-1V as NVIDIA prints it: NV2 pairs 0-3 0-4 1-2 1-5 2-3 4-7 5-6 6-7.
DGX1 = "\n".join(
    f"NodeName=b[1-2] Name=gpu Type=v100 File=/dev/nvidia{i} Cores={'0-19' if i < 4 else '20-39'} Links={links}"
    for i, links in enumerate(
        ["-1,1,1,2,2,0,0,0", "1,-1,2,1,0,2,0,0", "1,2,-1,2,0,0,1,0", "2,1,2,-1,0,0,0,1",
         "2,0,0,0,-1,1,1,2", "0,2,0,0,1,-1,2,1", "0,0,1,0,1,2,-1,2", "0,0,0,1,2,1,2,-1"]
    )
)  # fmt: skip


def test_read_expands_files_and_keeps_order() -> None:
    conf = gres_conf.read(
        "# two kinds\nNodeName=f[1-2] Name=gpu Type=a100 File=/dev/nvidia[0-1] Cores=0-15\n"
        "nodename=f[1-2] name=gpu type=v100 \\\n  count=2 cores=16-31\nName=shard Count=8\n",
        source="gres.conf",
    )
    assert [device.type for device in conf.devices("f2")] == ["a100", "a100", "v100", "v100"]
    assert conf.devices("f2")[3].cores == tuple(range(16, 32))
    assert conf.devices("f3") == ()


def test_read_line_without_node_name_is_for_all_nodes() -> None:
    conf = gres_conf.read("Name=gpu Type=t4 File=/dev/nvidia[0-3]", source="gres.conf")
    assert len(conf.devices("anything")) == 4


def test_read_multiple_files_are_one_device() -> None:
    conf = gres_conf.read("Name=gpu MultipleFiles=/dev/nvidia0,/dev/nvidia-caps/nvidia-cap[1-2]", source="gres.conf")
    assert len(conf.devices("n1")) == 1


def test_read_autodetect_and_include_are_noted() -> None:
    conf = gres_conf.read("AutoDetect=nvml\ninclude more.conf\nAutoDetect=off Name=gpu Count=1\n", source="g")
    assert len(conf.notes) == 2
    assert conf.notes[0].startswith("g:1:")


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("Name=gpu\nnonsense", 2),
        ("\nName=gpu Cores=9-1", 2),
        ("Name=gpu Links=a", 1),
        ("Name=gpu Count=1000000", 1),
        ("Name=gpu File=/dev/nvidia[0-", 1),
    ],
)
def test_read_of_bad_line_names_it(text: str, line: int) -> None:
    with pytest.raises(errors.ParseError) as caught:
        gres_conf.read(text, source="g")
    assert caught.value.line == line


def test_topology_of_dgx1_has_its_links_and_sockets() -> None:
    devices = gres_conf.read(DGX1, source="g").devices("b1")
    made = gres_conf.topology("b1", devices, gres_conf.Shape(2, 20, 2), source="g")
    double = {(link.a, link.b) for link in made.links if link.lanes == 2}
    assert double == {
        (f"GPU{a}", f"GPU{b}") for a, b in [(0, 3), (0, 4), (1, 2), (1, 5), (2, 3), (4, 7), (5, 6), (6, 7)]
    }
    assert len(made.links) == 16
    assert [gpu.numa for gpu in made.gpus] == [(0,)] * 4 + [(1,)] * 4
    assert made.gpus[7].cpus == (*range(20, 40), *range(60, 80))
    assert made.cores[21] == (21, 61)
    assert made.numa_nodes[1].cpus == (*range(20, 40), *range(60, 80))
    assert made.partial
    assert len(made.assumed) == 3


def test_topology_with_links_that_disagree_takes_the_lesser_and_warns() -> None:
    devices = (gres_conf.Device("x", None, (-1, 4)), gres_conf.Device("x", None, (2, -1)))
    made = gres_conf.topology("n", devices, None, source="g")
    assert [link.lanes for link in made.links] == [2]
    assert len(made.warnings) == 1


def test_topology_without_cores_leaves_numa_unknown() -> None:
    made = gres_conf.topology("n", (gres_conf.Device("t4"),) * 2, gres_conf.Shape(1, 16, 1), source="g")
    assert [gpu.numa for gpu in made.gpus] == [None, None]
    assert made.assumed == ()


def test_topology_gpu_near_two_sockets_is_one_of_them() -> None:
    made = gres_conf.topology("n", (gres_conf.Device("x", tuple(range(4))),), gres_conf.Shape(2, 2, 1), source="g")
    assert made.gpus[0].numa == (0, 1)
