"""`slurm.conf`: the nodes with their processors, the partitions, and every other setting as it is written."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final, TypeVar

import msgspec

from placer import errors, hostlist, units
from placer.slurm import _topology_lines as lines

MAX_NAMES: Final = 1_000_000
"""Most node names of one text, each counted as often as it is written; more is refused."""

T = TypeVar("T")

_DEFAULT: Final = "default"
_LISTS: Final = ("nodename", "partitionname")


class Node(msgspec.Struct, frozen=True, kw_only=True):
    """One node. Sizes are those that Slurm assumes where the line does not tell them."""

    name: str
    sockets: int = 1
    cores_per_socket: int = 1
    threads_per_core: int = 1
    memory_mib: int = 1
    weight: int = 1
    gres: str = ""


class Partition(msgspec.Struct, frozen=True, kw_only=True):
    """One partition. `nodes` in the order of the node lines, whatever the order of its own list."""

    name: str
    nodes: tuple[str, ...] = ()
    default: bool = False
    default_memory_per_node_mib: int | None = None


class SlurmConf(msgspec.Struct, frozen=True, kw_only=True):
    """A whole file. `settings`: keys in small letters; `notes`: what the file leaves open."""

    nodes: tuple[Node, ...] = ()
    partitions: tuple[Partition, ...] = ()
    settings: tuple[tuple[str, str], ...] = ()
    notes: tuple[str, ...] = ()

    def partition(self, name: str) -> Partition | None:
        """A partition by its name."""
        return next((partition for partition in self.partitions if partition.name == name), None)

    def setting(self, key: str) -> str | None:
        """The last value of a setting; upper and lower case are the same."""
        return dict(self.settings).get(key.casefold())


def read(text: str, *, source: str) -> SlurmConf:
    """The nodes, partitions and settings of a slurm.conf. Raises ParseError, with the place of the value."""
    reader = _Reader(source)
    for line in lines.split(text):
        reader.take(line)
    return reader.result()


class _Reader:
    def __init__(self, source: str) -> None:
        self.source = source
        self.nodes: dict[str, Node] = {}
        self.partitions: dict[str, tuple[Partition, lines.Field | None]] = {}
        self.settings: list[tuple[str, str]] = []
        self.notes: list[str] = []
        self.defaults: dict[str, dict[str, lines.Field]] = {key: {} for key in _LISTS}
        self.names_left = MAX_NAMES

    def take(self, line: lines.Line) -> None:
        """Add what one line says."""
        if line.text.split()[:1] and line.text.split()[0].casefold() == "include":
            self.notes.append(f"{self.source}:{line.place(0)[0]}: included files are not read")
            return
        fields = {field.key: field for field in lines.fields(line, self.source)}
        kind = next((key for key in _LISTS if key in fields), None)
        if kind is None:
            self.settings += [(field.key, field.value) for field in fields.values()]
        elif fields[kind].value.casefold() == _DEFAULT:
            self.defaults[kind] |= fields
        elif kind == "nodename":
            self.take_nodes(self.defaults[kind] | fields)
        else:
            self.take_partition(self.defaults[kind] | fields)

    def take_nodes(self, fields: Mapping[str, lines.Field]) -> None:
        """A `NodeName=` line. Where it tells CPUs alone, each of them is a socket, as slurm.conf(5) has it."""
        number = self.number
        cpus, boards = number(fields, "cpus") or number(fields, "procs"), number(fields, "boards")
        per_board, cores = number(fields, "socketsperboard"), number(fields, "corespersocket")
        sockets = number(fields, "sockets") or (per_board and per_board * (boards or 1))
        threads = number(fields, "threadspercore")
        memory = self.value(fields, "realmemory", units.parse_memory)
        for name in self.names(fields["nodename"]):
            self.nodes[name] = Node(
                name=name,
                sockets=sockets or max(1, (cpus or 1) // ((cores or 1) * (threads or 1))),
                cores_per_socket=cores or 1,
                threads_per_core=threads or 1,
                memory_mib=memory or 1,
                weight=number(fields, "weight") or 1,
                gres=fields["gres"].value if "gres" in fields else "",
            )

    def take_partition(self, fields: Mapping[str, lines.Field]) -> None:
        """A `PartitionName=` line; its nodes are looked up when all are known."""
        name = fields["partitionname"].value
        if not name or not name.isprintable():
            raise fields["partitionname"].error("`PartitionName=` needs a name", self.source)
        partition = Partition(
            name=name,
            default="default" in fields and fields["default"].value.casefold() == "yes",
            default_memory_per_node_mib=self.value(fields, "defmempernode", units.parse_memory),
        )
        self.partitions[name] = partition, fields.get("nodes")

    def result(self) -> SlurmConf:
        """Everything that was read."""
        order = {name: place for place, name in enumerate(self.nodes)}
        partitions = []
        for partition, field in self.partitions.values():
            nodes: tuple[str, ...] = ()
            if field is not None:
                named = tuple(order) if field.value.casefold() == "all" else self.names(field)
                unknown = next((name for name in named if name not in order), None)
                if unknown is not None:
                    raise field.error(f"no `NodeName=` line has the node `{unknown}`", self.source)
                nodes = tuple(sorted(named, key=order.__getitem__))
            partitions.append(msgspec.structs.replace(partition, nodes=nodes))
        return SlurmConf(
            nodes=tuple(self.nodes.values()),
            partitions=tuple(partitions),
            settings=tuple(self.settings),
            notes=tuple(self.notes),
        )

    def number(self, fields: Mapping[str, lines.Field], key: str) -> int | None:
        """A whole number that a line may lack."""
        return self.value(fields, key, _whole)

    def value(self, fields: Mapping[str, lines.Field], key: str, parse: Callable[[str], T]) -> T | None:
        """A value that a line may lack."""
        field = fields.get(key)
        if field is None:
            return None
        try:
            return parse(field.value)
        except (errors.ParseError, ValueError):
            raise field.error(f"`{key}=` has no value that Slurm takes here", self.source) from None

    def names(self, field: lines.Field) -> tuple[str, ...]:
        """A node list."""
        try:
            names = hostlist.expand(field.value, source=self.source, limit=min(self.names_left, 200_000))
        except errors.ParseError as error:
            said = error.message.removeprefix(f"{errors.printable(self.source)}:{error.line}:{error.column}: ")
            raise field.error(said, self.source, at=error.column - 1, excerpt="") from None
        self.names_left -= len(names)
        return names


def _whole(text: str) -> int:
    if not (text.isascii() and text.isdigit() and len(text) < 10):
        raise ValueError("not a whole number")
    return int(text)
