"""`placer simulate allocator`: what NVIDIA's best-effort GPU allocator may answer."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click
import msgspec

from placer import errors

if TYPE_CHECKING:
    from placer.placement import plugin_model, plugin_scores

EXAMPLES = (
    "\b\nExamples:\n"
    "  placer simulate allocator fixtures/allocator/cases.jsonl\n"
    "  placer simulate allocator fixtures/allocator/cases.jsonl --ordered -o json"
)

MOST_GPUS = 64
"""GPUs of one node that are read."""


class Case(msgspec.Struct, frozen=True):
    """One line: a node with `n` GPUs, PCIe relation and NVLinks of each pair, and a question."""

    id: str
    n: int
    p2p: list[list[str | None]]
    nv: list[list[int]]
    available: list[int]
    size: int
    required: list[int] = []


@click.command(epilog=EXAMPLES)
@click.argument("cases", metavar="CASES.jsonl")
@click.option("--ordered", is_flag=True, help="Only the answer when `available` comes in the order given.")
@click.option(
    "-o", "--output", type=click.Choice(["table", "json", "yaml"]), default="table", help="Form of the answer."
)
def command(cases: str, ordered: bool, output: str) -> None:
    """Predict which GPUs NVIDIA's device plugin answers with.

    CASES.jsonl (or `-` for stdin) has one question a line: {"id", "n", "p2p": [[relation]], "nv": [[NVLinks]],
    "available", "required", "size"}. The kubelet passes the available GPUs in no order, so the answer is every set
    that the plugin may choose; `exact` where it can only be one.
    """
    from placer.cli import _document, _render
    from placer.files import topologies

    text = topologies.read_text(cases)
    results: list[dict[str, object]] = []
    with _render.progress("predicting"):
        for number, line in enumerate(text.splitlines(), start=1):
            if line.strip():
                case, found = _answer(line, source=cases, number=number, ordered=ordered)
                results.append({"id": case.id, "possible": found.possible, "exact": found.exact})
    if output != "table":
        body = msgspec.to_builtins({"ordered": ordered, "results": results})
        _document.emit("AllocatorReport", body, output)
        return
    rows = [(str(r["id"]), "yes" if r["exact"] else "no", _shown(r["possible"])) for r in results]
    _render.table(("id", "exact", "possible answers"), rows)


def _answer(line: str, *, source: str, number: int, ordered: bool) -> tuple[Case, plugin_model.Prediction]:
    from placer.placement import plugin_model

    try:
        case = msgspec.json.decode(line, type=Case)
        scores = _scores(case)
        if ordered:
            answer = plugin_model.ordered(scores, case.available, case.size, case.required)
            return case, plugin_model.Prediction((answer,))
        return case, plugin_model.predict(scores, case.available, case.size, case.required)
    except (msgspec.DecodeError, RecursionError, UnicodeEncodeError) as error:
        raise _fault(str(error), source, number, line) from None
    except errors.ParseError:
        raise
    except errors.InputError as error:
        raise _fault(error.message, source, number, line, hint=error.hint) from None


def _scores(case: Case) -> plugin_scores.Scores:
    """Pair scores of a line; raises InputError where they are not those of a node."""
    from placer.placement import plugin_scores

    n = case.n
    if not 0 < n <= MOST_GPUS:
        raise errors.InputError(f"`n` is {n}; a node has 1 to {MOST_GPUS} GPUs")
    for name, matrix in (("p2p", case.p2p), ("nv", case.nv)):
        if len(matrix) != n or any(len(row) != n for row in matrix):
            raise errors.InputError(f"`{name}` is not a matrix of {n} x {n}")
        if any(matrix[i][j] != matrix[j][i] for i in range(n) for j in range(i)):
            raise errors.InputError(f"`{name}` is not symmetric; the allocator itself ends with a panic there")
    return tuple(
        tuple(0 if i == j else plugin_scores.pair_score(case.p2p[i][j], case.nv[i][j]) for j in range(n))
        for i in range(n)
    )


def _fault(message: str, source: str, number: int, line: str, hint: str | None = None) -> errors.ParseError:
    usual = (
        'a line is {"id", "n", "p2p", "nv", "available", "required", "size"}; see `placer simulate allocator --help`'
    )
    return errors.ParseError(message, source=source, line=number, excerpt=line[:40], hint=hint or usual)


def _shown(possible: object) -> str:
    """At most a handful of sets; the others are counted."""
    sets = [",".join(map(str, answer)) or "none" for answer in possible] if isinstance(possible, tuple) else []
    more = f" and {len(sets) - 6} more" if len(sets) > 6 else ""
    return " | ".join(sets[:6]) + more
