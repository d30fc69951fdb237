"""Precedence, values and findings; values and refusals were seen on sbatch 22.05."""

from __future__ import annotations

import pathlib
from typing import Any

import pytest

from placer import errors
from placer.cluster import types as cluster
from placer.slurm import submission
from placer.slurm import submission_types as types


def _read(*argv: str, script: str = "", environ: dict[str, str] | None = None) -> types.Submission:
    data = f"#!/bin/sh\n{script}\n".encode()
    return submission.read([*argv, "job.sh"], environ or {}, lambda _name: data)


def _fields(request: cluster.JobRequest) -> dict[str, Any]:
    default = cluster.JobRequest()
    names = cluster.JobRequest.__struct_fields__
    return {name: getattr(request, name) for name in names if getattr(request, name) != getattr(default, name)}


@pytest.mark.parametrize(
    ("argv", "fields"),
    [
        (["-N4"], {"nodes": 4}),
        (["-N", "2-4"], {"nodes": 2, "nodes_max": 4}),
        (["-N", "3-3"], {"nodes": 3}),
        (["-N", "-3"], {"nodes": 1, "nodes_max": 3}),
        (["-N1k"], {"nodes": 1024}),
        (["-n8", "-c4"], {"ntasks": 8, "cpus_per_task": 4}),
        (["-N4", "-n2"], {"nodes": 2, "ntasks": 2}),
        (["--gres=gpu:a100:2"], {"gpus_per_node": 2, "gpu_type": "a100"}),
        (["--gres=gpu"], {"gpus_per_node": 1}),
        (["--gres=gpu:3"], {"gpus_per_node": 3}),
        (["--gres=gpu:a100"], {"gpus_per_node": 1, "gpu_type": "a100"}),
        (["--gres=gres:gpu:2"], {"gpus_per_node": 2}),
        (["--gres=gpu:a100=2"], {"gpus_per_node": 2, "gpu_type": "a100"}),
        (["--gres=gpu:1g.5gb"], {"gpus_per_node": 1, "gpu_type": "1g.5gb"}),
        (["--gres=gpu:1g.5gb:3"], {"gpus_per_node": 3, "gpu_type": "1g.5gb"}),
        (["--gres=none"], {}),
        (["--gres=gpu:0"], {}),
        (["-Ga100:8"], {"gpus": 8, "gpu_type": "a100"}),
        (["--gpus=8"], {"gpus": 8}),
        (["--gpus-per-node=4"], {"gpus_per_node": 4}),
        (["--gpus-per-task=a100:1", "-n4"], {"gpus_per_task": 1, "gpu_type": "a100", "ntasks": 4}),
        (["--gpus-per-socket=2", "--sockets-per-node=2"], {"gpus_per_socket": 2, "sockets_per_node": 2}),
        (["--tres-per-task=cpu=8,gres/gpu:h100=2"], {"gpus_per_task": 2, "gpu_type": "h100", "cpus_per_task": 8}),
        (["--tres-per-task=gres/gpu:1"], {"gpus_per_task": 1}),
        (["--ntasks-per-gpu=2", "--gpus=4"], {"gpus": 4, "ntasks": 8, "ntasks_per_gpu": 2}),
        (["--ntasks-per-gpu=2", "-n8"], {"gpus": 4, "ntasks": 8, "ntasks_per_gpu": 2}),
        (["--ntasks-per-gpu=2", "-N2", "--gpus-per-node=4"],
         {"nodes": 2, "gpus_per_node": 4, "ntasks_per_node": 8, "ntasks": 16, "ntasks_per_gpu": 2}),
        (["--ntasks-per-socket=2"], {"ntasks_per_socket": 2}),
        (["--gres-flags=one-task-per-sharing,enforce-binding"], {"enforce_binding": True}),
        (["--gres-flags=disable-binding"], {}),
        (["--mem=0"], {"whole_memory": True}),
        (["--mem=1000"], {"memory_per_node_mib": 1000}),
        (["--mem=1GB"], {"memory_per_node_mib": 1024}),
        (["--mem=10K"], {"memory_per_node_mib": 1}),
        (["--mem=2t"], {"memory_per_node_mib": 2 << 20}),
        (["--mem-per-cpu=2G"], {"memory_per_cpu_mib": 2048}),
        (["--mem-per-gpu=2G"], {"memory_per_gpu_mib": 2048}),
        (["-t", "0"], {}),
        (["-t", "30"], {"time_limit": 1800}),
        (["-t", "1:30"], {"time_limit": 120}),
        (["-t", "1:2:3"], {"time_limit": 3780}),
        (["-t", "1-"], {"time_limit": 86400}),
        (["-t", "1-2:3:4"], {"time_limit": 93840}),
        (["-t", "UNLIMITED"], {}),
        (["-p", "a,b", "-C", "ib&a100", "--reservation=r"],
         {"partition": "a,b", "constraint": "ib&a100", "reservation": "r"}),
        (["-w", "n[1-3]", "-x", "n9"], {"nodelist": "n[1-3]", "exclude": "n9"}),
        (["--exclusive"], {"exclusive": True}),
        (["--exclusive=user"], {}),
        (["--switches=2"], {"switches": 2}),
        (["--threads-per-core=1"], {"threads_per_core": 1}),
        (["--hint=nomultithread"], {"hint": "nomultithread", "threads_per_core": 1}),
        (["--hint=multithread"], {"hint": "multithread"}),
        (["--hint=nomultithread", "--threads-per-core=2"], {"threads_per_core": 2}),
        (["-B", "2:4:1"], {"sockets_per_node": 2, "threads_per_core": 1, "ntasks": 8}),
        (["-B", "2:4:1", "-n3"], {"sockets_per_node": 2, "threads_per_core": 1, "ntasks": 3}),
        (["-N", "2,4"], {"nodes": 2, "nodes_max": 4}),
        (["--gres=gpu:1", "--gpus-per-node=2"], {"gpus_per_node": 1}),
        (["--gres=gpu:2,gpu:3"], {"gpus_per_node": 3}),
        (["--gpus=gpu:2"], {"gpus": 2, "gpu_type": "gpu"}),
        (["--ntasks-per-gpu=2", "--gpus=4", "-n3"], {"gpus": 4, "ntasks": 8, "ntasks_per_gpu": 2}),
        (["--nodes=2", "--nodes=3"], {"nodes": 3}),
    ],
)  # fmt: skip
def test_read_of_an_option_sets_its_fields(argv: list[str], fields: dict[str, Any]) -> None:
    assert _fields(_read(*argv).request) == fields


@pytest.mark.parametrize(
    "argv",
    [
        ["-N", "4-2"], ["-N", "2-"], ["-N", "abc"], ["-N", ""], ["-N", "2.5"], ["-N", "0x2"],
        ["-n", "0"], ["-n", "-1"], ["-n", "2k"], ["-n", ""], ["-n", "4 "], ["-c", "0"], ["-c", "abc"],
        ["--mem", "-1"], ["--mem", "1.5G"], ["--mem", "1P"], ["--mem", "abc"], ["--mem", ""], ["--mem", "1 G"],
        ["-t", "abc"], ["-t", ""], ["-t", "30s"], ["--switches", "a"], ["--switches", "0"], ["--switches", "-1"],
        ["--exclusive=foo"], ["--hint", "x"], ["--threads-per-core=x"], ["--ntasks-per-node=0"],
        ["--mem=1G", "--mem-per-cpu=2G"], ["--ntasks-per-gpu=2", "--gpus-per-task=1"],
        ["--nod=3"], ["--hold=1"], ["--bogus-nodes", "--gpu=3"], ["--gpus=abc:x:y:"], ["--gpus=-1"],
        ["-n2", "--wrap=hostname", "arg"], ["--gpu-bind=single"], ["--gres-flags=x"], ["-B", "x"],
    ],
)  # fmt: skip
def test_read_of_a_command_line_that_sbatch_refuses_is_a_request_error(argv: list[str]) -> None:
    with pytest.raises(errors.RequestError):
        _read(*argv)


def test_read_of_a_bad_value_in_a_script_names_its_place() -> None:
    with pytest.raises(errors.ParseError) as caught:
        _read(script="#SBATCH --mem=1G\n#SBATCH -N2  --ntasks=eight")
    assert (caught.value.source, caught.value.line, caught.value.column) == ("job.sh", 3, 14)


@pytest.mark.parametrize("script", ["#SBATCH -N 2 foo", "#SBATCH -N 2 -- -n 4", "#SBATCH -", "#SBATCH x: -N2"])
def test_read_of_a_leftover_word_in_a_script_is_a_parse_error(script: str) -> None:
    with pytest.raises(errors.ParseError, match="neither an option"):
        _read(script=script)


def test_read_of_three_sources_ranks_command_line_over_environment_over_script() -> None:
    script = "#SBATCH --gres=gpu:1\n#SBATCH -p script\n#SBATCH -t 10\n#SBATCH --nodes=2"
    found = _read("-p", "cli", script=script, environ={"SBATCH_PARTITION": "env", "SBATCH_GRES": "gpu:7"})
    assert (found.request.partition, found.request.gpus_per_node) == ("cli", 7)
    assert (found.request.time_limit, found.request.nodes) == (600, 2)
    origins = {choice.name: choice.origin for choice in found.choices}
    assert origins["partition"] is types.Origin.CLI
    assert origins["gres"] is types.Origin.ENVIRONMENT
    assert origins["time"] is types.Origin.SCRIPT


@pytest.mark.parametrize(
    ("environ", "argv", "script", "fields"),
    [
        ({"SBATCH_MEM_PER_CPU": "3"}, [], "#SBATCH --mem=1G", {"memory_per_node_mib": 1024}),
        ({"SBATCH_MEM_PER_CPU": "3"}, ["--mem=1G"], "", {"memory_per_node_mib": 1024}),
        ({"SBATCH_MEM_PER_NODE": "3"}, [], "#SBATCH --mem=1G", {"memory_per_node_mib": 3}),
        ({"SBATCH_NTASKS": "4", "SBATCH_NODES": "3", "SBATCH_CPUS_PER_TASK": "4", "SLURM_NTASKS": "2"}, [], "", {}),
        ({"SBATCH_NODELIST": "x", "SBATCH_EXCLUDE": "y"}, [], "", {}),
        ({"SBATCH_GPUS_PER_SOCKET": "3"}, [], "", {"gpus_per_socket": 3}),
        ({"SBATCH_EXCLUSIVE": ""}, [], "", {"exclusive": True}),
        ({"SBATCH_EXCLUSIVE": "user"}, [], "", {}),
        ({"SBATCH_REQ_SWITCH": "2", "SBATCH_WAIT4SWITCH": "5"}, [], "", {"switches": 2}),
        ({"SLURM_HINT": "nomultithread"}, [], "", {"hint": "nomultithread", "threads_per_core": 1}),
        ({"SBATCH_HINT": "multithread", "SLURM_HINT": "nomultithread"}, [], "", {"hint": "multithread"}),
        ({"SBATCH_CPUS_PER_GPU": "2"}, ["-c4"], "", {"cpus_per_task": 4}),
    ],
)
def test_read_of_variables_follows_sbatch(
    environ: dict[str, str], argv: list[str], script: str, fields: dict[str, Any]
) -> None:
    assert _fields(_read(*argv, script=script, environ=environ).request) == fields


def test_read_of_a_variable_that_beats_the_script_is_a_finding() -> None:
    (finding,) = _read(script="#SBATCH --gres=gpu:1", environ={"SBATCH_GRES": "gpu:7"}).findings
    assert (finding.concern, finding.line, finding.hint) == (types.Concern.OVERRIDDEN, 2, "unset SBATCH_GRES")


@pytest.mark.parametrize(
    ("argv", "script", "concern"),
    [
        (["-n4", "--gpus-per-task=1"], "", types.Concern.HIDES_PEERS),
        (["-n4", "--tres-per-task=gres/gpu:1"], "", types.Concern.HIDES_PEERS),
        (["--exclusive"], "", types.Concern.WHOLE_MEMORY),
        (["--gres=gpu:1", "--gpus-per-node=1"], "", types.Concern.CONFLICT),
        (["-c4", "--cpus-per-gpu=2", "--gpus=1"], "", types.Concern.CONFLICT),
        (["--gres=shard:2"], "", types.Concern.NOT_UNDERSTOOD),
        (["--gpus=a100:2,v100:1"], "", types.Concern.NOT_UNDERSTOOD),
        (["--hint=memory_bound"], "", types.Concern.NOT_UNDERSTOOD),
        (["--new-option"], "", types.Concern.NOT_UNDERSTOOD),
        ([], "#SBATCH --new-option value", types.Concern.NOT_UNDERSTOOD),
        ([], "#SBATCH -N1\n#SBATCH hetjob\n#SBATCH -N2", types.Concern.NOT_UNDERSTOOD),
        ([], "#PBS -l nodes=3", types.Concern.NOT_UNDERSTOOD),
        ([], "#sbatch -N1", types.Concern.NEAR_MISS),
        ([], "#PLACER --requred leaf", types.Concern.NEAR_MISS),
    ],
)
def test_read_of_what_hurts_is_one_finding(argv: list[str], script: str, concern: types.Concern) -> None:
    assert concern in {finding.concern for finding in _read(*argv, script=script).findings}


@pytest.mark.parametrize(
    "argv",
    [
        ["-n4", "--gpus-per-task=1", "--gpu-bind=none"],
        ["-n1", "--gpus-per-task=1"],
        ["--exclusive", "--mem=0"],
        ["--gpus-per-node=4", "-N2", "-c8", "--mem=10G"],
    ],
)
def test_read_of_a_sound_submission_has_no_findings(argv: list[str]) -> None:
    assert _read(*argv).findings == ()


def test_read_of_own_directives_sets_levels_and_workload() -> None:
    request = _read(script="#PLACER --required=leaf --preferred spine\n#PLACER --workload alltoall").request
    assert request.topology == cluster.TopologyConstraint("leaf", "spine")
    assert request.workload is cluster.Workload.ALLTOALL


def test_read_of_an_unknown_workload_names_the_classes() -> None:
    with pytest.raises(errors.ParseError) as caught:
        _read(script="#PLACER --workload fast")
    assert (caught.value.line, "alltoall" in (caught.value.hint or "")) == (2, True)


def test_read_of_wrap_reads_no_script() -> None:
    def forbidden(_name: str | None) -> bytes:
        raise AssertionError

    found = submission.read(["-N2", "--wrap", "hostname"], {}, forbidden)
    assert (found.wrap, found.script, found.request.nodes) == ("hostname", None, 2)


def test_read_without_script_asks_for_standard_input() -> None:
    names: list[str | None] = []

    def reader(name: str | None) -> bytes:
        names.append(name)
        return b"#!/bin/sh\n#SBATCH -N3\n"

    assert submission.read(["--parsable"], {}, reader).request.nodes == 3
    assert names == [None]


def test_read_of_arguments_leaves_them_to_the_script() -> None:
    found = submission.read(["-N2", "job.sh", "-N9", "--gres=gpu:8"], {}, lambda _name: b"#!/bin/sh\n")
    assert (found.request.nodes, found.script, found.arguments) == (2, "job.sh", ("-N9", "--gres=gpu:8"))


def test_read_of_a_missing_script_is_an_input_error_with_a_command() -> None:
    def missing(_name: str | None) -> bytes:
        raise FileNotFoundError(2, "No such file or directory")

    with pytest.raises(errors.InputError, match=r"cannot read my job\.sh: No such file") as caught:
        submission.read(["my job.sh"], {}, missing)
    assert caught.value.hint == "ls -l 'my job.sh'"


def test_read_of_several_components_on_the_command_line_counts_them() -> None:
    found = submission.read(["-N1", ":", "-N2", ":", "-N3", "job.sh"], {}, lambda _name: b"#!/bin/sh\n")
    assert (found.components, found.request.nodes, found.script, found.understood) == (3, 1, "job.sh", False)


@pytest.mark.parametrize("option", ["-F{}", "-w{}", "-x{}"])
def test_read_of_a_file_of_nodes_gives_its_names(option: str, tmp_path: pathlib.Path) -> None:
    names = tmp_path / "nodes"
    names.write_text("n1 n2\nn3\n")
    request = _read(option.format(names)).request
    assert (request.nodelist or request.exclude) == "n1,n2,n3"


def test_read_of_help_submits_nothing() -> None:
    assert submission.read(["--help"], {}, lambda _name: b"").submits is False


@pytest.mark.parametrize(("value", "seconds"), [("1@10:00", 600), ("1@5", 300), ("1", None)])
def test_read_of_switches_keeps_the_wait(value: str, seconds: int | None) -> None:
    assert _read(f"--switches={value}").switch_wait == seconds


@pytest.mark.parametrize(
    ("argv", "refusing", "taking"),
    [
        (["--gres=gpu:1", "--gpus-per-node=2"], (26, 5), (24, 11)),
        (["--exclusive", "-s"], (24, 11), (22, 5)),
        (["--exclusive=topo"], (22, 5), (24, 11)),
        (["--segment=2", "-N2"], (22, 5), (24, 11)),
        (["--seg=2", "-N2"], (22, 5), (26, 5)),
        (["--extra=x"], (22, 5), (24, 11)),
        (["--power=x"], (24, 11), (22, 5)),
        (["--requeue=expedite"], (24, 11), (26, 5)),
        (["--get-user-env=5"], (26, 5), (24, 11)),
        (["-N", "2,4"], (22, 5), (24, 11)),
        (["-N2", "-w", "n[1-3]"], (22, 5), (24, 11)),
        (["--bogus"], (24, 11), None),
        (["--tres-per-task=cpu=2", "-c2"], (24, 11), None),
    ],
)
def test_read_for_a_release_refuses_what_its_sbatch_refuses(
    argv: list[str], refusing: tuple[int, int], taking: tuple[int, int] | None
) -> None:
    words, script = [*argv, "job.sh"], b"#!/bin/sh\n"
    assert submission.read(words, {}, lambda _name: script, release=taking).submits
    with pytest.raises(errors.RequestError):
        submission.read(words, {}, lambda _name: script, release=refusing)


@pytest.mark.parametrize(("release", "name"), [((22, 5), "a"), ((24, 11), "a -n2"), (None, "a -n2")])
def test_read_of_an_escaped_space_follows_the_release(release: tuple[int, int] | None, name: str) -> None:
    script = b"#!/bin/sh\n#SBATCH --job-name=a\\ -n2\n"
    found = submission.read(["job.sh"], {}, lambda _name: script, release=release)
    choice = found.choice("job-name")
    assert choice is not None
    assert choice.value == name
    assert found.request.ntasks == (2 if release == (22, 5) else None)


def test_read_of_options_that_set_one_thing_takes_the_stronger() -> None:
    found = _read("-s", environ={"SBATCH_EXCLUSIVE": "exclusive"})
    assert (found.request.exclusive, found.choice("exclusive")) == (False, None)
    found = _read("--exclusive", script="#SBATCH -s")
    assert found.request.exclusive


def test_read_of_a_hint_of_the_script_goes_before_threads_of_the_environment() -> None:
    found = _read(script="#SBATCH --hint=nomultithread", environ={"SBATCH_THREADS_PER_CORE": "2"})
    assert (found.request.threads_per_core, found.choice("threads-per-core")) == (1, None)
