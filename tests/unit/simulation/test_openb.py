"""The two tables of the trace: what is read, and where a fault is told."""

from __future__ import annotations

import pytest

from placer import errors
from placer.simulation import openb

NODES = "sn,cpu_milli,memory_mib,gpu,model\nn1,64000,262144,2,P100\nn2,96000,393216,8,G2\nn3,1000,10,0,\n"
PODS = (
    "name,cpu_milli,memory_mib,num_gpu,gpu_milli,gpu_spec,qos\n"
    "p1,12000,16384,1,1000,,LS\n"
    "p2,6000,12288,1,460,P100|T4,LS\n"
    "p3,500,1,0,0,,BE\n"
    "p4,500,1,4,1000.0,,BE\n"
)


def test_parse_nodes_reads_the_five_columns() -> None:
    assert openb.parse_nodes(NODES, source="n.csv") == (
        openb.Node("n1", 64000, 262144, 2, "P100"),
        openb.Node("n2", 96000, 393216, 8, "G2"),
        openb.Node("n3", 1000, 10, 0, ""),
    )


def test_parse_pods_reads_shares_models_and_pods_without_gpus() -> None:
    pods = openb.parse_pods(PODS, source="p.csv")
    assert pods[1] == openb.Pod("p2", 6000, 12288, 460, 1, ("P100", "T4"))
    assert pods[2] == openb.Pod("p3", 500, 1, 0, 0)
    assert [pod.demand_milli for pod in pods] == [1000, 460, 0, 4000]


def test_parse_pods_without_a_spec_column_allows_any_model() -> None:
    text = "name,cpu_milli,memory_mib,num_gpu,gpu_milli\np1,1,1,1,1000\n"
    assert openb.parse_pods(text, source="p.csv") == (openb.Pod("p1", 1, 1, 1000, 1),)


@pytest.mark.parametrize(
    ("text", "line", "column", "words"),
    [
        ("", 1, 1, "no column name"),
        ("name,cpu_milli,memory_mib,num_gpu\n", 1, 1, "no column gpu_milli"),
        (PODS + "p5,1,1,1\n", 6, 1, "4 cells under 7 columns"),
        (PODS + "p5,-1,1,1,1000,,\n", 6, 2, "cpu_milli wants a whole number from 0 to 1000000000"),
        (PODS + "p5,1,1,1,1001,,\n", 6, 5, "gpu_milli wants a whole number from 0 to 1000"),
        (PODS + "p5,1,1,1,0,,\n", 6, 5, "at least 1 thousandth"),
        (PODS + "p5,1,1,65,1000,,\n", 6, 4, "num_gpu wants a whole number from 0 to 64"),
        (PODS + "p5,\u0661,1,1,1000,,\n", 6, 2, "cpu_milli wants"),
        (PODS + "p1,1,1,1,1000,,\n", 6, 1, "twice"),
        (PODS + ",1,1,1,1000,,\n", 6, 1, "no name"),
        (PODS + '"p5,1,1,1,1000,,\n', 6, 1, "no CSV"),
        ("name,cpu_milli,memory_mib,num_gpu,gpu_milli\np1,1,1,0,0\n", 1, 1, "no pod that wants a GPU"),
    ],
)
def test_parse_pods_tells_where_a_fault_is(text: str, line: int, column: int, words: str) -> None:
    with pytest.raises(errors.ParseError, match=words) as caught:
        openb.parse_pods(text, source="p.csv")
    assert (caught.value.line, caught.value.column) == (line, column)


def test_parse_nodes_refuses_a_cluster_without_gpus() -> None:
    with pytest.raises(errors.ParseError, match="no node with a GPU"):
        openb.parse_nodes("sn,cpu_milli,memory_mib,gpu,model\nn1,1,1,0,\n", source="n.csv")
