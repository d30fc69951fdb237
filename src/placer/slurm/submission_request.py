"""The options in force turned into a JobRequest, and what they mean together."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TypeVar

import msgspec

from placer import errors
from placer.cluster import types as cluster
from placer.slurm import sbatch_options, sbatch_script, submission_values
from placer.slurm import submission_types as types

T = TypeVar("T")
flag = submission_values.flag_in_environment

_PLACER_OPTIONS = tuple(sbatch_options.Option(name) for name in ("required", "preferred", "workload"))


class _Reader:
    """The choices of one submission, and the errors and findings that reading their values gives."""

    def __init__(self, choices: tuple[types.Choice, ...], source: str, findings: list[types.Finding]) -> None:
        self.by_name = {choice.name: choice for choice in choices}
        self.source = source
        self.findings = findings

    def value(self, name: str, parse: Callable[[str], T]) -> T | None:
        """The parsed value of an option, None when it is not in force; a bad value is an error with its place."""
        choice = self.by_name.get(name)
        if choice is None:
            return None
        try:
            return parse(choice.value or "")
        except ValueError as error:
            raise self.wrong(choice, str(error)) from None

    def text(self, name: str) -> str | None:
        """An option's text; None when empty or not in force."""
        choice = self.by_name.get(name)
        return (choice.value or None) if choice else None

    def wrong(self, choice: types.Choice, message: str) -> errors.InputError:
        """The error for a value that sbatch would refuse."""
        if choice.origin is types.Origin.SCRIPT:
            return errors.ParseError(
                message, source=self.source, line=choice.line, column=choice.column, excerpt=choice.spelling
            )
        where = f"{choice.origin.value}: `{errors.printable(choice.spelling)}`"
        return errors.RequestError(f"{where}: {message}", hint="man sbatch")

    def note(self, concern: types.Concern, text: str, hint: str, name: str = "") -> None:
        """Add a finding about an option."""
        choice = self.by_name.get(name)
        self.findings.append(types.Finding(concern, text, hint, (choice.line or None) if choice else None))


def build(
    choices: tuple[types.Choice, ...],
    script: sbatch_script.Script | None,
    environ: Mapping[str, str],
    read_names: types.ReadNames,
    findings: list[types.Finding],
) -> tuple[cluster.JobRequest, int | None]:
    """The request, and the seconds that `--switches` may wait; adds to `findings`."""
    reader = _Reader(choices, script.source if script else "command line", findings)
    nodes, nodes_max = reader.value("nodes", submission_values.node_range) or (None, None)
    reader.value("gpu-bind", submission_values.gpu_bind)
    switches, wait = reader.value("switches", _switches_of(reader.by_name.get("switches"))) or (None, None)
    if wait is None:
        wait = _wait_of_environment(environ)
    memory = reader.value("mem", submission_values.memory)
    memory_per_cpu = reader.value("mem-per-cpu", submission_values.memory)
    _refuse_rivals(reader, "mem", "mem-per-cpu", "mem-per-gpu")
    exclusive = reader.by_name.get("exclusive")
    request = cluster.JobRequest(
        nodes=nodes or None,
        nodes_max=nodes_max,
        ntasks=reader.value("ntasks", submission_values.count),
        ntasks_per_node=reader.value("ntasks-per-node", submission_values.count),
        cpus_per_task=reader.value("cpus-per-task", submission_values.count),
        cpus_per_gpu=reader.value("cpus-per-gpu", submission_values.count),
        memory_per_node_mib=memory or None,
        memory_per_cpu_mib=memory_per_cpu or None,
        memory_per_gpu_mib=reader.value("mem-per-gpu", submission_values.memory) or None,
        whole_memory=memory == 0 or memory_per_cpu == 0,
        exclusive=exclusive is not None and bool(reader.value("exclusive", submission_values.exclusive)),
        partition=reader.text("partition"),
        constraint=reader.text("constraint"),
        nodelist=_node_list(reader, environ, read_names),
        exclude=_names(reader, "exclude", read_names),
        reservation=reader.text("reservation"),
        switches=switches,
        threads_per_core=_threads(reader),
        sockets_per_node=reader.value("sockets-per-node", submission_values.count)
        or reader.value("extra-node-info", submission_values.sockets_of_node_info),
        ntasks_per_socket=reader.value("ntasks-per-socket", submission_values.count),
        ntasks_per_gpu=reader.value("ntasks-per-gpu", submission_values.count),
        hint=reader.text("hint"),
        enforce_binding="enforce-binding" in (reader.value("gres-flags", submission_values.gres_flags) or ()),
        time_limit=reader.value("time", submission_values.minutes_up),
    )
    request = _with_tasks_per_gpu(reader, _with_gpus(reader, _with_tasks_of_node_info(reader, request)))
    if request.nodes and request.ntasks and request.ntasks < request.nodes:
        request = msgspec.structs.replace(request, nodes=request.ntasks)  # sbatch does so, with a warning
    _warn(reader, request)
    return _with_own_directives(script, request, findings), wait


def _switches_of(choice: types.Choice | None) -> Callable[[str], tuple[int, int | None]]:
    """How `--switches` is read: its variable holds the number alone, for the time has one of its own."""
    if choice is None or choice.origin is not types.Origin.ENVIRONMENT:
        return submission_values.switches
    return lambda text: (submission_values.count(text), None)


def _wait_of_environment(environ: Mapping[str, str]) -> int | None:
    try:
        return submission_values.minutes_up(environ.get("SBATCH_WAIT4SWITCH", "0"))
    except ValueError:
        return None


def _refuse_rivals(reader: _Reader, *names: str) -> None:
    given = [reader.by_name[name] for name in names if name in reader.by_name]
    if len(given) > 1:
        raise reader.wrong(given[-1], f"`--{given[0].name}` and `--{given[-1].name}` exclude each other")


def _threads(reader: _Reader) -> int | None:
    explicit = reader.value("threads-per-core", submission_values.count)
    explicit = explicit or reader.value("extra-node-info", submission_values.threads_of_node_info)
    hinted = reader.value("hint", submission_values.threads_of_hint)
    if reader.text("hint") == "memory_bound":
        text = "`--hint=memory_bound` uses one core of each socket, which is not modelled"
        reader.note(types.Concern.NOT_UNDERSTOOD, text, "say `--cpus-per-task` and `--ntasks-per-node`", "hint")
    return explicit or hinted


def _node_list(reader: _Reader, environ: Mapping[str, str], read_names: types.ReadNames) -> str | None:
    """The nodes that the job must hold: a node file beats `--nodelist`, `SLURM_HOSTFILE` stands in for both."""
    if "nodefile" in reader.by_name:
        return _names_of_file(reader.by_name["nodefile"].value or "", read_names)
    named = _names(reader, "nodelist", read_names)
    if named is None and environ.get("SLURM_HOSTFILE"):
        text = "SLURM_HOSTFILE sets the nodes and their order"
        reader.note(types.Concern.NOT_UNDERSTOOD, text, "unset SLURM_HOSTFILE")
        return _names_of_file(environ["SLURM_HOSTFILE"], read_names)
    return named


def _names(reader: _Reader, name: str, read_names: types.ReadNames) -> str | None:
    text = reader.text(name)
    return _names_of_file(text, read_names) if text and "/" in text else text


def _names_of_file(path: str, read_names: types.ReadNames) -> str | None:
    try:
        data = read_names(path)
    except OSError as error:
        reason = error.strerror or type(error).__name__
        raise errors.InputError(f"cannot read the node file {errors.printable(path)}: {reason}") from None
    return ",".join(data.decode("utf-8", "surrogateescape").split()) or None


def _with_gpus(reader: _Reader, request: cluster.JobRequest) -> cluster.JobRequest:
    """GPUs per job, node, task and socket; their types must agree to be of use."""
    total = reader.value("gpus", submission_values.gpus)
    per_node = reader.value("gpus-per-node", submission_values.gpus)
    per_task = reader.value("gpus-per-task", submission_values.gpus)
    per_socket = reader.value("gpus-per-socket", submission_values.gpus)
    of_gres, others = reader.value("gres", submission_values.gres) or (None, ())
    of_tres, cpus, rest = reader.value("tres-per-task", submission_values.tres_per_task) or (None, None, ())
    if of_gres and per_node:
        text = "`--gres=gpu` and `--gpus-per-node` say the same; Slurm refuses both together from 26.05 on"
        reader.note(types.Concern.CONFLICT, text, "drop one of them", "gres")
    for entry, name in [*((entry, "gres") for entry in others), *((entry, "tres-per-task") for entry in rest)]:
        text = f"`{errors.printable(entry)}` of `--{name}` is not looked at"
        reader.note(types.Concern.NOT_UNDERSTOOD, text, "only whole GPUs and CPUs are placed", name)
    counts = [found for found in (total, per_node, of_gres, per_task, of_tres, per_socket) if found]
    kinds = {found.type for found in counts if found.type}
    if len(kinds) > 1 or any(found.types > 1 for found in counts):
        text = "several GPU types in one job: read as GPUs of any type"
        reader.note(types.Concern.NOT_UNDERSTOOD, text, "submit one job for each type, or a heterogeneous job")
        kinds = set()
    node, task = submission_values.together(per_node, of_gres), per_task or of_tres
    return msgspec.structs.replace(
        request,
        gpus=total.count if total else None,
        gpus_per_node=node.count if node else None,
        gpus_per_task=task.count if task else None,
        gpus_per_socket=per_socket.count if per_socket else None,
        gpu_type=next(iter(kinds), None),
        cpus_per_task=request.cpus_per_task or cpus,
    )


def _with_tasks_of_node_info(reader: _Reader, request: cluster.JobRequest) -> cluster.JobRequest:
    """`-B 2:8:1` alone means a task for each of these threads on each node."""
    tasks = reader.value("extra-node-info", submission_values.tasks_of_node_info)
    if tasks is None or request.ntasks or request.ntasks_per_node:
        return request
    return msgspec.structs.replace(request, ntasks=tasks * (request.nodes or 1))


def _with_tasks_per_gpu(reader: _Reader, request: cluster.JobRequest) -> cluster.JobRequest:
    """`--ntasks-per-gpu=k`: k tasks for each GPU, whatever `-n` says; a GPU for k tasks where only tasks are said."""
    each = reader.value("ntasks-per-gpu", submission_values.count)
    if each is None:
        return request
    for rival in ("gpus-per-task", "gpus-per-socket", "ntasks-per-node"):
        _refuse_rivals(reader, "ntasks-per-gpu", rival)
    if request.gpus:
        return msgspec.structs.replace(request, ntasks=each * request.gpus)
    if request.gpus_per_node:
        per_node = each * request.gpus_per_node
        return msgspec.structs.replace(request, ntasks_per_node=per_node, ntasks=per_node * (request.nodes or 1))
    tasks = request.ntasks or each * (request.nodes or 0)
    return msgspec.structs.replace(request, ntasks=tasks or None, gpus=-(-tasks // each) or None)


def _warn(reader: _Reader, request: cluster.JobRequest) -> None:
    """What hurts although sbatch takes it (slurm.md 2.2, 2.7 and 4)."""
    per_task = next((name for name in ("gpus-per-task", "tres-per-task") if name in reader.by_name), None)
    binds = f"{reader.text('gpu-bind') or ''}{reader.text('tres-bind') or ''}"
    if request.gpus_per_task and per_task and "none" not in binds and request.ntasks != 1:
        text = f"`--{per_task}` hides the other GPUs of a node from each rank, which breaks or slows NCCL and CUDA IPC"
        hint = "ask with `--gpus-per-node` and start ranks with `srun --gpu-bind=none`"
        reader.note(types.Concern.HIDES_PEERS, text, hint, per_task)
    if request.exclusive and not request.whole_memory:
        text = "`--exclusive` gives all CPUs and GPUs of a node but only the memory asked for"
        reader.note(types.Concern.WHOLE_MEMORY, text, "add `--mem=0` for all of it", "exclusive")
    if request.cpus_per_gpu and "cpus-per-task" in reader.by_name:
        text = "`--cpus-per-gpu` and `--cpus-per-task` together are refused from Slurm 23.11 on"
        reader.note(types.Concern.CONFLICT, text, "drop one of them", "cpus-per-gpu")


def _with_own_directives(
    script: sbatch_script.Script | None, request: cluster.JobRequest, findings: list[types.Finding]
) -> cluster.JobRequest:
    """`#PLACER --required leaf --preferred spine --workload alltoall`."""
    if script is None or not script.placer:
        return request
    words = script.placer
    found = sbatch_options.split([word.text for word in words], 0, _PLACER_OPTIONS)
    said = {one.option.name: (one.value or "", words[one.first]) for one in found.given}
    strange = [words[problem.word] for problem in found.problems]
    strange.extend(words[found.rest : found.rest + 1])
    for word in strange:
        text = f"`#PLACER {errors.printable(word.text)}` is not understood"
        hint = "`#PLACER` takes --required LEVEL, --preferred LEVEL and --workload CLASS"
        findings.append(types.Finding(types.Concern.NEAR_MISS, text, hint, word.line))
    workload = request.workload
    if "workload" in said:
        value, word = said["workload"]
        if value not in set(cluster.Workload):
            raise errors.ParseError(
                "no workload class",
                source=script.source,
                line=word.line,
                column=word.column,
                excerpt=value,
                hint=f"one of {', '.join(cluster.Workload)}",
            )
        workload = cluster.Workload(value)
    levels = {name: said[name][0] or None for name in ("required", "preferred") if name in said}
    return msgspec.structs.replace(request, topology=cluster.TopologyConstraint(**levels), workload=workload)
