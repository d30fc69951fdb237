"""The SimulationReport: its document, read and written, and its table."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import msgspec

from placer import errors
from placer.cli import _document, _render

if TYPE_CHECKING:
    from placer.simulation import report

KIND: Final = "SimulationReport"
TABLE_LOADS: Final = (80, 90, 95, 100, 110, 120, 130)


class Setting(msgspec.Struct, frozen=True):
    """What was run. The two digests are SHA-256 of the inputs as read; parts of one run agree in all of this."""

    nodes_sha256: str
    pods_sha256: str
    nodes: int
    gpus: int
    policies: list[str]
    seeds: list[int]
    load: float
    migrate_pct: float = 0.0
    decline_after_pct: float | None = None


class Bound(msgspec.Struct, frozen=True):
    """`floor.Floor` of one seed."""

    seed: int
    any_pct: float
    placing_pct: float
    prefix_pct: int


class Load(msgspec.Struct, frozen=True):
    """One load of one run."""

    allocated_pct: float
    fragmented_pct: float


class Run(msgspec.Struct, frozen=True):
    """One run; `arrived` by whole percent of load."""

    policy: str
    seed: int
    pods: int
    dropped_pods: int
    migrated_pods: int
    declined_pods: int
    arrived: dict[str, Load]


class Report(msgspec.Struct, frozen=True):
    """The whole document but for `mean`, which is made from the runs. `shard` I/N is set on partial results."""

    setting: Setting
    runs: list[Run]
    floor: list[Bound] = []
    shard: str | None = None


def of_run(run: report.Run) -> Run:
    """A run as it stands in the document."""
    return Run(
        run.policy,
        run.seed,
        run.pods,
        run.dropped_pods,
        run.migrated_pods,
        run.declined_pods,
        {str(c.arrived_pct): Load(c.allocated_pct, c.fragmented_pct) for c in run.columns},
    )


def means(found: Report) -> tuple[report.Mean, ...]:
    """Over the seeds, by policy and load."""
    from placer.simulation import report

    runs = [
        report.Run(
            run.policy,
            run.seed,
            tuple(report.Column(int(r), c.allocated_pct, c.fragmented_pct) for r, c in run.arrived.items()),
            run.pods,
            run.dropped_pods,
        )
        for run in found.runs
    ]
    return report.means(runs)


def emit(found: Report, output: str, title: str) -> None:
    """Print it as `table`, `json`, `yaml` or `svg`."""
    if output == "table":
        _render.say(table(found, title))
    elif output == "svg":
        from placer.report import plots

        floor = sum(b.placing_pct for b in found.floor) / len(found.floor) if found.floor else None
        _render.say(plots.loads(means(found), title=title, floor_pct=floor).rstrip("\n"))
    else:
        _document.emit(KIND, _body(found), output)


def _body(found: Report) -> dict[str, Any]:
    body: dict[str, Any] = msgspec.to_builtins(found)
    mean: dict[str, dict[str, Any]] = {}
    for m in means(found):
        values = {"unallocated_pct": m.unallocated_pct, "sd": m.sd, "fragmented_pct": m.fragmented_pct}
        mean.setdefault(m.policy, {})[str(m.arrived_pct)] = values
    return {**body, "mean": mean}


def read(document: object, *, source: str) -> Report:
    """A document that this verb wrote. Raises DocumentError."""
    if not isinstance(document, dict) or document.get("kind") != KIND:
        raise errors.DocumentError(
            f"not a {KIND}", source=source, path="kind", hint="placer simulate openb … --shard 1/8 -o json"
        )
    if document.get("apiVersion") != _document.API_VERSION:
        raise errors.DocumentError(f"not {_document.API_VERSION}", source=source, path="apiVersion")
    try:
        found = msgspec.convert(document, Report)
    except msgspec.ValidationError as error:
        what, _, path = str(error).partition(" - at ")
        raise errors.DocumentError(what, source=source, path=path.strip("`$.") or "document") from None
    for i, run in enumerate(found.runs):
        for load in run.arrived:
            if not (load.isascii() and load.isdigit() and len(load) <= 6):
                raise errors.DocumentError("not a whole percent", source=source, path=f"runs[{i}].arrived.{load}")
    return found


def table(found: Report, title: str) -> str:
    """Unallocated GPU % by policy and load, then what was moved, declined, and the floor."""
    rows = means(found)
    by_policy = {policy: {m.arrived_pct: m for m in rows if m.policy == policy} for policy in found.setting.policies}
    loads = [r for r in TABLE_LOADS if any(r in columns for columns in by_policy.values())]
    cells = []
    for policy, columns in by_policy.items():
        runs = [run for run in found.runs if run.policy == policy]
        if not runs:
            continue
        shown = [_cell(columns[r], len(runs)) if r in columns else "-" for r in loads]
        moved = sum(run.migrated_pods for run in runs) / len(runs)
        declined = sum(run.declined_pods for run in runs) / len(runs)
        dropped = sum(run.dropped_pods for run in runs) / len(runs)
        cells.append((policy, *shown, f"{dropped:.0f}", f"{moved:.0f}", f"{declined:.0f}"))
    heads = ("policy", *(f"{r} %" for r in loads), "dropped", "moved", "declined")
    lines = [_render.plain_table(heads, cells, title=title)]
    if found.floor:
        least = sum(b.placing_pct for b in found.floor) / len(found.floor)
        first = sum(b.prefix_pct for b in found.floor) / len(found.floor)
        lines.append(f"floor: {least:.2f} % for any policy that places all of the first {first:.0f} %")
    if found.shard:
        lines.append(f"part {found.shard} only; `placer simulate merge` joins the parts")
    return "\n\n".join(lines)


def _cell(mean: report.Mean, runs: int) -> str:
    return f"{mean.unallocated_pct:.2f}" + (f" ±{mean.sd:.2f}" if runs > 1 else "")
