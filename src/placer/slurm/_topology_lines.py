"""Lines of `Key=value` as in Slurm's configuration files, each value with its place in the file."""

from __future__ import annotations

import re
from collections.abc import Iterator

import msgspec

from placer import errors

_KEY = re.compile(r"\s*([A-Za-z_][A-Za-z0-9_]*)\s*=")
_VALUE = re.compile(r'\s*(?:"([^"]*)"|([^\s"]*))(?=\s|\Z)')
_REST = re.compile(r"\s*(\S.{0,39})?")


class Line(msgspec.Struct, frozen=True):
    """A line without its comment. `starts`: (offset in `text`, line number) of each line that it was joined of."""

    text: str
    starts: tuple[tuple[int, int], ...]

    def place(self, at: int) -> tuple[int, int]:
        """Line and column in the file, from 1."""
        start, number = next(pair for pair in reversed(self.starts) if pair[0] <= at)
        return number, at - start + 1


class Field(msgspec.Struct, frozen=True):
    """One `Key=value`: the key in small letters, and where the value begins in its line."""

    key: str
    value: str
    line: Line
    at: int

    def place(self) -> tuple[int, int]:
        """Line and column of the value."""
        return self.line.place(self.at)

    def error(
        self, message: str, source: str, *, at: int = 0, excerpt: str | None = None, hint: str | None = None
    ) -> errors.ParseError:
        """A ParseError `at` characters into the value."""
        line, column = self.line.place(self.at + at)
        shown = self.value[:40] if excerpt is None else excerpt
        return errors.ParseError(message, source=source, line=line, column=column, excerpt=shown, hint=hint)


def split(text: str) -> Iterator[Line]:
    """Lines without what follows `#`; one that ends in a backslash is joined with the next, nothing between."""
    parts: list[str] = []
    starts: list[tuple[int, int]] = []
    offset = 0
    for number, line in enumerate(text.split("\n"), start=1):
        line = line.rstrip("\r")
        code, mark, _ = line.partition("#")
        starts.append((offset, number))
        if not mark and code.endswith("\\"):
            parts.append(code[:-1])
            offset += len(code) - 1
            continue
        yield Line("".join([*parts, code]), tuple(starts))
        parts, starts, offset = [], [], 0
    if parts:
        yield Line("".join(parts), tuple(starts))


def fields(line: Line, source: str) -> list[Field]:
    """The `Key=value` pairs of a line; a value may stand in double quotes or be empty. Raises ParseError."""
    found: list[Field] = []
    at = 0
    while (rest := _REST.match(line.text, at)) is not None and rest[1] is not None:
        key = _KEY.match(line.text, at)
        if key is None:
            where, column = line.place(rest.start(1))
            hint = "give the included file itself" if rest[1].lower().startswith("include") else None
            message = "expected `Key=value`, as in `SwitchName=leaf1 Nodes=gpu[01-08]`"
            raise errors.ParseError(message, source=source, line=where, column=column, excerpt=rest[1], hint=hint)
        at = key.end()
        if _KEY.match(line.text, at) is not None:
            found.append(Field(key[1].lower(), "", line, at))
            continue
        value = _VALUE.match(line.text, at)
        if value is None:
            raise Field(key[1], "", line, at).error(f'the value of `{key[1]}=` is not closed by `"`', source)
        group = 2 if value[1] is None else 1
        found.append(Field(key[1].lower(), value[group], line, value.start(group)))
        at = value.end()
    return found
