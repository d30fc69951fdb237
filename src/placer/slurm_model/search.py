"""Section 4 of the rules, the part that all fabrics share: what a node contributes, and when a job has enough."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

from placer.slurm_model import cores, types
from placer.slurm_model.cores import Offer
from placer.slurm_model.release import R22, R24, R26
from placer.slurm_model.usable import INFINITE, Open


@dataclasses.dataclass(frozen=True, slots=True)
class Picked:
    """A node that the job takes, and what it contributes to the job's CPUs and GPUs."""

    offer: Offer
    cpus: int
    gpus: int
    trimmed: bool = False  # [22] it offered more CPUs than the job still wanted, and gives no more than `cpus`


def weight(node: Open) -> tuple[int, int]:
    """Nodes are taken in this order, lightest first: slurm.conf's Weight, then more GPUs near free cores."""
    return node.machine.weight, 255 - min(node.near, 255)


def suffice(offers: Sequence[Offer], nodes: int, cpus: int, gpus: int) -> bool:
    """Whether these are as many nodes, CPUs and GPUs."""
    return (
        len(offers) >= nodes
        and sum(offer.cpus for offer in offers) >= cpus
        and sum(offer.gpus for offer in offers) >= gpus
    )


class Search:
    """Nodes taken so far, and what is still wanted. `first`: pass 1 of section 3."""

    def __init__(self, ask: types.Ask, usable: Sequence[Open], first: bool) -> None:
        self.ask, self.usable, self.first = ask, usable, first
        self.most = INFINITE if ask.nodes_max is None else ask.nodes_max
        self.cpus_left = max(ask.min_cpus, ask.cpg * (ask.P or ask.nodes * ask.per_node))
        self.gpus_taken = 0
        self.picked: list[Picked] = []
        self.tried: set[int] = set()
        self._offers: dict[int, Offer | None] = {}
        self._alike: dict[tuple[int, int, int], Offer | None] = {}

    @property
    def nodes_left(self) -> int:
        """Nodes still wanted; at least one, since it is asked for before a node is taken."""
        return max(1, self.ask.nodes - len(self.picked))

    @property
    def done(self) -> bool:
        """Whether nodes, CPUs and GPUs suffice."""
        return len(self.picked) >= self.ask.nodes and self.cpus_left <= 0 and self.gpus_taken >= self.ask.P

    @property
    def gpus_left(self) -> int:
        """GPUs of the whole job that are still wanted."""
        return self.ask.P - self.gpus_taken

    def offer(self, node: Open) -> Offer | None:
        """What a node offers; worked out once, with what is taken by then."""
        if node.index not in self._offers:
            key = node.like, self.gpus_taken, self.nodes_left
            if key not in self._alike:
                self._alike[key] = self._work_out(node)
            alike = self._alike[key]
            self._offers[node.index] = None if alike is None else alike.of(node)
        return self._offers[node.index]

    def _work_out(self, node: Open) -> Offer | None:
        if not self.ask.wants_gpus:
            return cores.without_gpus(self.ask, node)
        return cores.near_gpus(self.ask, node, first=self.first, taken=self.gpus_taken, nodes_left=self.nodes_left)

    def take_required(self) -> bool:
        """Take the nodes that the job must hold; False where one cannot serve it."""
        by_name = {node.machine.name: node for node in self.usable}
        return all(self.take(by_name[name]) for name in self.ask.required)

    def take(self, node: Open) -> bool:
        """Take a node if it serves the job; False where it does not, or where the job has its most nodes."""
        if node.index in self.tried or len(self.picked) >= self.most:
            return False
        self.tried.add(node.index)
        offer = self.offer(node)
        if offer is None or offer.cpus < self.ask.pn_min:
            return False
        if len(self.picked) + 1 == self.most and offer.cpus < self.cpus_left:
            return False
        picked = self._contribution(offer)
        self.picked.append(picked)
        self.cpus_left -= picked.cpus
        self.gpus_taken += picked.gpus
        return True

    def _contribution(self, offer: Offer) -> Picked:
        """At most what is left when every node still to come keeps a core's CPUs and a GPU."""
        ask, t = self.ask, self.ask.t(offer.node.machine)
        cpus = min(offer.cpus, self.cpus_left - (self.nodes_left - 1) * t)
        trimmed = ask.release == R22 and cpus < offer.cpus
        cpus = max(cpus, ask.pn_min)
        gpus = offer.gpus
        if self.gpus_taken < ask.P:
            gpus = min(gpus, ask.P - self.gpus_taken - (self.nodes_left - 1))
        if ask.release >= R24:
            cpus = cpus if ask.q else max(cpus, offer.min_cores * t)
            gpus = min(gpus, self._gpus_of_tasks(offer, cpus))
        elif self.nodes_left == 1:
            cpus = max(cpus, min(offer.cpus, ask.cpg * (gpus_counted(ask, offer) or gpus)))
        elif ask.cpg:
            gpus = min(gpus, cpus // ask.cpg)
        return Picked(offer, cpus, gpus, trimmed)

    def _gpus_of_tasks(self, offer: Offer, cpus: int) -> int:
        """[24+] GPUs of the tasks that really come here."""
        ask = self.ask
        tasks = cpus // ask.cpt
        if ask.release >= R26:
            tasks = min(tasks, offer.hi)
        if ask.per_task:
            return tasks * ask.per_task
        return tasks // ask.q if ask.q else INFINITE


def gpus_counted(ask: types.Ask, offer: Offer) -> int:
    """GPUs of one node that CPUs per GPU are counted for; 0 where they are asked for the job as a whole."""
    sockets = max(1, sum(f > 0 for f in offer.node.f))
    return ask.per_node or ask.per_sock * min(ask.s, sockets)
