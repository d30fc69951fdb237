"""Snapshot documents: what is written is read back equal, and whatever else stands there is a DocumentError."""

from __future__ import annotations

import copy
import pathlib
import tempfile
from typing import Any

from hypothesis import example, given, settings
from hypothesis import strategies as st

from placer import errors, hostlist
from placer.cluster import codec, codec_jobs, codec_topology, types
from placer.files import _yaml, snapshots
from placer.topology import fabric as fabrics
from placer.topology import types as topo

words = st.text(st.characters(codec="utf-8"), max_size=6)
simple = st.text("abcxyz019_", min_size=1, max_size=5)
maybe_word = st.none() | words
small = st.integers(0, 7)
maybe_small = st.none() | small
amounts = st.integers(0, 1 << 22)
moments = st.none() | st.integers(-(10**11), 10**13)
numbers = st.sets(st.integers(0, 40), max_size=6).map(lambda s: tuple(sorted(s)))
rates = st.none() | st.floats(0, 1000, allow_nan=False)
numas = st.none() | st.lists(small, max_size=3).map(tuple)


def tuples(inner: st.SearchStrategy[Any], max_size: int = 3, **more: Any) -> st.SearchStrategy[Any]:
    return st.lists(inner, max_size=max_size, **more).map(tuple)


gpus = st.builds(
    topo.Gpu,
    id=words,
    index=maybe_small,
    bus_id=maybe_word,
    uuid=maybe_word,
    model=maybe_word,
    numa=numas,
    cpus=st.none() | numbers,
    memory_numa=maybe_small,
    memory_mib=maybe_small,
    healthy=st.none() | st.booleans(),
)
nics = st.builds(topo.Nic, id=words, name=maybe_word, bus_id=maybe_word, numa=numas, speed_gbits=rates)
links = st.builds(
    topo.Link,
    a=words,
    b=words,
    type=st.sampled_from([k for k in topo.LinkType if k.value != "NV"]),
    bandwidth_gbps=rates,
) | st.builds(topo.Link, a=words, b=words, type=st.just(topo.LinkType.NVLINK), lanes=st.integers(0, 36))
topologies = st.builds(
    topo.NodeTopology,
    name=words,
    source=words,
    gpus=tuples(gpus),
    nics=tuples(nics),
    links=tuples(links),
    numa_nodes=tuples(
        st.builds(topo.NumaNode, id=small, cpus=st.none() | numbers, memory_mib=maybe_small, package=maybe_small)
    ),
    switches=tuples(st.builds(topo.PcieSwitch, id=words, devices=tuples(words), parent=maybe_word, numa=numas)),
    cores=tuples(numbers),
    machine=maybe_word,
    partial=st.booleans(),
    warnings=tuples(words),
    assumed=tuples(words),
    cpuset=st.none() | numbers,
    tool=words,
    origins=st.dictionaries(words, words, max_size=3).map(lambda found: tuple(found.items())),
)
requests = st.builds(
    types.JobRequest,
    nodes=maybe_small,
    nodes_max=maybe_small,
    gpus=maybe_small,
    gpus_per_node=maybe_small,
    gpus_per_task=maybe_small,
    gpus_per_socket=maybe_small,
    gpu_type=maybe_word,
    gpu_share=st.none() | st.integers(1, 1000),
    ntasks=maybe_small,
    ntasks_per_node=maybe_small,
    cpus_per_task=maybe_small,
    cpus_per_gpu=maybe_small,
    memory_per_node_mib=st.none() | amounts,
    memory_per_cpu_mib=st.none() | amounts,
    memory_per_gpu_mib=st.none() | amounts,
    whole_memory=st.booleans(),
    exclusive=st.booleans(),
    partition=maybe_word,
    constraint=maybe_word,
    nodelist=maybe_word,
    exclude=maybe_word,
    reservation=maybe_word,
    switches=maybe_small,
    threads_per_core=maybe_small,
    topology=st.builds(types.TopologyConstraint, maybe_word, maybe_word),
    workload=st.sampled_from(types.Workload),
    time_limit=maybe_small,
)


@st.composite
def slots(draw: st.DrawFn) -> tuple[types.GpuSlot, ...]:
    if draw(st.booleans()):
        kind = draw(maybe_word)
        return tuple(types.GpuSlot(index, kind) for index in range(draw(small)))
    indices = sorted(draw(st.sets(st.integers(0, 9), max_size=4)))
    return tuple(
        types.GpuSlot(i, draw(maybe_word), draw(maybe_word), draw(maybe_word), draw(st.booleans())) for i in indices
    )


@st.composite
def node_states(draw: st.DrawFn, name: str) -> types.NodeState:
    gpus = draw(slots())
    used = tuple(sorted(draw(st.sets(st.sampled_from([s.index for s in gpus]))) if gpus else ()))
    return types.NodeState(
        name=name,
        gpus=gpus,
        cpus=draw(small),
        memory_mib=draw(amounts),
        condition=draw(st.sampled_from(types.NodeCondition)),
        condition_text=draw(words),
        partitions=draw(tuples(simple, 2, unique=True)),
        features=draw(tuples(words, 2)),
        labels=tuple(draw(st.dictionaries(words, words, max_size=2)).items()),
        sockets=draw(maybe_small),
        cores_per_socket=draw(maybe_small),
        threads_per_core=draw(maybe_small),
        weight=draw(st.integers(0, 3)),
        gpus_used=used,
        gpus_used_count=draw(small),
        cpus_used=draw(small),
        memory_used_mib=draw(amounts),
    )


@st.composite
def made_fabrics(draw: st.DrawFn, nodes: list[str]) -> topo.Fabric:
    """From node domains, or from a switch tree (line numbers, uneven), with levels that are told more of or not."""
    if draw(st.booleans()):
        own = {n: draw(st.dictionaries(st.sampled_from(["leaf", "spine"]), simple, max_size=2)) for n in nodes}
        fabric = fabrics.from_node_domains(["leaf", "spine"], own, source="made")
    else:
        cut = draw(st.integers(0, len(nodes)))
        switches = [
            topo.Switch("s1", nodes=tuple(nodes[:cut]), line=1),
            topo.Switch("s2", nodes=tuple(nodes[cut:]), line=2),
        ]
        switches.append(topo.Switch("top", switches=("s1",) if draw(st.booleans()) else ("s1", "s2"), line=3))
        fabric = fabrics.from_switches(switches, source="made")
    levels = tuple(topo.Level(lv.name, draw(maybe_word), draw(st.none() | st.floats(0.5, 8))) for lv in fabric.levels)
    return topo.Fabric(levels, fabric.domains, draw(st.sampled_from([fabric.kind, "block"])), fabric.warnings)


@st.composite
def jobs(draw: st.DrawFn, job_id: str, nodes: list[types.NodeState], free: dict[str, set[int]]) -> types.Job:
    allocations = []
    for node in draw(st.lists(st.sampled_from(nodes), max_size=2, unique=True)) if nodes else []:
        held = sorted(draw(st.sets(st.sampled_from(sorted(free[node.name]))))) if free[node.name] else []
        free[node.name] -= set(held)
        gpus = draw(st.sampled_from([tuple(held), None]))
        count = len(held) if gpus is not None else draw(st.integers(0, len(node.gpus)))
        cpu_ids = draw(st.none() | numbers)
        allocations.append(types.Allocation(node.name, gpus, count, draw(small), cpu_ids, draw(amounts)))
    return types.Job(
        id=job_id,
        name=draw(words),
        user=draw(words),
        account=draw(words),
        state=draw(st.sampled_from(types.JobState)),
        reason=draw(maybe_word),
        partition=draw(words),
        priority=draw(st.integers(-5, 5)),
        preemptible=draw(st.booleans()),
        submitted=draw(moments),
        started=draw(moments),
        ends=draw(moments),
        time_limit=draw(maybe_small),
        request=draw(requests),
        allocations=tuple(allocations),
        dependency=draw(maybe_word),
    )


@st.composite
def snapshots_made(draw: st.DrawFn) -> types.ClusterSnapshot:
    prefix = draw(st.sampled_from(["gpu", "rack1n"]))
    names = [f"{prefix}{n:02}" for n in range(draw(st.integers(0, 5)))]
    template = draw(node_states(""))
    states = [
        types.NodeState(**{**{f: getattr(template, f) for f in template.__struct_fields__}, "name": name})
        if draw(st.booleans())
        else draw(node_states(name))
        for name in names
    ]
    machines = draw(tuples(topologies, 2, unique=True))
    free = {s.name: {g.index for g in s.gpus} for s in states}
    ids = hostlist.sort(draw(st.sets(simple, max_size=3)))
    return types.ClusterSnapshot(
        source=types.Source(draw(words), draw(words), draw(moments)),
        topology=topo.ClusterTopology(
            nodes=tuple(names),
            machines=machines,
            machine_of=tuple(draw(st.integers(-1, len(machines) - 1)) for _ in names),
            fabric=draw(made_fabrics(names)),
        ),
        nodes=tuple(states),
        jobs=tuple(draw(jobs(job_id, states, free)) for job_id in ids),
        partitions=tuple(
            types.Partition(
                name=name,
                nodes=hostlist.sort(draw(st.sets(simple, max_size=3))),
                default=draw(st.booleans()),
                up=draw(st.booleans()),
                max_nodes=draw(maybe_small),
                max_time=draw(maybe_small),
                default_memory_per_node_mib=draw(maybe_small),
                spreads=draw(st.booleans()),
            )
            for name in draw(st.lists(simple, max_size=2, unique=True))
        ),
        settings=tuple(draw(st.dictionaries(words, words, max_size=2)).items()),
        assumptions=draw(tuples(words, 2, unique=True)),
        left_out=draw(tuples(words, 2, unique=True)),
    )


@settings(max_examples=150, deadline=None)
@given(snapshots_made())
def test_what_is_encoded_is_decoded_equal(snapshot: types.ClusterSnapshot) -> None:
    document = codec.encode(snapshot)
    assert codec.decode(document, source="x") == snapshot


@settings(max_examples=40, deadline=None)
@given(snapshots_made(), st.sampled_from(["s.yaml", "s.json", "s.yaml.gz", "s.json.gz", "s"]))
def test_what_is_written_is_read_equal(snapshot: types.ClusterSnapshot, name: str) -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = pathlib.Path(folder) / name
        snapshots.write(path, snapshot)
        assert snapshots.read(path) == snapshot


@settings(max_examples=150, deadline=None)
@given(topologies)
def test_topology_document_comes_back(topology: topo.NodeTopology) -> None:
    assert codec_topology.decode(codec_topology.encode(topology), source="x") == topology


@settings(max_examples=100, deadline=None)
@given(requests)
def test_request_document_comes_back(request: types.JobRequest) -> None:
    assert codec_jobs.decode_request(codec_jobs.encode_request(request), source="x") == request


# --- anything else

leaves = (
    st.none()
    | st.booleans()
    | st.integers(-(2**70), 2**70)
    | st.floats()
    | st.text(max_size=8)
    | st.sampled_from(
        ["gpu[01-02]", "a[0-99999999]", "100G", "up", "running", "placer/v1", "0-3", "NV12", "leaf", "\ud800"]
    )
)
keys = st.sampled_from(
    ["name", "gpus", "count", "type", "levels", "nodes", "jobs", "leaf", "topology", "id"]
) | st.text(max_size=5)
anything = st.recursive(
    leaves, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(keys | small, inner, max_size=3), max_leaves=12
)

VALID: dict[str, Any] = {
    "apiVersion": "placer/v1",
    "kind": "ClusterSnapshot",
    "source": {"system": "manual", "version": "", "taken": "2026-01-31T12:00:00Z"},
    "levels": ["leaf"],
    "fabric": {"kind": "tree", "levels": [{"name": "leaf", "label": None}], "warnings": []},
    "topologies": {"m": {"name": "m", "gpus": [{"id": "GPU0", "numa": [0], "cpus": "0-3"}], "links": []}},
    "nodes": [
        {
            "name": "gpu[01-02]",
            "gpus": {"count": 4, "type": "a100"},
            "topology": "m",
            "domains": {"leaf": "l1"},
            "labels": {},
        },
        {"name": "n", "gpus": [{"index": 0, "uuid": "u"}], "topology": {"name": "i"}, "memory": "1G", "state": "down"},
    ],
    "jobs": [
        {
            "id": "1",
            "state": "running",
            "submitted": None,
            "request": {"nodes": 1, "memory_per_node": "1G", "time_limit": 5},
            "allocations": [{"node": "gpu01", "gpus": [0, 1], "cpus": 1}],
        }
    ],
    "partitions": [{"name": "p", "nodes": "gpu01", "max_time": "1-00:00:00"}],
    "settings": {"a": "b"},
}


def _places(value: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    inner = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    return [path] * bool(path) + [place for key, below in inner for place in _places(below, (*path, key))]


def _check_decodes_or_says_where(document: object) -> None:
    try:
        snapshot = codec.decode(document, source="doc")
    except errors.DocumentError as error:
        where, message = error.path, error.message
    else:
        where, message = "fine", "doc: at `fine`"
        assert codec.decode(codec.encode(snapshot), source="again").nodes == snapshot.nodes
    assert where
    assert message.startswith("doc: at `")


@settings(max_examples=200, deadline=None)
@given(anything)
def test_any_document_is_a_snapshot_or_a_document_error(document: object) -> None:
    _check_decodes_or_says_where(document)


@example({"source": "\ud800"})
@settings(max_examples=200, deadline=None)
@given(st.dictionaries(st.sampled_from(list(VALID)) | keys, anything, max_size=6))
def test_any_document_with_the_right_header_is_a_snapshot_or_a_document_error(rest: dict[str, Any]) -> None:
    _check_decodes_or_says_where({"nodes": [], **rest, "apiVersion": "placer/v1", "kind": "ClusterSnapshot"})


@example(("fabric", "levels"), [], "name")
@settings(max_examples=200, deadline=None)
@given(st.sampled_from(_places(VALID)), anything, keys)
def test_one_wrong_value_is_told_with_its_path(place: tuple[Any, ...], value: object, key: str) -> None:
    for new_key in (place[-1], key):
        document = copy.deepcopy(VALID)
        here: Any = document
        for step in place[:-1]:
            here = here[step]
        if isinstance(here, dict):
            here[new_key] = value
        else:
            here[place[-1]] = value
        _check_decodes_or_says_where(document)


@example({"<<": None})
@settings(max_examples=200, deadline=None)
@given(anything.filter(lambda value: "nan" not in repr(value) and "inf" not in repr(value)))
def test_yaml_of_anything_comes_back(document: Any) -> None:
    plain = _plain(document)
    assert _yaml.load(_yaml.dump(plain), source="x") == plain


def _plain(value: Any) -> Any:
    """With text keys, without lone surrogates, and numbers of at most 18 digits, as documents have them."""
    if isinstance(value, dict):
        return {_plain(str(key)): _plain(inner) for key, inner in value.items()}
    if isinstance(value, list):
        return [_plain(inner) for inner in value]
    if isinstance(value, str):
        return value.encode(errors="replace").decode()
    return value % 10**18 if type(value) is int else value


@settings(max_examples=200, deadline=None)
@given(st.text() | st.text("ab:-[]{}&*<>!|#%@?, \n\"'\t0", max_size=30))
def test_any_text_is_yaml_or_a_parse_error(text: str) -> None:
    try:
        _yaml.load(text, source="x")
    except errors.ParseError as error:
        where = (error.line, error.column)
    else:
        where = (1, 1)
    assert min(where) >= 1


@settings(max_examples=200, deadline=None)
@given(st.binary(max_size=60) | st.binary(max_size=20).map(lambda b: b'{"a": [' + b))
def test_any_bytes_are_a_document_or_a_parse_error(data: bytes) -> None:
    try:
        snapshots.parse_document(data, source="x")
    except errors.ParseError as error:
        where = (error.line, error.column)
    else:
        where = (1, 1)
    assert min(where) >= 1
