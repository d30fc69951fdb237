"""Nodes of slurm.conf and gres.conf as the model of Slurm's choices takes them."""

from __future__ import annotations

from collections.abc import Iterable

from placer.slurm import gres_conf, slurm_conf
from placer.slurm_model import types as model


def build(nodes: Iterable[slurm_conf.Node], gres: gres_conf.GresConf) -> tuple[model.Machine, ...]:
    """Machines in the order of `nodes`. A GPU whose `Cores=` lie on several sockets belongs to none of them."""
    return tuple(_machine(node, gres.devices(node.name)) for node in nodes)


def _machine(node: slurm_conf.Node, devices: tuple[gres_conf.Device, ...]) -> model.Machine:
    return model.Machine(
        name=node.name,
        sockets=node.sockets,
        cores_per_socket=node.cores_per_socket,
        threads=node.threads_per_core,
        memory_mib=node.memory_mib,
        devices=tuple(_device(device, node) for device in devices),
        weight=node.weight,
    )


def _device(device: gres_conf.Device, node: slurm_conf.Node) -> model.Device:
    sockets = {core // node.cores_per_socket for core in device.cores or ()}
    known = len(sockets) == 1 and max(sockets) < node.sockets
    return model.Device(device.type, sockets.pop() if known else None, device.links or ())
