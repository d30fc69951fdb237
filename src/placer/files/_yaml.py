"""YAML as plain builtins, from and to libyaml's events: several times as fast as PyYAML's own loader and dumper.

Read is the core schema of YAML 1.2, and numbers with leading zeros are text: `no`, `12:30:00`, `2026-01-31` and `007`
are what somebody means who writes a feature, a time or a node name. Mappings have text keys, each once; `<<` merges.
Tags but `!!str` are refused. Anchors share what they name; what they unfold to is counted, so that a small text cannot
become a huge document.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import yaml
from yaml import events

from placer import errors

MAX_VALUES = 10_000_000
"""Scalars, lists and mappings of one document, every alias unfolded."""
MAX_DEPTH = 100

_INT = re.compile(r"[-+]?(?:0|[1-9][0-9]{0,17})\Z")
_FLOAT = re.compile(r"[-+]?(?:\.[0-9]+|[0-9]+\.[0-9]*|[0-9]+(?=[eE]))(?:[eE][-+]?[0-9]{1,3})?\Z")
_LEADING_ZERO = re.compile(r"[-+]?0[0-9]")
_CONSTANTS: dict[str, bool | None] = {
    **dict.fromkeys(("", "~", "null", "Null", "NULL")),
    **dict.fromkeys(("true", "True", "TRUE"), True),
    **dict.fromkeys(("false", "False", "FALSE"), False),
}
_STR_TAG = "tag:yaml.org,2002:str"

_PLAIN = re.compile(r"(?:[A-Za-z_/][A-Za-z0-9_./\[\]+=@ -]*(?<! )|[0-9]{1,12}[MGT])\Z")
# Words that YAML 1.1 readers take for something else than text.
_RESERVED = frozenset({"y", "n", "yes", "no", "on", "off", "true", "false", "null"})


class _Open:
    """A list or mapping that is being read."""

    __slots__ = ("anchor", "key", "merges", "merging", "size", "value")

    def __init__(self, value: Any, anchor: str | None) -> None:
        self.value: Any = value
        self.anchor = anchor
        self.key: str | None = None
        self.merges: list[Any] = []
        self.merging = False  # `key` is a plain `<<`; in quotes it is text
        self.size = 1


def load(text: str, *, source: str) -> object:
    """The one document in a text; None when it is empty. Raises ParseError with line and column, and nothing else."""
    try:
        return _Builder(source).build(yaml.parse(text, Loader=yaml.CSafeLoader))
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        line, column = (mark.line + 1, mark.column + 1) if mark else (1, 1)
        message = f"broken YAML: {error.problem or error.context or 'cannot be read'}"
        raise errors.ParseError(message, source=source, line=line, column=column) from None
    except yaml.reader.ReaderError as error:
        before = text[: error.position]
        line, column = before.count("\n") + 1, len(before) - before.rfind("\n")
        raise errors.ParseError(f"broken YAML: {error.reason}", source=source, line=line, column=column) from None
    except UnicodeEncodeError as error:
        before = text[: error.start]
        line, column = before.count("\n") + 1, len(before) - before.rfind("\n")
        raise errors.ParseError("broken YAML: a lone surrogate", source=source, line=line, column=column) from None


class _Builder:
    """Builds the value from events with a stack of its own: no recursion, whatever the depth."""

    def __init__(self, source: str) -> None:
        self.source = source
        self.stack: list[_Open] = []
        self.anchors: dict[str, tuple[Any, int]] = {}
        self.root: Any = None
        self.documents = 0
        self.values = 0

    def build(self, stream: Iterator[Any]) -> object:
        for event in stream:
            kind = type(event)
            if kind is events.ScalarEvent:
                self._scalar(event)
            elif kind is events.MappingStartEvent or kind is events.SequenceStartEvent:
                self._open(event, {} if kind is events.MappingStartEvent else [])
            elif kind is events.MappingEndEvent or kind is events.SequenceEndEvent:
                self._close(event)
            elif kind is events.AliasEvent:
                if event.anchor not in self.anchors:
                    raise self._error(event, f"alias `*{event.anchor}` stands before its anchor is complete")
                self._add(event, *self.anchors[event.anchor])
            elif kind is events.DocumentStartEvent:
                self.documents += 1
                if self.documents > 1:
                    raise self._error(event, "more than one document")
        return self.root

    def _scalar(self, event: Any) -> None:
        parent = self.stack[-1] if self.stack else None
        if parent is not None and parent.key is None and type(parent.value) is dict:
            self._key(parent, event)
            return
        value: Any = event.value
        if event.implicit[0]:
            value = _resolved(value)
        elif event.tag is not None and event.tag not in (_STR_TAG, "!"):
            raise self._error(event, f"tag `{event.tag}` is not read")
        if event.anchor is not None:
            self.anchors[event.anchor] = (value, 1)
        self._add(event, value, 1)

    def _key(self, parent: _Open, event: Any) -> None:
        key = event.value
        merging = key == "<<" and event.implicit[0]
        if parent.merges if merging else key in parent.value:
            raise self._error(event, f"key `{errors.printable(key, 60)}` stands twice")
        parent.key, parent.merging = key, merging
        if event.anchor is not None:
            self.anchors[event.anchor] = (key, 1)

    def _open(self, event: Any, value: Any) -> None:
        if len(self.stack) >= MAX_DEPTH:
            raise self._error(event, f"nested more than {MAX_DEPTH} deep")
        if self.stack and self.stack[-1].key is None and type(self.stack[-1].value) is dict:
            raise self._error(event, "a key must be text")
        if event.tag is not None and not event.implicit:
            raise self._error(event, f"tag `{event.tag}` is not read")
        self.stack.append(_Open(value, event.anchor))

    def _close(self, event: Any) -> None:
        done = self.stack.pop()
        if done.merges:
            done.value = self._merged(event, done)
        if done.anchor is not None:
            self.anchors[done.anchor] = (done.value, done.size)
        self._add(event, done.value, done.size)

    def _add(self, event: Any, value: Any, size: int) -> None:
        # What is inside a list or mapping was counted when it was read; an alias counts whole.
        self.values += size if type(event) is events.AliasEvent else 1
        if self.values > MAX_VALUES:
            raise self._error(event, f"more than {MAX_VALUES} values")
        if not self.stack:
            self.root = value
            return
        parent = self.stack[-1]
        parent.size += size
        if type(parent.value) is list:
            parent.value.append(value)
        elif parent.key is None:
            self._alias_key(event, parent, value)
        elif parent.merging:
            parent.merges.append(value)
            parent.merging = False
            parent.key = None
        else:
            parent.value[parent.key] = value
            parent.key = None

    def _alias_key(self, event: Any, parent: _Open, value: Any) -> None:
        if type(value) is not str:
            raise self._error(event, "a key must be text")
        if value in parent.value:
            raise self._error(event, f"key `{errors.printable(value, 60)}` stands twice")
        parent.key = value

    def _merged(self, event: Any, done: _Open) -> dict[str, Any]:
        merged: dict[str, Any] = {}
        for merge in done.merges:
            for part in reversed(merge if isinstance(merge, list) else [merge]):
                if not isinstance(part, dict):
                    raise self._error(event, "`<<` merges mappings only")
                merged.update(part)
        return {**merged, **done.value}

    def _error(self, event: Any, message: str) -> errors.ParseError:
        mark = event.start_mark
        return errors.ParseError(message, source=self.source, line=mark.line + 1, column=mark.column + 1)


def _resolved(text: str) -> Any:
    if text in _CONSTANTS:
        return _CONSTANTS[text]
    if text[0] not in "+-.0123456789" or _LEADING_ZERO.match(text):
        return text
    if _INT.match(text):
        return int(text)
    return float(text) if _FLOAT.match(text) else text


def dump(document: object) -> str:
    """Block YAML of plain builtins; innermost lists and mappings in one line. `load` reads it back equal."""
    text: str = yaml.emit(_document(document), Dumper=yaml.CSafeDumper, allow_unicode=True, width=120)
    return text


def _document(document: object) -> Iterator[events.Event]:
    yield events.StreamStartEvent()
    yield events.DocumentStartEvent(explicit=False)
    yield from _events(document)
    yield events.DocumentEndEvent(explicit=False)
    yield events.StreamEndEvent()


def _events(value: object) -> Iterator[events.Event]:
    if isinstance(value, dict):
        yield events.MappingStartEvent(None, None, True, flow_style=_is_flat(value.values()))
        for key, inner in value.items():
            yield _text(str(key))
            yield from _events(inner)
        yield events.MappingEndEvent()
    elif isinstance(value, list):
        yield events.SequenceStartEvent(None, None, True, flow_style=_is_flat(value))
        for inner in value:
            yield from _events(inner)
        yield events.SequenceEndEvent()
    elif isinstance(value, str):
        yield _text(value)
    else:
        word = "null" if value is None else str(value).lower()
        yield events.ScalarEvent(None, None, (True, False), word)


def _is_flat(values: Any) -> bool:
    return not any(isinstance(value, dict | list) for value in values)


def _text(value: str) -> events.ScalarEvent:
    plain = _PLAIN.match(value) is not None and value.lower() not in _RESERVED
    return events.ScalarEvent(None, None, (plain, True), value, style=None if plain else '"')
