"""`scontrol show nodes|partitions --json`, `sinfo --json` of 22.05, and the value readers that the jobs share.

Slurm's JSON changed with every release: a number is `5` or `{"set": true, "infinite": false, "number": 5}`, a state
`"RUNNING"` or `["RUNNING"]`, a list `["a", "b"]` or `"a,b"`. Every field is therefore taken as it comes and made sense
of afterwards; a field that does not make sense counts as not told.
"""

from __future__ import annotations

import re
from typing import Any, Final, TypeVar

import msgspec

from placer import errors
from placer.slurm import parse_records as records

_BYTE = re.compile(r"\(byte (\d{1,18})\)")
_PATH = re.compile(r"`(\$[^`]{0,200})`")
_LARGEST: Final = 2**62
Document = TypeVar("Document")


class Version(msgspec.Struct, frozen=True):
    """Slurm's release as (major, minor): 24, 11."""

    major: int = 0
    minor: int = 0


class _Node(msgspec.Struct, frozen=True):
    name: Any = None
    state: Any = None
    state_flags: Any = None
    reason: Any = None
    cpus: Any = None
    effective_cpus: Any = None
    alloc_cpus: Any = None
    real_memory: Any = None
    specialized_memory: Any = None
    alloc_memory: Any = None
    sockets: Any = None
    cores: Any = None
    threads: Any = None
    weight: Any = None
    active_features: Any = None
    partitions: Any = None
    gres: Any = None
    gres_used: Any = None
    gres_drained: Any = None


class _Nodes(msgspec.Struct, frozen=True):
    nodes: list[_Node] | None = None


class _Partition(msgspec.Struct, frozen=True):
    name: Any = None
    nodes: Any = None
    flags: Any = None
    partition: Any = None
    maximums: Any = None
    defaults: Any = None
    preempt_mode: Any = None


class _Partitions(msgspec.Struct, frozen=True):
    partitions: list[_Partition] | None = None


def decode(text: str, kind: type[Document], *, source: str, hint: str) -> Document:
    """One JSON document as `kind`. Raises ParseError at the line and column where it breaks."""
    try:
        return msgspec.json.decode(text, type=kind)
    except (msgspec.DecodeError, UnicodeError) as error:
        raise _broken(text.encode("utf-8", "replace"), str(error), source, hint) from None
    except RecursionError:
        raise errors.ParseError("JSON is nested too deeply", source=source, hint=hint) from None


def _broken(raw: bytes, message: str, source: str, hint: str) -> errors.ParseError:
    if found := _PATH.search(message):
        return errors.ParseError(f"JSON is not what Slurm prints, at {found[1]}", source=source, hint=hint)
    match = _BYTE.search(message)
    at = min(int(match[1]), len(raw)) if match else len(raw)
    before = raw[:at]
    line_start = before.rfind(b"\n") + 1
    excerpt = raw[max(line_start, at - 30) : at + 10].decode("utf-8", "replace")
    what = "JSON ends too early" if at >= len(raw) else "JSON is broken"
    return errors.ParseError(
        what,
        source=source,
        line=before.count(b"\n") + 1,
        column=len(before[line_start:].decode("utf-8", "replace")) + 1,
        excerpt=excerpt,
        hint=hint,
    )


def nodes(text: str, *, source: str) -> records.Read[records.NodeRecord] | None:
    """The nodes of a document; None when it has no list of nodes (`sinfo --json` since 23.02). Raises ParseError."""
    found = decode(text, _Nodes, source=source, hint="scontrol show nodes --json").nodes
    return None if found is None else records.Read(tuple(_node(node) for node in found if name(node.name)))


def _node(node: _Node) -> records.NodeRecord:
    return records.NodeRecord(
        name=name(node.name) or "",
        states=states(node.state) + tuple(s for s in states(node.state_flags) if s not in states(node.state)) or None,
        reason=name(node.reason),
        cpus=number(node.cpus),
        cpus_effective=number(node.effective_cpus),
        cpus_used=number(node.alloc_cpus),
        memory_mib=number(node.real_memory),
        memory_kept_mib=number(node.specialized_memory),
        memory_used_mib=number(node.alloc_memory),
        sockets=number(node.sockets),
        cores_per_socket=number(node.cores),
        threads_per_core=number(node.threads),
        weight=number(node.weight),
        features=words(node.active_features),
        partitions=words(node.partitions),
        gres=name(node.gres),
        gres_used=name(node.gres_used),
        gres_drained=name(node.gres_drained),
    )


def partitions(text: str, *, source: str) -> records.Read[records.PartitionRecord] | None:
    """The partitions of a document; None when it has none. Raises ParseError."""
    found = decode(text, _Partitions, source=source, hint="scontrol show partitions --json").partitions
    return None if found is None else records.Read(tuple(_partition(one) for one in found if name(one.name)))


def _partition(one: _Partition) -> records.PartitionRecord:
    flags = words(one.flags)
    state = states(inside(one.partition, "state"))
    exclusive = name(inside(one.partition, "exclusive"))
    oversubscribe = words(inside(one.maximums, "oversubscribe", "flags")) or ()
    whole = None if exclusive is None and one.maximums is None else exclusive == "NODE" or "EXCLUSIVE" in oversubscribe
    return records.PartitionRecord(
        name=name(one.name) or "",
        nodes=name(inside(one.nodes, "configured")),
        default=None if flags is None else "DEFAULT" in flags,
        up="UP" in state if state else None,
        max_nodes=number(inside(one.maximums, "nodes")),
        max_time=minutes(inside(one.maximums, "time")),
        default_time=minutes(inside(one.defaults, "time")),
        memory_per_node_mib=number(inside(one.defaults, "partition_memory_per_node")),
        memory_per_cpu_mib=number(inside(one.defaults, "partition_memory_per_cpu")),
        job_defaults=name(inside(one.defaults, "job")),
        spreads=None if flags is None else "LLN" in flags,
        exclusive=whole,
    )


def version(meta: object) -> Version:
    """The release that wrote a document, from its `meta`; 0.0 when that does not tell."""
    slurm = inside(meta, "slurm")
    release = name(inside(slurm if slurm is not None else inside(meta, "Slurm"), "release"))
    match = re.match(r"(\d{1,3})\.(\d{1,3})", release or "")
    return Version(int(match[1]), int(match[2])) if match else Version()


# --- values as they come


def number(value: object) -> int | None:
    """`5`, `"5"` or `{"set", "infinite", "number"}`; unset and infinite are None."""
    if type(value) is dict:
        if not value.get("set", True) or value.get("infinite", False):
            return None
        value = value.get("number")
    if type(value) is int or type(value) is float:  # bool is neither
        return int(value) if abs(value) < _LARGEST else None
    if isinstance(value, str) and value.isascii() and value.isdigit() and len(value) < 19:
        return int(value)
    return None


def minutes(value: object) -> int | None:
    """A number of minutes in seconds."""
    count = number(value)
    return None if count is None else count * 60


def moment(value: object) -> int | None:
    """Seconds since 1970; 0 is not set."""
    return number(value) or None


def name(value: object) -> str | None:
    """A text, or a list of texts with commas between; null is None."""
    if isinstance(value, str):
        return "" if value in {"(null)", "N/A"} else value
    if isinstance(value, list):
        return ",".join(item for item in value if isinstance(item, str))
    return None


def words(value: object) -> tuple[str, ...] | None:
    """A list, or a text with commas between."""
    text = name(value)
    return None if text is None else tuple(word for word in text.split(",") if word)


def states(value: object) -> tuple[str, ...]:
    """A state, or several; upper case."""
    return tuple(word.upper() for word in words(value) or ())


def inside(value: object, *keys: str) -> object:
    """The value at a path through objects; None where it ends early."""
    for key in keys:
        if not isinstance(value, dict):
            return None
        value = value.get(key)
    return value
