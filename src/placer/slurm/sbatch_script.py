"""The directives of a batch script, read as sbatch reads them.

The rules, each tried on sbatch 22.05 itself: a directive line begins with exactly `#SBATCH` in column one (the old
`#SLURM` too). Directives end at the first line whose first visible character is not `#`. Words part at white space;
quotes of either kind group; a backslash makes the next character literal (outside quotes a space only from a release
after 22.05 on, and no other white space); an unquoted `#` ends the line, even within a
word; an empty word ends it too. A word that begins with an unquoted `:` and an open quote are fatal. Words of
consecutive directives form one vector, so that an option and its argument may stand on two lines. `hetjob` (once
`packjob`) at the head of a directive begins the next component of a heterogeneous job; further on it only ends the
line. Nothing is expanded.

Lines of the form `#PLACER --required leaf` are read by the same rules for placer itself; to sbatch they are comments.
"""

from __future__ import annotations

import re
from typing import Final

import msgspec

from placer import errors

_BLANK: Final = " \t\n\v\f\r"  # what C's isspace() calls white space
_SEPARATOR = re.compile(r"[ \t\v\f\r]*(?:hetjob|packjob)(?:[ \t\v\f\r]|\Z)")
_NEAR_MISS = re.compile(r"[ \t]*#[ \t]*SBATCH[ \t]+(?:-|hetjob|packjob)", re.IGNORECASE)
_HEREDOC = re.compile(r"<<-?[ \t]*(['\"]?)\\?([A-Za-z_][A-Za-z0-9_]*)\1")
_MAX_NEAR_MISSES: Final = 20
_SPACES_CAN_BE_ESCAPED: Final = (24, 11)  # not in 22.05; those between were not tried


class Word(msgspec.Struct, frozen=True):
    """A word of a directive, quotes and escapes resolved, and where it stood. Lines and columns count from 1.

    `end` is the column after its last character: what stands there is a blank, a `#` or the end of the line.
    """

    text: str
    line: int
    column: int
    end: int = 0


class NearMiss(msgspec.Struct, frozen=True):
    """A line that looks like a directive and is none."""

    line: int
    text: str
    why: str


class Script(msgspec.Struct, frozen=True):
    """What a script says to sbatch: one vector of words for each component, at least one."""

    source: str
    components: tuple[tuple[Word, ...], ...]
    placer: tuple[Word, ...] = ()  # words of the #PLACER lines
    near_misses: tuple[NearMiss, ...] = ()
    foreign: tuple[int, ...] = ()  # first line of #PBS and of #BSUB directives, which sbatch translates
    old_prefix: int | None = None  # first line that says #SLURM
    first_command: int | None = None  # the line at which directives end; None where the whole script is comments


def read(data: bytes, source: str = "script", release: tuple[int, int] | None = None) -> Script:
    """Directives of a script, as the newest release reads them unless another is named, as (22, 5).

    Total: gives a Script or raises ParseError where sbatch would refuse the script.
    """
    escapes = "" if release is not None and release < _SPACES_CAN_BE_ESCAPED else " "
    _refuse_what_sbatch_refuses(data, source)
    lines = data.decode("utf-8", "surrogateescape").split("\n")
    components: list[list[Word]] = [[]]
    own: list[Word] = []
    misses: list[NearMiss] = []
    foreign: dict[str, int] = {}
    old_prefix = None
    stop = len(lines) + 1
    for number, line in enumerate(lines, start=1):
        if line.startswith(("#SBATCH", "#SLURM")):
            prefix = 7 if line.startswith("#SBATCH") else 6
            old_prefix = old_prefix or (number if prefix == 6 else None)
            if _SEPARATOR.match(line, prefix):
                components.append([])
            else:
                components[-1].extend(words(line, prefix, source, number, escapes))
        elif line.startswith("#PLACER"):
            own.extend(words(line, 7, source, number))
        elif line.startswith(("#PBS", "#BSUB")):
            foreign.setdefault(line[:4], number)
        elif (first := line.lstrip(_BLANK)[:1]) and first != "#":
            stop = number
            break
        elif len(misses) < _MAX_NEAR_MISSES and _NEAR_MISS.match(line):
            misses.append(NearMiss(number, line.strip(_BLANK), _misspelling(line)))
    misses.extend(_after_the_stop(lines, stop, _MAX_NEAR_MISSES - len(misses)))
    return Script(
        source=source,
        components=tuple(tuple(component) for component in components),
        placer=tuple(own),
        near_misses=tuple(misses),
        foreign=tuple(sorted(foreign.values())),
        old_prefix=old_prefix,
        first_command=stop if stop <= len(lines) else None,
    )


def _refuse_what_sbatch_refuses(data: bytes, source: str) -> None:
    if not data:
        raise errors.ParseError("the batch script is empty", source=source)
    if not data.startswith(b"#!"):
        excerpt = data[:40].partition(b"\n")[0].decode("utf-8", "replace")
        raise errors.ParseError(
            "a batch script begins with `#!` and the path of an interpreter",
            source=source,
            excerpt=excerpt,
            hint="make `#!/bin/bash` its first line",
        )
    for needle, what in ((b"\0", "NUL characters"), (b"\r\n", "DOS line ends (CR LF)")):
        at = data.find(needle)
        if at >= 0:
            start = data.rfind(b"\n", 0, at) + 1
            raise errors.ParseError(
                f"sbatch refuses scripts with {what}",
                source=source,
                line=data.count(b"\n", 0, at) + 1,
                column=at - start + 1,
                hint=f"dos2unix {source}" if needle != b"\0" else None,
            )


def words(line: str, start: int, source: str, number: int, escapes: str = " ") -> list[Word]:
    """The words of one directive from character `start` on; `escapes` are the blanks that a backslash makes literal."""
    found: list[Word] = []
    at = start
    while True:
        while at < len(line) and line[at] in _BLANK:
            at += 1
        if at == len(line) or line[at] == "#" or _SEPARATOR.match(line, at):
            return found
        if line[at] == ":":
            raise errors.ParseError(
                "unexpected `:` in a directive",
                source=source,
                line=number,
                column=at + 1,
                excerpt=line[at:],
                hint="separate the components of a heterogeneous job with a line `#SBATCH hetjob`",
            )
        text, after = _word(line, at, source, number, escapes)
        if not text:
            return found
        found.append(Word(text, number, at + 1, after + 1))
        at = after


def _word(line: str, start: int, source: str, number: int, escapes: str) -> tuple[str, int]:
    """The word that begins at `start`, and the index after it."""
    taken: list[str] = []
    quote, opened, at = "", start, start
    while at < len(line):
        char = line[at]
        if char == "\\":
            following = line[at + 1 : at + 2]
            literal = quote or following in escapes or following not in _BLANK
            taken.append(following if literal else "")
            at += 2 if literal else 1
            continue
        if quote:
            if char == quote:
                quote = ""
            else:
                taken.append(char)
        elif char in "'\"":
            quote, opened = char, at
        elif char in _BLANK or char == "#":
            break
        else:
            taken.append(char)
        at += 1
    if quote:
        raise errors.ParseError(
            f"unmatched `{quote}` in a directive", source=source, line=number, column=opened + 1, excerpt=line[opened:]
        )
    return "".join(taken), min(at, len(line))


def _misspelling(line: str) -> str:
    head = line.lstrip(" \t")
    if head != line:
        return "is indented"
    return "has a space after `#`" if head[1:2] in {" ", "\t"} else "is not in upper case"


def _after_the_stop(lines: list[str], stop: int, limit: int) -> list[NearMiss]:
    """Directives behind the first command, which sbatch ignores; those of a here-document belong to another script."""
    found: list[NearMiss] = []
    suspended: list[NearMiss] = []
    delimiter = None
    for number, line in enumerate(lines[stop - 1 :], start=stop):
        if delimiter is not None:
            if line.strip("\t ") == delimiter:
                delimiter, suspended = None, []
                continue
        elif opening := _HEREDOC.search(line):
            delimiter = opening[2]
        if line.startswith("#SBATCH") and _NEAR_MISS.match(line) and len(found) + len(suspended) < limit:
            miss = NearMiss(number, line.strip(_BLANK), f"stands after the first command (line {stop})")
            (found if delimiter is None else suspended).append(miss)
    return (found + suspended)[: max(limit, 0)]
