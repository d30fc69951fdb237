"""A sandbox's slurm.conf, gres.conf, topology.conf and cgroup.conf, for releases 22.05 to 26.05."""

from __future__ import annotations

import pathlib
from collections.abc import Sequence

import msgspec

from placer import errors, hostlist, ranges, units
from placer.cluster import types as cluster
from placer.sandbox import emulated, install

MAX_SOCKET_PATH = 107
"""Bytes of a Unix socket's path, unix(7). The longest of ours is `spool/<node>/<node>_<job>.<step>`."""
_JOB_AND_STEP = len("_1234567.4294967291")


class Layout(msgspec.Struct, frozen=True):
    """Where everything of one sandbox lies: all of it below `root`."""

    root: pathlib.Path

    @property
    def etc(self) -> pathlib.Path:
        """The configuration files."""
        return self.root / "etc"

    @property
    def conf(self) -> pathlib.Path:
        """What SLURM_CONF names."""
        return self.etc / "slurm.conf"

    @property
    def logs(self) -> pathlib.Path:
        """One log for each daemon, and what each printed."""
        return self.root / "log"

    @property
    def run(self) -> pathlib.Path:
        """Process records, sockets and keys."""
        return self.root / "run"

    @property
    def state(self) -> pathlib.Path:
        """What slurmctld keeps."""
        return self.root / "state"

    @property
    def spool(self) -> pathlib.Path:
        """What each slurmd keeps."""
        return self.root / "spool"

    @property
    def devices(self) -> pathlib.Path:
        """Device files that stand in for GPUs."""
        return self.root / "dev"

    @property
    def topo(self) -> pathlib.Path:
        """What `nvidia-smi topo -m` would print on each node, for `--topo-dir`."""
        return self.root / "topo"

    @property
    def munge_socket(self) -> pathlib.Path:
        """Where munged listens."""
        return self.run / "munge.socket"


def slurm_conf(
    shape: emulated.EmulatedCluster, layout: Layout, installed: install.Installation, *, user: str, port: int
) -> str:
    """slurm.conf. slurmctld listens on `port`, the nodes on the ports after it, all on 127.0.0.1 alone."""
    plain = {
        "ClusterName": "sandbox",
        "SlurmctldHost": "localhost(127.0.0.1)",
        "SlurmctldPort": str(port),
        "SlurmUser": user,
        "SlurmdUser": user,
        **_trust(layout, installed),
        "CommunicationParameters": "NoCtldInAddrAny,NoInAddrAny",
        "StateSaveLocation": str(layout.state),
        "SlurmdSpoolDir": f"{layout.spool}/%n",
        "SlurmctldLogFile": f"{layout.logs}/slurmctld.log",
        "SlurmdLogFile": f"{layout.logs}/slurmd.%n.log",
        "SlurmctldPidFile": f"{layout.run}/slurmctld.pid",
        "SlurmdPidFile": f"{layout.run}/slurmd.%n.pid",
        "ProctrackType": "proctrack/linuxproc",
        "TaskPlugin": "task/none",
        "MpiDefault": "none",
        "MailProg": "/bin/true",
        "SlurmdParameters": "config_overrides",
        "SelectType": "select/cons_tres",
        "SelectTypeParameters": "CR_Core_Memory",
        "SchedulerType": "sched/backfill",
        "SchedulerParameters": "batch_sched_delay=0,bf_interval=5",
        "PriorityType": "priority/basic",
        "ReturnToService": "2",
        "KillWait": "5",
        "GresTypes": "gpu",
        "DefMemPerCPU": str(_memory_per_cpu(shape.nodes)),
    }
    if shape.switches:
        plain["TopologyPlugin"] = "topology/tree"
    lines = [f"{key}={value}" for key, value in plain.items()]
    lines += [_node_line(node, port + 1 + i) for i, node in enumerate(shape.nodes)]
    lines += [_partition_line(partition) for partition in shape.partitions]
    return "\n".join(lines) + "\n"


def _trust(layout: Layout, installed: install.Installation) -> dict[str, str]:
    if installed.munged is not None:
        return {"AuthType": "auth/munge", "AuthInfo": f"socket={layout.munge_socket}"}
    return {"AuthType": "auth/none", **({"CredType": "cred/none"} if installed.unsigned_credentials else {})}


def _memory_per_cpu(nodes: Sequence[emulated.EmulatedNode]) -> int:
    """An equal share of the poorest node, so that a job that names no memory does not take a whole node."""
    return max(1, min(n.memory_mib // (n.sockets * n.cores_per_socket * n.threads_per_core) for n in nodes))


def _node_line(node: emulated.EmulatedNode, port: int) -> str:
    counts: dict[str, int] = {}
    for gpu in node.gpus:
        name = f"gpu:{gpu.type}" if gpu.type else "gpu"
        counts[name] = counts.get(name, 0) + 1
    gres = ",".join(f"{name}:{count}" for name, count in counts.items())
    words = [
        f"NodeName={node.name} NodeHostname=localhost NodeAddr=127.0.0.1 Port={port}",
        f"Sockets={node.sockets} CoresPerSocket={node.cores_per_socket} ThreadsPerCore={node.threads_per_core}",
        f"RealMemory={node.memory_mib}",
        *([f"Gres={gres}"] if gres else []),
        *([f"Feature={','.join(node.features)}"] if node.features else []),
        "State=UNKNOWN",
    ]
    return " ".join(words)


def _partition_line(partition: cluster.Partition) -> str:
    words = [f"PartitionName={partition.name} Nodes={hostlist.fold(partition.nodes)}"]
    if partition.default:
        words.append("Default=YES")
    for key, seconds in (("MaxTime", partition.max_time), ("DefaultTime", partition.default_time)):
        if seconds is not None:
            words.append(f"{key}={units.format_duration(seconds)}")
    if partition.max_nodes is not None:
        words.append(f"MaxNodes={partition.max_nodes}")
    if partition.default_memory_per_node_mib is not None:
        words.append(f"DefMemPerNode={partition.default_memory_per_node_mib}")
    elif partition.default_memory_per_cpu_mib is not None:
        words.append(f"DefMemPerCPU={partition.default_memory_per_cpu_mib}")
    if partition.default_cpus_per_gpu is not None:
        words.append(f"DefCpuPerGPU={partition.default_cpus_per_gpu}")
    if partition.spreads:
        words.append("LLN=YES")
    words.append(f"State={'UP' if partition.up else 'DOWN'}")
    return " ".join(words)


def gres_conf(shape: emulated.EmulatedCluster, layout: Layout) -> str:
    """gres.conf: one line for each run of equal GPUs of a node, in the order that gives them their indices."""
    lines = []
    for node in shape.nodes:
        start = 0
        for i in range(1, len(node.gpus) + 1):
            if i == len(node.gpus) or node.gpus[i] != node.gpus[start]:
                lines.append(_gres_line(node.name, node.gpus[start], start, i - 1, layout))
                start = i
    return "\n".join(lines) + "\n"


def _gres_line(name: str, gpu: emulated.EmulatedGpu, first: int, last: int, layout: Layout) -> str:
    files = f"{layout.devices}/nvidia{first}" if first == last else f"{layout.devices}/nvidia[{first}-{last}]"
    words = [f"NodeName={name} Name=gpu", *([f"Type={gpu.type}"] if gpu.type else []), f"File={files}"]
    if gpu.cores is not None:
        words.append(f"Cores={ranges.format(gpu.cores)}")
    if gpu.links is not None:
        words.append(f"Links={','.join(str(n) for n in gpu.links)}")
    return " ".join(words)


def topology_conf(shape: emulated.EmulatedCluster) -> str:
    """topology.conf of a switch tree; an empty text when there are no switches."""
    lines = []
    for switch in shape.switches:
        below = (
            f"Switches={hostlist.fold(switch.switches)}" if switch.switches else f"Nodes={hostlist.fold(switch.nodes)}"
        )
        lines.append(f"SwitchName={switch.name} {below}\n")
    return "".join(lines)


def cgroup_conf(installed: install.Installation) -> str:
    """cgroup.conf: nothing of a sandbox uses cgroups, and slurmd must start on hosts where it could not make any.

    `disabled` is a word since 24.05 (cgroup.conf(5)); before, the v1 plugin is the one that does nothing unasked.
    """
    return f"CgroupPlugin={'disabled' if installed.release >= (24, 5) else 'cgroup/v1'}\n"


def write(
    shape: emulated.EmulatedCluster, layout: Layout, installed: install.Installation, *, user: str, port: int
) -> None:
    """Write all files of a sandbox, also `env.sh` and the topology texts. Raises SandboxError for a path that is too
    long for the daemons' sockets, or holds a character that Slurm's files cannot."""
    check_directory(layout.root, max(len(node.name) for node in shape.nodes))
    for folder in (layout.etc, layout.logs, layout.run, layout.state, layout.spool, layout.devices, layout.topo):
        folder.mkdir(mode=0o755, exist_ok=True)
    layout.state.chmod(0o700)
    for node in shape.nodes:
        (layout.spool / node.name).mkdir(mode=0o755, exist_ok=True)
        if node.topology_text is not None:
            (layout.topo / f"{node.name}.txt").write_text(node.topology_text)
    (layout.etc / "gres.conf").write_text(gres_conf(shape, layout))
    if shape.switches:
        (layout.etc / "topology.conf").write_text(topology_conf(shape))
    (layout.etc / "cgroup.conf").write_text(cgroup_conf(installed))
    (layout.root / "placer.yaml").write_text(f"topo_dir: {layout.topo}\n")
    exports = {"SLURM_CONF": layout.conf, "PLACER_CONFIG": layout.root / "placer.yaml"}
    (layout.root / "env.sh").write_text("".join(f"export {name}={path}\n" for name, path in exports.items()))
    layout.conf.write_text(slurm_conf(shape, layout, installed, user=user, port=port))


def check_directory(root: pathlib.Path, longest_name: int) -> None:
    """Raise SandboxError unless every file below `root` can be named in Slurm's configuration and bound as a socket.

    `longest_name` counts the characters of the longest node name.
    """
    text = str(root)
    room = MAX_SOCKET_PATH - len("/spool//") - 2 * longest_name - _JOB_AND_STEP
    hint = "placer sandbox slurm up --dir /tmp/placer-slurm"
    if len(text.encode()) > room:
        raise errors.SandboxError(
            f"the path {errors.printable(text)} is too long for the daemons' sockets: {max(room, 0)} bytes at most"
            " with these node names",
            hint=hint,
        )
    if not all(c.isascii() and (c.isalnum() or c in "/._+@:-") for c in text):
        raise errors.SandboxError(f"Slurm's files cannot hold the path {errors.printable(text)}", hint=hint)
