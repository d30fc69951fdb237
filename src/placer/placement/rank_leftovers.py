"""Groups of D nodes when they do not all fit whole into a domain: which are cut, and where. Exact for two parts each.

With f_s = D m_s + r_s free nodes in domain s, W = Σ m_s groups fit whole and L = P - W >= 1 do not. Let a cut group
take its nodes from two domains. Domains that cut groups join form a *component*: c domains with c - 1 cut groups, for
which

    Σ_{s in component} q_s >= (c - 1) D,    q_s the nodes that s gives to cut groups,

is necessary and also enough: join the smallest q to the largest; had these two fewer than D nodes, any two had, and the
sum would be too small. A domain enters with its remainder alone (q_s = r_s: kind A) or gives up one whole group
(q_s = r_s + D: kind B). With d_s = D - r_s, a component is possible when

    Σ_{s in A} d_s - Σ_{s in B} r_s <= D,    and it gives |A| - 1 groups more than were given up.

Every cut costs the same, so the mean spread is least with the fewest B:

    sets       R remainders 1 … D-1 that occur, n_r domains with remainder r, n⁺_r of them with a whole group;
               components without B as paths through levels 0 … D (arc p -> p + d adds a domain of kind A);
               K components with B
    variables  x_{p,r} arcs taken, u paths started,
               a_{r,k}, b_{r,k} domains of kind A and B in component k, y_k component k exists; all whole numbers
    minimise   Σ b_{r,k}
    subject to Σ_r x_{0,r} <= u,    Σ_r x_{p,r} <= Σ_r x_{p-d,r}              (p >= 1)
               Σ_r (D - r) a_{r,k} - Σ_r r b_{r,k} <= D y_k,    Σ_r a_{r,k} + b_{r,k} <= S y_k
               Σ_p x_{p,r} + Σ_k a_{r,k} + b_{r,k} <= n_r,    Σ_k b_{r,k} <= n⁺_r
               Σ x_{p,r} - u + Σ_k (Σ_r a_{r,k} - y_k) >= L

K = 0 is tried first, then K = 1; its optimum β bounds the number of components with B, and K = β proves it.
"""

from __future__ import annotations

import heapq

import msgspec

from placer.placement import milp
from placer.placement import types as plan

Group = tuple[tuple[int, int], ...]
"""(domain, nodes) of the parts of one group."""


class _Component(msgspec.Struct, frozen=True):
    remainders: tuple[int, ...]  # of the domains of kind A
    given_up: tuple[int, ...]  # remainders of the domains of kind B


class _Stock(msgspec.Struct, frozen=True):
    size: int
    count: dict[int, int]  # n_r
    whole: dict[int, int]  # n⁺_r


def cut(free: dict[int, int], groups: int, size: int, limits: plan.SolveLimits) -> tuple[list[Group], bool]:
    """`groups` groups of `size` nodes out of `free` nodes by domain, more than fit whole and not more than there are.

    Also says whether (largest, mean) number of parts is proven to be least.
    """
    missing = groups - sum(count // size for count in free.values())
    remainder = {domain: count % size for domain, count in free.items() if count % size}
    stock = _Stock(size, {}, {})
    for domain, r in remainder.items():
        stock.count[r] = stock.count.get(r, 0) + 1
        stock.whole[r] = stock.whole.get(r, 0) + (free[domain] >= size)
    components, proven = _components(stock, missing, limits)
    if components:
        return _joined(components, free, remainder, groups, size), proven
    candidates = [_in_a_row(free, groups, size, keep_whole) for keep_whole in (True, False)]
    return min(candidates, key=lambda found: (max(map(len, found)), sum(map(len, found)))), False


def _components(stock: _Stock, missing: int, limits: plan.SolveLimits) -> tuple[list[_Component], bool]:
    found = _solve(stock, missing, 0, limits)
    if found:
        return found, True
    found = _solve(stock, missing, 1, limits)
    fewest = sum(len(component.given_up) for component in found)
    if fewest <= 1:
        return found, bool(found)
    better = _solve(stock, missing, fewest, limits)
    return better or found, bool(better)


def _solve(stock: _Stock, missing: int, joined: int, limits: plan.SolveLimits) -> list[_Component]:
    """The model of the module with K = `joined`; [] when it has no answer, or none within the limits."""
    size, some = stock.size, sorted(stock.count)
    domains = sum(stock.count.values())
    model = milp.Model()
    arcs = {
        (p, r): model.variable(upper=stock.count[r], integer=True)
        for p in range(size)
        for r in some
        if p + size - r <= size
    }
    started = model.variable(upper=domains, integer=True)
    a = {(r, k): model.variable(upper=stock.count[r], integer=True) for r in some for k in range(joined)}
    b = {(r, k): model.variable(upper=stock.whole[r], integer=True, cost=1.0) for r in some for k in range(joined)}
    y = [model.variable(upper=1, integer=True) for _ in range(joined)]
    for p in range(size):
        out = [(arcs[p, r], 1.0) for r in some if (p, r) in arcs]
        into = [(arcs[p - size + r, r], -1.0) for r in some if (p - size + r, r) in arcs]
        model.row([*out, *(into if p else [(started, -1.0)])], high=0.0)
    for k in range(joined):
        held = [(a[r, k], float(size - r)) for r in some] + [(b[r, k], -float(r)) for r in some]
        model.row([*held, (y[k], -float(size))], high=0.0)
        model.row([(v, 1.0) for r in some for v in (a[r, k], b[r, k])] + [(y[k], -float(domains))], high=0.0)
    for r in some:
        kinds = [(v, 1.0) for k in range(joined) for v in (a[r, k], b[r, k])]
        model.row([*((v, 1.0) for (_, at), v in arcs.items() if at == r), *kinds], high=stock.count[r])
        model.row([(b[r, k], 1.0) for k in range(joined)], high=stock.whole[r])
    gained = [(v, 1.0) for v in arcs.values()] + [(v, 1.0) for v in a.values()]
    model.row([*gained, (started, -1.0), *((v, -1.0) for v in y)], low=missing)
    values = milp.solve(model, limits).values
    if not values:
        return []
    flow = {arc: round(values[v]) for arc, v in arcs.items() if round(values[v])}
    return _paths(flow, size) + [
        component
        for k in range(joined)
        if (component := _Component(_many(a, values, some, k), _many(b, values, some, k))).remainders
    ]


def _many(kind: dict[tuple[int, int], int], values: tuple[float, ...], some: list[int], k: int) -> tuple[int, ...]:
    return tuple(r for r in some for _ in range(round(values[kind[r, k]])))


def _paths(flow: dict[tuple[int, int], int], size: int) -> list[_Component]:
    """Take the arcs apart into paths from level 0."""
    found = []
    while any(p == 0 for p, _ in flow):
        p, path = 0, []
        while True:
            arc = next((arc for arc in sorted(flow) if arc[0] == p), None)
            if arc is None:
                break
            flow[arc] -= 1
            if not flow[arc]:
                del flow[arc]
            path.append(arc[1])
            p += size - arc[1]
        found.append(_Component(tuple(path), ()))
    return found


def _joined(
    components: list[_Component], free: dict[int, int], remainder: dict[int, int], groups: int, size: int
) -> list[Group]:
    """Name the domains of the components and cut the groups; domains without a whole group are used up first."""
    whole = {domain: count // size for domain, count in free.items()}
    stock: dict[int, list[int]] = {}
    for domain in sorted(remainder, key=lambda domain: (whole[domain], domain)):
        stock.setdefault(remainder[domain], []).append(domain)
    given_up = [[stock[r].pop() for r in component.given_up] for component in components]
    found: list[Group] = []
    for component, gives in zip(components, given_up, strict=True):
        parts = [(r, stock[r].pop(0)) for r in component.remainders]
        for domain in gives:
            whole[domain] -= 1
            parts.append((remainder[domain] + size, domain))
        found += _cut_component(parts, size)
    whole_groups: list[Group] = [((domain, size),) for domain, count in whole.items() for _ in range(count)]
    return whole_groups + found[: groups - len(whole_groups)]


def _cut_component(parts: list[tuple[int, int]], size: int) -> list[Group]:
    """Join the smallest to the largest until one is left."""
    parts = sorted(parts)
    found: list[Group] = []
    while len(parts) > 1:
        (small, a), (large, b) = parts[0], parts[-1]
        given = min(small, size)
        found.append(tuple(part for part in ((b, size - given), (a, given)) if part[1]))
        parts = sorted([*parts[1:-1], (large - size + given, b)])
    return found


def _in_a_row(free: dict[int, int], groups: int, size: int, keep_whole: bool) -> list[Group]:
    """Fill up one domain after the other, those with the most nodes first; whole groups first where they are kept."""
    found: list[Group] = []
    left = dict(free)
    if keep_whole:
        for domain in left:
            found += [((domain, size),)] * (left[domain] // size)
            left[domain] %= size
    queue = [(-count, domain) for domain, count in left.items() if count]
    heapq.heapify(queue)
    parts: list[tuple[int, int]] = []
    open_nodes = size
    while len(found) < groups:
        count, domain = queue[0]
        given = min(-count, open_nodes)
        parts.append((domain, given))
        open_nodes -= given
        left[domain] -= given
        # The domain stays in front until it is used up, so that a group starts where the last one ended.
        if left[domain]:
            queue[0] = (-left[domain], domain)
        else:
            heapq.heappop(queue)
        if not open_nodes:
            found.append(tuple(parts))
            parts, open_nodes = [], size
    return found
