"""Values of sbatch's options as numbers, by the limits that sbatch itself sets; each raises ValueError in words.

What was accepted and refused was asked of sbatch 22.05 (`sbatch -v --test-only` prints the options as it read them).
"""

from __future__ import annotations

import math
import re
from typing import Final

import msgspec

from placer import errors, units

MAX_COUNT: Final = 1 << 31
_NUMBER = re.compile(r"[ \t]*\+?(\d{1,10})\Z", re.ASCII)  # as C's strtol() takes it
_COUNT = re.compile(r"[ \t]*\+?(\d{1,10})([kKmM]?)[ \t]*\Z", re.ASCII)
_MEMORY = re.compile(r"[ \t]*\+?(\d{1,12}(?:[KMGT]B?)?)\Z", re.ASCII | re.IGNORECASE)
_GRES_PREFIX = re.compile(r"(?:gres[:/])?gpu(?=[:=]|\Z)")
_GRES_FLAGS: Final = frozenset(
    {
        "allow-task-sharing",
        "disable-binding",
        "enforce-binding",
        "multiple-tasks-per-sharing",
        "one-task-per-sharing",
    }
)
_SCALE: Final = {"": 1, "K": 1 << 10, "M": 1 << 20}


class GpuCount(msgspec.Struct, frozen=True):
    """A number of GPUs of one type, of several, or of any."""

    count: int
    type: str | None = None
    types: int = 1  # how many types were named; `type` is None when more than one


def count(text: str) -> int:
    """A count from 1 on: tasks, CPUs. sbatch takes no suffix here."""
    match = _NUMBER.match(text)
    if match is None or not 0 < int(match[1]) < MAX_COUNT:
        raise ValueError("not a number from 1 on")
    return int(match[1])


def _scaled(text: str) -> int:
    match = _COUNT.match(text)
    value = int(match[1]) * _SCALE[match[2].upper()] if match else MAX_COUNT
    if value >= MAX_COUNT:
        raise ValueError("not a count like `4` or `1k`")
    return value


def node_range(text: str) -> tuple[int, int | None]:
    """`4` -> (4, None), `2-4` -> (2, 4), `-3` -> (1, 3), `1k` -> (1024, None); of a list of sizes `2,4,8` its ends."""
    if "," in text:
        sizes = [size for part in text.split(",") for size in node_range(part) if size is not None]
        return min(sizes), max(sizes)
    low, dash, high = text.partition("-")
    least = _scaled(low) if low or not dash else 1
    most = _scaled(high) if dash else None
    if most is not None and most < least:
        raise ValueError("the most nodes are fewer than the least")
    return least, None if most == least else most


def memory(text: str) -> int:
    """Memory in MiB; whole numbers with K, M, G or T, megabytes without, as sbatch has it."""
    match = _MEMORY.match(text)
    if match is None:
        raise ValueError("not an amount of memory like `512M` or `100G`")
    return units.parse_memory(match[1])


def minutes_up(text: str) -> int | None:
    """A time limit in seconds, rounded up to whole minutes as sbatch does; 0 and UNLIMITED are None."""
    if not text.strip():
        raise ValueError("not a time like `30`, `2:00:00` or `1-12`")
    try:
        seconds = units.parse_duration(f"{text}0" if re.fullmatch(r"\d+-", text) else text)
    except errors.ParseError:
        raise ValueError("not a time like `30`, `2:00:00` or `1-12`") from None
    return -(-seconds // 60) * 60 if seconds else None


def switches(text: str) -> tuple[int, int | None]:
    """`1@10:00` -> (1, 600): leaf switches at most, and seconds to wait for them; None = not said, or no time at all,
    which sbatch lets pass.
    """
    number, _, wait = text.partition("@")
    most = count(number)
    try:
        return most, minutes_up(wait) if wait else None
    except ValueError:
        return most, None


def gpus(text: str) -> GpuCount | None:
    """`4`, `a100:8`, `a100:2,v100:1`; None when it asks for no GPU. `gpu:2` are two GPUs of a type named `gpu`."""
    return _total([_gpu_entry(entry) for entry in text.split(",") if entry])


def _total(entries: list[tuple[str | None, int]]) -> GpuCount | None:
    """The sum over types; of entries of one type the last counts."""
    of_type = {kind: number for kind, number in dict(entries).items() if number}
    if not of_type:
        return None
    return GpuCount(sum(of_type.values()), next(iter(of_type)) if len(of_type) == 1 else None, len(of_type))


def together(first: GpuCount | None, second: GpuCount | None) -> GpuCount | None:
    """Two ways of asking for GPUs of a node as one: of one type the second counts, of two types both."""
    if first is None or second is None or first.type == second.type:
        return second or first
    return GpuCount(first.count + second.count, None, first.types + second.types)


def _named_gpus(entries: list[str]) -> GpuCount | None:
    """Of entries that begin with the name of the resource: `gpu:a100:2`, `gres/gpu=1`, `gpu`."""
    return _total([_gpu_entry(_GRES_PREFIX.sub("", entry, 1).lstrip(":=")) for entry in entries])


def _gpu_entry(rest: str) -> tuple[str | None, int]:
    kind, separator, number = rest.rpartition("=") if "=" in rest else rest.rpartition(":")
    if not rest:
        return None, 1
    if not separator and not re.fullmatch(r"\d+[kKmM]?", rest):
        return _type_name(rest), 1
    return _type_name(kind) if kind else None, _scaled(number)


def _type_name(text: str) -> str:
    if not re.fullmatch(r"\w[\w.+-]*", text):
        raise ValueError("not GPUs like `4` or `a100:4`")
    return text


def gres(text: str) -> tuple[GpuCount | None, tuple[str, ...]]:
    """The GPUs of a gres list, and its entries that are no GPUs: `gpu:a100:2,shard:3` -> (2 of a100, ("shard:3",))."""
    entries = [entry for entry in text.split(",") if entry and entry.upper() != "NONE"]
    of_gpu = [entry for entry in entries if _GRES_PREFIX.match(entry)]
    return _named_gpus(of_gpu), tuple(entry for entry in entries if not _GRES_PREFIX.match(entry))


def tres_per_task(text: str) -> tuple[GpuCount | None, int | None, tuple[str, ...]]:
    """GPUs and CPUs of each task, and what else is named: `cpu=8,gres/gpu:a100=1` -> (1 of a100, 8, ())."""
    rest: list[str] = []
    cpus = None
    of_gpu: list[str] = []
    for entry in filter(None, text.split(",")):
        if _GRES_PREFIX.match(entry):
            of_gpu.append(entry)
        elif match := re.fullmatch(r"cpu[:=](\d{1,10})", entry):
            cpus = count(match[1])
        else:
            rest.append(entry)
    return _named_gpus(of_gpu), cpus, tuple(rest)


def exclusive(text: str) -> bool:
    """True when whole nodes are asked for; `user`, `mcs` and `topo` share nodes or are about other jobs."""
    if text.lower() in {"user", "mcs", "topo"}:
        return False
    if text.lower() not in {"", "exclusive"}:
        raise ValueError("not `exclusive`, `user`, `mcs` or `topo`")
    return True


def gpu_bind(text: str) -> str:
    """`--gpu-bind` without `verbose,`: `closest`, `none`, `single:2`, `per_task:1`, `map_gpu:0,1`, `mask_gpu:0x3`."""
    bind = text.lower().removeprefix("verbose,")
    if bind not in {"closest", "none"} and not re.match(r"(?:map_gpu|mask_gpu):|(?:single|per_task):[1-9]", bind):
        raise ValueError("not a binding like `closest` or `single:2`")
    return bind


def gres_flags(text: str) -> frozenset[str]:
    """The flags of `--gres-flags`, in lower case."""
    flags = frozenset(text.lower().split(","))
    if strange := flags - _GRES_FLAGS:
        raise ValueError(f"no flag `{errors.printable(min(strange))}`")
    if flags >= {"enforce-binding", "disable-binding"}:
        raise ValueError("`enforce-binding` and `disable-binding` exclude each other")
    return flags


def threads_of_hint(text: str) -> int | None:
    """Threads per core that `--hint` implies; None where it implies nothing."""
    if text in {"nomultithread", "compute_bound", "memory_bound"}:
        return 1
    if text not in {"multithread", "help"}:
        raise ValueError("not `compute_bound`, `memory_bound`, `multithread` or `nomultithread`")
    return None


def threads_of_node_info(text: str) -> int | None:
    """Threads per core of `-B sockets[:cores[:threads]]`; None when not a plain number."""
    return _part_of_node_info(text, 2)


def sockets_of_node_info(text: str) -> int | None:
    """Sockets per node of `-B sockets[:cores[:threads]]`; None when not a plain number."""
    return _part_of_node_info(text, 0)


def tasks_of_node_info(text: str) -> int:
    """Tasks on a node that `-B` stands for where nothing else says it: one for each thread of what it names."""
    return math.prod(_part_of_node_info(text, place) or 1 for place in range(3))


def _part_of_node_info(text: str, place: int) -> int | None:
    """A part, or the least of a part like `2-4`; None for `*`, for none, and for 0."""
    part = text.split(":")[place : place + 1]
    if not part or part[0] in {"", "*"}:
        return None
    match = re.match(r"\d{1,6}", part[0], re.ASCII)
    if match is None:
        raise ValueError("not numbers like `2:8:1`")
    return int(match[0]) or None


def flag_in_environment(text: str) -> bool:
    """A variable that stands for an option without argument: on when empty, `yes` or a number that is not 0."""
    return text in {"", "yes"} or (text.isascii() and text.isdigit() and int(text[:18]) != 0)
