"""What placer reads of a submission is what sbatch reads, by sbatch's own word and by slurmctld's record of the job."""

from __future__ import annotations

import pathlib
import re
import string
import subprocess
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

import pytest
from tests.slurm import submissions

from placer import errors, hostlist, units
from placer.cluster import types as cluster
from placer.slurm import sbatch_options, submission, submission_files, submission_values
from placer.slurm import submission_types as types

if TYPE_CHECKING:
    from tests.slurm.clusters import Cluster

pytestmark = pytest.mark.real_slurm

ALWAYS = ("-v", "--hold")
NOT_SHOWN = frozenset({"verbose", "hold", "wrap", "quiet", "ignore-pbs", "(null)"})
"""Options that every case has, or that sbatch does not list; it lists the wait for switches without its name."""

OF_THE_SITE = ("in your slurm.conf", "must be enabled", "only used with srun")
"""Refusals by the site's configuration or for what no placement follows from; placer does not look for them."""


class Told(NamedTuple):
    """What sbatch said: the options of the first component as it lists them, None when it refused before listing."""

    accepted: bool  # by slurmctld too
    options: dict[str, str] | None
    job: str  # `scontrol show job`
    stderr: str


def ask(slurm: Cluster, case: submissions.Case, folder: pathlib.Path) -> Told:
    """Submit a held job."""
    environ = {**slurm.environ, **case.variables, "PATH": f"{slurm.environ['PATH']}:{folder}/bin"}
    argv = ["sbatch", *ALWAYS, *case.words]
    text = case.text if case.name is None else ""
    done = subprocess.run(argv, env=environ, input=text, capture_output=True, text=True, cwd=folder, timeout=60)
    options = None
    if "end of defined options" in done.stderr:
        listed = done.stderr.partition("end of defined options")[0]
        options = dict(re.findall(r"^sbatch: (\S{20}|(?=.{20}:)\S+) *: (.*)$", listed, re.MULTILINE))
    job = ""
    if done.returncode == 0:
        number = done.stdout.split()[-1]
        job = slurm.run("scontrol", "show", "job", "-d", number).split("\n\n")[0]
        slurm.run("scancel", number)
    return Told(done.returncode == 0, options, job, done.stderr)


def read(slurm: Cluster, case: submissions.Case, folder: pathlib.Path) -> types.Submission | errors.InputError:
    """Read the same submission; a refusal is a result here."""
    environ = {**case.variables, "PATH": f"{folder}/bin"}

    def at(path: str) -> str:
        return str(folder / path)

    def read_script(name: str | None) -> bytes:
        text = case.text.encode() if case.name is None else b""
        found = None if name is None else submission_files.find(at(name), environ)
        if found is not None and not pathlib.Path(found).exists():
            found = submission_files.find(str(name), environ)
        return submission_files.reader(environ, text)(found)

    words = [*ALWAYS, *case.words]
    try:
        return submission.read(
            words, environ, read_script, lambda path: submission_files.read_file(at(path)), release=slurm.release
        )
    except errors.InputError as error:
        return error


def lay(case: submissions.Case, folder: pathlib.Path) -> None:
    """Write the files of a case."""
    for name, text in (("job.sh", case.text), *case.files):
        path = folder / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(text or case.text)


@pytest.mark.parametrize("case", submissions.CASES, ids=str)
def test_submission_is_read_as_sbatch_reads_it(
    release_session: Cluster, case: submissions.Case, tmp_path: pathlib.Path
) -> None:
    lay(case, tmp_path)
    told = ask(release_session, case, tmp_path)
    found = read(release_session, case, tmp_path)
    if any(words in told.stderr for words in OF_THE_SITE):
        return
    if told.options is None:
        assert isinstance(found, errors.InputError), told.stderr
        return
    if isinstance(found, errors.InputError):
        assert not told.accepted, f"sbatch takes what placer refuses: {found.message}"
        return
    expected = dict(plain(name, value, tmp_path) for name, value in told.options.items() if name not in NOT_SHOWN)
    if "#PBS" in case.script and not found.understood:
        return
    assert in_force(found, tmp_path) == expected
    if told.accepted:
        expected = recorded(told.job)
        assert as_recorded(found, expected) == expected


# --- the options in force


def in_force(found: types.Submission, folder: pathlib.Path) -> dict[str, Any]:
    """Option -> its value in the form of `plain`."""
    listed = {}
    for choice in found.choices:
        if choice.name not in NOT_SHOWN and (choice.name, choice.origin) != ("switches", types.Origin.ENVIRONMENT):
            name, value = plain(
                choice.name, BARE.get(choice.name, "set") if choice.value is None else choice.value, folder
            )
            listed[name] = value
    request = found.request
    if "nodes" in listed:  # sbatch lowers them to the number of tasks, and lists them after that
        listed["nodes"] = (request.nodes or 0, request.nodes_max)
    if "switches" in listed:  # the wait may come from a variable of its own
        listed["switches"] = (request.switches, found.switch_wait)
    for name, nodes in (("nodelist", request.nodelist), ("exclude", request.exclude)):
        if name in listed:  # sbatch lists what a file names
            listed[name] = nodes_of(nodes)
    return listed


BARE = {
    "exclusive": "exclusive",
    "oversubscribe": "oversubscribe",
    "nice": "100",
    "requeue": "requeue",
    "no-requeue": "no-requeue",
}
"""What sbatch lists for an option without its value."""

SAME = {
    "exclusive": "sharing",
    "oversubscribe": "sharing",
    "no-requeue": "requeue",
    "ntasks-per-tres": "ntasks-per-gpu",
}
"""sbatch lists one setting under each of its names."""


def plain(name: str, value: str, folder: pathlib.Path) -> tuple[str, Any]:
    """A value in one form, where sbatch prints it in another than it was given in."""
    name = SAME.get(name, name)
    if name in {"time", "time-min"}:
        return name, submission_values.minutes_up(value)
    if name == "nodes":
        return name, submission_values.node_range(value)
    if name in {"mem", "mem-per-cpu", "mem-per-gpu"}:
        return name, submission_values.memory(value.rstrip("?"))
    if name in {"nodelist", "exclude"}:
        return name, nodes_of(value) if "/" not in value else value
    if name == "gres":
        return name, re.sub(r"(?:^|(?<=,))(?:gres[:/])+", "", value)
    if name == "tres-per-task":
        return name, value.replace("gres:", "gres/")
    if name == "switches":
        return name, submission_values.switches(value)
    if name == "extra-node-info":
        return name, re.sub(r"-\d+", "", value.replace("*:", ""))
    if name in {"output", "error", "input"}:
        return name, str(folder / value)
    if name in {"sharing", "gres-flags"}:
        return name, ",".join(sorted((value.lower() or "exclusive").split(",")))
    return name, int(value) if re.fullmatch(r"\s*\+?\d+", value) else value


# --- the record of the job


def recorded(job: str) -> dict[str, Any]:
    """slurmctld's record as fields of a JobRequest, as far as it tells them."""
    fields = dict(re.findall(r"(?<!\S)(\S+?)=(.*?)(?=\s+\S+=|\s*$)", job, re.MULTILINE))
    shape = fields["ReqB:S:C:T"].split(":")
    tasks = fields["NtasksPerN:B:S:C"].split(":")
    asked: dict[str, Any] = {
        "nodes": int(re.split(r"\D", fields["NumNodes"])[0]),
        "ntasks": int(fields["NumTasks"]),
        "cpus_per_task": int(fields["CPUs/Task"]),
        "ntasks_per_node": number(tasks[0]),
        "ntasks_per_socket": number(tasks[2]),
        "threads_per_core": number(shape[3]),
        "sockets_per_node": number(fields["Socks/Node"]),
        "partition": fields["Partition"],
        "constraint": known(fields["Features"]),
        "nodelist": nodes_of(fields["ReqNodeList"]),
        "exclude": nodes_of(fields["ExcNodeList"]),
        "exclusive": fields.get("Exclusive", {"NO": "NODE"}.get(fields["OverSubscribe"])) == "NODE",
        "time_limit": None if fields["TimeLimit"] == "UNLIMITED" else units.parse_duration(fields["TimeLimit"]),
        "ntasks_per_gpu": number(fields.get("NtasksPerTRES", "0")),
        "enforce_binding": fields.get("GresEnforceBind", "").startswith("Yes"),
        "cpus_per_gpu": number(fields.get("CpusPerTres", "0").rpartition(":")[2]),
        "memory_per_gpu_mib": number(fields.get("MemPerTres", "0").rpartition(":")[2]),
        "memory_per_node_mib": size(fields.get("MinMemoryNode")),
        "memory_per_cpu_mib": size(fields.get("MinMemoryCPU")),
        "switches": fields.get("Switches"),
    }
    types_named = set()
    for name, field in GPU_FIELDS.items():
        text = fields.get(field, "")
        entries = re.findall(r"gres[:/]gpu(?::([a-z]\w*))?(?:[:=](\d+))?", text)
        of_type = {kind: int(count or 1) for kind, count in entries}  # the last of one type is what a job is given
        asked[name] = sum(of_type.values()) or None
        types_named |= {kind for kind, count in of_type.items() if count}
    asked["gpu_type"] = next(iter(types_named)) if len(types_named - {""}) == 1 else None
    return asked


GPU_FIELDS = {
    "gpus": "TresPerJob",
    "gpus_per_node": "TresPerNode",
    "gpus_per_task": "TresPerTask",
    "gpus_per_socket": "TresPerSocket",
}


def number(text: str) -> int | None:
    return int(text) if text.isdigit() and int(text) else None


def known(text: str) -> str | None:
    return None if text == "(null)" else text


def nodes_of(text: str | None) -> tuple[str, ...] | None:
    return tuple(sorted(set(hostlist.expand(text)))) if text and text != "(null)" else None


def size(text: str | None) -> int | None:
    return submission_values.memory(text) if text is not None else None


DEFAULT_MEMORY_PER_CPU = 7812  # of the sandbox
DEFAULT_TIME = 3600
LONGEST_WAIT = 300  # max_switch_wait


def as_recorded(found: types.Submission, expected: Mapping[str, Any]) -> dict[str, Any]:
    """What was read, with what slurmctld fills in for what was not said."""
    request = found.request
    nodelist, exclude = nodes_of(request.nodelist), nodes_of(request.exclude)
    nodes = request.nodes or len(nodelist or ()) or expected["nodes"]  # an estimate where it was not said
    said = {name: getattr(request, name) for name in expected}
    wait = min(LONGEST_WAIT, found.switch_wait or LONGEST_WAIT)
    memory = (request.memory_per_node_mib, request.memory_per_cpu_mib)
    if request.whole_memory:
        memory = (0, None)
    elif request.memory_per_gpu_mib:
        memory = (None, expected["memory_per_cpu_mib"])  # 22.05 shows the default beside it
    elif not any(memory):
        memory = (None, DEFAULT_MEMORY_PER_CPU)
    if request.ntasks_per_gpu:  # slurmctld records what follows from it as tasks alone
        said["ntasks_per_node"] = None
        said["gpus"] = request.gpus if found.gives("gpus") else None
    return {
        **said,
        "nodes": nodes,
        "ntasks": tasks_of(request, nodes),
        "cpus_per_task": request.cpus_per_task or 1,
        "partition": request.partition or "gpu",
        "nodelist": nodelist,
        "exclude": exclude,
        "time_limit": request.time_limit if found.gives("time") else DEFAULT_TIME,
        "memory_per_node_mib": memory[0],
        "memory_per_cpu_mib": memory[1],
        "switches": f"{request.switches}@{units.format_duration(wait)}" if request.switches else None,
    }


def tasks_of(request: cluster.JobRequest, nodes: int) -> int:
    """How many tasks follow from a request that does not say it: by the node, by the GPUs, one on each node."""
    if request.ntasks:
        return request.ntasks
    if request.ntasks_per_node:
        return nodes * request.ntasks_per_node
    if request.gpus and request.gpus_per_task:
        return request.gpus // request.gpus_per_task
    return nodes


# --- the table of options


def names_of(slurm: Cluster) -> set[str]:
    """Every long option, by what getopt prints when one letter could begin several."""
    names = set()
    for letter in string.ascii_lowercase:
        done = subprocess.run(["sbatch", f"--{letter}"], env=slurm.environ, capture_output=True, text=True, timeout=60)
        listed = re.findall(r"'--([a-z-]+)'", done.stderr.splitlines()[0])
        names |= set(listed) - {letter}
    return names


def test_options_are_those_of_the_release(release_session: Cluster) -> None:
    table = sbatch_options.of_release(release_session.release)
    assert names_of(release_session) == {name for option in table for name in (option.name, *option.also)}


def test_options_take_arguments_as_the_release_says(release_session: Cluster) -> None:
    for option in sbatch_options.of_release(release_session.release):
        bare, given = (
            subprocess.run(
                ["sbatch", *words],
                env=release_session.environ,
                stdin=subprocess.DEVNULL,
                capture_output=True,
                text=True,
                timeout=60,
            ).stderr
            for words in ([f"--{option.name}"], [f"--{option.name}=x", "--no-such-option"])
        )
        needs, takes = "requires an argument" in bare, "doesn't allow an argument" not in given
        assert (needs, takes) == {
            sbatch_options.Argument.NONE: (False, False),
            sbatch_options.Argument.OPTIONAL: (False, True),
            sbatch_options.Argument.REQUIRED: (True, True),
        }[option.argument], option.name
