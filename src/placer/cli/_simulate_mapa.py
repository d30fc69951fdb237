"""`placer simulate mapa`: bandwidth of jobs on one multi-GPU server under published policies and placer's own."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from placer import errors, ranges

if TYPE_CHECKING:
    from placer.simulation import mapa

EXAMPLES = (
    "\b\nExamples:\n"
    "  placer simulate mapa --topologies fixtures/mapa/dgx-1v.json --machine dgx-1v --jobs 100 --seeds 0-2\n"
    "  placer simulate mapa --topologies fixtures/mapa/dgx-1v.json --machine dgx-1v --jobs 50 --seeds 7 \\\n"
    "    --policy preserve --policy placer --look-ahead 5 -o json"
)

MOST_JOBS = 1_000_000
MOST_SEEDS = 10_000
NAMES = ("baseline", "topo-aware", "greedy", "preserve", "placer-online", "placer")


@click.command(epilog=EXAMPLES)
@click.option("--topologies", required=True, metavar="JSON", help="File with the servers and their links; - for stdin.")
@click.option("--machine", required=True, metavar="NAME", help="Which of its servers.")
@click.option("--jobs", type=click.IntRange(1, MOST_JOBS), default=1000, show_default=True, help="Jobs of each run.")
@click.option("--seeds", default="0-4", show_default=True, metavar="LIST", help="One run for each, like 0-4 or 7,9.")
@click.option(
    "--policy", "policies", multiple=True, metavar="NAME", help=f"May be repeated; by default all: {', '.join(NAMES)}."
)
@click.option(
    "--look-ahead",
    type=click.IntRange(0, 8),
    default=3,
    show_default=True,
    help="Jobs of the queue that `placer` knows beyond the first, with their service times; 0 = as `placer-online`.",
)
@click.option(
    "-o", "--output", type=click.Choice(["table", "json", "yaml"]), default="table", help="Form of the answer."
)
@click.argument("more", nargs=-1, metavar="")
def command(
    topologies: str,
    machine: str,
    jobs: int,
    seeds: str,
    policies: tuple[str, ...],
    look_ahead: int,
    output: str,
    more: tuple[str, ...],
) -> None:
    """Compare GPU choice on one server by the predicted bandwidth of sensitive jobs.

    The file holds, by server, {gpus, gpus_per_socket_block, links: [[a, b, GB/s, DoubleNVLink|SingleNVLink|PCIe]]}
    with GPUs counted from 1. Jobs of 2 to 5 GPUs wait in one queue, first come first served. `placer` knows the next
    jobs and their service times, `placer-online` knows no more than the published policies do.
    """
    from placer.cli import _document, _render
    from placer.files import topologies as files
    from placer.simulation import mapa_server

    wanted = _wanted((*policies, *more), chosen=bool(policies))
    numbers = ranges.parse(seeds, source="--seeds")
    if not 0 < len(numbers) <= MOST_SEEDS:
        raise errors.UsageError(f"`--seeds` names {len(numbers)} seeds; 1 to {MOST_SEEDS} can be run")
    servers = {server.name: server for server in mapa_server.parse(files.read_text(topologies), source=topologies)}
    if machine not in servers:
        shown = errors.printable(", ".join(servers), 300) or "none"
        raise errors.InputError(
            f"there is no server `{errors.printable(machine)}`; the file has: {shown}",
            hint="name one of them with `--machine`",
        )
    with _render.progress("replaying"):
        body = _report(servers[machine], jobs, numbers, wanted, look_ahead)
    if output != "table":
        _document.emit("MapaReport", body, output)
        return
    rows = [
        (r["policy"], *(f"{r[key]:.2f}" if r[key] is not None else "-" for key in ("mean", "p25", "min")), _gain(r))
        for r in body["results"]
    ]
    title = f"{machine}: predicted GB/s of sensitive jobs, {jobs} jobs x {len(numbers)} seeds"
    _render.table(("policy", "mean", "p25", "min", "gain over preserve"), rows, title=title)


def _wanted(names: tuple[str, ...], *, chosen: bool) -> tuple[str, ...]:
    """Names of the policies, also as `--policy a b c` or `a,b`, each once and in the order of the published table."""
    given = [name for word in names for name in word.split(",") if name]
    if given and not chosen:
        raise errors.UsageError(f"`{errors.printable(given[0])}` is not expected here", hint="--policy names policies")
    strange = next((name for name in given if name not in NAMES), None)
    if strange is not None:
        raise errors.UsageError(
            f"there is no policy `{errors.printable(strange)}`; the policies are: {', '.join(NAMES)}",
            hint="placer simulate mapa --help",
        )
    return tuple(name for name in NAMES if not given or name in given)


def _report(server: Any, jobs: int, seeds: tuple[int, ...], wanted: tuple[str, ...], look_ahead: int) -> dict[str, Any]:
    import random

    from placer.simulation import mapa, mapa_ahead, mapa_server

    known = {policy.name: policy for policy in mapa.PUBLISHED}
    known |= {"placer-online": mapa_ahead.online(), "placer": mapa_ahead.look_ahead(look_ahead)}
    tables = mapa_server.Tables(server)
    queues = [mapa.draw(random.Random(seed), jobs) for seed in seeds]  # noqa: S311 - a simulation
    found: dict[str, list[tuple[float, ...]]] = {
        name: [mapa.replay(tables, queue, known[name]) for queue in queues] for name in wanted
    }
    runs = [
        {"policy": name, "seed": seed, **_numbers(mapa.summary(values))}
        for name in wanted
        for seed, values in zip(seeds, found[name], strict=True)
    ]
    results = []
    for name in wanted:
        result: dict[str, Any] = {"policy": name}
        result |= _numbers(mapa.summary([value for values in found[name] for value in values]))
        result |= _gains(found[name], found.get("preserve"))
        results.append(result)
    return {
        "machine": server.name,
        "jobs": jobs,
        "seeds": list(seeds),
        "look_ahead": look_ahead,
        "unit": "GB/s",
        "results": results,
        "runs": runs,
    }


def _numbers(summary: mapa.Summary) -> dict[str, Any]:
    return {"sensitive_jobs": summary.jobs, "mean": summary.mean, "p25": summary.p25, "min": summary.min}


def _gains(values: list[tuple[float, ...]], preserve: list[tuple[float, ...]] | None) -> dict[str, Any]:
    """Mean over the seeds of the gain over preserve on the same jobs, and in how many seeds it is a loss."""
    if preserve is None:
        return {"gain_over_preserve": None, "seeds_below_preserve": None}
    gains = [sum(own) / len(own) - sum(other) / len(other) for own, other in zip(values, preserve, strict=True) if own]
    mean = sum(gains) / len(gains) if gains else None
    return {"gain_over_preserve": mean, "seeds_below_preserve": sum(gain < -1e-9 for gain in gains)}


def _gain(result: dict[str, Any]) -> str:
    gain, below = result["gain_over_preserve"], result["seeds_below_preserve"]
    return "-" if gain is None else f"{gain:+.2f} (below in {below} seeds)" if below else f"{gain:+.2f}"
