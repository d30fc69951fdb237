"""Rules about the text of a script: what sbatch reads otherwise than it is written, or not at all."""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterator
from typing import Final

from placer import errors
from placer.slurm import lint_edit, sbatch_options, sbatch_script
from placer.slurm import lint_types as types
from placer.slurm import submission_types as submissions

_PREFIX = re.compile(r"[ \t]*#[ \t]*SBATCH", re.IGNORECASE)
_FILES: Final = frozenset({"output", "error", "input"})
_FREE_TEXT: Final = _FILES | {"job-name", "comment", "chdir", "wckey", "account", "mail-user"}
_SAID_ONCE: Final = frozenset({"job-name", "output", "error", "qos", "account", "array", "chdir"})
_ADD_UP: Final = frozenset({"gres-flags", "hint"})  # sbatch keeps what each of several says
_PATTERNS: Final = {
    "SLURM_JOB_ID": "%j",
    "SLURM_JOBID": "%j",
    "SLURM_ARRAY_JOB_ID": "%A",
    "SLURM_ARRAY_TASK_ID": "%a",
    "SLURM_JOB_NAME": "%x",
    "USER": "%u",
}
_VARIABLE = re.compile(r"\$(\w+|\{\w+\})")
_GONE: Final[dict[str, types.Release]] = {"power": (24, 11)}
"""Options that a later release does not know any more (tried on 22.05, 24.11 and 26.05)."""


def remarks(facts: types.Facts) -> Iterator[types.Remark]:
    """Everything that the text alone tells."""
    yield from _near_misses(facts)
    yield from _old_prefix(facts)
    yield from _foreign(facts)
    yield from _unknown(facts)
    last = {placed.option.name: placed for placed in facts.placed}
    for placed in facts.placed:
        yield from _release(facts, placed)
        yield from _said_twice(facts, placed, last[placed.option.name])
        yield from _cut(facts, placed)
        yield from _not_expanded(facts, placed)


def _near_misses(facts: types.Facts) -> Iterator[types.Remark]:
    given = {placed.option.name: placed.first.line for placed in facts.placed}
    for miss in facts.script.near_misses:
        corrected = _PREFIX.sub("#SBATCH", miss.text, count=1)
        why = "sbatch reads directives that begin with `#SBATCH` in column one and stand before the first command"
        names = _names(corrected)
        twin = next((name for name in names if name in given), None)
        edits: tuple[types.Edit, ...] = ()
        if twin is not None:
            why += f"; line {given[twin]} gives `--{twin}`, so this one may be left out on purpose"
        elif names:
            target = min(miss.line, facts.script.first_command or miss.line)
            edits = (types.Edit(target, (corrected,)), types.Edit(miss.line, removes=True))
            given.update(dict.fromkeys(names, miss.line))
        text = f"`{errors.printable(miss.text, 60)}` {miss.why} and is ignored"
        yield types.Remark(types.Rule.NEAR_MISS, text, why, corrected, miss.line, edits)


def _names(directive: str) -> list[str]:
    """The options of a directive; none where sbatch would refuse it or it begins another component."""
    try:
        words = [word.text for word in sbatch_script.words(directive, 7, "", 1)]
    except errors.ParseError:
        return []
    found = sbatch_options.split(words)
    return [] if found.problems or found.rest < len(words) else [one.option.name for one in found.given]


def _old_prefix(facts: types.Facts) -> Iterator[types.Remark]:
    stop = facts.script.first_command or len(facts.lines) + 1
    for number, line in enumerate(facts.lines[: stop - 1], start=1):
        if line.startswith("#SLURM"):
            corrected = f"#SBATCH{line[6:]}"
            why = "sbatch complains of it each time; a later release may stop to read it"
            edits = (types.Edit(number, (corrected,), removes=True),)
            text = "`#SLURM` is the old spelling of `#SBATCH`"
            yield types.Remark(types.Rule.OLD_PREFIX, text, why, corrected, number, edits)


def _foreign(facts: types.Facts) -> Iterator[types.Remark]:
    if facts.script.foreign and not facts.submission.gives("ignore-pbs"):
        text = "`#PBS` and `#BSUB` lines are translated by sbatch, though not all that they say"
        why = "an option without a counterpart in Slurm is dropped without a word"
        yield types.Remark(types.Rule.FOREIGN, text, why, "write them as `#SBATCH` lines", min(facts.script.foreign))


def _unknown(facts: types.Facts) -> Iterator[types.Remark]:
    words = facts.script.components[0]
    names = [option.name for option in sbatch_options.OPTIONS]
    for problem in sbatch_options.split([word.text for word in words]).problems:
        if problem.fault is not sbatch_options.Fault.UNKNOWN:
            continue
        close = difflib.get_close_matches(problem.spelling.lstrip("-"), names, n=1)
        _, equals, value = words[problem.word].text.partition("=")
        fix = f"#SBATCH --{close[0]}{equals}{value}" if close else "sbatch --help"
        text = f"`{errors.printable(problem.spelling)}` is no option of sbatch"
        why = "sbatch refuses a script with an option that it does not know"
        yield types.Remark(types.Rule.REFUSED, text, why, fix, words[problem.word].line)


def _release(facts: types.Facts, placed: types.Placed) -> Iterator[types.Remark]:
    release = facts.site.release
    name = placed.option.name
    if release is None:
        return
    since = types.parse_release(placed.option.since)
    if placed.value == "topo" and name == "exclusive":
        since = (24, 5)
    gone = _GONE.get(name)
    if since is not None and release < since:
        text = f"`{errors.printable(placed.first.text)}` exists from Slurm {types.version(since)} on"
    elif gone is not None and release >= gone:
        text = f"`--{name}` does not exist any more in Slurm {types.version(release)}"
    else:
        return
    why = f"sbatch {types.version(release)} refuses the script"
    yield types.Remark(types.Rule.RELEASE, text, why, "leave it out", placed.first.line)


def _said_twice(facts: types.Facts, placed: types.Placed, last: types.Placed) -> Iterator[types.Remark]:
    name = placed.option.name
    if (not placed.option.feeds and name not in _SAID_ONCE) or name in _ADD_UP:
        return
    if last is placed:
        return
    edit = lint_edit.dropped(facts.lines, placed)
    text = f"`{_spelled(placed)}` has no effect: line {last.first.line} says `{_spelled(last)}`"
    yield types.Remark(
        types.Rule.IGNORED,
        text,
        "of an option that is said twice sbatch takes the last",
        "leave it out",
        placed.first.line,
        (edit,) if edit is not None else (),
    )


def _spelled(placed: types.Placed) -> str:
    words = [placed.first.text] if placed.first is placed.last else [placed.first.text, placed.last.text]
    return errors.printable(" ".join(words), 60)


def _cut(facts: types.Facts, placed: types.Placed) -> Iterator[types.Remark]:
    """An unquoted `#` within a word ends the line."""
    word = placed.last
    line = facts.lines[word.line - 1]
    if line[word.end - 1 : word.end] != "#":
        return
    whole = line[word.column - 1 :].split()[0]
    name, equals, value = whole.partition("=")
    corrected = f'{name}="{value}"' if equals else f'"{whole}"'
    plain = not any(char in "\\\"'" for char in whole) and placed.option.name in _FREE_TEXT
    fixed = line[: word.column - 1] + corrected + line[word.column - 1 + len(whole) :]
    yield types.Remark(
        types.Rule.CUT,
        f"`{errors.printable(whole, 60)}` is read as `{errors.printable(word.text, 60)}`",
        "an unquoted `#` ends a directive, even within a word",
        fixed if plain else f"#SBATCH {corrected}, or a blank before the `#`",
        word.line,
        (types.Edit(word.line, (fixed,), removes=True),) if plain else (),
    )


def _not_expanded(facts: types.Facts, placed: types.Placed) -> Iterator[types.Remark]:
    value = placed.value or ""
    variable = _VARIABLE.search(value)
    if variable is None and "$(" not in value and "`" not in value and not value.startswith("~"):
        return
    name = placed.option.name
    decides = facts.submission.choice(name)
    if decides is None or decides.origin is not submissions.Origin.SCRIPT:
        return
    corrected = _VARIABLE.sub(lambda match: _PATTERNS.get(match[1].strip("{}"), match[0]), value)
    edits: tuple[types.Edit, ...] = ()
    fix = f"sbatch --{name}={_for_shell(value)} {facts.script.source}"
    if name in _FILES and not re.search(r"[$`]|^~", corrected):
        line = lint_edit.replaced(facts.lines, placed, lint_edit.quoted(f"--{name}={corrected}"))
        fix = f"#SBATCH --{name}={corrected}"
        edits = (types.Edit(placed.first.line, (line,), removes=True),) if line is not None else ()
    yield types.Remark(
        types.Rule.NOT_EXPANDED,
        f"`{errors.printable(value, 60)}` of `--{name}` stays as it is written",
        "no shell reads a directive: variables, `$(…)` and `~` are not expanded",
        errors.printable(fix, 200),
        placed.first.line,
        edits,
    )


def _for_shell(value: str) -> str:
    if value.startswith("~"):
        value = f"$HOME{value[1:]}"
    return '"' + value.replace("\\", "\\\\").replace('"', '\\"') + '"'
