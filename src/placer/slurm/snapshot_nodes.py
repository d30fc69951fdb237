"""From what Slurm printed about nodes and partitions to NodeState, Partition and each node's wiring."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import msgspec

from placer import errors, hostlist, ranges, units
from placer.cluster import types
from placer.slurm import gres, gres_conf
from placer.slurm import parse_records as records
from placer.topology import types as topo
from placer.topology.readers import sniff

_DOWN = frozenset(
    {
        "DOWN", "FAIL", "FAILING", "ERROR", "UNKNOWN", "FUTURE", "NOT_RESPONDING", "INVALID", "INVALID_REG",
        "POWERED_DOWN", "POWERING_DOWN", "REBOOT_ISSUED",
    }
)  # fmt: skip
_MOST_NOTES = 200


class Notes:
    """What a snapshot takes for granted and what it leaves out, in words, each once, in the order found."""

    def __init__(self) -> None:
        self._assumed: dict[str, None] = {}
        self._left_out: dict[str, None] = {}

    def assume(self, text: str) -> None:
        """Something that the recording does not tell was taken to be so."""
        self._assumed[text] = None

    def leave_out(self, text: str) -> None:
        """Something of the recording is not in the snapshot."""
        self._left_out[errors.printable(text, 400)] = None

    @property
    def assumptions(self) -> tuple[str, ...]:
        """All that was assumed."""
        return tuple(self._assumed)

    @property
    def left_out(self) -> tuple[str, ...]:
        """All that was left out; a long list ends with the number of the rest."""
        texts = tuple(self._left_out)
        rest = len(texts) - _MOST_NOTES
        return texts if rest <= 0 else (*texts[:_MOST_NOTES], f"and {rest} more of this kind")


# --- states


def states(
    found: Sequence[records.NodeRecord],
    partitions: Sequence[types.Partition],
    conf: gres_conf.GresConf,
    notes: Notes,
) -> tuple[types.NodeState, ...]:
    """One NodeState for each record, in natural order of names."""
    member_of: dict[str, list[str]] = {}
    for partition in partitions:
        for node in partition.nodes:
            member_of.setdefault(node, []).append(partition.name)
    ordered = sorted(found, key=lambda record: hostlist.natural_key(record.name))
    made = tuple(_state(record, tuple(member_of.get(record.name, ())), conf, notes) for record in ordered)
    _note_what_is_no_gpu(ordered, notes)
    asleep = [record.name for record in ordered if "POWERED_DOWN" in (record.states or ())]
    if asleep:
        notes.assume(f"powered-down nodes count as down, though Slurm would wake them for a job: {_fold(asleep)}")
    return made


def _state(
    record: records.NodeRecord, partitions: tuple[str, ...], conf: gres_conf.GresConf, notes: Notes
) -> types.NodeState:
    slots = _slots(record, conf, notes)
    used, used_count = gres.used(_entries(record.name, record.gres_used, notes))
    flags = record.states or ()
    told = "+".join(flags)
    return types.NodeState(
        name=record.name,
        gpus=slots,
        cpus=_first(record.cpus_effective, record.cpus),
        memory_mib=max(0, (record.memory_mib or 0) - (record.memory_kept_mib or 0)),
        condition=condition(flags),
        condition_text=f"{told}, {record.reason}" if record.reason else told,
        partitions=partitions if record.partitions is None else record.partitions,
        features=record.features or (),
        labels=tuple((f"gres/{entry.name}", str(entry.count)) for entry in _others(record, notes)),
        sockets=record.sockets or None,
        cores_per_socket=record.cores_per_socket or None,
        threads_per_core=record.threads_per_core or None,
        weight=_first(record.weight, 1),
        gpus_used=used,
        gpus_used_count=used_count,
        cpus_used=record.cpus_used or 0,
        memory_used_mib=record.memory_used_mib or 0,
    )


def condition(flags: Sequence[str]) -> types.NodeCondition:
    """Whether a node takes work, from Slurm's state words. A planned node does: the plan is Slurm's own affair."""
    if not flags or _DOWN.intersection(flags):
        return types.NodeCondition.DOWN
    if any(flag.startswith("DRAIN") for flag in flags):
        return types.NodeCondition.DRAINED
    if "RESERVED" in flags or any(flag.startswith("MAINT") for flag in flags):
        return types.NodeCondition.RESERVED
    return types.NodeCondition.UP


def _first(*numbers: int | None) -> int:
    return next((number for number in numbers if number is not None), 0)


def _entries(node: str, text: str | None, notes: Notes) -> tuple[gres.Gres, ...]:
    try:
        return gres.parse(text or "", source=f"gres of {node}")
    except errors.ParseError as error:
        notes.leave_out(error.message)
        return ()


def _others(record: records.NodeRecord, notes: Notes) -> list[gres.Gres]:
    return [entry for entry in _entries(record.name, record.gres, notes) if entry.name != "gpu"]


def _slots(record: records.NodeRecord, conf: gres_conf.GresConf, notes: Notes) -> tuple[types.GpuSlot, ...]:
    layout = gres.layout(_entries(record.name, record.gres, notes))
    if layout is None:
        notes.leave_out(f"{record.name}: more GPUs than {gres.MAX_COUNT}; none of them is counted")
        return ()
    written = tuple(device.type for device in conf.devices(record.name))
    if len(written) == len(layout) and _counts(written) == _counts(layout):
        layout = written  # index order is that of gres.conf where both tell the same GPUs
    broken = {index for entry in _entries(record.name, record.gres_drained, notes) for index in entry.indices or ()}
    return tuple(
        types.GpuSlot(index, kind, healthy=index not in broken)
        for index, kind in enumerate(layout)
        if gres.Gres("gpu", kind, 1).is_gpu
    )


def _counts(kinds: Sequence[str | None]) -> list[str]:
    return sorted((kind or "").casefold() for kind in kinds)


def _note_what_is_no_gpu(found: Sequence[records.NodeRecord], notes: Notes) -> None:
    nodes: dict[str, list[str]] = {}
    quiet = Notes()  # what cannot be read was said before
    for record in found:
        for entry in _entries(record.name, record.gres, quiet):
            if not entry.is_gpu and entry.name in {"gpu", "shard", "mps"}:
                label = f"{entry.name}:{entry.type}" if entry.type else entry.name
                nodes.setdefault(label, []).append(record.name)
    for label, names in sorted(nodes.items()):
        notes.leave_out(f"{label} on {_fold(names)} is part of a GPU and not counted as one")


def _fold(names: Sequence[str]) -> str:
    return hostlist.fold(names)


# --- partitions


def partitions(
    found: Sequence[records.PartitionRecord], settings: Mapping[str, str], notes: Notes
) -> tuple[types.Partition, ...]:
    """Partitions in natural order of names, with the cluster's defaults where they have none of their own."""
    ordered = sorted(found, key=lambda record: hostlist.natural_key(record.name))
    return tuple(_partition(record, settings, notes) for record in ordered)


def _partition(record: records.PartitionRecord, settings: Mapping[str, str], notes: Notes) -> types.Partition:
    per_cpu = record.memory_per_cpu_mib or None
    per_node = record.memory_per_node_mib or None
    if per_cpu is None and per_node is None:
        per_cpu, per_node = _amount(settings, "DefMemPerCPU"), _amount(settings, "DefMemPerNode")
    job_defaults = _pairs(record.job_defaults) or _pairs(settings.get("JobDefaults"))
    return types.Partition(
        name=record.name,
        nodes=_names(record, notes),
        default=bool(record.default),
        up=record.up is not False,
        max_nodes=record.max_nodes,
        max_time=record.max_time,
        default_time=record.default_time,
        default_memory_per_node_mib=per_node,
        default_memory_per_cpu_mib=per_cpu,
        default_whole_memory=per_cpu is None and per_node is None and counts_memory(settings),
        default_cpus_per_gpu=job_defaults.get("DEFCPUPERGPU"),
        spreads=bool(record.spreads) or "CR_LLN" in settings.get("SelectTypeParameters", "").upper(),
    )


def counts_memory(settings: Mapping[str, str]) -> bool:
    """Whether Slurm gives out memory at all. Taken so when the configuration was not recorded."""
    parameters = settings.get("SelectTypeParameters")
    return parameters is None or "MEMORY" in parameters.upper()


def _names(record: records.PartitionRecord, notes: Notes) -> tuple[str, ...]:
    try:
        return hostlist.sort(hostlist.expand(record.nodes or "", source=f"nodes of partition {record.name}"))
    except errors.ParseError as error:
        notes.leave_out(error.message)
        return ()


def _amount(settings: Mapping[str, str], key: str) -> int | None:
    try:
        return units.parse_memory(settings.get(key, "")) or None
    except errors.ParseError:
        return None  # UNLIMITED, or not set


def _pairs(text: str | None) -> dict[str, int]:
    """`DefCpuPerGPU=4,DefMemPerGPU=8192`, keys in upper case."""
    pairs = {}
    for pair in (text or "").split(","):
        key, _, value = pair.partition("=")
        if value.isascii() and value.isdigit() and len(value) < 10:
            pairs[key.strip().upper()] = int(value)
    return pairs


# --- wiring


class Wirings:
    """The wiring of each node, each distinct one once."""

    def __init__(self, notes: Notes) -> None:
        self._notes = notes
        self.machines: list[topo.NodeTopology] = []
        self._position: dict[topo.NodeTopology, int] = {}
        self._known: dict[int, tuple[topo.NodeTopology, int]] = {}  # by identity: hashing a wiring is slow
        self._by_text: dict[str, topo.NodeTopology | None] = {}
        self._by_conf: dict[tuple[tuple[gres_conf.Device, ...], gres_conf.Shape | None], topo.NodeTopology] = {}

    def position(self, wiring: topo.NodeTopology) -> int:
        """Where a wiring stands among the machines; it is added when no equal one is there."""
        if id(wiring) in self._known:
            return self._known[id(wiring)][1]
        bare = msgspec.structs.replace(wiring, name="", source="")
        if bare not in self._position:
            self._position[bare] = len(self.machines)
            self.machines.append(wiring)
        self._known[id(wiring)] = wiring, self._position[bare]
        return self._position[bare]

    def of_text(self, text: str, source: str, name: str) -> topo.NodeTopology | None:
        """A saved topology of one node; None, and said so, when it is none. Equal texts are read once."""
        if text not in self._by_text:
            try:
                self._by_text[text] = sniff.read(text, source=source, name=name)
            except errors.ParseError as error:
                self._notes.leave_out(error.message)
                self._by_text[text] = None
        return self._by_text[text]

    def of_conf(self, state: types.NodeState, devices: tuple[gres_conf.Device, ...], source: str) -> topo.NodeTopology:
        """What gres.conf tells about a node."""
        shape = None
        if state.sockets and state.cores_per_socket:
            shape = gres_conf.Shape(state.sockets, state.cores_per_socket, state.threads_per_core or 1)
        key = (devices, shape)
        if key not in self._by_conf:
            self._by_conf[key] = gres_conf.topology(state.name, devices, shape, source=source)
        return self._by_conf[key]


def texts_by_node(entries: Sequence[tuple[str, str]], notes: Notes) -> dict[str, tuple[str, str]]:
    """Node -> entry name and text, from `topo/gpu01.txt` or, for nodes that are alike, `topo/gpu[01-06].txt`."""
    found: dict[str, tuple[str, str]] = {}
    for entry, text in entries:
        try:
            for node in hostlist.expand(entry.rsplit(".", 1)[0], source=f"topo/{entry}"):
                found.setdefault(node, (entry, text))
        except errors.ParseError as error:
            notes.leave_out(error.message)
    return found


def check_counts(state: types.NodeState, wiring: topo.NodeTopology, notes: Notes) -> None:
    """Say when the wiring and Slurm disagree on how many GPUs the node has."""
    known = len(wiring.gpus)
    if state.gpus and known and known != len(state.gpus):
        text = f"{state.name}: Slurm counts {len(state.gpus)} GPUs, its topology shows {known}"
        notes.leave_out(f"{text}; indices {ranges.format(tuple(range(min(known, len(state.gpus)))))} are matched")
