"""Tree search, MILP and exhaustive search of one job on 2,000 random instances: counts of agreement, printed.

    python tests/bench/verify_gang.py [INSTANCES]

The instances are those of `tests/property/test_gang.py`, whose suite runs the first thousand. Exit status 1 where two
searches differ. 2,000 take about two minutes on one core.
"""

from __future__ import annotations

import collections
import importlib.util
import pathlib
import sys
import time
import types

from placer.placement import exhaustive, gang, gang_milp, gang_tree


def instances() -> types.ModuleType:
    """The module of the property tests, which tests do not import from each other."""
    path = pathlib.Path(__file__).parents[1] / "property" / "test_gang.py"
    spec = importlib.util.spec_from_file_location("gang_instances", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def main(total: int) -> int:
    """Compare on `total` instances; the number of them on which two searches differ."""
    made = instances()
    counts: collections.Counter[str] = collections.Counter()
    seconds: collections.defaultdict[str, float] = collections.defaultdict(float)
    wrong = []
    for seed in range(total):
        for crossing in (False, True):
            problem = made.instance(seed, crossing=crossing)
            searches = {"exhaustive": exhaustive.best, "entry": gang.solve, "milp": gang_milp.solve}
            if not crossing:
                searches["tree"] = gang_tree.solve
            keys = {}
            for name, search in searches.items():
                begin = time.perf_counter()
                answer = search(problem)
                seconds[name] += time.perf_counter() - begin
                keys[name] = (answer.key, answer.solve.termination, answer.busbw, answer.common_level)
            kind = "crossing constraints" if crossing else "plain"
            counts[f"{kind}, {'feasible' if answer.chosen else 'infeasible'}"] += 1
            if len(set(keys.values())) > 1:
                wrong.append((seed, crossing))
    for name, count in sorted(counts.items()):
        print(f"{name:40} {count:6}")  # noqa: T201 - a script
    for name, spent in sorted(seconds.items()):
        print(f"{name + ', seconds':40} {spent:6.1f}")  # noqa: T201
    print(f"{'instances on which searches differ':40} {len(wrong):6} {wrong[:10] or ''}")  # noqa: T201
    return len(wrong)


if __name__ == "__main__":
    sys.exit(1 if main(int(sys.argv[1]) if len(sys.argv) > 1 else 2000) else 0)
