"""A recording of Slurm's own commands -> ClusterSnapshot.

JSON where it was recorded, text where not; where both are there, the JSON with its gaps filled from the text. Nothing
is run here: a live cluster is recorded first (`client`) and read the same way.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence

from placer import errors, hostlist
from placer.cluster import recording as recordings
from placer.cluster import types
from placer.slurm import (
    gres_conf,
    parse_json,
    parse_json_jobs,
    parse_text,
    parse_text_jobs,
    snapshot_jobs,
    snapshot_nodes,
    topology_conf,
)
from placer.slurm import parse_records as records
from placer.slurm.snapshot_nodes import Notes
from placer.topology import types as topo

CONFIG = "scontrol_show_config.txt"
NODES_JSON = ("scontrol_show_nodes_json.txt", "sinfo_json.txt")
NODES_TEXT = "scontrol_show_node_d.txt"
JOBS_JSON = ("scontrol_show_jobs_json.txt", "squeue_json.txt")
JOBS_TEXT = "scontrol_show_job_d.txt"
PARTITIONS_JSON = ("scontrol_show_partitions_json.txt",)
PARTITIONS_TEXT = "scontrol_show_partition.txt"
TOPOLOGY_TEXT = "scontrol_show_topology.txt"
TOPOLOGY_CONF = "topology.conf"
GRES_CONF = "gres.conf"
TOPO_FOLDER = "topo"


def is_slurm(recording: recordings.Recording) -> bool:
    """Whether a recording holds what `build` needs: the nodes, in one form or the other."""
    return any(recording.text(name) is not None for name in (NODES_TEXT, *NODES_JSON))


def build(
    recording: recordings.Recording, *, topologies: Mapping[str, topo.NodeTopology] | None = None
) -> types.ClusterSnapshot:
    """The snapshot of a recording. `topologies` (node -> wiring) goes before what the recording says of a node.

    Raises ParseError when nodes, jobs or partitions were recorded but cannot be read in any form, InputError when there
    are no nodes. What is merely odd (a job on a node that is not there, a GPU held twice) is said in `left_out`.
    """
    notes = Notes()
    config_text = recording.text(CONFIG) or ""
    settings = parse_text.config(config_text)
    by_key = dict(settings)
    found_partitions = _read(
        recording, PARTITIONS_JSON, parse_json.partitions, PARTITIONS_TEXT, parse_text.partitions, notes
    )
    found_nodes = _read(recording, NODES_JSON, parse_json.nodes, NODES_TEXT, parse_text.nodes, notes)
    asked = parse_text.config_moment(config_text)
    read_jobs = functools.partial(parse_text_jobs.jobs, zone_seconds=_zone(recording.taken, asked))
    found_jobs = _read(recording, JOBS_JSON, parse_json_jobs.jobs, JOBS_TEXT, read_jobs, notes)
    if not found_nodes:
        raise errors.InputError(f"{recording.origin}: no nodes of a Slurm cluster", hint="scontrol show node -d")
    partitions = snapshot_nodes.partitions(found_partitions, by_key, notes)
    if found_partitions and all(partition.default is None for partition in found_partitions):
        notes.assume("which partition is the default is not told: none counts as such")
    conf = _gres_conf(recording, notes)
    nodes = snapshot_nodes.states(found_nodes, partitions, conf, notes)
    fabric = _fabric(recording, notes)
    _assume_about_jobs(recording, found_jobs, notes)
    jobs = snapshot_jobs.jobs(found_jobs, _site(nodes, found_partitions, by_key), notes)
    topology = _topology(recording, nodes, fabric, conf, topologies or {}, notes)
    taken = asked if recording.taken is None else recording.taken
    return types.ClusterSnapshot(
        source=types.Source("slurm", by_key.get("SLURM_VERSION", ""), taken),
        topology=topology,
        nodes=nodes,
        jobs=jobs,
        partitions=partitions,
        settings=settings,
        assumptions=notes.assumptions,
        left_out=notes.left_out,
    )


# --- reading both forms


def _read(
    recording: recordings.Recording,
    json_names: Sequence[str],
    read_json: Callable[..., records.Read[records.Record] | None],
    text_name: str,
    read_text: Callable[..., records.Read[records.Record]],
    notes: Notes,
) -> tuple[records.Record, ...]:
    """The records of one noun: those of the JSON, gaps filled from the text; of the text when there is no JSON."""
    text = recording.text(text_name)
    from_json = None
    for name in json_names:
        if from_json is None and (document := recording.text(name)) is not None:
            from_json = _or_left_out(read_json, document, recording.source(name), text is not None, notes)
    if text is None:
        return _unique(from_json, notes)
    from_text = _or_left_out(read_text, text, recording.source(text_name), from_json is not None, notes)
    if from_json is None:
        return _unique(from_text, notes)
    second = {_key(record): record for record in reversed(_unique(from_text, notes))}
    return tuple(
        records.merge(record, second[_key(record)]) if _key(record) in second else record
        for record in _unique(from_json, notes)
    )


def _or_left_out(
    reader: Callable[..., records.Read[records.Record] | None],
    text: str,
    source: str,
    has_other: bool,
    notes: Notes,
) -> records.Read[records.Record] | None:
    try:
        return reader(text, source=source)
    except errors.ParseError as error:
        if not has_other:
            raise
        notes.leave_out(f"{error.message}; the other form is used")
        return None


def _key(record: records.NodeRecord | records.JobRecord | records.PartitionRecord) -> str:
    return record.id if isinstance(record, records.JobRecord) else record.name


def _unique(read: records.Read[records.Record] | None, notes: Notes) -> tuple[records.Record, ...]:
    """The records, the first of each name."""
    if read is None:
        return ()
    for text in read.left_out:
        notes.leave_out(text)
    first: dict[str, records.Record] = {}
    for record in read.records:
        first.setdefault(_key(record), record)
    return tuple(first.values())


def _zone(taken: int | None, asked: int | None) -> int:
    """Seconds that the printed times are ahead of UTC.

    `asked` is the moment of recording as Slurm printed it, `taken` the same moment in UTC. Zones are multiples of a
    quarter of an hour; anything else is two different moments and tells nothing.
    """
    if taken is None or asked is None:
        return 0
    zone = round((asked - taken) / 900) * 900
    return zone if abs(asked - taken - zone) <= 120 and abs(zone) <= 14 * 3600 else 0


# --- the parts


def _site(
    nodes: Sequence[types.NodeState], partitions: Sequence[records.PartitionRecord], settings: Mapping[str, str]
) -> snapshot_jobs.Site:
    cluster_mode = settings.get("PreemptMode", "OFF")
    requeues = [
        partition.name
        for partition in partitions
        if "REQUEUE"
        in (cluster_mode if partition.preempt_mode in {None, "", "CLUSTER_GLOBAL"} else partition.preempt_mode)
    ]
    return snapshot_jobs.Site(
        nodes={node.name: node for node in nodes},
        exclusive_partitions=frozenset(partition.name for partition in partitions if partition.exclusive),
        preempting_partitions=frozenset(requeues),
        counts_memory=snapshot_nodes.counts_memory(settings),
    )


def _assume_about_jobs(recording: recordings.Recording, found: Sequence[records.JobRecord], notes: Notes) -> None:
    untimed = recording.taken is None and all(recording.text(name) is None for name in JOBS_JSON)
    if found and untimed:
        notes.assume("times of jobs are UTC: `scontrol show job` prints them without a zone")
    silent = [record.id for record in found if record.exclusive is None]
    if silent:
        notes.assume(f"{len(silent)} jobs are taken not to ask for whole nodes: this JSON does not tell")


def _gres_conf(recording: recordings.Recording, notes: Notes) -> gres_conf.GresConf:
    text = recording.text(GRES_CONF)
    if text is None:
        return gres_conf.GresConf()
    try:
        conf = gres_conf.read(text, source=recording.source(GRES_CONF))
    except errors.ParseError as error:
        notes.leave_out(error.message)
        return gres_conf.GresConf()
    for note in conf.notes:
        notes.leave_out(note)
    return conf


def _fabric(recording: recordings.Recording, notes: Notes) -> topo.Fabric:
    """What slurmctld says, else topology.conf."""
    for name in (TOPOLOGY_TEXT, TOPOLOGY_CONF):
        text = recording.text(name)
        if text is None:
            continue
        try:
            fabric = topology_conf.read(text, source=recording.source(name))
        except errors.ParseError as error:
            notes.leave_out(error.message)
            continue
        if fabric.domains:
            return fabric
    notes.assume("no switches or blocks are known: all nodes count as equally far from each other")
    return topo.Fabric()


def _topology(
    recording: recordings.Recording,
    nodes: Sequence[types.NodeState],
    fabric: topo.Fabric,
    conf: gres_conf.GresConf,
    given: Mapping[str, topo.NodeTopology],
    notes: Notes,
) -> topo.ClusterTopology:
    wirings = snapshot_nodes.Wirings(notes)
    texts = snapshot_nodes.texts_by_node(recording.under(TOPO_FOLDER), notes)
    from_conf: dict[tuple[str, ...], list[str]] = {}
    unknown: list[str] = []
    machine_of: list[int] = []
    for node in nodes:
        wiring = given.get(node.name)
        if wiring is None and node.name in texts:
            entry, text = texts[node.name]
            wiring = wirings.of_text(text, recording.source(f"{TOPO_FOLDER}/{entry}"), node.name)
        if wiring is None and (devices := conf.devices(node.name)):
            wiring = wirings.of_conf(node, devices, recording.source(GRES_CONF))
            from_conf.setdefault(wiring.assumed, []).append(node.name)
        if wiring is None:
            machine_of.append(-1)
            if node.gpus:
                unknown.append(node.name)
            continue
        snapshot_nodes.check_counts(node, wiring, notes)
        machine_of.append(wirings.position(wiring))
    for assumed, names in from_conf.items():
        notes.assume(
            f"wiring of {hostlist.fold(names)} from gres.conf: {'; '.join(assumed) or 'types and counts only'}"
        )
    if unknown:
        notes.assume(f"wiring of {hostlist.fold(unknown)} is unknown: no GPU counts as near to another")
    return topo.ClusterTopology(
        nodes=tuple(node.name for node in nodes),
        machines=tuple(wirings.machines),
        machine_of=tuple(machine_of),
        fabric=fabric,
    )
