"""`placer simulate slurm`: what Slurm itself would choose for recorded submissions."""

from __future__ import annotations

import pathlib
from typing import TYPE_CHECKING, Final

import click
import msgspec

from placer import errors

if TYPE_CHECKING:
    from collections.abc import Sequence

    from placer.slurm import slurm_conf
    from placer.slurm_model import types as model
    from placer.topology import types as topo

EXAMPLES: Final = (
    "\b\nExamples:\n"
    "  placer simulate slurm fixtures/slurm_choices/24.11.jsonl --conf fixtures/slurm_choices/conf\n"
    "  placer simulate slurm fixtures/slurm_choices/24.11.jsonl --conf fixtures/slurm_choices/conf -o json"
)
_LINE_HINT: Final = (
    'a line is {"release", "kind", "seq", "i", "opts", "state": {node: {job: {"gpus", "cpus", "mem"}}}}; '
    "see `placer simulate slurm --help`"
)
MOST_JOBS: Final = 10_000
"""Running jobs of one line that are read."""


class Held(msgspec.Struct, frozen=True):
    """What a running job holds on one node: GPU indices, CPU ids in list syntax, megabytes."""

    gpus: tuple[int, ...] = ()
    cpus: str = ""
    mem: int = 0


class Case(msgspec.Struct, frozen=True):
    """One line: a submission to the partition `kind`, and what the partition's nodes hold just before it."""

    release: str
    kind: str
    seq: int
    i: int
    opts: tuple[str, ...]
    state: dict[str, dict[str, Held]] = {}


class Cluster(msgspec.Struct, frozen=True):
    """The configuration that the lines are about."""

    conf: slurm_conf.SlurmConf
    machines: dict[str, model.Machine]
    fabric: topo.Fabric


@click.command(epilog=EXAMPLES)
@click.argument("cases", metavar="CASES.jsonl")
@click.option(
    "--conf",
    "folder",
    metavar="DIR",
    required=True,
    help="Directory with slurm.conf and, where there are any, gres.conf and topology.conf.",
)
@click.option(
    "-o", "--output", type=click.Choice(["table", "json", "yaml"]), default="table", help="Form of the answer."
)
def command(cases: str, folder: str, output: str) -> None:
    """Predict nodes, GPU indices and CPU ids that Slurm gives.

    CASES.jsonl (or `-` for stdin) has one submission a line: {"release", "kind", "seq", "i", "opts", "state"}. `kind`
    is the partition, `opts` the words after `sbatch`, `state` what running jobs hold on each node. Each line is
    predicted by the rules of the release that it names. Partitions whose nodes topology.conf does not name are taken to
    run without a topology plugin.
    """
    from placer import ranges
    from placer.cli import _document, _render
    from placer.files import topologies

    cluster = _read_cluster(pathlib.Path(folder))
    text = topologies.read_text(cases)
    results: list[dict[str, object]] = []
    with _render.progress("predicting"):
        for number, line in enumerate(text.splitlines(), start=1):
            if line.strip():
                case, choice = answer(line, cluster, source=cases, number=number)
                nodes = {grant.node: {"gpus": grant.gpus, "cpus": ranges.format(grant.cpus)} for grant in choice.nodes}
                results.append(
                    {
                        "kind": case.kind,
                        "seq": case.seq,
                        "i": case.i,
                        "outcome": choice.verdict.value,
                        "nodes": nodes or None,
                        "why": choice.why or None,
                    }
                )
    if output != "table":
        _document.emit("SlurmChoiceReport", msgspec.to_builtins({"results": results}), output)
        return
    rows = [(f"{r['kind']} {r['seq']}.{r['i']}", str(r["outcome"]), _shown(r["nodes"], r["why"])) for r in results]
    _render.table(("submission", "outcome", "what it gets"), rows)


def _read_cluster(folder: pathlib.Path) -> Cluster:
    """The configuration in a directory; gres.conf and topology.conf may be missing."""
    from placer.cli import _render
    from placer.files import topologies
    from placer.slurm import gres_conf, model_machines, slurm_conf, topology_conf

    def text_of(name: str) -> str:
        return topologies.read_text(folder / name) if name == "slurm.conf" or (folder / name).exists() else ""

    conf = slurm_conf.read(text_of("slurm.conf"), source=str(folder / "slurm.conf"))
    gres = gres_conf.read(text_of("gres.conf"), source=str(folder / "gres.conf"))
    fabric = topology_conf.read(text_of("topology.conf"), source=str(folder / "topology.conf"))
    for note in (*conf.notes, *gres.notes):
        _render.warn(note)
    machines = {machine.name: machine for machine in model_machines.build(conf.nodes, gres)}
    return Cluster(conf, machines, fabric)


def answer(line: str, cluster: Cluster, *, source: str, number: int) -> tuple[Case, model.Choice]:
    """The case of one line, and what is predicted for it. Raises ParseError with the number of the line."""
    try:
        case = msgspec.json.decode(line, type=Case)
        return case, _predict(case, cluster)
    except (msgspec.DecodeError, RecursionError, UnicodeEncodeError) as error:
        raise _fault(str(error), source, number, line) from None
    except errors.InputError as error:
        raise _fault(error.message, source, number, line) from None


def _predict(case: Case, cluster: Cluster) -> model.Choice:
    from placer.slurm import submission
    from placer.slurm_model import ask, predict, release

    partition = cluster.conf.partition(case.kind)
    if partition is None:
        raise errors.InputError(f"slurm.conf has no partition `{errors.printable(case.kind)}`")
    unknown = next((node for node in case.state if node not in partition.nodes), None)
    if unknown is not None:
        raise errors.InputError(f"partition {partition.name} has no node `{errors.printable(unknown)}`")
    machines = [cluster.machines[name] for name in partition.nodes]
    loads = [_load(case.state.get(machine.name, {}), machine) for machine in machines]
    found = submission.read([*case.opts, "job.sh"], {}, lambda _name: b"#!/bin/sh\n")
    asked = ask.build(
        found.request,
        release.of(case.release),
        default_memory_mib=_default_memory(cluster.conf, partition),
        tasks_said=found.gives("ntasks"),
    )
    return predict.predict(machines, loads, cluster.fabric, asked)


def _load(jobs: dict[str, Held], machine: model.Machine) -> model.NodeLoad:
    from placer import ranges
    from placer.slurm_model import types

    if len(jobs) > MOST_JOBS:
        raise errors.InputError(f"more than {MOST_JOBS} jobs on node {machine.name}")
    cpus = [cpu for job in jobs.values() for cpu in ranges.parse(job.cpus, source=f"CPUs on {machine.name}")]
    return types.NodeLoad(
        gpus=frozenset(gpu for job in jobs.values() for gpu in job.gpus),
        cores=frozenset(cpu // machine.threads for cpu in cpus),
        memory_mib=sum(job.mem for job in jobs.values()),
    )


def _default_memory(conf: slurm_conf.SlurmConf, partition: slurm_conf.Partition) -> int:
    """Memory of each node for a job that names none; 0 where only memory per CPU, or none, is configured."""
    if partition.default_memory_per_node_mib is not None:
        return partition.default_memory_per_node_mib
    said = conf.setting("DefMemPerNode") or ""
    return int(said) if said.isascii() and said.isdigit() and len(said) < 12 else 0


def _fault(message: str, source: str, number: int, line: str) -> errors.ParseError:
    return errors.ParseError(message, source=source, line=number, excerpt=line[:40], hint=_LINE_HINT)


def _shown(nodes: object, why: object) -> str:
    if not isinstance(nodes, dict):
        return str(why)
    return "; ".join(f"{name} GPUs {_listed(grant['gpus'])} CPUs {grant['cpus']}" for name, grant in nodes.items())


def _listed(numbers: Sequence[int]) -> str:
    return ",".join(map(str, numbers)) or "none"
