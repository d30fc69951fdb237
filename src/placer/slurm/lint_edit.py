"""Changes of a script, made so that every byte that is not meant to change stays."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from placer.slurm import lint_types as types


def apply(data: bytes, edits: Iterable[types.Edit]) -> bytes:
    """The script with the edits made; of two that remove the same line the second is left for another time."""
    lines = data.decode("utf-8", "surrogateescape").split("\n")
    removed: set[int] = set()
    before: dict[int, list[str]] = {}
    for edit in edits:
        if edit.removes and edit.line in removed:
            continue
        if edit.removes:
            removed.add(edit.line)
        before.setdefault(edit.line, []).extend(edit.puts)
    found: list[str] = []
    for number, line in enumerate(lines, start=1):
        found.extend(before.get(number, ()))
        if number not in removed:
            found.append(line)
    return "\n".join(found).encode("utf-8", "surrogateescape")


def replaced(lines: Sequence[str], placed: types.Placed, words: str) -> str | None:
    """The line with other words in place of an option; None where the option stands on two lines."""
    if placed.first.line != placed.last.line:
        return None
    line = lines[placed.first.line - 1]
    return line[: placed.first.column - 1] + words + line[placed.last.end - 1 :]


def dropped(lines: Sequence[str], placed: types.Placed) -> types.Edit | None:
    """The edit that takes an option away, with its line if nothing else is said there; None where it has two lines."""
    line = replaced(lines, placed, "")
    if line is None:
        return None
    prefix = 7 if line.startswith("#SBATCH") else 6
    rest = line[prefix:].strip()
    number = placed.first.line
    if not rest:
        return types.Edit(number, removes=True)
    return types.Edit(number, (rest if rest.startswith("#") else f"{line[:prefix]} {rest}",), removes=True)


def quoted(text: str) -> str:
    """A word that a directive reads back as it was."""
    if text and not any(char in " \t\v\f\r\\\"'#" for char in text) and text[0] != ":":
        return text
    inner = text.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{inner}"'
