"""Whatever is asked of whatever node: what the model grants is free, whole and no more than the job may have."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from placer.cluster import types as cluster
from placer.slurm_model import ask, predict, release, types
from placer.topology import types as topo

SMALL = st.integers(1, 6)
MAYBE = st.none() | SMALL


@st.composite
def machines(draw: st.DrawFn) -> list[tuple[types.Machine, types.NodeLoad]]:
    found = []
    for number in range(draw(st.integers(1, 4))):
        sockets, cores = draw(st.sampled_from([(1, 4), (2, 4), (2, 7), (4, 3)]))
        gpus = draw(st.integers(0, 6))
        linked = draw(st.booleans())
        devices = tuple(
            types.Device(
                draw(st.sampled_from(["a", "b"])),
                draw(st.none() | st.integers(0, sockets - 1)),
                tuple(draw(st.integers(0, 8)) for _ in range(gpus)) if linked else (),
            )
            for _ in range(gpus)
        )
        machine = types.Machine(
            name=f"n{number}",
            sockets=sockets,
            cores_per_socket=cores,
            threads=draw(st.sampled_from([1, 2, 4])),
            memory_mib=4000,
            devices=devices,
            weight=draw(st.sampled_from([1, 1, 3])),
        )
        load = types.NodeLoad(
            draw(st.frozensets(st.integers(0, max(0, gpus - 1)))),
            draw(st.frozensets(st.integers(0, machine.cores - 1))),
            draw(st.sampled_from([0, 0, 3500])),
        )
        found.append((machine, load))
    return found


@st.composite
def requests(draw: st.DrawFn) -> cluster.JobRequest:
    asked: dict[str, object] = {
        name: draw(MAYBE)
        for name in ("nodes", "ntasks", "cpus_per_task", "cpus_per_gpu", "sockets_per_node", "ntasks_per_socket")
    }
    way = draw(st.sampled_from(["", "gpus", "gpus_per_node", "gpus_per_task", "gpus_per_socket", "ntasks_per_gpu"]))
    if way == "ntasks_per_gpu":
        gpus = draw(SMALL)
        asked |= {"gpus": gpus, "ntasks_per_gpu": draw(SMALL)}
        asked["ntasks"] = gpus * int(str(asked["ntasks_per_gpu"]))
    elif way:
        asked[way] = draw(SMALL)
        asked["ntasks_per_node"] = draw(MAYBE)
    if asked["nodes"] is not None and draw(st.booleans()):
        asked["nodes_max"] = int(str(asked["nodes"])) + draw(SMALL)
    return cluster.JobRequest(
        **asked,  # type: ignore[arg-type]
        gpu_type=draw(st.none() | st.sampled_from(["a", "b"])),
        threads_per_core=draw(st.none() | st.just(1)),
        exclusive=draw(st.booleans()),
        enforce_binding=draw(st.booleans()),
        nodelist=draw(st.none() | st.just("n0")),
    )


@settings(max_examples=200, deadline=None)
@given(machines(), requests(), st.sampled_from(list(release.Release)), st.booleans())
def test_predict_grants_only_what_is_free_and_asked_for(
    nodes: list[tuple[types.Machine, types.NodeLoad]],
    request: cluster.JobRequest,
    which: release.Release,
    flat: bool,
) -> None:
    names = tuple(machine.name for machine, _ in nodes)
    tree = topo.Fabric((topo.Level("leaf"),), (topo.Domain("l1", 0, names[:2]), topo.Domain("l2", 0, names[2:])))
    asked = ask.build(request, which, default_memory_mib=500)
    inputs = ([machine for machine, _ in nodes], [load for _, load in nodes], topo.Fabric() if flat else tree, asked)
    choice = predict.predict(*inputs)
    assert (choice.verdict is types.Verdict.RUNNING) == bool(choice.nodes)
    assert predict.predict(*inputs) == choice
    by_name = {machine.name: (machine, load) for machine, load in nodes}
    assert [grant.node for grant in choice.nodes] == [name for name in names if name in {g.node for g in choice.nodes}]
    for grant in choice.nodes:
        machine, load = by_name[grant.node]
        cores = {cpu // machine.threads for cpu in grant.cpus}
        assert len(grant.cpus) == len(cores) * machine.threads  # whole cores
        assert cores <= set(range(machine.cores)) - load.cores
        assert load.memory_mib + asked.memory_mib <= machine.memory_mib
        if not asked.exclusive:
            kinds = {machine.devices[gpu].type for gpu in grant.gpus}
            assert not set(grant.gpus) & load.gpus
            assert asked.gpu_type is None or kinds <= {asked.gpu_type}
    if asked.per_node and choice.nodes and not asked.exclusive and which is not release.R22:
        assert all(len(grant.gpus) <= asked.per_node for grant in choice.nodes)
    if asked.nodes_max is not None:
        assert len(choice.nodes) <= asked.nodes_max
    if choice.nodes:
        assert {grant.node for grant in choice.nodes} >= set(asked.required)
        assert sum(len(grant.cpus) for grant in choice.nodes) >= asked.nodes
