"""`placer simulate openb`: packing policies on the public GPU cluster trace, as their authors ran them."""

from __future__ import annotations

import hashlib
import re
from typing import TYPE_CHECKING, Final

import click

from placer import errors

if TYPE_CHECKING:
    from placer.cli import _simulate_document
    from placer.simulation import experiment

POLICIES: Final = ("random", "dotprod", "gpu-clustering", "gpu-packing", "best-fit", "fgd", "placer")
MOST_SEEDS: Final = 10_000
MOST_LOAD: Final = 100.0
SEEDS_HINT: Final = "--seeds 42-51, or --seeds 1,5,7-9"


@click.command(
    epilog="\b\nExamples:\n"
    "  placer simulate openb --nodes openb_node_list_gpu_node.csv --pods openb_pod_list_default.csv\n"
    "  placer simulate openb --nodes N.csv --pods P.csv --policy fgd --policy placer -o svg > plot.svg\n"
    "  placer simulate openb --nodes N.csv --pods P.csv --policy placer --migrate 1 --floor\n"
    "  placer simulate openb --nodes N.csv --pods P.csv --shard 3/8 > part-3.json"
)
@click.option("--nodes", required=True, metavar="CSV", help="Nodes: sn,cpu_milli,memory_mib,gpu,model.")
@click.option(
    "--pods", required=True, metavar="CSV", help="Pods: name,cpu_milli,memory_mib,num_gpu,gpu_milli[,gpu_spec]."
)
@click.option(
    "--policy", "policies", multiple=True, type=click.Choice(POLICIES), help="May be repeated. [default: all of them]"
)
@click.option("--load", type=float, default=1.3, show_default=True, help="Demand, in units of the cluster's GPUs.")
@click.option("--seeds", default="42-51", show_default=True, metavar="LIST", help="One run for each seed and policy.")
@click.option(
    "--migrate", type=click.FloatRange(0, 100), default=0.0, metavar="PCT", help="Moves allowed, % of the pods."
)
@click.option(
    "--decline-after",
    type=click.FloatRange(0, 1000),
    metavar="PCT",
    help="Admission control from this arrived % on. Its results are not comparable with those without.",
)
@click.option("--floor", is_flag=True, help="Also compute what no policy can beat, 10 s for each seed.")
@click.option("--shard", metavar="I/N", help="Only the I-th of N parts of the runs; the answer is a document to merge.")
@click.option(
    "-o",
    "--output",
    type=click.Choice(["table", "json", "yaml", "svg"]),
    help="Form of the answer. [default: table, with --shard json]",
)
def command(
    nodes: str,
    pods: str,
    policies: tuple[str, ...],
    load: float,
    seeds: str,
    migrate: float,
    decline_after: float | None,
    floor: bool,
    shard: str | None,
    output: str | None,
) -> None:
    """Replay a list of pods against packing policies.

    Pods arrive in random order until they have asked for LOAD times the cluster's GPUs; each is placed or dropped for
    good, none leaves. The answer is the GPU % that stays unallocated, by what has arrived.
    """
    from placer.cli import _simulate_document as documents

    setting, lab = _prepare(nodes, pods, policies or POLICIES, _seeds(seeds), load, migrate, decline_after)
    part, parts = _shard(shard)
    wanted = [(policy, seed) for policy in setting.policies for seed in setting.seeds][part - 1 :: parts]
    runs = _run(lab, wanted)
    bounds = _floors(lab, setting.seeds[part - 1 :: parts]) if floor else []
    found = documents.Report(setting, runs, bounds, f"{part}/{parts}" if shard else None)
    documents.emit(found, output or ("json" if shard else "table"), title(setting))


def title(setting: _simulate_document.Setting) -> str:
    """One line above a table or a picture."""
    words = f"unallocated GPU %, {setting.gpus} GPUs on {setting.nodes} nodes, {_count(setting.seeds)}, by arrived %"
    if setting.migrate_pct:
        words += f"; moves allowed: {setting.migrate_pct:g} % of the pods"
    if setting.decline_after_pct is not None:
        words += f"; pods declined after {setting.decline_after_pct:g} %"
    return words


def _count(seeds: list[int]) -> str:
    return "1 seed" if len(seeds) == 1 else f"{len(seeds)} seeds"


def _prepare(
    nodes: str,
    pods: str,
    policies: tuple[str, ...],
    seeds: list[int],
    load: float,
    migrate: float,
    decline_after: float | None,
) -> tuple[_simulate_document.Setting, experiment.Experiment]:
    from placer.cli import _simulate_document as documents
    from placer.files import traces
    from placer.simulation import experiment, openb

    if not 0 < load <= MOST_LOAD:
        raise errors.UsageError(f"--load {load:g}: wants a number above 0, at most {MOST_LOAD:g}", hint="--load 1.3")
    texts = traces.read_text(nodes), traces.read_text(pods)
    read_nodes = openb.parse_nodes(texts[0], source=nodes)
    read_pods = openb.parse_pods(texts[1], source=pods)
    lab = experiment.Experiment(read_nodes, read_pods, experiment.Setting(load, migrate, decline_after))
    setting = documents.Setting(
        nodes_sha256=hashlib.sha256(texts[0].encode()).hexdigest(),
        pods_sha256=hashlib.sha256(texts[1].encode()).hexdigest(),
        nodes=len(read_nodes),
        gpus=sum(node.gpu_count for node in read_nodes),
        policies=list(dict.fromkeys(policies)),
        seeds=seeds,
        load=load,
        migrate_pct=migrate,
        decline_after_pct=decline_after,
    )
    return setting, lab


def _run(lab: experiment.Experiment, wanted: list[tuple[str, int]]) -> list[_simulate_document.Run]:
    from placer.cli import _render
    from placer.cli import _simulate_document as documents

    runs = []
    for i, (policy, seed) in enumerate(wanted, 1):
        with _render.progress(f"{policy}, seed {seed} (run {i} of {len(wanted)})"):
            runs.append(documents.of_run(lab.run(policy, seed)))
    return runs


def _floors(lab: experiment.Experiment, seeds: list[int]) -> list[_simulate_document.Bound]:
    from placer.cli import _render
    from placer.cli import _simulate_document as documents

    bounds = []
    for seed in seeds:
        with _render.progress(f"floor of seed {seed}"):
            found = lab.floor(seed)
        bounds.append(documents.Bound(seed, found.any_pct, found.placing_pct, found.prefix_pct))
    return bounds


def _seeds(text: str) -> list[int]:
    """`42-51` and `1,5,7-9`: whole numbers in the order given, each once."""
    found: dict[int, None] = {}
    for part in text.split(","):
        match = re.fullmatch(r"\s*([0-9]{1,9})(?:-([0-9]{1,9}))?\s*", part)
        if not match:
            raise errors.UsageError(f"--seeds {text}: wants whole numbers and ranges", hint=SEEDS_HINT)
        first, last = int(match[1]), int(match[2] or match[1])
        if not first <= last < first + MOST_SEEDS:
            raise errors.UsageError(f"--seeds {text}: a range runs upwards over at most {MOST_SEEDS}", hint=SEEDS_HINT)
        found.update(dict.fromkeys(range(first, last + 1)))
    return list(found)


def _shard(text: str | None) -> tuple[int, int]:
    """(I, N) of `I/N`; (1, 1) without."""
    if text is None:
        return 1, 1
    match = re.fullmatch(r"([0-9]{1,6})/([0-9]{1,6})", text)
    if not match or not 1 <= int(match[1]) <= int(match[2]):
        raise errors.UsageError(f"--shard {text}: wants I/N with I from 1 to N", hint="--shard 1/8")
    return int(match[1]), int(match[2])
