"""Output for people: tables, words and progress. The only importer of rich.

Data goes to stdout and nothing else does. Colour only on a terminal and never with NO_COLOR.
"""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Iterator, Sequence
from typing import Final

import click

from placer import errors

LONGEST_LINE: Final = 2000


def say(text: str = "") -> None:
    """Print data on stdout."""
    click.echo(text)


def note(text: str) -> None:
    """Print a one-line remark on stderr, which may quote what came from outside; no reason to fail if it cannot be."""
    with contextlib.suppress(OSError):
        click.echo(errors.printable(text, LONGEST_LINE), err=True)


def warn(text: str) -> None:
    """Print a one-line warning on stderr."""
    note(f"warning: {text}")


def table(columns: Sequence[str], rows: Sequence[Sequence[str]], *, title: str | None = None) -> None:
    """Print rows under column headings. Cells are text; a terminal cuts them to its width, a file gets them whole."""
    terminal = sys.stdout is not None and sys.stdout.isatty()
    if not terminal:
        say(plain_table(columns, rows, title=title))
        return
    from rich import box, console, table, text  # 60 ms, wanted on a terminal only

    grid = table.Table(title=title, title_justify="left", box=box.SIMPLE_HEAD, pad_edge=False)
    for name in columns:
        grid.add_column(_safe(name), overflow="fold")
    for row in rows:
        grid.add_row(*(text.Text(_safe(cell)) for cell in row))
    console.Console().print(grid)


def plain_table(columns: Sequence[str], rows: Sequence[Sequence[str]], *, title: str | None = None) -> str:
    """The same table as plain text: columns two blanks apart, no frame."""
    cells = [[_safe(name.upper()) for name in columns], *([_safe(cell) for cell in row] for row in rows)]
    widths = [max(len(row[i]) for row in cells) for i in range(len(columns))]
    lines = ["  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in cells]
    return "\n".join([title, *lines] if title else lines)


def _safe(cell: str) -> str:
    return errors.printable(cell, LONGEST_LINE)


@contextlib.contextmanager
def progress(what: str) -> Iterator[None]:
    """Show on a terminal that long work goes on; silent elsewhere."""
    if sys.stderr is None or not sys.stderr.isatty():
        yield
        return
    from rich import console

    with console.Console(stderr=True).status(what):
        yield
