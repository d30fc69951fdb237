"""YAML as a tree in which every value knows its line and column; scalars stay text.

For files whose words are names: `007`, `no` and `1e3` are names here. Anchors and aliases are refused, so the tree is
never larger than its text. Total: a tree or a ParseError.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any, TypeAlias

import msgspec
import yaml
from yaml import events

from placer import errors, hostlist

MAX_VALUES = 4_000_000
"""Scalars, lists and mappings of one text; more is refused."""
MAX_DEPTH = 60
MAX_NAMES = 100_000
"""Names that the node lists of one text may unfold to, each counted as often as it is written."""

# Line ends to YAML and to nobody else; with them line numbers would not be those of an editor.
_ODD_BREAKS = re.compile("\r(?!\n)|[\x85\u2028\u2029]")


class Word(msgspec.Struct, frozen=True):
    """A word or text as written, without quotes."""

    text: str
    line: int
    column: int


class Items(msgspec.Struct, frozen=True):
    """A list."""

    items: tuple[Value, ...]
    line: int
    column: int


class Table(msgspec.Struct, frozen=True):
    """A mapping; keys are text and stand once. `keys` are where each key stands."""

    items: Mapping[str, Value]
    keys: Mapping[str, Word]
    line: int
    column: int


Value: TypeAlias = "Word | Items | Table"


def load(text: str, *, source: str) -> tuple[Value, ...]:
    """Every document of a text; empty ones are left out. Raises ParseError with line and column, and nothing else."""
    try:
        return tuple(_documents(_ODD_BREAKS.sub(" ", text), source))
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        line, column = (mark.line + 1, mark.column + 1) if mark else (1, 1)
        message = f"broken YAML: {errors.printable(error.problem or error.context or 'cannot be read')}"
        raise errors.ParseError(message, source=source, line=line, column=column) from None
    except yaml.reader.ReaderError as error:
        raise _at(text, error.position, f"broken YAML: {error.reason}", source) from None
    except UnicodeEncodeError as error:
        raise _at(text, error.start, "broken YAML: a lone surrogate", source) from None


class Reader:
    """Takes values apart; every complaint names the place. Counts the names that node lists unfold to."""

    def __init__(self, source: str) -> None:
        self.source = source
        self.names_left = MAX_NAMES

    def error(self, value: Value, message: str) -> errors.ParseError:
        """A ParseError where `value` begins."""
        excerpt = value.text[:40] if isinstance(value, Word) else ""
        return errors.ParseError(message, source=self.source, line=value.line, column=value.column, excerpt=excerpt)

    def mapping(self, value: Value, what: str) -> Table:
        """A mapping, or an error that says what should stand here."""
        if not isinstance(value, Table):
            raise self.error(value, f"{what} must be a mapping")
        return value

    def items(self, value: Value | None, what: str) -> tuple[Value, ...]:
        """The items of a list; none where nothing stands."""
        if value is None or (isinstance(value, Word) and value.text in ("", "~", "null")):
            return ()
        if not isinstance(value, Items):
            raise self.error(value, f"{what} must be a list")
        return value.items

    def text(self, value: Value, what: str) -> str:
        """A text that is not empty and can be printed."""
        if not isinstance(value, Word):
            raise self.error(value, f"{what} must be a text")
        if not value.text or not value.text.isprintable():
            raise self.error(value, f"{what} must be a text that can be printed")
        return value.text

    def number(self, value: Value, what: str) -> int:
        """A whole number above zero."""
        text = self.text(value, what)
        if not (text.isascii() and text.isdigit() and len(text) < 10 and int(text)):
            raise self.error(value, f"{what} must be a whole number above zero")
        return int(text)

    def hosts(self, value: Value | None, what: str) -> tuple[str, ...]:
        """Names of a node list (`n[1-8]`), or of a list of node lists."""
        if value is None:
            return ()
        if isinstance(value, Items):
            found: list[str] = []
            for item in value.items:
                found += self._expand(item, what)
            return tuple(dict.fromkeys(found))
        return self._expand(value, what)

    def _expand(self, value: Value, what: str) -> tuple[str, ...]:
        if not isinstance(value, Word):
            raise self.error(value, f"{what} must be node lists")
        try:
            names = hostlist.expand(value.text, source=self.source, limit=self.names_left)
        except errors.ParseError as error:
            said = error.message.removeprefix(f"{errors.printable(self.source)}:{error.line}:{error.column}: ")
            raise self.error(value, said) from None
        self.names_left -= len(names)
        return names


def _at(text: str, position: int, message: str, source: str) -> errors.ParseError:
    before = text[:position]
    line, column = before.count("\n") + 1, len(before) - before.rfind("\n")
    return errors.ParseError(message, source=source, line=line, column=column)


def _documents(text: str, source: str) -> Iterator[Value]:
    """Builds values with a stack of its own: no recursion, whatever the depth."""
    stack: list[_Open] = []
    count = 0
    stream: Iterator[Any] = yaml.parse(text, Loader=yaml.CSafeLoader)
    for event in stream:
        kind = type(event)
        if kind is events.AliasEvent or getattr(event, "anchor", None) is not None:
            raise _wrong(event, "anchors and aliases are not read", source)
        if kind is events.ScalarEvent:
            count += 1
            mark = event.start_mark
            done: Value = Word(event.value, mark.line + 1, mark.column + 1)
        elif kind is events.SequenceStartEvent or kind is events.MappingStartEvent:
            count += 1
            if len(stack) >= MAX_DEPTH:
                raise _wrong(event, f"nested more than {MAX_DEPTH} deep", source)
            stack.append(_Open(event))
            continue
        elif kind is events.SequenceEndEvent or kind is events.MappingEndEvent:
            done = stack.pop().value()
        else:
            continue
        if count > MAX_VALUES:
            raise _wrong(event, f"more than {MAX_VALUES} values", source)
        if stack:
            stack[-1].add(done, source)
        elif not (isinstance(done, Word) and not done.text):
            yield done


def _wrong(event: Any, message: str, source: str) -> errors.ParseError:
    mark = event.start_mark
    return errors.ParseError(message, source=source, line=mark.line + 1, column=mark.column + 1)


class _Open:
    """A list or mapping that is being read."""

    __slots__ = ("is_list", "items", "key", "keys", "mark", "pairs")

    def __init__(self, event: Any) -> None:
        self.is_list = type(event) is events.SequenceStartEvent
        self.mark = event.start_mark
        self.items: list[Value] = []
        self.pairs: dict[str, Value] = {}
        self.keys: dict[str, Word] = {}
        self.key: Word | None = None

    def add(self, value: Value, source: str) -> None:
        if self.is_list:
            self.items.append(value)
        elif self.key is not None:
            self.pairs[self.key.text] = value
            self.key = None
        elif not isinstance(value, Word):
            message = "a key must be text"
            raise errors.ParseError(message, source=source, line=value.line, column=value.column)
        elif value.text in self.pairs:
            message = (
                f"key `{errors.printable(value.text, 60)}` stands twice, first in line {self.keys[value.text].line}"
            )
            raise errors.ParseError(message, source=source, line=value.line, column=value.column)
        else:
            self.key = self.keys[value.text] = value

    def value(self) -> Value:
        line, column = self.mark.line + 1, self.mark.column + 1
        if self.is_list:
            return Items(tuple(self.items), line, column)
        return Table(self.pairs, self.keys, line, column)
