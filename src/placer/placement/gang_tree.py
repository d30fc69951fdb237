"""One job over a tree of domains, exact (symbols of `gang_problem`).

The choice is made in the order of the key.

1. u* = the fewest domains of the preferred level that any allowed choice uses.
2. t* = the greatest B(S) over the choices that use u*. Let E_h(t) = {i : v_i(h) >= t}. A choice with B(S) >= t exists
   exactly when for some level h a domain of level h holds K nodes of E_h(t), the forced ones among them; whether it can
   keep u* is a count of the largest domains. E_h grows as t falls, so t* is found by bisection over the values v_i(h).
3. Among the choices with u* and B(S) = t*: the least spread, then damage, by the knapsack of `covering` over the
   domains of levels 0..h, for each h of step 2 at which other nodes may meet than higher up. All terms are packed
   into one integer, cost = (u · (1 + most spread) + spread) · (1 + most damage) + damage: a node costs d_i, a domain
   of level l costs (4^l + (1 + most spread) [l = p]) · (1 + most damage).

Before step 3 a greedy choice is compared with a floor (for each level the fewest domains that can hold K, and the K
least damages): where they meet, it is the optimum, and where the deadline comes first, they are choice and bound.
"""

from __future__ import annotations

import msgspec
import numpy as np
import numpy.typing as npt

from placer.placement import covering, milp
from placer.placement import gang_problem as gang
from placer.placement import types as place

METHOD = "tree search"


class Meeting(msgspec.Struct, frozen=True, eq=False):
    """Choices that meet in one domain of level `height`: who may be in them, and the domain a greedy choice takes."""

    height: int
    eligible: gang.Mask
    unmet: int  # fewest domains of the preferred level, minus 1
    domain: int


def solve(problem: gang.GangProblem, limits: place.SolveLimits = milp.NO_LIMITS) -> gang.GangSolution:
    """The best choice; `side` and every `max_domains` above 1 are left out of account. The domains must be nested."""
    forest = gang.Forest(problem)
    return search(problem, forest, gang.Deadline(limits))


def search(problem: gang.GangProblem, forest: gang.Forest, deadline: gang.Deadline) -> gang.GangSolution:
    """`solve` for a forest that is built already."""
    meetings, proven = _fastest(problem, forest, deadline)
    if not meetings:
        return gang.nothing(METHOD, place.Termination.INFEASIBLE, deadline.seconds)
    chosen = greedy(problem, forest, meetings[0])
    floor = _floor(problem, forest, meetings) if proven else floor_of_all(problem, forest)
    if proven:
        worth = gang.weigh(problem, forest, chosen)
        if worth.key[0] == meetings[0].unmet and worth.scalar <= floor:
            return gang.answer(problem, forest, chosen, method=METHOD, floor=None, seconds=deadline.seconds)
        try:
            chosen = _cheapest(problem, forest, meetings, deadline)
        except covering.LateError:
            proven = False
    return gang.answer(
        problem, forest, chosen, method=METHOD, floor=None if proven else floor, seconds=deadline.seconds
    )


def _fastest(problem: gang.GangProblem, forest: gang.Forest, deadline: gang.Deadline) -> tuple[list[Meeting], bool]:
    """Steps 1 and 2: where choices with u* and t* can meet, and whether t* is proven. No meeting = infeasible."""
    if problem.nodes < problem.count:
        return [], True
    values = [problem.values(height) for height in range(problem.highest + 1)]
    found = _meetings(problem, forest, values, -np.inf)
    if not found:
        return [], True
    unmet = found[0].unmet
    steps = np.unique(np.concatenate([np.unique(column) for column in _distinct(values)]))
    low, high = 0, len(steps) - 1  # steps[low] is possible, nothing above steps[high] is
    while low < high:
        if deadline.passed:
            return found, False
        middle = (low + high + 1) // 2
        better = _meetings(problem, forest, values, float(steps[middle]))
        if better and better[0].unmet == unmet:
            low, found = middle, better
        else:
            high = middle - 1
    return [meeting for meeting in found if meeting.unmet == unmet], True


def _distinct(values: list[gang.Floats]) -> list[gang.Floats]:
    return [column for h, column in enumerate(values) if not h or not np.array_equal(column, values[h - 1])]


def _meetings(
    problem: gang.GangProblem, forest: gang.Forest, values: list[gang.Floats], threshold: float
) -> list[Meeting]:
    """The least u at each level at which a choice with B(S) >= threshold can meet. Least u first, then level."""
    found = []
    for height, column in enumerate(values):
        eligible = column >= threshold
        fewest = _fewest(problem, forest, problem.preferred, height, eligible)
        if fewest is not None:
            found.append(Meeting(height, eligible, fewest[0] - 1, fewest[1]))
    return sorted(found, key=lambda meeting: (meeting.unmet, meeting.height))


def _fewest(
    problem: gang.GangProblem, forest: gang.Forest, level: int | None, height: int, eligible: gang.Mask
) -> tuple[int, int] | None:
    """How few domains of `level` hold K eligible nodes inside one domain of `height`, and in which (the smallest).

    A domain with forced nodes is always used; the largest others are added until K fit. None = no choice meets here.
    """
    around = forest.domain[height]
    room = np.bincount(around[eligible], minlength=len(forest.first[height]))
    fits = room >= problem.count
    forced = np.flatnonzero(problem.forced)
    if len(forced):
        if len(forced) > problem.count or not eligible[forced].all():
            return None
        only = around[forced[0]]
        if (around[forced] != only).any():
            return None
        fits &= np.arange(len(fits)) == only
    homes = np.flatnonzero(fits)
    if not len(homes):
        return None
    if level is None or level >= height:
        return 1, int(homes[np.argmin(room[homes])])
    size = np.bincount(forest.domain[level][eligible], minlength=len(forest.first[level]))
    must = np.zeros(len(size), dtype=np.bool_)
    must[forest.domain[level][forced]] = True
    home = forest.inside(level, height)
    order = np.lexsort((-size, ~must, home))
    order = order[fits[home[order]]]
    home = home[order]
    begins = np.flatnonzero(np.diff(home, prepend=-1))
    total = np.cumsum(size[order])
    base = np.repeat(total[begins] - size[order][begins], np.diff(begins, append=len(home)))
    enough = np.flatnonzero(total - base >= problem.count)
    place_in_home = enough - begins[np.searchsorted(home[begins], home[enough])] + 1
    best = int(np.lexsort((room[home[enough]], place_in_home))[0])
    return max(int(place_in_home[best]), int(must.sum())), int(home[enough[best]])


def greedy(problem: gang.GangProblem, forest: gang.Forest, meeting: Meeting) -> gang.Ints:
    """A choice inside the meeting's domain that takes the largest domains whole, one after the other; it keeps u*."""
    inside = np.flatnonzero(meeting.eligible & (forest.domain[meeting.height] == meeting.domain))
    top = meeting.height - 1
    if problem.preferred is not None:
        top = min(top, problem.preferred)
    keys: list[npt.NDArray[np.generic]] = [problem.damage[inside]]
    for level in range(top + 1):
        domain = forest.domain[level][inside]
        size = np.bincount(domain)
        must = np.zeros(len(size), dtype=np.bool_)
        must[domain[problem.forced[inside]]] = True
        keys += [domain, -size[domain], ~must[domain]]
    order = inside[np.lexsort([*keys, ~problem.forced[inside]])]
    return order[: problem.count]


def _floor(problem: gang.GangProblem, forest: gang.Forest, meetings: list[Meeting]) -> float:
    """No choice in these meetings has a smaller scalar."""
    bounds = []
    for meeting in meetings:
        counts = [_fewest(problem, forest, level, meeting.height, meeting.eligible) for level in range(problem.levels)]
        spread = sum(gang.SPREAD_BASE**level * found[0] for level, found in enumerate(counts) if found)
        least = np.partition(problem.damage[meeting.eligible], problem.count - 1)[: problem.count]
        bounds.append(gang.scalar(spread, int(least.sum())))
    return min(bounds)


def floor_of_all(problem: gang.GangProblem, forest: gang.Forest) -> float:
    """No choice at all has a smaller scalar; the domains need not be nested."""
    spread = 0
    for level in range(problem.levels):
        sizes = np.sort(np.bincount(forest.domain[level]))[::-1]
        spread += gang.SPREAD_BASE**level * (int(np.searchsorted(np.cumsum(sizes), problem.count)) + 1)
    least = np.sort(problem.damage)[: problem.count]
    return gang.scalar(spread, int(least.sum()))


def _cheapest(
    problem: gang.GangProblem, forest: gang.Forest, meetings: list[Meeting], deadline: gang.Deadline
) -> gang.Ints:
    """Step 3: the best choice of all meetings; of equal ones that of the highest."""
    best: tuple[gang.Key, gang.Ints] | None = None
    done: list[gang.Mask] = []
    for meeting in sorted(meetings, key=lambda m: -m.height):
        if not any(np.array_equal(meeting.eligible, eligible) for eligible in done):
            done.append(meeting.eligible)
            chosen = _knapsack(problem, forest, meeting, deadline)
            key = gang.weigh(problem, forest, chosen).key
            best = (key, chosen) if best is None or key < best[0] else best
    return best[1] if best is not None else np.zeros(0, dtype=np.int64)


def _knapsack(problem: gang.GangProblem, forest: gang.Forest, meeting: Meeting, deadline: gang.Deadline) -> gang.Ints:
    """The least (u, spread, damage) in one domain of the meeting's level."""
    around = forest.domain[meeting.height]
    fits = np.bincount(around[meeting.eligible], minlength=len(forest.first[meeting.height])) >= problem.count
    fits[np.setdiff1d(np.arange(len(fits)), around[problem.forced])] &= not problem.forced.any()
    nodes = np.flatnonzero(meeting.eligible & fits[around])
    groups = [forest.domain[level][nodes] for level in range(meeting.height + 1)]
    damage = problem.damage[nodes]
    chosen = covering.cheapest(
        groups, damage, problem.forced[nodes], _weights(problem, groups, damage), problem.count, lambda: deadline.passed
    )
    return nodes[list(chosen)]


def _weights(problem: gang.GangProblem, groups: list[gang.Ints], damage: gang.Ints) -> list[int]:
    """What touching a domain of each level costs, in the packed unit. The root above the last level is free."""
    damages = 1 + problem.count * int(damage.max())
    base = [gang.SPREAD_BASE**level if level < problem.levels else 0 for level in range(len(groups))]
    spreads = 1 + sum(w * min(problem.count, covering.distinct(group)) for w, group in zip(base, groups, strict=True))
    return [(w + spreads * (level == problem.preferred)) * damages for level, w in enumerate(base)]
