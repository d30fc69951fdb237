from __future__ import annotations

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from placer import errors
from placer.slurm import gres_conf, model_machines, slurm_conf

TEXT = """\
# a comment
ClusterName=c  SelectType=select/cons_tres
DefMemPerNode=1000
NodeName=DEFAULT RealMemory=64000 ThreadsPerCore=2
NodeName=n[1-2] Sockets=2 CoresPerSocket=4 Gres=gpu:a100:4 Weight=7
NodeName=m1 Boards=2 SocketsPerBoard=1 \\
  CoresPerSocket=8 RealMemory=4G ThreadsPerCore=1
NodeName=k1 CPUs=16 ThreadsPerCore=1
PartitionName=DEFAULT State=UP
PartitionName=gpu Nodes=m1,n[1-2] Default=YES DefMemPerNode=500
PartitionName=all Nodes=ALL
include more.conf
"""


def test_read_nodes_with_defaults_and_all_ways_to_count_sockets() -> None:
    conf = slurm_conf.read(TEXT, source="slurm.conf")
    shapes = {n.name: (n.sockets, n.cores_per_socket, n.threads_per_core, n.memory_mib, n.weight) for n in conf.nodes}
    assert shapes == {
        "n1": (2, 4, 2, 64000, 7),
        "n2": (2, 4, 2, 64000, 7),
        "m1": (2, 8, 1, 4096, 1),
        "k1": (16, 1, 1, 64000, 1),
    }
    assert conf.nodes[0].gres == "gpu:a100:4"


def test_read_partitions_keep_the_order_of_the_node_lines() -> None:
    conf = slurm_conf.read(TEXT, source="slurm.conf")
    gpu = conf.partition("gpu")
    assert gpu is not None
    assert (gpu.nodes, gpu.default, gpu.default_memory_per_node_mib) == (("n1", "n2", "m1"), True, 500)
    everything = conf.partition("all")
    assert everything is not None
    assert everything.nodes == ("n1", "n2", "m1", "k1")
    assert conf.partition("none") is None


def test_read_settings_in_any_case_and_notes() -> None:
    conf = slurm_conf.read(TEXT, source="slurm.conf")
    assert (conf.setting("defmempernode"), conf.setting("SelectType"), conf.setting("X")) == (
        "1000",
        "select/cons_tres",
        None,
    )
    assert conf.notes == ("slurm.conf:12: included files are not read",)


@pytest.mark.parametrize(
    ("text", "place"),
    [
        ("ClusterName=c\nNodeName=n1 Sockets=two", (2, 21)),
        ("NodeName=n[1-", (1, 11)),
        ("NodeName=n1\nPartitionName=p Nodes=n1,n2", (2, 23)),
        ("PartitionName= Nodes=ALL", (1, 15)),
        ("NodeName=n1 RealMemory=much", (1, 24)),
        ("NodeName n1", (1, 1)),
    ],
)
def test_read_what_slurm_would_refuse_names_its_place(text: str, place: tuple[int, int]) -> None:
    with pytest.raises(errors.ParseError) as caught:
        slurm_conf.read(text, source="slurm.conf")
    assert (caught.value.line, caught.value.column) == place


@settings(max_examples=150, deadline=None)
@given(
    st.lists(st.text(max_size=60) | st.from_regex(r"(NodeName|PartitionName|Nodes|Sockets|CPUs)=[\w\[\]\-, ]{0,20}"))
)
@example(["NodeName=n[1-9999999]"])
@example(["NodeName=DEFAULT CPUs=4", "NodeName=DEFAULT"])
def test_read_any_text_gives_a_configuration_or_a_parse_error(parts: list[str]) -> None:
    found = 0
    try:
        conf = slurm_conf.read("\n".join(parts), source="x")
        found = min((node.sockets for node in conf.nodes), default=1)
    except errors.ParseError as error:
        found = error.line
    assert found >= 1


def test_machines_put_gpus_on_the_socket_of_their_cores() -> None:
    conf = slurm_conf.read("NodeName=n1 Sockets=2 CoresPerSocket=4 ThreadsPerCore=2 Weight=3", source="s")
    gres = gres_conf.read(
        "NodeName=n1 Name=gpu Type=a File=/dev/nvidia0 Cores=0-3 Links=-1,2,0\n"
        "NodeName=n1 Name=gpu Type=b File=/dev/nvidia1 Cores=4-7\n"
        "NodeName=n1 Name=gpu Type=b File=/dev/nvidia2 Cores=0-7\n",
        source="g",
    )
    (machine,) = model_machines.build(conf.nodes, gres)
    assert [(d.type, d.socket, d.links) for d in machine.devices] == [
        ("a", 0, (-1, 2, 0)),
        ("b", 1, ()),
        ("b", None, ()),
    ]
    assert (machine.cores, machine.threads, machine.weight) == (8, 2, 3)
