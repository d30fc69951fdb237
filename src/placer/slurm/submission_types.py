"""The nouns of a submission: what sbatch was told, where each option came from, and what there is to say about it."""

from __future__ import annotations

import enum
from collections.abc import Callable

import msgspec

from placer.cluster import types as cluster

ReadScript = Callable[[str | None], bytes]
"""Gives the bytes of a script by its name as sbatch would find it, of standard input for None. Raises OSError."""

ReadNames = Callable[[str], bytes]
"""Gives the bytes of a file of node names by its path. Raises OSError."""


class Origin(enum.StrEnum):
    """Where an option came from."""

    CLI = "command line"
    ENVIRONMENT = "environment"
    SCRIPT = "script"


class Concern(enum.StrEnum):
    """What a finding is about."""

    NEAR_MISS = "near-miss"  # looks like a directive, is ignored
    OVERRIDDEN = "overridden"  # a variable beats the script
    CONFLICT = "conflict"  # options that later releases refuse together
    NOT_UNDERSTOOD = "not-understood"  # part of the request that placer cannot judge
    HIDES_PEERS = "hides-peers"  # ranks of a node do not see each other's GPUs
    WHOLE_MEMORY = "whole-memory"  # whole nodes, but not their memory
    LINT = "lint"  # a remark of the script's lint that is none of these


class Finding(msgspec.Struct, frozen=True):
    """Something the user would want to know. `line` is the script's, None when it is not about a line."""

    concern: Concern
    text: str
    hint: str
    line: int | None = None


class Choice(msgspec.Struct, frozen=True):
    """An option in force. `spelling` is how to name it to the user; `line` and `column` where a script gives it."""

    name: str
    value: str | None
    origin: Origin
    spelling: str
    line: int = 0
    column: int = 0


class Submission(msgspec.Struct, frozen=True, kw_only=True):
    """A submission as placer understands it. `script` is None for a script on standard input and for `--wrap`."""

    request: cluster.JobRequest
    script: str | None = None
    arguments: tuple[str, ...] = ()  # of the script
    wrap: str | None = None
    choices: tuple[Choice, ...] = ()  # by name, one of each
    findings: tuple[Finding, ...] = ()
    components: int = 1  # more than one: a heterogeneous job
    switch_wait: int | None = None  # seconds that --switches may wait
    submits: bool = True  # False for --help, --usage and --version

    def choice(self, name: str) -> Choice | None:
        """The option of that long name, if it is in force."""
        return next((choice for choice in self.choices if choice.name == name), None)

    def gives(self, *names: str) -> bool:
        """Whether any of these options is in force, wherever it came from."""
        return any(choice.name in names for choice in self.choices)

    @property
    def understood(self) -> bool:
        """Whether the request holds everything that bears on the placement."""
        return not any(finding.concern is Concern.NOT_UNDERSTOOD for finding in self.findings)

    @property
    def wants_gpus(self) -> bool:
        """Whether the job asks for GPUs at all."""
        asked = self.request
        return any((asked.gpus, asked.gpus_per_node, asked.gpus_per_task, asked.gpus_per_socket, asked.gpu_share))
