"""The text of `scontrol show job -d`, of every release since 22.05."""

from __future__ import annotations

import re

import msgspec

from placer import errors, hostlist, ranges, units
from placer.slurm import parse_records as records
from placer.slurm import parse_text

# One line for each group of nodes that hold the same; the GRES part may be empty.
_HOLDING = re.compile(r"(?m)^[ \t]+Nodes=(\S*) CPU_IDs=(\S*) Mem=(\S*)(?: GRES(?:_IDX)?=(\S*))?")


def jobs(text: str, *, source: str, zone_seconds: int = 0) -> records.Read[records.JobRecord]:
    """`scontrol show job -d`, whose times are `zone_seconds` ahead of UTC. Raises ParseError."""

    def reader(fields: parse_text.Fields) -> records.JobRecord:
        return _in_utc(_job(fields), zone_seconds)

    return parse_text.read_all(
        text, "JobId", reader, source=source, empty="No jobs in the system", hint="scontrol show job -d"
    )


def _in_utc(job: records.JobRecord, zone_seconds: int) -> records.JobRecord:
    if not zone_seconds:
        return job
    moments = {"submitted": job.submitted, "started": job.started, "ends": job.ends}
    shifted = {key: None if moment is None else moment - zone_seconds for key, moment in moments.items()}
    return msgspec.structs.replace(job, **shifted)


def _job(fields: parse_text.Fields) -> records.JobRecord:
    held_nodes = fields.text("NodeList")
    least, most = _node_range(fields)
    per_node, sockets, threads = _task_layout(fields)
    return records.JobRecord(
        id=fields.values["JobId"],
        alias=_alias(fields),
        name=fields.text("JobName"),
        user=(fields.text("UserId") or "").partition("(")[0],
        account=fields.text("Account"),
        states=parse_text.states(fields.values.get("JobState", "")) or None,
        reason=_reason(fields.values.get("Reason", "")),
        dependency=fields.text("Dependency"),
        priority=fields.count("Priority"),
        partition=fields.text("Partition"),
        submitted=fields.moment("SubmitTime"),
        started=fields.moment("StartTime"),
        ends=fields.moment("EndTime"),
        time_limit=fields.duration("TimeLimit"),
        nodes=least,
        nodes_max=most,
        ntasks=fields.count("NumTasks"),
        ntasks_per_node=per_node,
        cpus_per_task=fields.count("CPUs/Task"),
        cpus_per_tres=fields.text("CpusPerTres") or "",
        sockets_per_node=sockets,
        threads_per_core=threads,
        memory_per_node_mib=fields.memory("MinMemoryNode"),
        memory_per_cpu_mib=fields.memory("MinMemoryCPU"),
        memory_per_tres=fields.text("MemPerTres") or "",
        tres_per_job=fields.text("TresPerJob") or "",
        tres_per_node=fields.text("TresPerNode") or "",
        tres_per_socket=fields.text("TresPerSocket") or "",
        tres_per_task=fields.text("TresPerTask") or "",
        features=fields.text("Features"),
        nodelist=fields.text("ReqNodeList"),
        exclude=fields.text("ExcNodeList"),
        reservation=fields.text("Reservation") or "",
        switches=fields.convert("Switches", _switches) if fields.text("Switches") else 0,
        exclusive=_exclusive(fields),
        requeue=fields.text("Requeue") == "1" and fields.text("BatchFlag") == "1",
        held_nodes=held_nodes,
        holdings=_holdings(fields),
    )


def _alias(fields: parse_text.Fields) -> str | None:
    if task := fields.text("ArrayTaskId"):
        array = fields.text("ArrayJobId") or fields.values["JobId"]
        return f"{array}_{task}" if task.isdigit() else f"{array}_[{task}]"
    if leader := fields.text("HetJobId"):
        return f"{leader}+{fields.text('HetJobOffset') or '0'}"
    return None


def _reason(text: str) -> str:
    """Slurm prints blanks as `_` here, and only here."""
    return "" if text in {"None", "(null)"} else text.replace("_", " ")


def _node_range(fields: parse_text.Fields) -> tuple[int | None, int | None]:
    """`2` -> (2, 0), `2-9` -> (2, 9); 0 = no most."""
    value = fields.text("NumNodes")
    if not value:
        return None, None
    return fields.convert("NumNodes", _range)


def _range(text: str) -> tuple[int, int]:
    least, dash, most = text.partition("-")
    return _plain(least), _plain(most) if dash else 0


def _plain(text: str) -> int:
    match = re.match(r"(\d{1,9})([KM]?)\Z", text)
    if match is None:
        raise errors.ParseError("not a number", source="count")
    return int(match[1]) * {"": 1, "K": 1024, "M": 1024**2}[match[2]]


def _task_layout(fields: parse_text.Fields) -> tuple[int | None, int | None, int | None]:
    """Tasks per node, sockets per node and threads per core; 0 = not asked for."""
    per_node = (fields.text("NtasksPerN:B:S:C") or "0").partition(":")[0]
    threads = (fields.text("ReqB:S:C:T") or "").rpartition(":")[2]
    sockets = fields.text("Socks/Node") or ""
    return tuple(int(word) if word.isdigit() and len(word) < 7 else 0 for word in (per_node, sockets, threads))  # type: ignore[return-value]


def _switches(text: str) -> int:
    """`1@00:05:00` -> 1."""
    return _plain(text.partition("@")[0])


def _exclusive(fields: parse_text.Fields) -> bool | None:
    """Before 26.05 whole nodes show as OverSubscribe=NO; 26.05 prints that for every job and adds Exclusive=."""
    if "Exclusive" in fields.values:
        return fields.values["Exclusive"] == "NODE"
    shared = fields.text("OverSubscribe")
    return None if shared is None else shared == "NO"


def _holdings(fields: parse_text.Fields) -> tuple[records.Holding, ...]:
    found = []
    for match in _HOLDING.finditer(fields.block) if " CPU_IDs=" in fields.block else ():
        nodes, cpus, memory, gres = match.groups()
        try:
            found.append(
                records.Holding(
                    nodes=hostlist.expand(nodes),
                    cpu_ids=ranges.parse(cpus),
                    memory_mib=units.parse_memory(memory) if memory else None,
                    gres=gres or "",
                )
            )
        except errors.ParseError:
            raise fields.error_at(match.start(1), "what the job holds cannot be read") from None
    return tuple(found)
