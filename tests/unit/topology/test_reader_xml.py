"""The XML layer: what it refuses and where, and what it lets through."""

from __future__ import annotations

import pytest

from placer import errors
from placer.topology.readers import _xml


def parse(text: str, skip: frozenset[str] = frozenset()) -> _xml.Document:
    return _xml.parse(text, source="f.xml", hint="h", skip=skip)


def test_parse_keeps_elements_attributes_text_and_lines() -> None:
    document = parse("\ufeff<?xml version='1.0' encoding='latin-1'?>\n<a>\n <b x='1 &amp; 2'> t <c/>u</b>\n</a>\n")
    inner = document.root.find("b")
    assert inner is not None
    assert (inner.attributes, inner.text, document.line(inner)) == ({"x": "1 & 2"}, "t", 3)
    assert (document.root.told("b"), document.root.told("b", "x"), document.root.find("c")) == ("t", "", None)


def test_parse_skipped_elements_leave_nothing() -> None:
    assert [c.tag for c in parse("<a><b><c/><b/></b><d/></a>", frozenset({"b"})).root.children] == ["d"]


BOMB = "<!DOCTYPE a [<!ENTITY x '0123456789'><!ENTITY y '&x;&x;&x;&x;'>]>\n<a>&y;</a>"


@pytest.mark.parametrize(
    ("text", "place", "words"),
    [
        ("", (1, 1), "empty"),
        ("<a>\n  <b>", (2, 6), "no element found"),
        ("<a>\n<b></a>", (2, 6), "mismatched tag"),
        ("<a>\n\té\0</a>", (2, 3), "not well-formed"),
        ("<a/>\njunk", (2, 1), "junk after"),
        (BOMB, (1, 13), "declarations of its own"),
        ("<!DOCTYPE a [<!ENTITY x SYSTEM 'file:///etc/passwd'>]><a>&x;</a>", (1, 13), "declarations of its own"),
        ("<!DOCTYPE a [<!ENTITY % p SYSTEM 'http://localhost/x'> %p;]><a/>", (1, 13), "declarations of its own"),
        ("<!DOCTYPE a SYSTEM 'x.dtd'>\n<a>&x;</a>", (2, 4), "the entity `x`"),
        ("<a>&x;</a>", (1, 4), "undefined entity"),
        ("<a>" * 101, (1, 301), "100 deep"),
        ("<a " + " ".join(f"a{i}=''" for i in range(65)) + "/>", (1, 1), "64 attributes"),
        ("<a>\n<b x='" + "y" * (2 << 20), (2, 1), "more than 1 MiB"),
        ("<a>" + "<b/>" * 200_000 + "</a>", (1, 3 + 4 * 199_999 + 1), "200000 elements"),
        ("<" * 1_000_000, (1, 1), "200000 elements"),
        ("<a>\x1b[2J\x1b]0;evil\x07</a>", (1, 4), "not well-formed"),
        ("<a>\n<b\x00/></a>", (2, 3), "not well-formed"),
    ],
)
def test_parse_what_it_refuses_is_told_at_its_place(text: str, place: tuple[int, int], words: str) -> None:
    with pytest.raises(errors.ParseError, match=words) as caught:
        parse(text)
    assert (caught.value.line, caught.value.column) == place
    assert str(caught.value).isprintable()


def test_parse_document_beyond_the_limit_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_xml, "MAX_BYTES", 1 << 20)
    with pytest.raises(errors.ParseError, match="larger than 1 MiB"):
        parse("<a>" + "<b/>" * 300_000)


@pytest.mark.parametrize(
    ("text", "tag"),
    [
        ("<system>", "system"),
        ("\ufeff\n<?xml version='1.0'?>\n<!-- a -->\n<!-- b --><!DOCTYPE topology SYSTEM 'x'>", "topology"),
        ("<?xml version='1.0'?>\n<!-- never closed", "?"),
        ("GPU0 <system>", None),
        ("", None),
    ],
)
def test_root_tag_is_that_of_the_first_element(text: str, tag: str | None) -> None:
    assert _xml.root_tag(text) == tag
