"""What every reader of terminal text needs: clean lines, bounded number lists, notes about what could not be read.

A line is what an editor shows as one: only a line feed ends it, so that line numbers in messages can be trusted.
"""

from __future__ import annotations

import re
from typing import Final

from placer import errors, ranges

MAX_DEVICES: Final = 512
"""Device columns of one matrix. The largest machines seen list 16 GPUs and fewer than 40 adapters."""
MAX_CPUS: Final = 8192
"""CPUs of one machine: the largest NR_CPUS of an x86-64 Linux kernel. Bounds what a list may expand to."""
MAX_LINE: Final = 1 << 16
"""Characters of a line that can still be part of a matrix; 512 columns take about 4,000."""
_MAX_NOTES: Final = 20
_MAX_ATTEMPTS: Final = 500  # to note something; a text that is wrong all over must not be slow to read

# A control sequence: ESC [, parameter bytes, intermediate bytes, final byte (ECMA-48, 5.4). `\t` and text never match.
_CONTROL_SEQUENCE = re.compile(r"\x1b\[[0-?]*[ -/]*[@-~]")
_MASK = re.compile(r"(?:(?:0x)?[0-9A-Fa-f]{1,8})?(?:,(?:(?:0x)?[0-9A-Fa-f]{1,8})?)*")
_NUMBER_LIST = re.compile(r"\d{1,6}(?:-\d{1,6})?(?:,\d{1,6}(?:-\d{1,6})?)*")


def lines(text: str) -> list[str]:
    """Lines without colours, cursor movements, byte-order mark and carriage returns; the first has number 1."""
    if "\x1b" in text:
        text = _CONTROL_SEQUENCE.sub("", text)
    return [line.rstrip("\r") for line in text.removeprefix("\ufeff").split("\n")]


def number_list(word: str, limit: int = MAX_CPUS) -> tuple[int, ...] | None:
    """`"0-23,48-71"` as numbers; None when it is no list, or one that only a broken text can hold."""
    if len(word) > MAX_LINE or _NUMBER_LIST.fullmatch(word) is None:
        return None
    total = 0
    for span in word.split(","):
        low, dash, high = span.partition("-")
        first, last = int(low), int(high if dash else low)
        total += last - first + 1
        if last < first or last >= limit or total > limit:
            return None
    return ranges.parse(word)


def mask(words: str) -> tuple[int, ...] | None:
    """CPUs of a mask in comma-separated hexadecimal words of 32 bits, high word first, an empty word being zero.

    So the kernel, NCCL (`00000000,00ffffff`) and hwloc (`0x00000001,,0x0`) write it. None when it is no such mask, is
    infinite (hwloc's `0xf...f`), or holds more than `MAX_CPUS`.
    """
    if len(words) > MAX_CPUS or not words or _MASK.fullmatch(words) is None:
        return None
    digits = "".join(word.removeprefix("0x").zfill(8) for word in words.split(","))
    bits = f"{int(digits, 16):b}"
    if len(bits) > MAX_CPUS:
        return None
    return tuple(number for number, bit in enumerate(reversed(bits)) if bit == "1")


class Notes:
    """Collects what a person should know about a text, and keeps the list short."""

    def __init__(self) -> None:
        self._texts: list[str] = []
        self._attempts = 0
        self._more = 0

    @property
    def full(self) -> bool:
        """Whether more notes are only counted."""
        return len(self._texts) >= _MAX_NOTES or self._attempts >= _MAX_ATTEMPTS

    def add(self, text: str, *, line: int | None = None) -> None:
        """Note one thing, once; `line` counts from 1."""
        if self.full:
            self._more += 1
            return
        self._attempts += 1
        note = errors.printable(text if line is None else f"line {line}: {text}", 200)
        if note not in self._texts:
            self._texts.append(note)

    def texts(self) -> tuple[str, ...]:
        """All notes in the order they came, the rest counted."""
        return (*self._texts, *([f"and {self._more} more of the kind"] if self._more else ()))


def not_a_topology(rows: list[str], message: str, *, source: str, hint: str) -> errors.ParseError:
    """The error for text that is something else, at its first line with words."""
    number = next((n for n, row in enumerate(rows, 1) if row.strip()), None)
    if number is None:
        return errors.ParseError("the text is empty", source=source, hint=hint)
    return error(message, rows, number, source=source, hint=hint)


def error(message: str, rows: list[str], line: int, *, source: str, hint: str) -> errors.ParseError:
    """The error for line number `line`, at its first word, with the start of the line as excerpt."""
    shown = rows[line - 1][:1000]
    column = len(shown) - len(shown.lstrip()) + 1
    excerpt = " ".join(shown.split())[:60]
    return errors.ParseError(message, source=source, line=line, column=column, excerpt=excerpt, hint=hint)
