"""A multi-GPU server as MAPA (SC '21) models it: link classes of all GPU pairs, and what a ring over a GPU set gives.

For a ring with x double NVLinks, y single ones and z PCIe links, MAPA's regression (Props.hh, fitted on a DGX-V) gives

    16.39670455 x + 4.536821878 y + 1.55623404 z - 20.69484581/(x+1) - 9.467461958/(y+1) + 7.615106783/(z+1)
    - 7.973335727 xy + 12.73323772 yz - 4.195655221 xz - 8.413419363/(xy+1) + 62.85125807/(yz+1) + 27.41832588/(xz+1)
    - 5.114108079 xyz - 46.97390071/(xyz+1)   GB/s

A ring of two GPUs counts its link twice. On other servers than the DGX-V this is MAPA's own extrapolation.
"""

from __future__ import annotations

import itertools

import msgspec
import numpy as np
import numpy.typing as npt

from placer import errors

Masks = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]

SIZES = (2, 3, 4, 5)
"""GPUs of a job."""

MOST_GPUS = 16

_DOUBLE, _SINGLE, _PCIE = range(3)
_CLASS = {"DoubleNVLink": _DOUBLE, "SingleNVLink": _SINGLE, "PCIe": _PCIE}


class Sets(msgspec.Struct, frozen=True):
    """All GPU sets of one size in order of their lowest GPUs, as arrays of equal length."""

    masks: Masks
    predicted: Floats  # by the best ring, GB/s
    ring_sum: Floats  # of the ring with the largest sum of link bandwidths, GB/s
    predicted_of_sum: Floats  # by the first such ring, GB/s


class Server(msgspec.Struct, frozen=True):
    """One server; `tabled` makes it ready for replays."""

    name: str
    gpus: int
    socket: int  # GPUs of a socket, counted from GPU 0
    classes: tuple[tuple[int, ...], ...]
    gbps: tuple[tuple[float, ...], ...]


class _Written(msgspec.Struct, frozen=True):
    """A server as the topology file has it; links count GPUs from 1."""

    gpus: int
    gpus_per_socket_block: int
    links: list[tuple[int, int, float, str]]


def parse(text: str, *, source: str) -> tuple[Server, ...]:
    """The servers of a topology file: JSON, server name -> {gpus, gpus_per_socket_block, links [[a, b, GB/s, class]]}.

    A class is DoubleNVLink, SingleNVLink or PCIe, and each pair of GPUs has one link. Raises InputError.
    """
    try:
        written = msgspec.json.decode(text, type=dict[str, _Written])
    except (msgspec.DecodeError, RecursionError, UnicodeEncodeError) as error:
        raise errors.ParseError(
            str(error), source=source, hint="placer simulate mapa --help says what the file holds"
        ) from None
    return tuple(_server(name, server, source) for name, server in written.items())


def _server(name: str, written: _Written, source: str) -> Server:
    n = written.gpus
    if not max(SIZES) <= n <= MOST_GPUS:
        _wrong(
            source, f"{name}.gpus", f"{n} GPUs; the jobs need {max(SIZES)}, and more than {MOST_GPUS} are not tabled"
        )
    if not 0 < written.gpus_per_socket_block <= n:
        _wrong(source, f"{name}.gpus_per_socket_block", f"{written.gpus_per_socket_block} of {n} GPUs in a socket")
    classes = [[-1] * n for _ in range(n)]
    gbps = [[0.0] * n for _ in range(n)]
    for at, (a, b, bandwidth, kind) in enumerate(written.links):
        path = f"{name}.links[{at}]"
        if not (1 <= a <= n and 1 <= b <= n and a != b):
            _wrong(source, path, f"{a} and {b} are no pair of the GPUs 1 to {n}")
        if kind not in _CLASS:
            _wrong(source, path, f"`{errors.printable(kind)}` is not one of {', '.join(_CLASS)}")
        if not 0 < bandwidth < 1e6 or classes[a - 1][b - 1] >= 0:
            _wrong(source, path, "the link has no bandwidth, or its pair has one already")
        classes[a - 1][b - 1] = classes[b - 1][a - 1] = _CLASS[kind]
        gbps[a - 1][b - 1] = gbps[b - 1][a - 1] = bandwidth
    if len(written.links) != n * (n - 1) // 2:
        _wrong(source, f"{name}.links", f"{len(written.links)} links for {n * (n - 1) // 2} pairs")
    return Server(name, n, written.gpus_per_socket_block, tuple(map(tuple, classes)), tuple(map(tuple, gbps)))


def _wrong(source: str, path: str, message: str) -> None:
    raise errors.DocumentError(
        message, source=source, path=path, hint="placer simulate mapa --help says what the file holds"
    )


def predicted_gbps(double: Floats, single: Floats, pcie: Floats) -> Floats:
    """MAPA's regression for rings with so many links of each class, elementwise."""
    x, y, z = double, single, pcie
    value: Floats = 16.39670455 * x + 4.536821878 * y + 1.55623404 * z
    value = value - 20.69484581 / (x + 1) - 9.467461958 / (y + 1) + 7.615106783 / (z + 1)
    value = value - 7.973335727 * x * y + 12.73323772 * y * z - 4.195655221 * x * z
    value = value - 8.413419363 / (x * y + 1) + 62.85125807 / (y * z + 1) + 27.41832588 / (x * z + 1)
    return value - 5.114108079 * x * y * z - 46.97390071 / (x * y * z + 1)


class Tables:
    """What the policies look up, for one server.

    `sets[k]`; by mask of free GPUs `nvlink_gbps` (sum over the NVLinks among them) and `best[k]` (the largest predicted
    bandwidth of a set of k among them, 0 where there is none); `future`, the mean of `best` over the sizes.
    """

    def __init__(self, server: Server) -> None:
        self.server = server
        n = server.gpus
        self.everything = (1 << n) - 1
        self.sets = {k: _sets(server, k) for k in SIZES}
        nvlink = np.where(np.array(server.classes) < _PCIE, np.array(server.gbps), 0.0)
        self.nvlink_gbps = _sums(nvlink)
        self.best = {k: _best_inside(self.sets[k], n) for k in SIZES}
        self.future: Floats = np.mean([self.best[k] for k in SIZES], axis=0)
        self.size_of: Masks = np.array([mask.bit_count() for mask in range(1 << n)], dtype=np.int64)
        self._inside: dict[tuple[int, int], Masks] = {}

    def inside(self, free: int, size: int) -> Masks:
        """Positions in `sets[size]` of the sets that lie inside a mask, in their order."""
        key = (free, size)
        if key not in self._inside:
            self._inside[key] = np.flatnonzero(self.sets[size].masks & ~np.int64(free) == 0)
        return self._inside[key]


def _sets(server: Server, size: int) -> Sets:
    gpus = np.array(list(itertools.combinations(range(server.gpus), size)), dtype=np.int64)
    rings = np.array(
        [(0, *order) for order in itertools.permutations(range(1, size)) if order[0] <= order[-1]], dtype=np.int64
    )
    around = gpus[:, rings]  # set x ring x GPU
    following = np.roll(around, -1, axis=2)
    kinds = np.array(server.classes)[around, following]
    total = np.array(server.gbps)[around, following].sum(axis=2)
    x, y, z = ((kinds == kind).sum(axis=2).astype(np.float64) for kind in (_DOUBLE, _SINGLE, _PCIE))
    predicted = np.round(predicted_gbps(x, y, z), 9)  # equal rings are equal, whatever the order of adding up
    first = total.argmax(axis=1)
    row = np.arange(len(gpus))
    return Sets((np.int64(1) << gpus).sum(axis=1), predicted.max(axis=1), total[row, first], predicted[row, first])


def _sums(matrix: Floats) -> Floats:
    """Σ over pairs inside each mask: GPU i is added to all masks of the GPUs before it."""
    sums = np.zeros(1)
    for i in range(len(matrix)):
        added = np.zeros(1)
        for j in range(i):
            added = np.concatenate([added, added + matrix[i, j]])
        sums = np.concatenate([sums, sums + added])
    return sums


def _best_inside(sets: Sets, count: int) -> Floats:
    """The largest predicted bandwidth of a set inside each mask: every set, then every mask without one of its GPUs."""
    best: Floats = np.zeros(1 << count)
    best[sets.masks] = sets.predicted
    for i in range(count):
        halves = best.reshape(-1, 2, 1 << i)
        np.maximum(halves[:, 1], halves[:, 0], out=halves[:, 1])
    return best
