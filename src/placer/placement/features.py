"""Slurm's feature expressions: `a100&ib`, `a100|v100`, `[leaf1|leaf2]`, `[a100*2&ib*1]`.

`&` and `|` have equal weight and are read from left to right, parentheses first, as the sbatch manual says of
`--constraint`. A bracket with `|` asks that all nodes share one of its features: each is a *variant* that is
searched on its own. A count `name*n` asks for at least n nodes with the feature.
"""

from __future__ import annotations

from collections.abc import Callable

import msgspec

from placer import errors

Predicate = Callable[[frozenset[str]], bool]


class Variant(msgspec.Struct, frozen=True):
    """One way to satisfy an expression: what every node must have, and how many must have what."""

    every: Predicate
    at_least: tuple[tuple[str, int], ...] = ()
    text: str = ""


def _always(_features: frozenset[str]) -> bool:
    return True


ANY = Variant(every=_always)


def parse(text: str | None, *, source: str = "--constraint") -> tuple[Variant, ...]:
    """All variants of an expression, in the order written; none given means any node. Raises ParseError."""
    if text is None or not text.strip():
        return (ANY,)
    return _Parser(text, source).parse()


def _has(name: str) -> Predicate:
    return lambda features: name in features


def _both(a: Predicate, b: Predicate) -> Predicate:
    return lambda features: a(features) and b(features)


def _either(a: Predicate, b: Predicate) -> Predicate:
    return lambda features: a(features) or b(features)


class _Parser:
    """Recursive descent over at most 4096 characters and 32 levels of parentheses."""

    def __init__(self, text: str, source: str) -> None:
        self.text, self.source, self.at, self.depth = text, source, 0, 0
        self.counts: list[tuple[str, int]] = []
        self.choices: list[str] = []

    def parse(self) -> tuple[Variant, ...]:
        if len(self.text) > 4096:
            raise self._error("a feature expression has at most 4096 characters")
        every = self._expression(end="")
        if not self.choices:
            return (Variant(every, tuple(self.counts), self.text),)
        return tuple(
            Variant(_both(every, _has(name)), tuple(self.counts), f"{self.text} with `{name}`") for name in self.choices
        )

    def _expression(self, end: str) -> Predicate:
        left = self._term()
        while self._peek() not in ("", end):
            operator = self._peek()
            if operator not in "&|,":
                raise self._error("`&` or `|` is missing here")
            self.at += 1
            right = self._term()
            left = _either(left, right) if operator == "|" else _both(left, right)
        return left

    def _term(self) -> Predicate:
        if self._peek() == "(":
            return self._nested("(", ")")
        if self._peek() == "[":
            return self._bracket()
        name, count = self._name()
        if count is None:
            return _has(name)
        self.counts.append((name, count))
        return _always

    def _nested(self, opening: str, closing: str) -> Predicate:
        self.depth += 1
        if self.depth > 32:
            raise self._error("parentheses are nested too deeply")
        self.at += 1
        inner = self._expression(end=closing)
        self._expect(closing, f"`{opening}` is not closed")
        self.depth -= 1
        return inner

    def _bracket(self) -> Predicate:
        close = self.text.find("]", self.at)
        if close < 0:
            raise self._error("`[` is not closed")
        inside = self.text[self.at + 1 : close]
        if "|" not in inside:
            return self._nested("[", "]")
        if self.choices:
            raise self._error("only one bracket with `|` is understood")
        names = [name.strip() for name in inside.split("|")]
        if not all(name and name.isprintable() and not set(name) & set("[]()&*, ") for name in names):
            raise self._error("a bracket with `|` takes plain feature names")
        self.choices = list(dict.fromkeys(names))
        self.at = close + 1
        return _always

    def _name(self) -> tuple[str, int | None]:
        self._peek()
        start = self.at
        while self.at < len(self.text) and self.text[self.at] not in "&|,()[]* ":
            self.at += 1
        name = self.text[start : self.at]
        if not name:
            raise self._error("a feature name is missing here")
        if self._peek() != "*":
            return name, None
        self.at += 1
        self._peek()
        digits = self.at
        while self.at < len(self.text) and self.text[self.at] in "0123456789":
            self.at += 1
        if not 0 < self.at - digits <= 6:
            raise self._error("a node count is missing after `*`")
        return name, int(self.text[digits : self.at])

    def _peek(self) -> str:
        while self.at < len(self.text) and self.text[self.at] == " ":
            self.at += 1
        return self.text[self.at : self.at + 1]

    def _expect(self, character: str, message: str) -> None:
        if self._peek() != character:
            raise self._error(message)
        self.at += 1

    def _error(self, message: str) -> errors.ParseError:
        return errors.ParseError(
            message,
            source=self.source,
            column=self.at + 1,
            excerpt=self.text,
            hint="`sinfo -o '%N %f'` lists the features of the nodes",
        )
