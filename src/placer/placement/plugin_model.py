"""What NVIDIA's device plugin may answer when the kubelet asks it for GPUs of a node: a set of choices.

The plugin's best-effort policy, for available GPUs A, required ones R ⊆ A and a size k, with the pair scores w of
`plugin_scores` and w(S) = Σ over pairs {a, b} ⊆ S of w_ab:

    A is cut into sets of k GPUs; what is left over when k does not divide |A| forms one smaller set.
    Among all cuts Π in which some whole set holds R, those of the largest Σ_{S ∈ Π} w(S) are best.
    The answer is a set of a best cut: of its whole sets that hold R, one with the largest w(S).

Ties go to what comes first in the order of A. The kubelet passes A in no order (it iterates a Go map), so on a node any
best cut may come first, and any of its best sets: list the sets of a cut one after the other, the answer first and
the smaller set last, and the plugin meets that cut first. The possible answers therefore are exactly

    { S : S ⊆ A, |S| = k, R ⊆ S, S is in some best cut, and no whole set T ⊇ R of that cut has w(T) > w(S) }.

With f(M) the best sum over the cuts of M, and h(M) the least, over the best cuts of M, of the largest w of a whole set,
S is possible when w(S) + f(A \\ S) is the maximum over the sets that hold R, and for R = ∅ also h(A \\ S) <= w(S). (For
R ≠ ∅ no two sets of a cut hold R.) Both are tabled over masks M by the set that holds the lowest GPU of M.
"""

from __future__ import annotations

import functools
import itertools
from collections.abc import Iterator, Sequence

import msgspec
import numpy as np
import numpy.typing as npt

from placer import errors, ranges
from placer.placement import plugin_scores

Masks = npt.NDArray[np.int64]
Answer = tuple[int, ...]
"""GPU numbers, ascending; () = the plugin answers nothing."""

MOST_GPUS = 16
"""Available GPUs up to which the cuts are worked out; the plugin itself needs minutes for more."""

_NONE = np.iinfo(np.int64).min // 4


class Prediction(msgspec.Struct, frozen=True):
    """Every possible answer, in ascending order."""

    possible: tuple[Answer, ...]

    @property
    def exact(self) -> bool:
        """Whether only one answer is possible."""
        return len(self.possible) == 1


def possible(
    scores: plugin_scores.Scores, available: Sequence[int], size: int, required: Sequence[int] = ()
) -> tuple[Answer, ...]:
    """Every set that the plugin may answer when the order of `available` is not known, in ascending order.

    Raises InputError for GPUs without scores, doubled ones, and more than `MOST_GPUS` available.
    """
    return predict(scores, available, size, required).possible


def predict(
    scores: plugin_scores.Scores, available: Sequence[int], size: int, required: Sequence[int] = ()
) -> Prediction:
    """As `possible`, with `exact`."""
    gpus = tuple(sorted(available))
    if _answers_nothing(scores, gpus, size, required):
        return Prediction(((),))
    return Prediction(
        tuple(sorted(tuple(gpus[p] for p in ranges.from_mask(m)) for m in _search(scores, gpus, size, required)))
    )


def ordered(scores: plugin_scores.Scores, available: Sequence[int], size: int, required: Sequence[int] = ()) -> Answer:
    """The one answer when `available` comes in the order given. Raises as `possible`."""
    gpus = tuple(available)
    if _answers_nothing(scores, gpus, size, required):
        return ()
    cuts = _Cuts(_among(scores, gpus), size)
    must = _mask(gpus, required)
    whole = [m for m in cuts.first(must) if m.bit_count() == size and m & must == must]
    best = max(whole, key=lambda m: int(cuts.weight[m]))  # the first of equals
    return tuple(sorted(gpus[p] for p in ranges.from_mask(best)))


def through_kubelet(
    scores: plugin_scores.Scores,
    available: Sequence[int],
    size: int,
    *,
    aligned: Sequence[int] | None,
    reused: Sequence[int] = (),
) -> Prediction:
    """What a container gets, the kubelet's own rule first (`devicesToAllocate` in pkg/kubelet/cm/devicemanager).

    `aligned` are the GPUs on the NUMA nodes that the Topology Manager settled on; None = it settled on nothing, and the
    plugin chooses from all. When more are aligned than are needed, the plugin chooses among them. Otherwise all the
    aligned ones are taken, and the plugin only fills up. `reused` GPUs, from the pod's init containers, are kept.
    """
    kept = set(reused)
    if aligned is None:
        return predict(scores, sorted(kept.union(available)), size, sorted(kept))
    near = set(aligned).intersection(available) - kept
    needed = size - len(kept)
    if needed < len(near):
        return predict(scores, sorted(kept | near), size, sorted(kept))
    return predict(scores, sorted(kept.union(available)), size, sorted(kept | near))


def _answers_nothing(scores: plugin_scores.Scores, gpus: Answer, size: int, required: Sequence[int]) -> bool:
    """Whether there is no set to answer with; raises InputError for what is no question at all."""
    if len(set(gpus)) < len(gpus):
        raise errors.InputError("a GPU is available twice", hint="name each GPU once")
    strange = sorted(set(gpus).union(required) - set(range(len(scores))))
    if strange:
        raise errors.InputError(f"GPU {strange[0]} is not in the scores of {len(scores)} GPUs")
    if not set(required) <= set(gpus) or not max(1, len(set(required))) <= size <= len(gpus):
        return True
    if len(gpus) > MOST_GPUS:
        raise errors.InputError(
            f"{len(gpus)} GPUs are available; what the plugin answers is worked out up to {MOST_GPUS}",
            hint="the plugin itself needs minutes there: give it fewer devices, or turn the alignment off",
        )
    return False


def _mask(gpus: Answer, chosen: Sequence[int]) -> int:
    return ranges.to_mask([gpus.index(gpu) for gpu in set(chosen)])


def _among(scores: plugin_scores.Scores, gpus: Answer) -> plugin_scores.Scores:
    return tuple(tuple(scores[a][b] if a != b else 0 for b in gpus) for a in gpus)


def _search(scores: plugin_scores.Scores, gpus: Answer, size: int, required: Sequence[int]) -> list[int]:
    """Masks by position in `gpus` of all possible answers."""
    pairs = _among(scores, gpus)
    must = _mask(gpus, required)
    everything = (1 << len(gpus)) - 1
    chosen = _of_size(len(gpus), size)
    chosen = chosen[chosen & must == must]
    if len({pairs[i][j] for i in range(len(gpus)) for j in range(i)}) <= 1:
        return [int(m) for m in chosen]  # all cuts are equal
    cuts = _Cuts(pairs, size)
    total = cuts.weight[chosen] + cuts.value[everything ^ chosen]
    best = total == total.max()
    if not must:
        best &= cuts.least_top[everything ^ chosen] <= cuts.weight[chosen]
    return [int(m) for m in chosen[best]]


class _Cuts:
    """w, f and h of every mask that cuts of `pairs` into sets of `size` leave; see the module.

    A mask with m GPUs still has the smaller set to come exactly when m mod size is not 0.
    """

    def __init__(self, pairs: plugin_scores.Scores, size: int) -> None:
        self.count, self.size = len(pairs), size
        self.weight = _weights(pairs)
        self.value = np.zeros(1 << self.count, dtype=np.int64)
        self.least_top = np.full(1 << self.count, _NONE, dtype=np.int64)
        rest = self.count % size
        for members in range(1, self.count - size + 1):
            if members % size in {0, rest}:
                self._fill(members)

    def _parts(self, members: int) -> list[int]:
        """Sizes of the sets that a mask of so many GPUs may lose next: a whole one, the smaller one."""
        rest = members % self.size
        return [part for part in (self.size, rest) if 0 < part <= members]

    def _fill(self, members: int) -> None:
        masks = _of_size(self.count, members)
        bits = np.int64(1) << _positions(self.count, members)
        sets = np.concatenate([_with_lowest(bits, part) for part in self._parts(members)], axis=1)
        weight, left = self.weight[sets], masks[:, None] ^ sets
        total = weight + self.value[left]
        best = total.max(axis=1)
        whole = np.concatenate(
            [np.full(_choices(members, part).shape[0], part == self.size) for part in self._parts(members)]
        )
        top = np.maximum(np.where(whole, weight, _NONE), self.least_top[left])
        self.value[masks] = best
        self.least_top[masks] = np.where(total == best[:, None], top, -_NONE).min(axis=1)

    def first(self, must: int) -> list[int]:
        """The sets of the first best cut with a whole set that holds `must`, in the order of their lowest GPUs."""
        left, pending = (1 << self.count) - 1, True
        value = self._best_with(left, must)
        found: list[int] = []
        while left:
            for chosen in self._in_order(left):
                holds = chosen.bit_count() == self.size and chosen & must == must
                if pending and not holds and (chosen & must or (left ^ chosen).bit_count() < self.size):
                    continue
                rest = left ^ chosen
                after = self._best_with(rest, must) if pending and not holds else int(self.value[rest])
                if self.weight[chosen] + after == value:
                    found.append(chosen)
                    left, value, pending = rest, after, pending and not holds
                    break
            else:  # pragma: no cover - some cut has the best value
                raise AssertionError("no cut has the best value")
        return found

    def _best_with(self, mask: int, must: int) -> int:
        """Best sum over the cuts of a mask in which some whole set holds `must`."""
        sets = _of_size(self.count, self.size)
        sets = sets[(sets & must == must) & (sets & ~mask == 0)]
        return int((self.weight[sets] + self.value[mask ^ sets]).max(initial=_NONE))

    def _in_order(self, mask: int) -> Iterator[int]:
        """The sets with the lowest GPU of a mask by their first GPUs; what the smaller one lacks counts as last."""
        gpus = ranges.from_mask(mask)
        missing = self.count  # a place behind every GPU
        sets = [
            (chosen + (missing,) * (self.size - part), chosen)
            for part in self._parts(len(gpus))
            for chosen in ((gpus[0], *others) for others in itertools.combinations(gpus[1:], part - 1))
        ]
        return (ranges.to_mask(chosen) for _, chosen in sorted(sets))


def _weights(pairs: plugin_scores.Scores) -> Masks:
    """w of every mask: GPU i is added to all masks of the GPUs before it."""
    weight = np.zeros(1, dtype=np.int64)
    for i in range(len(pairs)):
        added = np.zeros(1, dtype=np.int64)
        for j in range(i):
            added = np.concatenate([added, added + pairs[i][j]])
        weight = np.concatenate([weight, weight + added])
    return weight


def _with_lowest(bits: Masks, part: int) -> Masks:
    """All sets of `part` GPUs with the first of each row of `bits`."""
    sets: Masks = bits[:, _choices(bits.shape[1], part)].sum(axis=2)
    return sets


@functools.lru_cache(maxsize=256)
def _choices(members: int, part: int) -> Masks:
    """Columns of every choice of `part` of `members`, the first always among them."""
    rows = [(0, *others) for others in itertools.combinations(range(1, members), part - 1)]
    return np.array(rows, dtype=np.int64).reshape(-1, part)


@functools.lru_cache(maxsize=256)
def _positions(count: int, members: int) -> Masks:
    return np.array(list(itertools.combinations(range(count), members)), dtype=np.int64).reshape(-1, members)


@functools.lru_cache(maxsize=256)
def _of_size(count: int, members: int) -> Masks:
    masks: Masks = (np.int64(1) << _positions(count, members)).sum(axis=1)
    return masks
