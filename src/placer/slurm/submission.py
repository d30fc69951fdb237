"""What a job asks for, read from an sbatch command line, its script and the environment.

Strongest first: command line, `SBATCH_*` variables, `#SBATCH` lines, sbatch's defaults (slurm.md 2.1). A heterogeneous
job is read by its first component. Nothing here changes what sbatch will do; it only reads.
"""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from typing import Final

import msgspec

from placer import errors
from placer.cluster import types as cluster
from placer.slurm import sbatch_options, sbatch_script, submission_conflicts, submission_files, submission_request
from placer.slurm import submission_types as types

_MEMORY: Final = ("mem", "mem-per-cpu", "mem-per-gpu")
_SAME_SETTING: Final = {
    "exclusive": "oversubscribe",
    "oversubscribe": "exclusive",
    "requeue": "no-requeue",
    "no-requeue": "requeue",
}
"""Options that set one thing two ways: the later one is in force."""
_BEFORE_HINT: Final = ("threads-per-core", "ntasks-per-core", "extra-node-info")
"""Any of these puts `--hint` out of force."""
_NO_JOB: Final = frozenset({"help", "usage", "version"})


def read(
    argv: Sequence[str],
    environ: Mapping[str, str],
    read_script: types.ReadScript,
    read_names: types.ReadNames = submission_files.read_file,
    release: tuple[int, int] | None = None,
) -> types.Submission:
    """Read a submission; `argv` is what follows `sbatch`. `read_names` gives the bytes of a file of node names.

    With a `release`, as (24, 11), exactly as its sbatch reads, refusals included; for None as leniently as any does.
    Raises ParseError (with line and column) for a script that sbatch would refuse, RequestError for a command line or
    a variable that it would refuse, InputError for a file that cannot be read.
    """
    options = sbatch_options.of_release(release)
    line = command_line(argv, options)
    strict = release is not None
    given = _of_command_line(line.first, argv, strict)
    if any(choice.name in _NO_JOB for choice in given):
        return types.Submission(request=cluster.JobRequest(), choices=given, submits=False)
    wrap = next((choice.value for choice in reversed(given) if choice.name == "wrap"), None)
    if wrap is not None and line.rest < len(argv):
        raise errors.RequestError("command line: a script and `--wrap` exclude each other", hint="sbatch --help")
    name = argv[line.rest] if line.rest < len(argv) else None
    findings = [_unknown(p.spelling) for p in line.first.problems if p.fault is sbatch_options.Fault.UNKNOWN]
    directives: tuple[types.Choice, ...] = ()
    script = None
    if wrap is None:
        source = name if name is not None else "standard input"
        script = sbatch_script.read(_bytes_of(read_script, name, source), source, release)
        directives = _of_script(script, options, findings, strict)
        findings.extend(_of_the_text(script, environ, given))
    variables = _of_environment(environ, options)
    submission_conflicts.refuse(directives, variables, given, script.source if script else "script", release)
    choices = _in_force(directives, variables, given, findings)
    request, wait = submission_request.build(choices, script, environ, read_names, findings)
    components = max(line.components, len(script.components) if script else 1)
    if components > 1:
        text = f"a heterogeneous job of {components} components is read by its first"
        findings.append(
            types.Finding(types.Concern.NOT_UNDERSTOOD, text, "placer place advises on one component at a time")
        )
    return types.Submission(
        request=request,
        script=name if wrap is None else None,
        arguments=tuple(argv[line.rest + 1 :]),
        wrap=wrap,
        choices=choices,
        findings=tuple(findings),
        components=components,
        switch_wait=wait,
    )


class CommandLine(msgspec.Struct, frozen=True):
    """A command line taken apart: the options of the first component, how many there are, where the script stands."""

    first: sbatch_options.Split
    components: int
    rest: int


def command_line(
    argv: Sequence[str], options: tuple[sbatch_options.Option, ...] = sbatch_options.OPTIONS
) -> CommandLine:
    """Split the words after `sbatch`; a word `:` in option position begins the next component. Never raises."""
    first = found = sbatch_options.split(argv, 0, options)
    components = 1
    while found.rest < len(argv) and argv[found.rest] == ":":
        found = sbatch_options.split(argv, found.rest + 1, options)
        components += 1
    return CommandLine(first, components, found.rest)


def _bytes_of(read_script: types.ReadScript, name: str | None, source: str) -> bytes:
    try:
        return read_script(name)
    except OSError as error:
        reason = error.strerror or type(error).__name__
        message = f"cannot read {errors.printable(source)}: {reason}"
        raise errors.InputError(message, hint=f"ls -l {shlex.quote(source)}" if name else None) from None


def _unknown(spelling: str, line: int | None = None) -> types.Finding:
    text = f"`{errors.printable(spelling)}` is no option that placer knows"
    return types.Finding(types.Concern.NOT_UNDERSTOOD, text, "sbatch --help", line)


def _of_command_line(found: sbatch_options.Split, argv: Sequence[str], strict: bool) -> tuple[types.Choice, ...]:
    for problem in found.problems:
        if strict or problem.fault is not sbatch_options.Fault.UNKNOWN:
            spelling = errors.printable(problem.spelling)
            raise errors.RequestError(f"command line: {problem.fault.value} `{spelling}`", hint="sbatch --help")
    return tuple(
        types.Choice(one.option.name, one.value, types.Origin.CLI, shlex.join(argv[one.first : one.last + 1]))
        for one in found.given
    )


def _of_script(
    script: sbatch_script.Script,
    options: tuple[sbatch_options.Option, ...],
    findings: list[types.Finding],
    strict: bool,
) -> tuple[types.Choice, ...]:
    """Options of the first component's directives; ParseError where sbatch would refuse one."""
    words = script.components[0]
    texts = [word.text for word in words]
    choices: list[types.Choice] = []
    start = 0
    while True:
        found = sbatch_options.split(texts, start, options)
        unknown = _problems_of_script(found, script, findings, strict)
        for one in found.given:
            place = words[one.first]
            spelling = shlex.join(texts[one.first : one.last + 1])
            choices.append(
                types.Choice(one.option.name, one.value, types.Origin.SCRIPT, spelling, place.line, place.column)
            )
        if found.rest == len(words):
            return tuple(choices)
        if found.rest - 1 != unknown:
            raise _at(words[found.rest], script.source, "neither an option nor the argument of one")
        start = found.rest + 1  # the argument of an option that only a later sbatch knows


def _problems_of_script(
    found: sbatch_options.Split, script: sbatch_script.Script, findings: list[types.Finding], strict: bool
) -> int | None:
    """Report unknown options; gives the index of the last one, which may have an argument that we do not know of."""
    last = None
    for problem in found.problems:
        word = script.components[0][problem.word]
        if strict or problem.fault is not sbatch_options.Fault.UNKNOWN:
            raise _at(word, script.source, problem.fault.value)
        findings.append(_unknown(problem.spelling, word.line))
        last = problem.word
    return last


def _at(word: sbatch_script.Word, source: str, message: str) -> errors.ParseError:
    return errors.ParseError(
        message, source=source, line=word.line, column=word.column, excerpt=word.text, hint="sbatch --help"
    )


def _of_environment(environ: Mapping[str, str], options: tuple[sbatch_options.Option, ...]) -> tuple[types.Choice, ...]:
    choices: list[types.Choice] = []
    for option in options:
        variable = next((name for name in option.environ if name in environ), None)
        if variable is not None:
            value = environ[variable]
            if option.argument is not sbatch_options.Argument.NONE:
                choices.append(types.Choice(option.name, value, types.Origin.ENVIRONMENT, f"{variable}={value}"))
            elif submission_request.flag(value):
                choices.append(types.Choice(option.name, None, types.Origin.ENVIRONMENT, f"{variable}={value}"))
    return tuple(choices)


def _in_force(
    script: tuple[types.Choice, ...],
    variables: tuple[types.Choice, ...],
    cli: tuple[types.Choice, ...],
    findings: list[types.Finding],
) -> tuple[types.Choice, ...]:
    """One choice for each name, the stronger and later one; variables yield to their rivals (memory, CPUs, hints)."""
    said = {choice.name for choice in (*script, *cli)}
    on_cli = {choice.name for choice in cli}
    kept = [choice for choice in variables if not _yields(choice.name, said)]
    before = {choice.name: choice for choice in script}
    for choice in kept:
        old = before.get(choice.name)
        if old is not None and old.value != choice.value and choice.name not in on_cli:
            text = f"{choice.spelling} in the environment overrides `{old.spelling}`"
            hint = f"unset {choice.spelling.partition('=')[0]}"
            findings.append(types.Finding(types.Concern.OVERRIDDEN, text, hint, old.line))
    force: dict[str, types.Choice] = {}
    for choice in (*script, *kept, *cli):
        force.pop(_SAME_SETTING.get(choice.name, ""), None)
        force[choice.name] = choice
    if any(name in force for name in _BEFORE_HINT):
        force.pop("hint", None)
    return tuple(force[name] for name in sorted(force))


def _yields(name: str, said: set[str]) -> bool:
    """Whether a variable has no effect because a rival of it is given elsewhere."""
    if name in _MEMORY:
        return any(rival in said for rival in _MEMORY if rival != name)
    if name == "cpus-per-gpu":
        return "cpus-per-task" in said
    return name == "threads-per-core" and "hint" in said and said.isdisjoint(_BEFORE_HINT)


def _of_the_text(
    script: sbatch_script.Script, environ: Mapping[str, str], given: tuple[types.Choice, ...]
) -> list[types.Finding]:
    findings = [
        types.Finding(
            types.Concern.NEAR_MISS,
            f"`{errors.printable(miss.text, 60)}` {miss.why} and is ignored",
            "write `#SBATCH` in column one, before the first command",
            miss.line,
        )
        for miss in script.near_misses
    ]
    if script.old_prefix is not None:
        text = "`#SLURM` is the old spelling of `#SBATCH`"
        findings.append(types.Finding(types.Concern.NEAR_MISS, text, "write `#SBATCH`", script.old_prefix))
    ignored = "SBATCH_IGNORE_PBS" in environ or any(choice.name == "ignore-pbs" for choice in given)
    if script.foreign and not ignored:
        text = "`#PBS` and `#BSUB` lines, which sbatch translates, are not read"
        findings.append(
            types.Finding(types.Concern.NOT_UNDERSTOOD, text, "write them as `#SBATCH` lines", script.foreign[0])
        )
    return findings
