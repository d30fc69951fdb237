"""Node labels of every dialect -> the levels of a fabric, closest first.

Label values are opaque: topograph replaces values of more than 63 characters by a hash, which keeps equality alone. An
NVLink clique (`nvidia.com/gpu.clique`) tells which nodes share NVLink and nothing of how far two cliques are apart, so
its level gets its place from the other labels and no order of its own.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterable, Mapping, Sequence

import msgspec

from placer import errors
from placer.topology import chains, nesting
from placer.topology import fabric as fabrics
from placer.topology import types as topo

HOSTNAME = "kubernetes.io/hostname"
"""The label that is different on every node; no level of a fabric."""

Nodes = Iterable[tuple[str, Mapping[str, str]]]
"""Name and labels of each node."""


class Dialect(msgspec.Struct, frozen=True):
    """The label keys of one publisher. `keys` are (key, name of the level), closest first.

    `numbered` is the start of keys that end in a number without a limit; the level is called `stem` and that number.
    `outwards` tells whether greater numbers are farther from the node.
    """

    name: str
    keys: tuple[tuple[str, str], ...] = ()
    numbered: str | None = None
    stem: str = ""
    outwards: bool = True


NETWORK: tuple[Dialect, ...] = (
    Dialect("topograph", numbered="fabric.topograph.run/tier-", stem="tier-"),
    Dialect(
        "topograph before 1.0",
        (
            ("network.topology.nvidia.com/leaf", "leaf"),
            ("network.topology.nvidia.com/block", "block"),
            ("network.topology.nvidia.com/spine", "spine"),
            ("network.topology.nvidia.com/core", "core"),
            ("network.topology.nvidia.com/datacenter", "datacenter"),
        ),
    ),
    Dialect("AWS", numbered="topology.k8s.aws/network-node-layer-", stem="layer-", outwards=False),
    Dialect(
        "Google Cloud",
        (
            ("cloud.google.com/gce-topology-host", "host"),
            ("cloud.google.com/gce-topology-subblock", "subblock"),
            ("cloud.google.com/gce-topology-block", "block"),
        ),
    ),
    Dialect(
        "OCI",
        (("oci.oraclecloud.com/host.rack_id", "rack"), ("oci.oraclecloud.com/host.network_block_id", "block")),
    ),
    Dialect(
        "CoreWeave",
        (
            ("backend.coreweave.cloud/leafgroup", "leafgroup"),
            ("backend.coreweave.cloud/superpod", "superpod"),
            ("backend.coreweave.cloud/fabric", "fabric"),
        ),
    ),
    Dialect("Nebius", numbered="topology.nebius.com/tier-", stem="tier-"),
    Dialect(
        "Kueue and KAI examples",
        (("cloud.provider.com/topology-rack", "rack"), ("cloud.provider.com/topology-block", "block")),
    ),
    Dialect(
        "Volcano",
        (("volcano.sh/tor", "tor"), ("volcano.sh/hypernode", "hypernode"), ("volcano.sh/hypercluster", "hypercluster")),
    ),
)
"""Who publishes switch tiers; the dialect that most nodes have is read. Sources: `docs/reference/node-labels.md` of
topograph, and the vendors' own documents of the keys."""

NVLINK: tuple[Dialect, ...] = (
    Dialect("NVIDIA GPU feature discovery", (("nvidia.com/gpu.clique", "clique"),)),
    Dialect(
        "topograph",
        (
            ("accelerator.topograph.run/sub-domain", "nvlink-sub-domain"),
            ("accelerator.topograph.run/domain", "nvlink-domain"),
        ),
    ),
    Dialect("topograph before 1.0", (("network.topology.nvidia.com/accelerator", "accelerator"),)),
    Dialect("CoreWeave", (("ds.coreweave.com/nvlink.domain", "nvlink.domain"),)),
    Dialect(
        "AWS",
        (("topology.k8s.aws/ultraserver-id", "ultraserver"), ("topology.k8s.aws/capacity-block-id", "capacity-block")),
    ),
)
"""Who publishes NVLink domains; each that tells something new becomes a level where it nests."""

PLACE = Dialect("Kubernetes", (("topology.kubernetes.io/zone", "zone"), ("topology.kubernetes.io/region", "region")))
"""The standard labels, above every network."""

_PER_HOST = frozenset({HOSTNAME, "cloud.google.com/gce-topology-host"})
_NUMBER = re.compile(r"(?:0|[1-9][0-9]{0,8})\Z")


class _Level(msgspec.Struct, frozen=True):
    """A level that is wanted: its name, its key, and node -> value."""

    name: str
    key: str
    of: Mapping[str, str]


def fabric_of(nodes: Nodes, keys: Sequence[str] | None = None, *, source: str = "labels") -> topo.Fabric:
    """The fabric that node labels tell.

    With `keys`, closest first, those are read and nothing else. Otherwise: the network dialect that most nodes have
    (the first of NETWORK on a tie; others are named in `warnings`), every NVLINK key that groups nodes in a new way,
    put where it nests, and zone and region above. A value that occurs under several parents is several domains. An
    NVLink domain that crosses the network is split, and that is said. No label of any dialect: a Fabric without levels.

    Raises ParseError for keys that are there twice, and for more than `chains.MAX_LEVELS` levels.
    """
    table = {name: dict(own) for name, own in nodes}
    warnings: list[str] = []
    levels = _given(table, keys, source) if keys is not None else _found(table, source, warnings)
    if not levels:
        return topo.Fabric()
    names = _unique(levels)
    domains: dict[str, dict[str, str]] = {name: {} for name in table}
    for name, level in zip(names, levels, strict=True):
        for node, value in level.of.items():
            domains[node][name] = value
    made = fabrics.from_node_domains(names, domains, source=source)
    key_of = {name: level.key for name, level in zip(names, levels, strict=True)}
    tiers = tuple(topo.Level(level.name, key_of[level.name]) for level in made.levels)
    shown = tuple(errors.printable(f"{source}: {text}", 300) for text in warnings)
    return msgspec.structs.replace(made, levels=tiers, warnings=(*shown, *made.warnings))


def _given(table: Mapping[str, Mapping[str, str]], keys: Sequence[str], source: str) -> list[_Level]:
    if len(set(keys)) != len(keys):
        raise errors.ParseError("a label key is named twice", source=source)
    levels = [_Level(key.rpartition("/")[2] or key, key, _values(table, key)) for key in keys]
    return [level for level in levels if level.of]


def _found(table: Mapping[str, Mapping[str, str]], source: str, warnings: list[str]) -> list[_Level]:
    seen = set(itertools.chain.from_iterable(table.values()))
    levels = _network(table, seen, warnings)
    told: list[_Level] = []
    for dialect in NVLINK:
        for name, key in _keys(dialect, seen):
            level = _Level(name, key, _values(table, key))
            if level.of and not any(nesting.same(level.of, other.of) for other in told):
                _insert(level, levels, warnings)
                told.append(level)
    levels += [_Level(name, key, of) for name, key in _keys(PLACE, seen) if (of := _values(table, key))]
    if len(levels) > chains.MAX_LEVELS:
        raise errors.ParseError(f"more than {chains.MAX_LEVELS} levels of labels", source=source)
    return levels


def _network(table: Mapping[str, Mapping[str, str]], seen: set[str], warnings: list[str]) -> list[_Level]:
    """The levels of the dialect that most nodes have."""
    spoken: list[tuple[Dialect, list[_Level], int]] = []
    for dialect in NETWORK:
        levels = [_Level(name, key, _values(table, key)) for name, key in _keys(dialect, seen)]
        levels = [level for level in levels if level.of and not _tells_hosts_alone(level)]
        if levels:
            spoken.append((dialect, levels, len(set().union(*(level.of for level in levels)))))
    if not spoken:
        return []
    best = max(spoken, key=lambda entry: entry[2])  # the first of equals
    for dialect, _, count in spoken:
        if dialect is not best[0]:
            warnings.append(f"{count} nodes have labels of {dialect.name} too; those of {best[0].name} are read")
    return best[1]


def _insert(level: _Level, levels: list[_Level], warnings: list[str]) -> None:
    at = nesting.position(level.of, [other.of for other in levels])
    if at is None:
        warnings.append(f"`{level.key}` crosses the network's levels; each part in one of them counts alone")
    levels.insert(at or 0, level)


def _keys(dialect: Dialect, seen: Iterable[str]) -> list[tuple[str, str]]:
    """(name of the level, key) of a dialect's keys that some node has, closest first."""
    start = dialect.numbered
    if start is None:
        return [(name, key) for key, name in dialect.keys if key in seen]
    numbers = sorted(
        (int(key[len(start) :]) for key in seen if key.startswith(start) and _NUMBER.match(key[len(start) :])),
        reverse=not dialect.outwards,
    )
    return [(f"{dialect.stem}{number}", f"{start}{number}") for number in numbers]


def _values(table: Mapping[str, Mapping[str, str]], key: str) -> dict[str, str]:
    return {node: value for node, own in table.items() if (value := own.get(key))}


def _tells_hosts_alone(level: _Level) -> bool:
    return level.key in _PER_HOST and len(set(level.of.values())) == len(level.of)


def _unique(levels: Sequence[_Level]) -> list[str]:
    """Names of levels; the whole key where two would share one."""
    short = [level.name for level in levels]
    return [level.key if short.count(level.name) > 1 else level.name for level in levels]


def of_fabric(fabric: topo.Fabric, keys: Sequence[str]) -> dict[str, dict[str, str]]:
    """The reverse: node -> {key: value}, one key for each level. Values are the domains' names, see `label_value`."""
    found: dict[str, dict[str, str]] = {node: {} for node in fabrics.nodes_of(fabric)}
    taken: dict[str, set[str]] = {key: set() for key in keys}
    for domain in fabric.domains:
        key = keys[domain.level]
        value = label_value(domain.name, taken[key])
        for node in domain.nodes:
            found[node][key] = value
    return found


def label_value(name: str, taken: set[str]) -> str:
    """A name as Kubernetes takes it as a label's value: 63 of `[A-Za-z0-9._-]`, ends alphanumeric; new in `taken`."""
    safe = re.sub(r"[^A-Za-z0-9._-]+", "-", name).strip("._-")[:63].rstrip("._-") or "domain"
    value, number = safe, 1
    while value in taken:
        number += 1
        value = f"{safe[: 62 - len(str(number))].rstrip('._-')}-{number}"
    taken.add(value)
    return value


def keys_of(fabric: topo.Fabric, prefix: str | None = None) -> tuple[str, ...]:
    """The label key of each level: the one that it came from, else `prefix` and its name, else topograph's.

    Topograph's keys (`fabric.topograph.run/tier-0` the closest) are what other tools read too; a level whose name
    speaks of NVLink gets `accelerator.topograph.run/domain`.
    """
    found: list[str] = []
    tier = 0
    for level in fabric.levels:
        if level.label is not None and prefix is None:
            found.append(level.label)
        elif prefix is not None:
            found.append(f"{prefix.rstrip('/')}/{label_value(level.name, set())}")
        elif level.name in _NVLINK_NAMES and _NVLINK_NAMES[level.name] not in found:
            found.append(_NVLINK_NAMES[level.name])
        else:
            found.append(f"fabric.topograph.run/tier-{tier}")
            tier += 1
    return _distinct(found)


_NVLINK_NAMES = {name: key for key, name in NVLINK[1].keys}
_NVLINK_LEVELS = frozenset(word for dialect in NVLINK for pair in dialect.keys for word in pair)


def is_nvlink(level: topo.Level) -> bool:
    """Whether a level groups nodes by NVLink and not by switches of the network."""
    return level.name in _NVLINK_LEVELS or level.label in _NVLINK_LEVELS


def _distinct(keys: Sequence[str]) -> tuple[str, ...]:
    found: dict[str, None] = {}
    for key in keys:
        new, number = key, 1
        while new in found:
            number += 1
            new = f"{key}-{number}"
        found[new] = None
    return tuple(found)
