"""The sources of the topo verbs: texts of nodes, texts of fabrics, sysfs trees, this host, a cluster."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import msgspec

from placer import errors
from placer.cli import _sources, _topo_forms

if TYPE_CHECKING:
    from placer.topology import types as topo


class Text(msgspec.Struct, frozen=True):
    """A source that was read: its text, and what messages call it. No text for a sysfs tree."""

    path: str
    name: str
    text: str | None


def texts(paths: Sequence[str]) -> list[Text]:
    """Read every source once. Raises InputError; UsageError when standard input is asked for twice."""
    import pathlib

    from placer.files import topologies

    if paths.count(topologies.STDIN) > 1:
        raise errors.UsageError("standard input can be read only once", hint="nvidia-smi topo -m | placer topo -")
    found = []
    for path in paths:
        name = "stdin" if path == topologies.STDIN else path
        is_tree = path != topologies.STDIN and pathlib.Path(path).is_dir()
        found.append(Text(path, name, None if is_tree else topologies.read_text(path)))
    return found


def are_fabrics(found: Sequence[Text]) -> bool:
    """Whether the sources are fabrics. Raises UsageError for a mixture of fabrics and nodes."""
    kinds = {entry.text is not None and _topo_forms.is_fabric(entry.text) for entry in found}
    if len(kinds) > 1:
        raise errors.UsageError("nodes and fabrics cannot be mixed in one command", hint="placer topo --help")
    return kinds == {True}


def fabric(found: Sequence[Text], choice: _topo_forms.Choice, source: _sources.SourceOptions) -> _topo_forms.Found:
    """The fabric of the sources; without any, that of the snapshot or of the cluster."""
    from placer.files import config

    settings = config.load()
    choice = msgspec.structs.replace(choice, site_labels=tuple(settings.level_labels))
    if found:
        if source.snapshot is not None:
            raise errors.UsageError("a SOURCE and `--snapshot` exclude each other", hint="placer topo fabric --help")
        return _topo_forms.read([(entry.text or "", entry.name) for entry in found], choice)
    from placer.topology import fabric_parts

    snapshot = _sources.read(source, settings)
    origin = source.snapshot or snapshot.source.system
    made = _topo_forms.relabelled(snapshot.topology.fabric, snapshot.nodes, choice, origin)
    if choice.only is not None:
        from placer import hostlist

        made = fabric_parts.restrict(made, hostlist.expand(choice.only, source="--only", limit=1_000_000))
    return _topo_forms.Found(made, snapshot.topology.nodes if choice.only is None else (), origin)


def node(found: Sequence[Text], name: str | None = None) -> topo.NodeTopology:
    """The one node that the sources describe together; without any, this host."""
    from placer.probes import host
    from placer.topology.readers import merge

    nodes = [_node(entry) for entry in found] or [host.probe()]
    return merge.merge(nodes, name=name or nodes[0].name)


def _node(entry: Text) -> topo.NodeTopology:
    import pathlib

    from placer.files import topologies
    from placer.probes import host
    from placer.topology.readers import sniff

    if entry.text is not None:
        stem = "stdin" if entry.path == topologies.STDIN else pathlib.Path(entry.path).stem
        return sniff.read(entry.text, source=entry.name, name=stem)
    root = pathlib.Path(entry.path)
    if not (root / "devices" / "system").is_dir():
        shown = errors.printable(entry.path)
        raise errors.InputError(
            f"{shown} is a directory, but not a sysfs tree with devices/system below it",
            hint=f"placer topo {shown}/NODE.txt",
        )
    return host.read_sysfs(root)
