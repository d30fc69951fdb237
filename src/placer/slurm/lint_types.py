"""The nouns of lint: what is remarkable about a batch script, why, and what the line should be."""

from __future__ import annotations

import enum

import msgspec

from placer.cluster import types as cluster
from placer.slurm import sbatch_options, sbatch_script
from placer.slurm import submission_types as types


class Rule(enum.StrEnum):
    """What a remark is about."""

    REFUSED = "refused"  # sbatch does not take the script
    CONFLICT = "conflict"  # options that a release refuses together
    RELEASE = "release"  # an option that the release does not have
    NEAR_MISS = "near-miss"  # looks like a directive, is a comment
    OLD_PREFIX = "old-prefix"
    FOREIGN = "foreign"  # directives of another batch system
    IGNORED = "ignored"  # an option without effect
    CUT = "cut"  # text that sbatch does not see
    NOT_EXPANDED = "not-expanded"
    OVERRIDDEN = "overridden"  # a variable beats the script
    HIDES_PEERS = "hides-peers"
    WHOLE_MEMORY = "whole-memory"
    SWITCH_WAIT = "switch-wait"
    UNEVEN = "uneven"
    STRANDS_GPUS = "strands-gpus"
    SRUN_CPUS = "srun-cpus"


class Edit(msgspec.Struct, frozen=True):
    """A change of the script: `puts` go before line `line`, which goes away if `removes`. Lines without line ends."""

    line: int
    puts: tuple[str, ...] = ()
    removes: bool = False


class Remark(msgspec.Struct, frozen=True):
    """One thing to say. `fix` is the corrected line, or the command that helps; `edits` what may be done unasked.

    Without `edits` the fix changes what the job gets, so that a person decides.
    """

    rule: Rule
    text: str
    why: str
    fix: str | None = None
    line: int | None = None
    edits: tuple[Edit, ...] = ()


class NodeShape(msgspec.Struct, frozen=True):
    """What nodes of one kind have; `name` is one of them."""

    name: str
    gpus: int
    cpus: int
    memory_mib: int
    gpu_type: str | None = None
    partitions: tuple[str, ...] = ()


Release = tuple[int, int]
"""(24, 11): year and month, as Slurm numbers its releases."""


class Site(msgspec.Struct, frozen=True):
    """What is known of the cluster that gets the script; nothing need be."""

    release: Release | None = None
    shapes: tuple[NodeShape, ...] = ()


class Placed(msgspec.Struct, frozen=True):
    """An option in a directive of the first component, with its first and last word."""

    option: sbatch_options.Option
    value: str | None
    first: sbatch_script.Word
    last: sbatch_script.Word


class Facts(msgspec.Struct, frozen=True):
    """All that the rules look at. `lines` are those of the script; `placed` stands in the order of the script."""

    lines: tuple[str, ...]
    script: sbatch_script.Script
    placed: tuple[Placed, ...]
    submission: types.Submission
    site: Site

    @property
    def request(self) -> cluster.JobRequest:
        """What the job asks for."""
        return self.submission.request

    def at(self, name: str) -> Placed | None:
        """The directive that decides an option; None where something else does."""
        choice = self.submission.choice(name)
        if choice is None or choice.origin is not types.Origin.SCRIPT:
            return None
        return next((one for one in reversed(self.placed) if one.option.name == name), None)

    def line_of(self, name: str) -> int | None:
        """The line of the directive that decides an option."""
        found = self.at(name)
        return found.first.line if found is not None else None


def version(release: Release) -> str:
    """(24, 5) -> `24.05`."""
    return f"{release[0]}.{release[1]:02d}"


def parse_release(text: str) -> Release | None:
    """`24.11`, `slurm 24.11.5` -> (24, 11); None where no release can be read."""
    for word in text.split():
        year, dot, rest = word.partition(".")
        month = rest.partition(".")[0]
        if dot and len(year) == 2 and len(month) == 2 and (year + month).isascii() and (year + month).isdigit():
            return int(year), int(month)
    return None
