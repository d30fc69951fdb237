"""The exception tree. Infeasible is a result, never one of these.

PlacerError                       exit 1, the root: message, hint
├── InputError                    what a person or a file gave is wrong
│   ├── ParseError                text at source:line:column is not what it should be
│   ├── DocumentError             a value at a path into a document is wrong
│   └── RequestError              a job request contradicts itself or names what is not there
├── UsageError                    exit 2, the command line asks for what does not exist
├── SourceError                   exit 4, a cluster or a tool cannot be reached
│   ├── CommandMissingError       a program is not installed
│   ├── CommandFailedError        a program said no
│   └── CommandTimeoutError       a program did not answer in time
├── StaleError                    exit 5, data is older or poorer than `--strict` allows
└── SandboxError                  exit 1, a sandbox could not be started or stopped
"""

from __future__ import annotations

_LONGEST_MESSAGE = 1000


class PlacerError(Exception):
    """Root of all that placer raises on purpose: one line that says what is wrong, and a command that helps.

    Both are safe to print: they may quote what came from outside.
    """

    exit_code = 1

    def __init__(self, message: str, *, hint: str | None = None) -> None:
        self.message = printable(message, _LONGEST_MESSAGE)
        self.hint = None if hint is None else printable(hint, _LONGEST_MESSAGE)
        super().__init__(self.message)

    def __reduce__(self) -> tuple[object, ...]:
        # The subclasses take keywords, which Exception's own way through pickle and copy loses.
        return _restore, (type(self), self.args, self.__dict__)


class InputError(PlacerError):
    """What a person or a file gave is wrong."""


class ParseError(InputError):
    """Text is not what it should be. `line` and `column` count from 1; `excerpt` is safe to print."""

    def __init__(
        self, message: str, *, source: str, line: int = 1, column: int = 1, excerpt: str = "", hint: str | None = None
    ) -> None:
        where = f"{printable(source)}:{line}:{column}"
        self.source, self.line, self.column, self.excerpt = source, line, column, printable(excerpt)
        shown = f" near `{self.excerpt}`" if excerpt else ""
        super().__init__(f"{where}: {message}{shown}", hint=hint)


class DocumentError(InputError):
    """A value in a document is wrong. `path` leads to it, like `nodes[2].gpus.count`."""

    def __init__(self, message: str, *, source: str, path: str, hint: str | None = None) -> None:
        super().__init__(f"{printable(source)}: at `{printable(path)}`: {message}", hint=hint)
        self.source, self.path = source, path


class RequestError(InputError):
    """A job request contradicts itself, or names a level, node or partition that is not there."""


class UsageError(PlacerError):
    """The command line asks for something that does not exist."""

    exit_code = 2


class SourceError(PlacerError):
    """A cluster or a tool cannot be reached."""

    exit_code = 4


class CommandMissingError(SourceError):
    """A program is not on PATH."""


class CommandFailedError(SourceError):
    """A program ended with an error."""


class CommandTimeoutError(SourceError):
    """A program did not answer in time."""


class StaleError(PlacerError):
    """Data is older or poorer than `--strict` allows."""

    exit_code = 5


class SandboxError(PlacerError):
    """A sandbox could not be started or stopped."""


def printable(text: str, limit: int = 120) -> str:
    """Text from outside made safe for a terminal, in one line of at most `limit` characters.

    What could move the cursor, turn the writing direction or hide (control, format and surrogate characters, blanks
    other than the space) becomes `?`; longer text ends in `…`.
    """
    safe = "".join(c if c.isprintable() else "?" for c in text[: limit + 1])
    return safe if len(safe) <= limit else safe[: limit - 1] + "…"


def _restore(kind: type[PlacerError], args: tuple[object, ...], state: dict[str, object]) -> PlacerError:
    error = kind.__new__(kind)
    error.args = args
    error.__dict__.update(state)
    return error
