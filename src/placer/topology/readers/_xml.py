"""XML of which nothing but its own elements is read: no document type's declarations, no entities, bounded everything.

A document from outside may try to make its reader fetch a file (external entities), to grow without end (nested
entities) or to exhaust memory (millions of elements or attributes, or one tag of 60 MiB). Here the first two are errors
at their place, the others are limits. A document type that only points to a DTD, as hwloc and nvidia-smi write it, is
allowed, and the DTD is never looked for.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final, NoReturn
from xml.parsers import expat

import msgspec

from placer import errors

MAX_BYTES: Final = 64 << 20
"""Of a document. The XML of a machine with thousands of CPUs takes 20 MB."""
MAX_ELEMENTS: Final = 200_000
MAX_DEPTH: Final = 100
"""The deepest real ones are PCI bridges in hwloc's XML, below 40."""
MAX_ATTRIBUTES: Final = 64
"""Of one element; hwloc writes 20."""
MAX_PIECE: Final = 1 << 20
"""Characters of one tag, comment or text."""

_PROLOG = re.compile(r"<\?xml[^<>]{0,200}\?>")
_ROOT = re.compile(r"<(?:!DOCTYPE\s{1,20})?([A-Za-z_][\w.-]{0,60})")


class Element(msgspec.Struct, eq=False):
    """One element; `at` is where it starts, in bytes. `text` is that before its first child, without outer blanks."""

    tag: str
    attributes: dict[str, str]
    at: int
    children: list[Element] = msgspec.field(default_factory=list)
    text: str = ""

    def find(self, *path: str) -> Element | None:
        """The first descendant under these tags."""
        found: Element | None = self
        for tag in path:
            found = next((child for child in found.children if child.tag == tag), None) if found else None
        return found

    def told(self, *path: str) -> str:
        """The text under these tags, `""` where there is none."""
        found = self.find(*path)
        return found.text if found else ""

    def every(self, tag: str) -> Iterator[Element]:
        """Direct children with this tag."""
        return (child for child in self.children if child.tag == tag)


class Document(msgspec.Struct, eq=False):
    """A document and how to speak of places in it."""

    root: Element
    source: str
    hint: str
    data: bytes

    def line(self, element: Element) -> int:
        """The line, from 1, on which an element starts."""
        return self.data.count(b"\n", 0, element.at) + 1

    def error(self, message: str, element: Element) -> errors.ParseError:
        """A ParseError at an element."""
        return _error(message, self.data, element.at, self.source, self.hint)


def root_tag(text: str) -> str | None:
    """The name of the root element or document type, when the text begins like XML. Looks at 10,000 characters."""
    rest = text[:10_000].removeprefix("\ufeff").lstrip()
    prolog = _PROLOG.match(rest)
    if prolog:
        rest = rest[prolog.end() :].lstrip()
    while rest.startswith("<!--") and "-->" in rest:
        rest = rest[rest.index("-->") + 3 :].lstrip()
    root = _ROOT.match(rest)
    if root:
        return root[1]
    return "?" if prolog else None


def parse(text: str, *, source: str, hint: str, skip: frozenset[str] = frozenset()) -> Document:
    """The tree of a document, without the elements in `skip` and what they hold. Raises ParseError."""
    data = text.removeprefix("\ufeff").encode("utf-8", errors="replace")
    _check_size(data, source, hint)
    builder = _Builder(data, source, hint, skip)
    try:
        # In one call: expat looks again from the start of an unfinished tag at every call.
        builder.parser.Parse(data, True)
    except expat.ExpatError as error:
        message = expat.errors.messages.get(error.code) or "not well-formed"
        raise _error(message, data, builder.parser.ErrorByteIndex, source, hint) from None
    return Document(builder.root, source, hint, data)


def _check_size(data: bytes, source: str, hint: str) -> None:
    if not data.strip():
        raise errors.ParseError("the text is empty", source=source, hint=hint)
    if len(data) > MAX_BYTES:
        raise errors.ParseError(f"larger than {MAX_BYTES >> 20} MiB", source=source, hint=hint)
    if data.count(b"<") > 3 * MAX_ELEMENTS:
        raise errors.ParseError(f"more than {MAX_ELEMENTS} elements", source=source, hint=hint)
    start = 0
    while start >= 0:
        after = data.find(b"<", start + 1)
        if (after if after >= 0 else len(data)) - start > MAX_PIECE:
            raise _error(f"a tag or text of more than {MAX_PIECE >> 20} MiB", data, start, source, hint)
        start = after


def _error(message: str, data: bytes, at: int, source: str, hint: str) -> errors.ParseError:
    at = min(max(at, 0), len(data))
    start = data.rfind(b"\n", 0, at) + 1
    end = data.find(b"\n", at)
    shown = data[at : min(end if end >= 0 else len(data), at + 240)].decode("utf-8", errors="replace")
    return errors.ParseError(
        message,
        source=source,
        line=data.count(b"\n", 0, at) + 1,
        column=len(data[start:at].decode("utf-8", errors="replace")) + 1,
        excerpt=" ".join(shown.split())[:60],
        hint=hint,
    )


class _Builder:
    """Handlers of expat that build the tree and watch the limits."""

    def __init__(self, data: bytes, source: str, hint: str, skip: frozenset[str]) -> None:
        self._data, self._source, self._hint, self._skip = data, source, hint, skip
        self.root = Element("", {}, 0)
        self._open: list[Element] = []
        self._skipped = 0  # depth inside an element to skip
        self._elements = 0
        # The text is Unicode already: whatever encoding it declares is none of ours.
        self.parser = parser = expat.ParserCreate("utf-8")
        parser.buffer_text = True
        parser.StartElementHandler = self._start
        parser.EndElementHandler = self._end
        parser.CharacterDataHandler = self._text
        parser.StartDoctypeDeclHandler = self._doctype
        parser.EntityDeclHandler = self._entity
        parser.SkippedEntityHandler = self._skipped_entity

    def _fail(self, message: str) -> NoReturn:
        raise _error(message, self._data, self.parser.CurrentByteIndex, self._source, self._hint)

    def _start(self, tag: str, attributes: dict[str, str]) -> None:
        self._elements += 1
        if self._elements > MAX_ELEMENTS:
            self._fail(f"more than {MAX_ELEMENTS} elements")
        if len(self._open) + self._skipped >= MAX_DEPTH:
            self._fail(f"elements nested more than {MAX_DEPTH} deep")
        if len(attributes) > MAX_ATTRIBUTES:
            self._fail(f"an element with more than {MAX_ATTRIBUTES} attributes")
        if self._skipped or tag in self._skip:
            self._skipped += 1
            return
        element = Element(tag, attributes, self.parser.CurrentByteIndex)
        if self._open:
            self._open[-1].children.append(element)
        else:
            self.root = element
        self._open.append(element)

    def _end(self, _tag: str) -> None:
        if self._skipped:
            self._skipped -= 1
        else:
            element = self._open.pop()
            element.text = element.text.strip()

    def _text(self, text: str) -> None:
        if self._open and not self._skipped:
            element = self._open[-1]
            if not element.children and (element.text or not text.isspace()):
                element.text += text

    def _doctype(self, _name: str, _system: str | None, _public: str | None, own: int) -> None:
        if own:
            self._fail("a document type with declarations of its own is not read")

    def _entity(self, *_: object) -> None:
        self._fail("entities are not read")

    def _skipped_entity(self, name: str, _parameter: int) -> None:
        self._fail(f"the entity `{name}` is not known")
