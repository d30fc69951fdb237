"""The exception tree: exit codes of the contract, and text that no terminal can be tricked with."""

from __future__ import annotations

import copy
import pickle

import pytest

from placer import errors


@pytest.mark.parametrize(
    ("kind", "code"),
    [
        (errors.PlacerError, 1),
        (errors.InputError, 1),
        (errors.RequestError, 1),
        (errors.UsageError, 2),
        (errors.SourceError, 4),
        (errors.CommandMissingError, 4),
        (errors.CommandFailedError, 4),
        (errors.CommandTimeoutError, 4),
        (errors.StaleError, 5),
        (errors.SandboxError, 1),
    ],
)
def test_error_has_the_exit_code_of_the_contract(kind: type[errors.PlacerError], code: int) -> None:
    assert kind("x").exit_code == code


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("plain ü 節", "plain ü 節"),
        ("\x1b[31mred\x07", "?[31mred?"),
        ("a\nb\tc\rd", "a?b?c?d"),
        ("a\u202eb", "a?b"),  # right-to-left override
        ("a\u2066b\u200fc", "a?b?c"),  # isolate, right-to-left mark
        ("a\u200bb\ufeff", "a?b?"),  # zero width
        ("a\u2028b\u0085c\x9bd", "a?b?c?d"),  # line separator, next line, one-byte CSI
        ("file\udcff", "file?"),  # an undecodable byte of a file name
        ("\x00\x7f", "??"),
    ],
)
def test_printable_replaces_what_a_terminal_obeys(text: str, shown: str) -> None:
    assert errors.printable(text) == shown


def test_printable_cuts_to_the_limit() -> None:
    assert errors.printable("x" * 120) == "x" * 120
    assert errors.printable("x" * 121) == "x" * 119 + "…"
    assert errors.printable("abcdef", 4) == "abc…"


def test_message_and_hint_are_safe_to_print() -> None:
    error = errors.InputError("cannot read `\x1b[2J`", hint="ls -l '\u202e'")
    assert (error.message, str(error), error.hint) == ("cannot read `?[2J`", "cannot read `?[2J`", "ls -l '?'")


def test_message_of_any_size_is_bounded() -> None:
    assert len(errors.InputError("x" * 10**6).message) == 1000


def test_message_of_usual_size_is_kept_whole() -> None:
    known = ", ".join(f"key_{n}" for n in range(40))
    assert errors.DocumentError(f"known keys: {known}", source="s", path="p").message.endswith("key_39")


def test_parse_error_says_place_and_excerpt() -> None:
    error = errors.ParseError("not a number", source="topo.txt", line=3, column=7, excerpt="NV\x1b12")
    assert error.message == "topo.txt:3:7: not a number near `NV?12`"
    assert error.excerpt == "NV?12"


def test_parse_error_without_excerpt_quotes_nothing() -> None:
    assert errors.ParseError("empty", source="a").message == "a:1:1: empty"


def test_document_error_says_path() -> None:
    error = errors.DocumentError("must be a number", source="c.yaml", path="nodes[2].gpus.count")
    assert error.message == "c.yaml: at `nodes[2].gpus.count`: must be a number"


@pytest.mark.parametrize("through", [copy.copy, lambda error: pickle.loads(pickle.dumps(error))])  # noqa: S301
def test_error_survives_copy_and_pickle(through: object) -> None:
    error = errors.ParseError("bad", source="f", line=2, column=5, excerpt="q", hint="fix it")
    assert callable(through)
    twin = through(error)
    assert type(twin) is errors.ParseError
    assert (twin.message, str(twin), twin.hint, twin.line, twin.column) == ("f:2:5: bad near `q`",) * 2 + (
        "fix it",
        2,
        5,
    )
