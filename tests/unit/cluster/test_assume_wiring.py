"""Wiring from the catalogue where nothing better is known, and only there."""

from __future__ import annotations

from placer import hostlist
from placer.cluster import assume_wiring, types
from placer.topology import types as topo


def state(name: str, kind: str | None, gpus: int, cpus: int = 64) -> types.NodeState:
    return types.NodeState(name=name, gpus=tuple(types.GpuSlot(i, kind) for i in range(gpus)), cpus=cpus, memory_mib=1)


def snapshot(*nodes: types.NodeState, machines: tuple[topo.NodeTopology, ...] = ()) -> types.ClusterSnapshot:
    number = 0 if machines else -1
    names = [node.name for node in nodes]
    return types.ClusterSnapshot(
        source=types.Source("slurm", "", 0),
        topology=topo.ClusterTopology(tuple(names), machines, tuple(number for _ in nodes)),
        nodes=nodes,
        assumptions=(f"wiring of {hostlist.fold(names)} is unknown: no GPU counts as near to another",)
        if not machines
        else (),
    )


def test_from_catalogue_gives_equal_nodes_one_board_and_says_so() -> None:
    made = assume_wiring.from_catalogue(
        snapshot(state("n1", "nvidia_h200_sxm", 8), state("n2", "nvidia_h200_sxm", 8), state("n3", "h100", 8))
    )
    assert [machine.machine for machine in made.topology.machines] == ["hgx-h200"]
    assert made.topology.machine_of == (0, 0, -1)
    assert made.assumptions == (
        "wiring of n3 is unknown: no GPU counts as near to another",
        "wiring of n[1-2] from the catalogue (hgx-h200, 8 x nvidia_h200_sxm)",
    )


def test_from_catalogue_without_a_certain_board_changes_nothing() -> None:
    given = snapshot(state("n1", "a100", 8), state("n2", None, 8), state("n3", "b200", 4))
    assert assume_wiring.from_catalogue(given) is given


def test_from_catalogue_keeps_wiring_that_knows_links() -> None:
    link = topo.Link("GPU0", "GPU1", topo.LinkType.PIX)
    gpus = tuple(topo.Gpu(f"GPU{i}", i) for i in range(8))
    given = snapshot(state("n1", "b200", 8), machines=(topo.NodeTopology("n1", "topo", gpus, links=(link,)),))
    assert assume_wiring.from_catalogue(given) is given


def test_from_catalogue_adds_links_to_what_gres_conf_knows() -> None:
    gpus = tuple(topo.Gpu(f"gpu{i}", i, numa=(i // 4,)) for i in range(8))
    given = snapshot(state("n1", "b200", 8), machines=(topo.NodeTopology("n1", "gres.conf", gpus),))
    made = assume_wiring.from_catalogue(given)
    (machine,) = made.topology.machines
    assert [gpu.numa for gpu in machine.gpus] == [(i // 4,) for i in range(8)]
    assert len(machine.links) == 28
    assert {link.label for link in machine.links} == {"NV18"}
    assert machine.assumed == ("wiring from the catalogue: hgx-b200 (NVIDIA HGX B200 board)",)


def test_from_catalogue_leaves_cpus_out_where_their_number_differs() -> None:
    full, half = (
        assume_wiring.from_catalogue(snapshot(state("n1", "mi250x", 8, cpus=cpus))).topology.machines[0]
        for cpus in (128, 64)
    )
    assert len(full.cores) == 64
    assert full.gpus[0].cpus == (*range(48, 64), *range(112, 128))
    assert (half.cores, half.gpus[0].cpus, half.gpus[0].numa) == ((), None, (3,))
    assert all(numa.cpus is None for numa in half.numa_nodes)


def test_from_catalogue_snapshot_round_is_stable() -> None:
    once = assume_wiring.from_catalogue(snapshot(state("n1", "b200", 8)))
    assert assume_wiring.from_catalogue(once) is once
