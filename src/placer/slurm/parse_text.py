"""The text of `scontrol show node -d`, `show partition` and `show config`; the key=value reader that `show job` shares.

A record is a run of lines from one that starts with the record's key. Most lines hold several `Key=Value` without
blanks in the values; some keys (`OS`, `Reason`, `Comment` …) take the rest of their line.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Callable, Iterator
from typing import Final, TypeVar

from placer import errors, hostlist, units
from placer.slurm import parse_records as records

_COUNT = re.compile(r"(\d{1,12})([KMG]?)\Z")
_FACTOR: Final = {"": 1, "K": 1024, "M": 1024**2, "G": 1024**3}
_NOTHING: Final = frozenset({"", "(null)", "N/A", "n/a", "NONE", "none"})
# Keys whose value takes the rest of the line, blanks and all, where they start one; JobName does so anywhere.
_FREE: Final = (
    "OS|Reason|Comment|AdminComment|SystemComment|Extra|Command|WorkDir|StdErr|StdIn|StdOut|SubmitLine|Container"
    "|MailUser|BurstBuffer|FailedNode"
)
_PAIR = re.compile(rf"(?m)(?:^[ \t]*(?=(?:{_FREE})=)|(?<= )(?=JobName=))(\w+)=(.*)|([A-Za-z][^\s=]*)=(\S*)")
# What the one-character ends of a node's state mean (scontrol(1), NODE STATE CODES).
_SUFFIXES: Final = {
    "*": "NOT_RESPONDING", "~": "POWERED_DOWN", "#": "POWERING_UP", "!": "POWER_DOWN", "%": "POWERING_DOWN",
    "$": "MAINTENANCE", "@": "REBOOT_REQUESTED", "^": "REBOOT_ISSUED", "-": "PLANNED",
}  # fmt: skip


class Fields:
    """The keys of one record, each with its first value, and where they stand, for error messages."""

    def __init__(self, source: str, whole: str, start: int, end: int) -> None:
        self.source, self.block = source, whole[start:end]
        self._whole, self._start = whole, start
        pairs = _PAIR.findall(self.block)
        pairs.reverse()  # so that the first value of a key is the one that stays
        self.values: dict[str, str] = {key or free: value or rest for free, rest, key, value in pairs}

    def text(self, key: str) -> str | None:
        """A value; `""` where Slurm prints that there is nothing, None where the key is missing."""
        value = self.values.get(key)
        return "" if value in _NOTHING else value

    def count(self, key: str) -> int | None:
        """A whole number; Slurm shortens 2048 to `2K`. `N/A` and `*` are None."""
        value = self.text(key)
        if value in (None, "", "*", "UNLIMITED", "INFINITE"):
            return None
        match = _COUNT.match(value or "")
        if match is None:
            raise self.error(key, "not a number")
        return int(match[1]) * _FACTOR[match[2]]

    def memory(self, key: str) -> int | None:
        """MiB; UNLIMITED is 0."""
        value = self.text(key)
        if value in (None, ""):
            return None
        return 0 if value == "UNLIMITED" else self.convert(key, units.parse_memory)

    def duration(self, key: str) -> int | None:
        """Seconds; unlimited is None."""
        return self.convert(key, units.parse_duration) if self.text(key) else None

    def moment(self, key: str) -> int | None:
        """Seconds since 1970, the text taken as UTC; unknown is None."""
        return self.convert(key, units.parse_moment) if self.text(key) else None

    def convert(self, key: str, reader: Callable[[str], _Value]) -> _Value:
        """A value through a reader of its own; its ParseError is moved to where the value stands."""
        try:
            return reader(self.values[key])
        except errors.ParseError:
            raise self.error(key, "not what this value should be") from None

    def error(self, key: str, message: str) -> errors.ParseError:
        """A ParseError at the value of `key`."""
        match = re.search(rf"(?<!\S){re.escape(key)}=", self.block)
        return self.error_at(match.end(), f"{key}: {message}") if match else self.error_at(0, f"{key} is missing")

    def error_at(self, offset: int, message: str) -> errors.ParseError:
        """A ParseError at a place in the record's block."""
        at = self._start + offset
        line_start = self._whole.rfind("\n", 0, at) + 1
        return errors.ParseError(
            message,
            source=self.source,
            line=self._whole.count("\n", 0, at) + 1,
            column=at - line_start + 1,
            excerpt=self._whole[at : at + 40].partition("\n")[0],
        )


_Value = TypeVar("_Value")


def split(text: str, key: str, *, source: str) -> Iterator[Fields]:
    """The records of a text: each starts at a line that begins with `key=`."""
    starts = [match.start() for match in re.finditer(rf"(?m)^{re.escape(key)}=", text)]
    for start, end in itertools.pairwise([*starts, len(text)]):
        yield Fields(source, text, start, end)


def read_all(
    text: str,
    key: str,
    reader: Callable[[Fields], records.Record],
    *,
    source: str,
    empty: str = "",
    hint: str | None = None,
) -> records.Read[records.Record]:
    """Every record through `reader`. One that cannot be read is left out and named; ParseError when none can be.

    `empty` is what the tool says when there is nothing to show.
    """
    found: list[records.Record] = []
    failed: list[errors.ParseError] = []
    for fields in split(text, key, source=source):
        try:
            found.append(reader(fields))
        except errors.ParseError as error:
            failed.append(error)
    if failed and not found:
        raise failed[0]
    if not found and text.strip() and not (empty and empty in text):
        message = f"no record that starts with `{key}=`"
        raise errors.ParseError(message, source=source, excerpt=text.strip()[:40], hint=hint)
    return records.Read(tuple(found), tuple(error.message for error in failed))


def nodes(text: str, *, source: str) -> records.Read[records.NodeRecord]:
    """`scontrol show node -d`. Raises ParseError."""
    return read_all(text, "NodeName", _node, source=source, empty="No nodes", hint="scontrol show node -d")


def _node(fields: Fields) -> records.NodeRecord:
    reason = fields.text("Reason")
    return records.NodeRecord(
        name=fields.values["NodeName"],
        states=states(fields.values.get("State", "")) or None,
        reason=re.sub(r" \[\S+@[^\]]*\]\Z", "", reason.rstrip()) if reason else "",
        cpus=fields.count("CPUTot"),
        cpus_effective=fields.count("CPUEfctv"),
        cpus_used=fields.count("CPUAlloc"),
        memory_mib=fields.count("RealMemory"),
        memory_kept_mib=fields.count("MemSpecLimit") or 0,
        memory_used_mib=fields.count("AllocMem"),
        sockets=fields.count("Sockets"),
        cores_per_socket=fields.count("CoresPerSocket"),
        threads_per_core=fields.count("ThreadsPerCore"),
        weight=fields.count("Weight"),
        features=names(fields.text("ActiveFeatures")),
        partitions=names(fields.text("Partitions")),
        gres=fields.text("Gres"),
        gres_used=fields.text("GresUsed"),
        gres_drained=fields.text("GresDrain"),
    )


def states(text: str) -> tuple[str, ...]:
    """`"MIXED*+DRAIN"` -> `("MIXED", "DRAIN", "NOT_RESPONDING")`."""
    words, flags = [], []
    for word in text.split("+"):
        while word and word[-1] in _SUFFIXES:
            flags.append(_SUFFIXES[word[-1]])
            word = word[:-1]
        if word:
            words.append(word.upper())
    return tuple(dict.fromkeys(words + flags))


def names(text: str | None) -> tuple[str, ...] | None:
    """A comma list."""
    return None if text is None else tuple(name for name in text.strip().split(",") if name)


def partitions(text: str, *, source: str) -> records.Read[records.PartitionRecord]:
    """`scontrol show partition`. Raises ParseError."""
    return read_all(
        text, "PartitionName", _partition, source=source, empty="No partitions", hint="scontrol show partition"
    )


def _partition(fields: Fields) -> records.PartitionRecord:
    state = fields.text("State")
    exclusive = fields.text("Exclusive") == "NODE" or fields.text("OverSubscribe") == "EXCLUSIVE"
    return records.PartitionRecord(
        name=fields.values["PartitionName"],
        nodes=fields.text("Nodes"),
        default=fields.text("Default") == "YES",
        up=None if state is None else state == "UP",
        max_nodes=fields.count("MaxNodes"),
        max_time=fields.duration("MaxTime"),
        default_time=fields.duration("DefaultTime"),
        memory_per_node_mib=fields.memory("DefMemPerNode"),
        memory_per_cpu_mib=fields.memory("DefMemPerCPU"),
        job_defaults=fields.text("JobDefaults"),
        spreads=(fields.text("LLN") or "").upper() == "YES",
        exclusive=exclusive,
        preempt_mode=fields.text("PreemptMode"),
    )


def node_names(text: str, *, source: str) -> tuple[str, ...]:
    """A node list of a record. Raises ParseError."""
    return hostlist.expand(text, source=source)


def config(text: str) -> tuple[tuple[str, str], ...]:
    """`scontrol show config` as printed: `Key = value` lines, in order. What is no such line is passed over."""
    settings = []
    for line in text.splitlines():
        key, equals, value = line.partition("=")
        if equals and key.strip() and " " not in key.strip():
            settings.append((key.strip(), value.strip()))
    return tuple(settings)


def config_moment(text: str) -> int | None:
    """When `scontrol show config` was asked: `Configuration data as of 2026-11-30T23:03:27`, taken as UTC."""
    match = re.match(r"Configuration data as of (\S{1,40})", text)
    try:
        return units.parse_moment(match[1]) if match else None
    except errors.ParseError:
        return None
