from __future__ import annotations

import pytest

from placer import errors
from placer.slurm import parse_text, parse_text_jobs

NODE = """NodeName=n1 Arch=x86_64 CoresPerSocket=32 
   CPUAlloc=16 CPUEfctv=126 CPUTot=128 CPULoad=2.93
   AvailableFeatures=a100,ib
   ActiveFeatures=ib
   Gres=gpu:a100:4(S:0-1),gpu:1g.5gb:7(S:1)
   GresDrain=N/A
   GresUsed=gpu:a100:1(IDX:2),gpu:1g.5gb:0(IDX:N/A)
   OS=Linux 6.1.0-amd64 #1 SMP State=DOWN @0 
   RealMemory=1000000 AllocMem=40960 FreeMem=22359 Sockets=2 Boards=1
   MemSpecLimit=1000
   State=MIXED*+DRAIN ThreadsPerCore=2 TmpDisk=0 Weight=7 Owner=N/A MCS_label=N/A
   Partitions=gpu,all 
   Reason=bad fan Weight=3 [root@2026-11-30T23:03:16]
   Comment=State=IDLE
"""  # noqa: W291 - as printed

JOB = """JobId=21 ArrayJobId=15 ArrayTaskId=3 JobName=my job State=x JobState=FAILED
   UserId=u1(1000) GroupId=g(1000) MCS_label=N/A
   Priority=1 Nice=0 Account=lab QOS=normal
   JobState=RUNNING Reason=None Dependency=(null)
   RunTime=00:00:10 TimeLimit=UNLIMITED TimeMin=N/A
   SubmitTime=2026-11-30T23:03:16 EligibleTime=2026-11-30T23:03:16
   StartTime=2026-11-30T23:03:17 EndTime=Unknown Deadline=N/A
   Partition=gpu AllocNode:Sid=localhost:1464
   ReqNodeList=n[1-2] ExcNodeList=n9
   NodeList=n[1-3]
   NumNodes=1K NumCPUs=2K NumTasks=8 CPUs/Task=N/A ReqB:S:C:T=0:0:*:1
   Socks/Node=* NtasksPerN:B:S:C=4:0:*:* CoreSpec=*
   JOB_GRES=gpu:a100:6
     Nodes=n[1-2] CPU_IDs=0-1,16-17 Mem=65536 GRES=gpu:a100:2(IDX:0,3)
     Nodes=n3 CPU_IDs=4 Mem=1024 GRES=
   MinCPUsNode=4 MinMemoryCPU=1500M MinTmpDiskNode=0
   Features=[a100|h100] DelayBoot=00:00:00
   Reservation=maint
   OverSubscribe=OK Contiguous=0 Licenses=(null) Network=(null)
   Command=/srv/run me.sh OverSubscribe=NO
   CpusPerTres=gres/gpu:4
   TresPerNode=gres/gpu:a100:2
"""


def test_nodes_survive_blanks_and_keys_in_free_text() -> None:
    (node,) = parse_text.nodes(NODE, source="s").records
    assert node.states == ("MIXED", "DRAIN", "NOT_RESPONDING")
    assert node.reason == "bad fan Weight=3"
    assert (node.weight, node.cpus, node.cpus_effective, node.cpus_used) == (7, 128, 126, 16)
    assert (node.memory_mib, node.memory_kept_mib, node.memory_used_mib) == (1000000, 1000, 40960)
    assert node.features == ("ib",)
    assert node.partitions == ("gpu", "all")
    assert node.gres_used == "gpu:a100:1(IDX:2),gpu:1g.5gb:0(IDX:N/A)"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("IDLE", ("IDLE",)),
        ("IDLE~+CLOUD", ("IDLE", "CLOUD", "POWERED_DOWN")),
        ("IDLE+CLOUD+POWERED_DOWN", ("IDLE", "CLOUD", "POWERED_DOWN")),
        ("DOWN*", ("DOWN", "NOT_RESPONDING")),
        ("MIXED+PLANNED", ("MIXED", "PLANNED")),
        ("", ()),
    ],
)
def test_states_spell_out_suffixes(text: str, expected: tuple[str, ...]) -> None:
    assert parse_text.states(text) == expected


def test_jobs_reads_every_holding_and_the_request() -> None:
    (job,) = parse_text_jobs.jobs(JOB, source="s").records
    assert (job.id, job.alias, job.name) == ("21", "15_3", "my job State=x JobState=FAILED")
    assert job.states == ("RUNNING",)
    assert job.holdings is not None
    assert [(h.nodes, h.cpu_ids, h.memory_mib, h.gres) for h in job.holdings] == [
        (("n1", "n2"), (0, 1, 16, 17), 65536, "gpu:a100:2(IDX:0,3)"),
        (("n3",), (4,), 1024, ""),
    ]
    assert (job.nodes, job.ntasks_per_node, job.threads_per_core, job.cpus_per_task) == (1024, 4, 1, None)
    assert (job.memory_per_cpu_mib, job.memory_per_node_mib) == (1500, None)
    assert (job.reservation, job.features, job.nodelist, job.exclude) == ("maint", "[a100|h100]", "n[1-2]", "n9")
    assert (job.exclusive, job.time_limit, job.ends) == (False, None, None)
    assert job.cpus_per_tres == "gres/gpu:4"


def test_jobs_times_are_moved_to_utc() -> None:
    (job,) = parse_text_jobs.jobs(JOB, source="s", zone_seconds=3600).records
    assert job.submitted == 1796079796 - 3600  # date -u -d 2026-11-30T23:03:16 +%s, one zone to the east


def test_jobs_none_in_the_system_is_empty() -> None:
    assert parse_text_jobs.jobs("No jobs in the system\n", source="s").records == ()
    assert parse_text_jobs.jobs("", source="s").records == ()


def test_jobs_other_text_raises_with_hint() -> None:
    with pytest.raises(errors.ParseError) as caught:
        parse_text_jobs.jobs("slurm_load_jobs error: Zero Bytes were transmitted\n", source="s")
    assert caught.value.hint == "scontrol show job -d"


def test_jobs_bad_record_is_left_out_with_its_place() -> None:
    broken = JOB.replace("NumTasks=8", "NumTasks=many").replace("JobId=21", "JobId=22")
    read = parse_text_jobs.jobs(JOB + "\n" + broken, source="s")
    assert [job.id for job in read.records] == ["21"]
    lines = (JOB + "\n" + broken).split("\n")
    line = next(number for number, text in enumerate(lines) if "many" in text)
    assert read.left_out[0].startswith(f"s:{line + 1}:{lines[line].index('many') + 1}: NumTasks")


def test_jobs_bad_holding_names_its_line() -> None:
    with pytest.raises(errors.ParseError) as caught:
        parse_text_jobs.jobs(JOB.replace("CPU_IDs=4 ", "CPU_IDs=x "), source="s")
    assert caught.value.line == 15


def test_jobs_26_05_exclusive_is_its_own_key() -> None:
    shared = JOB.replace("OverSubscribe=OK", "OverSubscribe=NO Exclusive=NO")
    whole = JOB.replace("OverSubscribe=OK", "OverSubscribe=NO Exclusive=NODE")
    old = JOB.replace("OverSubscribe=OK", "OverSubscribe=NO")
    read = [parse_text_jobs.jobs(text, source="s").records[0].exclusive for text in (shared, whole, old)]
    assert read == [False, True, True]


def test_config_keeps_values_with_equals_signs() -> None:
    text = (
        "Configuration data as of 2026-11-30T23:03:27\nSchedulerParameters = bf_window=10,defer\nX       = (null)\n\n"
    )
    assert parse_text.config(text) == (("SchedulerParameters", "bf_window=10,defer"), ("X", "(null)"))
    assert parse_text.config_moment(text) == 1796079807  # date -u -d 2026-11-30T23:03:27 +%s


def test_partitions_limits_and_defaults() -> None:
    text = (
        "PartitionName=p\n   AllocNodes=ALL Default=NO QoS=N/A\n   DefaultTime=NONE\n"
        "   MaxNodes=2K MaxTime=UNLIMITED LLN=YES\n   Nodes=(null)\n   OverSubscribe=EXCLUSIVE\n"
        "   OverTimeLimit=NONE PreemptMode=REQUEUE\n   State=DOWN TotalCPUs=0\n   JobDefaults=DefCpuPerGPU=4\n"
        "   DefMemPerCPU=2000 MaxMemPerNode=UNLIMITED\n"
    )
    (one,) = parse_text.partitions(text, source="s").records
    assert (one.max_nodes, one.max_time, one.default_time, one.nodes) == (2048, None, None, "")
    assert (one.spreads, one.exclusive, one.up, one.preempt_mode) == (True, True, False, "REQUEUE")
    assert (one.job_defaults, one.memory_per_cpu_mib) == ("DefCpuPerGPU=4", 2000)
