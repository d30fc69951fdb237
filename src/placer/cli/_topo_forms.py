"""Every text that holds a fabric: which form it is, and what reads it. Several Kubernetes files are read together."""

from __future__ import annotations

import functools
import re
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

import click
import msgspec

from placer import errors

if TYPE_CHECKING:
    from placer.cluster import types as cluster
    from placer.topology import types as topo

F = TypeVar("F", bound=Callable[..., Any])

_SNAPSHOT = re.compile(r"[\"']?kind[\"']?\s*:\s*[\"']?ClusterSnapshot\b")
_CONF = re.compile(
    r"^[ \t]*(?:SwitchName|BlockName|AggregatedBlock|BlockSizes)[ \t]*=|\A\s*No topology information",
    re.IGNORECASE | re.MULTILINE,
)
_YAML = re.compile(r"^-[ \t]+topology[ \t]*:", re.MULTILINE)
_MODEL = re.compile(r"^(?:switches|blocks):", re.MULTILINE)
_HEAD = 100_000  # characters of a text that tell its form
_FORMS = "topology.conf, topology.yaml, ibnetdiscover, a topograph model, a table or Kubernetes objects"


class Choice(msgspec.Struct, frozen=True):
    """What of a source is wanted: label keys, columns of a table, one of several topologies, some of the nodes."""

    labels: str | None = None
    columns: str | None = None
    topology: str | None = None
    only: str | None = None
    site_labels: tuple[str, ...] = ()  # of the configuration

    @property
    def keys(self) -> list[str] | None:
        """The label keys, closest first: those asked for, else the site's; None = every dialect."""
        if self.labels is None:
            return list(self.site_labels) or None
        return [key.strip() for key in self.labels.split(",") if key.strip()]


def relabelled(made: topo.Fabric, nodes: Sequence[cluster.NodeState], choice: Choice, source: str) -> topo.Fabric:
    """The fabric of a snapshot, from the nodes' labels where keys were asked for.

    The site's keys of the configuration only take the place of no fabric, or of one that came from labels too.
    """
    from placer.topology import labels

    told = any(level.label is None for level in made.levels)
    if choice.labels is None and (told or not choice.site_labels):
        return made
    return labels.fabric_of(((node.name, dict(node.labels)) for node in nodes), choice.keys, source=source)


class Found(msgspec.Struct, frozen=True):
    """A fabric, the nodes that should be in it (none where only the fabric was given), and where it came from."""

    fabric: topo.Fabric
    nodes: tuple[str, ...]
    origin: str


def options(function: F) -> F:
    """Add `--labels`, `--columns`, `--topology` and `--only`; the verb gets one `choice` argument."""

    @click.option("--labels", metavar="KEY,KEY", help="Node labels to read, closest to the node first.")
    @click.option(
        "--columns", metavar="NAME=HEADER,…", help="Columns of a table: host=ip,rack=PSW+ASW,pod=PSW, closest first."
    )
    @click.option("--topology", metavar="NAME", help="One of the topologies of a topology.yaml; else its default.")
    @click.option("--only", metavar="NODES", help="Leave out all nodes but these: gpu[01-16].")
    @functools.wraps(function)
    def wrapped(
        labels: str | None, columns: str | None, topology: str | None, only: str | None, **arguments: Any
    ) -> Any:
        return function(choice=Choice(labels, columns, topology, only), **arguments)

    return wrapped  # type: ignore[return-value]


def is_fabric(text: str) -> bool:
    """Whether a text holds a fabric rather than a node."""
    return form_of(text) is not None


def form_of(text: str) -> str | None:
    """The form of a fabric's text: snapshot, conf, yaml, model, kubernetes, ib or table; None for another text."""
    from placer.topology.fabrics import _ib_lines, csv_table, kubernetes

    head = text[:_HEAD]
    tests: tuple[tuple[str, Callable[[str], object]], ...] = (
        ("snapshot", _SNAPSHOT.search),
        ("conf", _CONF.search),
        ("yaml", _YAML.search),
        ("kubernetes", kubernetes.recognises),
        ("model", _MODEL.search),
        ("ib", _ib_lines.recognises),
        ("table", csv_table.recognises),
    )
    return next((name for name, test in tests if test(head)), None)


def read(texts: Sequence[tuple[str, str]], choice: Choice) -> Found:
    """The fabric of one or several texts, each with its source. Raises InputError."""
    made = _read(texts, choice)
    if choice.only is None:
        return made
    from placer import hostlist
    from placer.topology import fabric_parts

    only = hostlist.expand(choice.only, source="--only", limit=1_000_000)
    unknown = set(only) - {node for domain in made.fabric.domains for node in domain.nodes}
    if unknown:
        said = f"{errors.printable(made.origin)} has no node {errors.printable(hostlist.fold(unknown))}"
        raise errors.RequestError(said, hint=f"placer topo fabric {made.origin}")
    return Found(fabric_parts.restrict(made.fabric, only), (), made.origin)


def _read(texts: Sequence[tuple[str, str]], choice: Choice) -> Found:
    forms = [form_of(text) for text, _ in texts]
    origin = ", ".join(source for _, source in texts)
    if all(form == "kubernetes" for form in forms):
        from placer.topology.fabrics import kubernetes

        return Found(kubernetes.read(texts, keys=choice.keys), (), origin)
    if len(texts) > 1:
        raise errors.UsageError(
            "several sources of a fabric are read together only when all are Kubernetes objects",
            hint="placer topo fabric --help",
        )
    text, source = texts[0]
    if forms[0] == "snapshot":
        return _snapshot(text, source, choice)
    return Found(_one(forms[0], text, source, choice), (), origin)


def _one(form: str | None, text: str, source: str, choice: Choice) -> topo.Fabric:
    from placer.slurm import topology_conf, topology_yaml
    from placer.topology.fabrics import csv_table, ibnetdiscover, topograph

    if form == "yaml":
        return topology_yaml.read(text, source=source, name=choice.topology)
    if form == "model":
        return topograph.read(text, source=source)
    if form == "ib":
        return ibnetdiscover.read(text, source=source)
    if form == "table" or (form is None and choice.columns is not None):
        columns = csv_table.parse_columns(choice.columns) if choice.columns is not None else None
        return csv_table.read(text, source=source, columns=columns)
    if form is None and text.strip():
        raise _stranger(text, source)
    return topology_conf.read(text, source=source)


def _stranger(text: str, source: str) -> errors.ParseError:
    """The error for a text that is no fabric, at its first word; the reader of topology.conf knows the place better."""
    from placer.slurm import topology_conf

    try:
        topology_conf.read(text, source=source)
    except errors.ParseError as error:
        said = f"no fabric: expected {_FORMS}"
        return errors.ParseError(
            said,
            source=source,
            line=error.line,
            column=error.column,
            excerpt=error.excerpt,
            hint=error.hint or "placer topo fabric --help",
        )
    return errors.ParseError(f"no fabric: expected {_FORMS}", source=source, hint="placer topo fabric --help")


def switches(text: str, source: str) -> tuple[topo.Switch, ...]:
    """The switches as a text writes them, faults and all; none where its form has no switches. Raises ParseError."""
    from placer.slurm import topology_conf, topology_yaml
    from placer.topology.fabrics import ibnetdiscover, kubernetes, topograph

    readers: dict[str | None, Callable[..., tuple[topo.Switch, ...]]] = {
        "conf": topology_conf.switches,
        "yaml": topology_yaml.switches,
        "model": topograph.switches,
        "ib": ibnetdiscover.switches,
        "kubernetes": kubernetes.switches,
    }
    reader = readers.get(form_of(text))
    return () if reader is None else reader(text, source=source)


def _snapshot(text: str, source: str, choice: Choice) -> Found:
    from placer.cluster import codec
    from placer.files import snapshots

    found = codec.decode(snapshots.parse_document(text.encode(errors="replace"), source=source), source=source)
    made = relabelled(found.topology.fabric, found.nodes, choice, source)
    return Found(made, found.topology.nodes, source)
