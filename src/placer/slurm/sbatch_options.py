"""sbatch's options as one table, and argument vectors split as sbatch splits them.

The table holds what `sbatch --help` of 22.05 prints and what later man pages add; whether an option takes an argument
was asked of sbatch itself. Splitting follows getopt with its POSIX rule: short options cluster (`-HN2`), a long option
may be shortened while that stays unambiguous, options end at the first other word or after `--`.
"""

from __future__ import annotations

import enum
import functools
from collections.abc import Mapping, Sequence
from typing import Final

import msgspec

BASE_RELEASE: Final = "22.05"
"""The oldest release that is supported; an option without `since` is in it."""


class Argument(enum.Enum):
    """Whether an option takes an argument. An optional one is only ever given as `--name=value` or `-kvalue`."""

    NONE = 0
    REQUIRED = 1
    OPTIONAL = 2


class Option(msgspec.Struct, frozen=True):
    """One option of sbatch. `name` is the long spelling without dashes, `short` one letter or empty."""

    name: str
    short: str = ""
    argument: Argument = Argument.REQUIRED
    environ: tuple[str, ...] = ()  # variables that do the same, the stronger first
    feeds: tuple[str, ...] = ()  # fields of cluster.types.JobRequest that it sets
    since: str = BASE_RELEASE
    also: tuple[str, ...] = ()  # other long spellings of the same option
    exact: bool = False  # never matched by an abbreviation
    until: str = ""  # the first release without it; empty = it is still there


def _row(
    spelling: str, environ: str = "", feeds: str = "", since: str = BASE_RELEASE, also: str = "", until: str = ""
) -> Option:
    """`N,nodes=` takes an argument, `exclusive[=]` may take one, `hold` takes none."""
    short, _, name = spelling.rpartition(",")
    argument = Argument.OPTIONAL if name.endswith("[=]") else Argument.REQUIRED if name[-1] == "=" else Argument.NONE
    twins = tuple(variable if "_" in variable else f"SBATCH_{variable}" for variable in environ.split())
    return Option(
        name=name.rstrip("[=]"),
        short=short,
        argument=argument,
        environ=twins,
        feeds=tuple(feeds.split()),
        since=since,
        also=tuple(also.split()),
        until=until,
    )


_GPU: Final = "gpu_type gpus"

OPTIONS: Final[tuple[Option, ...]] = (
    _row("A,account=", "ACCOUNT"),
    _row("acctg-freq=", "SBATCH_ACCTG_FREQ"),
    _row("a,array=", "SBATCH_ARRAY_INX"),
    _row("autocomplete=", since="24.11"),
    _row("batch=", "BATCH"),
    _row("bb="),
    _row("bbf="),
    _row("b,begin="),
    _row("D,chdir="),
    _row("cluster-constraint="),
    _row("M,clusters=", "CLUSTERS SLURM_CLUSTERS", also="cluster"),
    _row("comment="),
    _row("consolidate-segments", since="25.11"),
    _row("C,constraint=", "CONSTRAINT", "constraint"),
    _row("container=", "CONTAINER"),
    _row("container-id=", "SBATCH_CONTAINER_ID", since="23.02"),
    _row("container-type=", "SBATCH_CONTAINER_TYPE", since="26.05"),
    _row("context="),
    _row("contiguous"),
    _row("S,core-spec=", "SBATCH_CORE_SPEC"),
    _row("cores-per-socket="),
    _row("cpu-freq="),
    _row("cpus-per-gpu=", "SBATCH_CPUS_PER_GPU", "cpus_per_gpu"),
    _row("c,cpus-per-task=", feeds="cpus_per_task"),
    _row("deadline="),
    _row("delay-boot=", "SBATCH_DELAY_BOOT"),
    _row("d,dependency="),
    _row("m,distribution=", "DISTRIBUTION"),
    _row("e,error=", "ERROR"),
    _row("x,exclude=", feeds="exclude"),
    _row("exclusive[=]", "EXCLUSIVE", "exclusive"),
    _row("export=", "EXPORT"),
    _row("export-file="),
    _row("external", since="26.05"),
    _row("extra=", since="23.02"),
    _row("B,extra-node-info=", feeds="sockets_per_node threads_per_core"),
    _row("get-user-env[=]", "SBATCH_GET_USER_ENV"),
    _row("gid="),
    _row("gpu-bind=", "SBATCH_GPU_BIND"),
    _row("gpu-freq=", "SBATCH_GPU_FREQ"),
    _row("G,gpus=", "GPUS", _GPU),
    _row("gpus-per-node=", "SBATCH_GPUS_PER_NODE", "gpu_type gpus_per_node"),
    _row("gpus-per-socket=", "SBATCH_GPUS_PER_SOCKET", "gpu_type gpus_per_socket"),
    _row("gpus-per-task=", "SBATCH_GPUS_PER_TASK", "gpu_type gpus_per_task"),
    _row("gres=", "GRES", "gpu_type gpus_per_node"),
    _row("gres-flags=", "SBATCH_GRES_FLAGS", "enforce_binding"),
    _row("h,help"),
    _row("hint=", "HINT SLURM_HINT", "hint threads_per_core"),
    _row("H,hold"),
    _row("ignore-pbs", "SBATCH_IGNORE_PBS"),
    _row("i,input=", "INPUT"),
    _row("J,job-name=", "SBATCH_JOB_NAME"),
    _row("kill-on-invalid-dep="),
    _row("L,licenses="),
    _row("mail-type="),
    _row("mail-user="),
    _row("mcs-label="),
    _row("mem=", "SBATCH_MEM_PER_NODE", "memory_per_node_mib whole_memory"),
    _row("mem-bind=", "SBATCH_MEM_BIND"),
    _row("mem-per-cpu=", "SBATCH_MEM_PER_CPU", "memory_per_cpu_mib"),
    _row("mem-per-gpu=", "SBATCH_MEM_PER_GPU", "memory_per_gpu_mib"),
    _row("mem-update=", since="26.05"),
    _row("mincpus="),
    _row("network=", "NETWORK"),
    _row("nice[=]"),
    _row("k,no-kill[=]", "SBATCH_NO_KILL"),
    _row("no-requeue", "SBATCH_NO_REQUEUE"),
    _row("F,nodefile=", feeds="nodelist"),
    _row("w,nodelist=", feeds="nodelist"),
    _row("N,nodes=", feeds="nodes nodes_max"),
    _row("n,ntasks=", feeds="ntasks"),
    _row("ntasks-per-core="),
    _row("ntasks-per-gpu=", feeds="ntasks ntasks_per_gpu ntasks_per_node gpus", also="ntasks-per-tres"),
    _row("ntasks-per-node=", feeds="ntasks_per_node", also="tasks-per-node"),
    _row("ntasks-per-socket=", feeds="ntasks_per_socket"),
    _row("oom-kill-step[=]", since="24.11"),
    _row("open-mode=", "SBATCH_OPEN_MODE"),
    _row("o,output=", "OUTPUT"),
    _row("O,overcommit", "OVERCOMMIT"),
    _row("s,oversubscribe"),
    _row("parsable"),
    _row("p,partition=", "PARTITION", "partition"),
    _row("power=", "POWER", until="24.11"),
    _row("prefer="),
    _row("priority="),
    _row("profile=", "PROFILE"),
    _row("propagate[=]"),
    _row("q,qos=", "QOS"),
    _row("Q,quiet"),
    _row("reboot"),
    _row("requeue[=]", "REQUEUE"),
    _row("reservation=", "RESERVATION", "reservation"),
    _row("resources=", since="25.11"),
    _row("resv-ports[=]", since="24.11"),
    _row("segment=", "SBATCH_SEGMENT_SIZE", since="24.05"),
    _row("signal=", "SIGNAL"),
    _row("sockets-per-node=", feeds="sockets_per_node"),
    _row("spread-job", "SBATCH_SPREAD_JOB"),
    _row("spread-segments", "SBATCH_SPREAD_SEGMENTS", since="25.11"),
    _row("stepmgr", since="24.05"),
    _row("switches=", "SBATCH_REQ_SWITCH", "switches"),
    _row("test-only"),
    _row("thread-spec=", "SBATCH_THREAD_SPEC"),
    _row("threads-per-core=", "SBATCH_THREADS_PER_CORE", "threads_per_core"),
    _row("t,time=", "TIMELIMIT", "time_limit"),
    _row("time-min="),
    _row("tmp="),
    _row("tres-bind=", "SBATCH_TRES_BIND", since="23.11"),
    _row("tres-per-task=", "SBATCH_TRES_PER_TASK", "gpu_type gpus_per_task cpus_per_task", since="23.02"),
    _row("uid="),
    _row("usage"),
    _row("use-min-nodes", "SBATCH_USE_MIN_NODES"),
    _row("v,verbose"),
    _row("V,version"),
    _row("W,wait", "WAIT"),
    _row("wait-all-nodes=", "SBATCH_WAIT_ALL_NODES"),
    _row("wckey=", "WCKEY"),
    _row("wrap="),
)
"""Every option of sbatch from 22.05 to 26.05; where one changed, the row takes what any release takes.

An option that 24.11 or 26.05 has and the release tried before it lacks bears that release, unless a document names an
earlier one.
"""


class _Change(msgspec.Struct, frozen=True):
    """What an option is to releases in [since, until), where that differs from its row."""

    since: tuple[int, int]
    until: tuple[int, int]
    argument: Argument | None = None
    environ: tuple[str, ...] | None = None


_FIRST: Final = (0, 0)
_LAST: Final = (99, 99)
_CHANGES: Final = {
    "get-user-env": _Change((26, 5), _LAST, argument=Argument.NONE),
    "requeue": _Change(_FIRST, (26, 5), argument=Argument.NONE),
    "segment": _Change(_FIRST, (25, 5), environ=()),
}


@functools.lru_cache(maxsize=8)
def of_release(release: tuple[int, int] | None) -> tuple[Option, ...]:
    """The options of one release, as (24, 11); of all releases for None."""
    if release is None:
        return OPTIONS
    found = []
    for option in OPTIONS:
        if _number(option.since) <= release and not (option.until and release >= _number(option.until)):
            change = _CHANGES.get(option.name)
            found.append(_changed(option, change) if change and change.since <= release < change.until else option)
    return tuple(found)


def _number(release: str) -> tuple[int, int]:
    year, _, month = release.partition(".")
    return int(year), int(month)


def _changed(option: Option, change: _Change) -> Option:
    return msgspec.structs.replace(
        option,
        argument=option.argument if change.argument is None else change.argument,
        environ=option.environ if change.environ is None else change.environ,
    )


class Given(msgspec.Struct, frozen=True):
    """An option as it stands in a vector: words `first` to `last` (both included) hold it and its argument.

    Several options of one cluster (`-HN2`) share their word.
    """

    option: Option
    value: str | None
    first: int
    last: int


class Fault(enum.Enum):
    """Why getopt would stop sbatch with an error."""

    UNKNOWN = "unrecognized option"
    AMBIGUOUS = "ambiguous option"
    MISSING = "option requires an argument"
    UNWANTED = "option takes no argument"


class Problem(msgspec.Struct, frozen=True):
    """What getopt complains of, and the word it stands in."""

    fault: Fault
    spelling: str
    word: int


class Split(msgspec.Struct, frozen=True):
    """A vector taken apart. `rest` is the index of the first word that is no option; the vector's length if none."""

    given: tuple[Given, ...]
    rest: int
    problems: tuple[Problem, ...] = ()


def split(words: Sequence[str], start: int = 0, options: tuple[Option, ...] = OPTIONS) -> Split:
    """Take `words[start:]` apart as getopt does; never raises, and an unknown option is taken to have no argument."""
    longs, shorts = _long_names(options), {option.short: option for option in options if option.short}
    given: list[Given] = []
    problems: list[Problem] = []
    at = start
    while at < len(words):
        word = words[at]
        if word == "--":
            at += 1
            break
        if word.startswith("--"):
            at = _take_long(words, at, longs, given, problems)
        elif word.startswith("-") and word != "-":
            at = _take_cluster(words, at, shorts, given, problems)
        else:
            break
    return Split(tuple(given), at, tuple(problems))


def _long_names(options: tuple[Option, ...]) -> dict[str, Option]:
    return {name: option for option in options for name in (option.name, *option.also)}


def find(prefix: str, longs: Mapping[str, Option]) -> Option | Fault:
    """The option that a long spelling means: itself, or the only one that it begins.

    What would be ambiguous only through options of later releases means the one of the oldest release.
    """
    if prefix in longs:
        return longs[prefix]
    matches = {option.name: option for name, option in longs.items() if name.startswith(prefix) and not option.exact}
    oldest = [option for option in matches.values() if option.since == BASE_RELEASE]
    for candidates in (list(matches.values()), oldest):
        if len(candidates) == 1:
            return candidates[0]
    return Fault.AMBIGUOUS if matches else Fault.UNKNOWN


def _take_long(
    words: Sequence[str], at: int, longs: Mapping[str, Option], given: list[Given], problems: list[Problem]
) -> int:
    name, equals, inline = words[at][2:].partition("=")
    option = find(name, longs)
    if isinstance(option, Fault):
        problems.append(Problem(option, f"--{name}", at))
    elif option.argument is Argument.NONE and equals:
        problems.append(Problem(Fault.UNWANTED, f"--{name}", at))
    elif option.argument is not Argument.REQUIRED or equals:
        given.append(Given(option, inline if equals else None, at, at))
    elif at + 1 < len(words):
        given.append(Given(option, words[at + 1], at, at + 1))
        return at + 2
    else:
        problems.append(Problem(Fault.MISSING, f"--{name}", at))
    return at + 1


def _take_cluster(
    words: Sequence[str], at: int, shorts: Mapping[str, Option], given: list[Given], problems: list[Problem]
) -> int:
    word = words[at]
    for position, letter in enumerate(word[1:], start=2):
        option, tail = shorts.get(letter), word[position:]
        if option is None:
            problems.append(Problem(Fault.UNKNOWN, f"-{letter}", at))
        elif option.argument is Argument.NONE:
            given.append(Given(option, None, at, at))
        elif tail or option.argument is Argument.OPTIONAL:
            given.append(Given(option, tail or None, at, at))
            break
        elif at + 1 < len(words):
            given.append(Given(option, words[at + 1], at, at + 1))
            return at + 2
        else:
            problems.append(Problem(Fault.MISSING, f"-{letter}", at))
    return at + 1
