"""Where a snapshot comes from: a file, a recording, a live cluster, or this host alone. Shared by every read verb."""

from __future__ import annotations

import functools
import pathlib
import shutil
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar

import click
import msgspec

from placer import errors

if TYPE_CHECKING:
    from placer.cluster import recording
    from placer.cluster import types as cluster
    from placer.files import config
    from placer.topology import types as topo

F = TypeVar("F", bound=Callable[..., Any])


class SourceOptions(msgspec.Struct, frozen=True):
    """The options that say where the state of the cluster comes from."""

    snapshot: str | None = None
    system: str | None = None
    topo_dir: str | None = None
    timeout_seconds: float | None = None
    strict: bool = False


def options(function: F) -> F:
    """Add `--snapshot`, `--from`, `--topo-dir`, `--timeout` and `--strict`; the verb gets one `source` argument."""

    @click.option(
        "--snapshot", metavar="PATH", help="A snapshot document or a directory of recorded output instead of a cluster."
    )
    @click.option(
        "--from", "system", type=click.Choice(["slurm", "host"]), help="Read this system; found by itself otherwise."
    )
    @click.option("--topo-dir", metavar="DIR", help="Saved `nvidia-smi topo -m` outputs, one NODE.txt for each node.")
    @click.option(
        "--timeout", "timeout_seconds", type=float, metavar="SECONDS", help="How long reading the cluster may take."
    )
    @click.option("--strict", is_flag=True, help="Fail with exit code 5 when something could not be read.")
    @functools.wraps(function)
    def wrapped(
        snapshot: str | None,
        system: str | None,
        topo_dir: str | None,
        timeout_seconds: float | None,
        strict: bool,
        **arguments: Any,
    ) -> Any:
        source = SourceOptions(snapshot, system, topo_dir, timeout_seconds, strict)
        return function(source=source, **arguments)

    return wrapped  # type: ignore[return-value]


def read(source: SourceOptions, settings: config.Config) -> cluster.ClusterSnapshot:
    """The snapshot that the options ask for. Raises the errors of its source; StaleError under `--strict`."""
    topologies = _topologies(source.topo_dir or settings.topo_dir)
    if source.snapshot is not None:
        found = _saved(source.snapshot, topologies)
    else:
        system = source.system or ("slurm" if shutil.which("scontrol") else "host")
        found = _slurm(source, settings, topologies) if system == "slurm" else _host()
    if source.strict and found.left_out:
        raise errors.StaleError(
            f"the snapshot is incomplete: {found.left_out[0]}", hint="leave out `--strict` to go on with what was read"
        )
    return found


def _saved(path: str, topologies: dict[str, topo.NodeTopology]) -> cluster.ClusterSnapshot:
    if pathlib.Path(path).is_dir():
        from placer.cluster import assume_wiring
        from placer.files import recordings
        from placer.slurm import snapshot

        return assume_wiring.from_catalogue(snapshot.build(recordings.read(pathlib.Path(path)), topologies=topologies))
    from placer.cluster import assume_wiring
    from placer.files import snapshots
    from placer.topology import catalog

    return assume_wiring.said(snapshots.read(pathlib.Path(path), find_machine=catalog.find))


def _slurm(
    source: SourceOptions, settings: config.Config, topologies: dict[str, topo.NodeTopology]
) -> cluster.ClusterSnapshot:
    from placer.cluster import assume_wiring
    from placer.slurm import snapshot

    return assume_wiring.from_catalogue(snapshot.build(record(source, settings), topologies=topologies))


def record(source: SourceOptions, settings: config.Config) -> recording.Recording:
    """What the commands of a live Slurm print, as a Recording."""
    from placer.cli import _render
    from placer.slurm import client

    limit = source.timeout_seconds if source.timeout_seconds is not None else settings.timeout_seconds
    with _render.progress("reading the cluster"):
        return client.record(timeout_seconds=limit)


def _host() -> cluster.ClusterSnapshot:
    from placer.cluster import types as cluster
    from placer.probes import host
    from placer.topology import types as topo

    node = host.probe()
    gpus = tuple(
        cluster.GpuSlot(
            index=gpu.index if gpu.index is not None else i, type=gpu.model, uuid=gpu.uuid, bus_id=gpu.bus_id
        )
        for i, gpu in enumerate(node.gpus)
    )
    cpus = sum(len(numa.cpus or ()) for numa in node.numa_nodes)
    memory = sum(numa.memory_mib or 0 for numa in node.numa_nodes)
    return cluster.ClusterSnapshot(
        source=cluster.Source("host", "", int(time.time())),
        topology=topo.ClusterTopology((node.name,), (node,), (0,)),
        nodes=(cluster.NodeState(name=node.name, gpus=gpus, cpus=cpus, memory_mib=memory),),
        assumptions=("this host alone, taken as idle: no scheduler was found",),
        left_out=node.warnings if node.partial else (),
    )


def _topologies(directory: str | None) -> dict[str, topo.NodeTopology]:
    if directory is None:
        return {}
    from placer.cli import _render
    from placer.files import topologies

    nodes, warnings = topologies.read_directory(pathlib.Path(directory))
    for warning in warnings:
        _render.warn(warning)
    return {node.name: node for node in nodes}
