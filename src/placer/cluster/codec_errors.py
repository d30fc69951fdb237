"""Checks a document against wire types; whatever is wrong becomes a DocumentError with the path to it."""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable
from typing import Any, TypeVar

import msgspec

from placer import errors, hostlist, ranges, units

T = TypeVar("T")

_LOCATED = re.compile(r"(?P<what>.*?)(?: - at (?P<key>`key` in )?`\$(?P<path>[^`]*)`)?\Z", re.DOTALL)
_UNKNOWN_FIELD = re.compile(r"Object contains unknown field `(.*)`\Z", re.DOTALL)
_MISSING_FIELD = re.compile(r"Object missing required field `(.*)`\Z", re.DOTALL)
_BAD_WORD = re.compile(r"Invalid enum value '?(.*?)'?\Z", re.DOTALL)
_EXPECTED = re.compile(r"Expected `([^`]*)`([^,]*)(?:, got `(.*)`)?\Z", re.DOTALL)
_STEP = re.compile(r"\.([^.\[\]]+)|\[(\d+|\.\.\.)\]")
_WORDS = {
    "int": "a whole number",
    "float": "a number",
    "str": "text",
    "bool": "true or false",
    "null": "null",
    "array": "a list",
    "object": "a mapping",
}
_GOT = {**_WORDS, "float": "a decimal number"}


class Where(msgspec.Struct, frozen=True):
    """A place in a document: what the document is called, and the path so far (`nodes[2]`; empty = the top)."""

    source: str
    path: str = ""

    def at(self, step: str) -> Where:
        """The place one step below: a key, or an index in brackets."""
        return Where(self.source, self._joined(step))

    def error(self, step: str, message: str, *, hint: str | None = None) -> errors.DocumentError:
        """What is wrong one step below here; `step` may be empty."""
        return errors.DocumentError(message, source=self.source, path=self._joined(step) or "document", hint=hint)

    def _joined(self, step: str) -> str:
        return f"{self.path}.{step}" if self.path and step and not step.startswith("[") else self.path + step

    def memory(self, step: str, value: int | str) -> int:
        """MiB of `100G`, or of a plain number of MiB."""
        if isinstance(value, int):
            return value
        try:
            return units.parse_memory(value)
        except errors.ParseError:
            raise self.error(step, f"must be memory like `100G` or a number of MiB, not `{value}`") from None

    def moment(self, step: str, value: str | None) -> int | None:
        """Seconds since 1970 of `2026-01-31T12:00:00Z`; None stays None."""
        if value is None:
            return None
        try:
            return units.parse_moment(value)
        except errors.ParseError:
            raise self.error(step, f"must be a moment like `2026-01-31T12:00:00Z`, not `{value}`") from None

    def duration(self, step: str, value: int | str | None) -> int | None:
        """Seconds, given as such or in Slurm's form with colons (`1-00:00:00`); None stays None."""
        if value is None or isinstance(value, int):
            return value
        try:
            if ":" in value or "-" in value[1:]:
                return units.parse_duration(value)
        except errors.ParseError:
            pass
        raise self.error(step, f"must be seconds, or a time like `1-00:00:00`, not `{value}`")

    def numbers(self, step: str, value: str | None) -> tuple[int, ...] | None:
        """The set that `0-3,8` names; None stays None."""
        if value is None:
            return None
        try:
            return ranges.parse(value)
        except errors.ParseError:
            raise self.error(step, f"must be a list of numbers like `0-3,8`, not `{value}`") from None

    def nodes(self, step: str, value: str) -> tuple[str, ...]:
        """The node names that a list names, in natural order."""
        try:
            return hostlist.sort(hostlist.expand(value, source="list"))
        except errors.ParseError as error:
            raise self.error(step, message_of(error)) from None


def message_of(error: errors.ParseError) -> str:
    """The message of a ParseError about a text inside a document, with the column alone as its place."""
    place = f"{errors.printable(error.source)}:{error.line}:{error.column}: "
    return f"column {error.column}: {error.message.removeprefix(place)}"


def convert(document: object, kind: type[T], where: Where) -> T:
    """`document` (plain builtins) as the wire struct `kind`. Raises DocumentError."""
    try:
        return msgspec.convert(document, kind)
    except msgspec.ValidationError as error:
        raise _translated(str(error), document, kind, where) from None
    except UnicodeEncodeError as error:  # half of a surrogate pair, which no encoding can write
        raise where.error("", f"holds text that is not Unicode: {error.reason}") from None


def nearest(word: str, known: Iterable[str]) -> str:
    """`; did you mean `gpus`?`, or what is known where nothing is near."""
    choices = list(known)
    close = difflib.get_close_matches(word[:100], choices, 1, 0.6)
    return f"; did you mean `{close[0]}`?" if close else f"; known are: {', '.join(choices) or 'none'}"


def _translated(text: str, document: object, kind: type, where: Where) -> errors.DocumentError:
    match = _LOCATED.match(text)
    what, path, is_key = (match["what"], match["path"] or "", match["key"]) if match else (text, "", None)
    step, types = _resolve(path, document, kind)
    if is_key:
        return where.error(step, "keys must be text; quote them")
    unknown = _UNKNOWN_FIELD.match(what)
    if unknown:
        fields = [field.encode_name for t in types if isinstance(t, msgspec.inspect.StructType) for field in t.fields]
        shown = f"{step}.{unknown[1]}" if step else unknown[1]
        return where.error(shown, f"unknown key `{errors.printable(unknown[1], 60)}`{nearest(unknown[1], fields)}")
    missing = _MISSING_FIELD.match(what)
    if missing:
        return where.error(step, f"lacks the key `{missing[1]}`")
    word = _BAD_WORD.match(what)
    if word:
        values = [str(v.value) for t in types if isinstance(t, msgspec.inspect.EnumType) for v in t.cls]
        return where.error(step, f"unknown word `{errors.printable(word[1], 60)}`{nearest(word[1], values)}")
    return where.error(step, _expectation(what))


def _expectation(what: str) -> str:
    match = _EXPECTED.match(what)
    if match is None:
        return what
    wanted = " or ".join(_WORDS.get(word, word) for word in match[1].split(" | "))
    got = f", not {_GOT.get(match[3], match[3])}" if match[3] else ""
    advice = "; quote it" if match[3] in ("int", "float", "bool") and "str" in match[1].split(" | ") else ""
    return f"must be {wanted}{match[2]}{got}{advice}"


def _resolve(path: str, document: object, kind: type) -> tuple[str, list[msgspec.inspect.Type]]:
    """Our spelling of a msgspec path (a mapping's `[...]` becomes the key at fault), and the types expected there."""
    types = _alternatives(msgspec.inspect.type_info(kind))
    shown = ""
    here: Any = document
    for key, index in _STEP.findall(path):
        if index == "...":
            here = here if isinstance(here, dict) else {}
            key = next((str(k) for k, value in here.items() if not isinstance(value, str)), "")
        if index.isdigit():
            shown += f"[{index}]"
            here = here[int(index)] if isinstance(here, list) and int(index) < len(here) else None
        else:
            shown += f".{key}" if shown else key
            here = here.get(key) if isinstance(here, dict) else None
        types = [below for t in types for below in _below(t, key, index)]
    return shown, types


def _alternatives(kind: msgspec.inspect.Type) -> list[msgspec.inspect.Type]:
    if isinstance(kind, msgspec.inspect.UnionType):
        return [inner for member in kind.types for inner in _alternatives(member)]
    return [kind]


def _below(kind: msgspec.inspect.Type, key: str, index: str) -> list[msgspec.inspect.Type]:
    if isinstance(kind, msgspec.inspect.ListType) and index.isdigit():
        return _alternatives(kind.item_type)
    if isinstance(kind, msgspec.inspect.DictType) and index == "...":
        return _alternatives(kind.value_type)
    if isinstance(kind, msgspec.inspect.StructType) and not index:
        return [t for field in kind.fields if field.encode_name == key for t in _alternatives(field.type)]
    return []
