"""Lint of a batch script: every remark with why and the corrected line, and the corrected script.

A script that sbatch would refuse is read on without the lines that it refuses, so that one look tells everything.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Final

import msgspec

from placer import errors
from placer.cluster import types as cluster
from placer.slurm import (
    lint_conflicts,
    lint_edit,
    lint_request,
    lint_text,
    sbatch_options,
    sbatch_script,
    submission,
    submission_files,
)
from placer.slurm import lint_types as types
from placer.slurm import submission_types as submissions

MOST_REMARKS: Final = 200
"""Of a longer list the rest is left out."""

_MOST_REFUSALS: Final = 10
_ROUNDS: Final = 5
_SHEBANG: Final = "#!/bin/bash"


class Report(msgspec.Struct, frozen=True):
    """What there is to say about a script, by line; `refused` tells whether sbatch would take it as it is."""

    remarks: tuple[types.Remark, ...]
    refused: bool = False


def check(
    data: bytes,
    source: str = "script",
    *,
    environ: Mapping[str, str],
    argv: Sequence[str] = (),
    site: types.Site | None = None,
    read_names: submissions.ReadNames = submission_files.read_file,
) -> Report:
    """Remarks on a script that is submitted with these options before it and this environment; total over the bytes.

    Options in `argv` that sbatch refuses are a remark too.
    """
    shift, found = 0, []
    if b"\r\n" in data:
        found.append(_dos(data))
        data = data.replace(b"\r\n", b"\n")
    if data.strip() and b"\0" not in data and not data.startswith(b"#!"):
        found.append(_no_interpreter())
        data, shift = _SHEBANG.encode() + b"\n" + data, 1
    refused = bool(found)
    try:
        inner = _Checker(source, environ, tuple(argv), site or types.Site(), read_names).check(data)
    except errors.ParseError as error:
        inner = Report((_refusal(error),), refused=True)
    found += (_moved(remark, shift) for remark in inner.remarks)
    found.sort(key=lambda remark: remark.line or 0)
    return Report(tuple(found[:MOST_REMARKS]), refused or inner.refused)


def fix(
    data: bytes,
    source: str = "script",
    *,
    environ: Mapping[str, str],
    site: types.Site | None = None,
    read_names: submissions.ReadNames = submission_files.read_file,
) -> bytes:
    """The script with every correction that does not change what the job is meant to get."""
    if b"\r\n" in data:
        data = data.replace(b"\r\n", b"\n")

    def look(script: bytes) -> Report:
        return check(script, source, environ=environ, site=site, read_names=read_names)

    for _ in range(_ROUNDS):
        report = look(data)
        edits = [remark.edits for remark in report.remarks if remark.edits]
        if not edits:
            break
        better = lint_edit.apply(data, [edit for group in edits for edit in group])
        if look(better).refused and not report.refused:  # one of them clashes with another line
            better = _one_by_one(data, edits, look)
            if better == data:
                break
        data = better
    return data


def _one_by_one(data: bytes, edits: list[tuple[types.Edit, ...]], look: Callable[[bytes], Report]) -> bytes:
    """The script with the first correction that sbatch does not refuse; unchanged when there is none."""
    for group in edits:
        better = lint_edit.apply(data, group)
        if not look(better).refused:
            return better
    return data


class _Checker:
    """One script, one environment, one cluster."""

    def __init__(
        self,
        source: str,
        environ: Mapping[str, str],
        argv: tuple[str, ...],
        site: types.Site,
        read_names: submissions.ReadNames,
    ) -> None:
        self.source = source
        self.environ = environ
        self.argv = argv
        self.site = site
        self.read_names = read_names

    def check(self, data: bytes) -> Report:
        """Remarks by all rules. Raises ParseError where not even the directives can be read."""
        refusals: list[types.Remark] = []
        script = sbatch_script.read(data, self.source)
        found = self._read(data, refusals)
        facts = types.Facts(
            lines=tuple(data.decode("utf-8", "surrogateescape").split("\n")),
            script=script,
            placed=_placed(script),
            submission=found,
            site=self.site,
        )
        remarks = [
            *refusals,
            *lint_text.remarks(facts),
            *(lint_conflicts.remarks(facts) if not refusals else ()),
            *_overridden(found),
            *lint_request.remarks(facts),
        ]
        fatal = {types.Rule.REFUSED, types.Rule.RELEASE}
        refused = bool(refusals) or any(remark.rule in fatal for remark in remarks) or lint_conflicts.refused(facts)
        return Report(tuple(remarks), refused)

    def _read(self, data: bytes, refusals: list[types.Remark]) -> submissions.Submission:
        """The submission; lines that sbatch refuses are noted and left out."""
        for _ in range(_MOST_REFUSALS):
            try:
                return submission.read([*self.argv, "script"], self.environ, _giving(data), self.read_names)
            except errors.ParseError as error:
                refusals.append(_refusal(error))
                lines = data.split(b"\n")
                lines[error.line - 1] = b"#"
                data = b"\n".join(lines)
            except errors.InputError as error:
                refusals.append(types.Remark(types.Rule.REFUSED, error.message, "sbatch refuses the job", error.hint))
                break
        return submissions.Submission(request=cluster.JobRequest())


def _giving(data: bytes) -> submissions.ReadScript:
    return lambda _name: data


def _placed(script: sbatch_script.Script) -> tuple[types.Placed, ...]:
    words = script.components[0]
    found = sbatch_options.split([word.text for word in words])
    return tuple(types.Placed(one.option, one.value, words[one.first], words[one.last]) for one in found.given)


def _refusal(error: errors.ParseError) -> types.Remark:
    text = error.message.removeprefix(f"{errors.printable(error.source)}:{error.line}:{error.column}: ")
    return types.Remark(types.Rule.REFUSED, text, "sbatch refuses the script", error.hint, error.line)


def _dos(data: bytes) -> types.Remark:
    line = data.count(b"\n", 0, data.index(b"\r\n")) + 1
    text = "lines end as in DOS files (CR LF)"
    return types.Remark(types.Rule.REFUSED, text, "sbatch refuses the script", "dos2unix SCRIPT", line)


def _no_interpreter() -> types.Remark:
    return types.Remark(
        types.Rule.REFUSED,
        "the first line does not begin with `#!`",
        "sbatch refuses a script that names no interpreter",
        _SHEBANG,
        1,
        (types.Edit(1, (_SHEBANG,)),),
    )


def _overridden(found: submissions.Submission) -> Iterator[types.Remark]:
    for finding in found.findings:
        if finding.concern is submissions.Concern.OVERRIDDEN:
            why = "the command line is stronger than `SBATCH_*` variables, and these than the script"
            yield types.Remark(types.Rule.OVERRIDDEN, finding.text, why, finding.hint, finding.line)
        elif finding.concern is submissions.Concern.NEAR_MISS and "#PLACER" in finding.text:
            yield types.Remark(types.Rule.NEAR_MISS, finding.text, "it has no effect", finding.hint, finding.line)


def _moved(remark: types.Remark, shift: int) -> types.Remark:
    """The remark on a script that lacks the first `shift` lines of the one that was checked."""
    if not shift or remark.line is None:
        return remark
    edits = tuple(msgspec.structs.replace(edit, line=max(1, edit.line - shift)) for edit in remark.edits)
    return msgspec.structs.replace(remark, line=max(1, remark.line - shift), edits=edits)
