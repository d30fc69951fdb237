"""One job over many nodes, exactly: the entry to the searches. `gang_problem` says what is asked and what is best.

Nodes lie in a tree of domains, and a level that is required, a preferred one and forced nodes follow the tree: the tree
search answers. What crosses the tree (`side`, `max_domains` above 1) is first left out: an answer that happens to keep
it is best with it, too. Only otherwise, and where domains overlap, a MILP is solved.
"""

from __future__ import annotations

from placer.placement import gang_milp, gang_problem, gang_tree, milp
from placer.placement import types as place


def solve(problem: gang_problem.GangProblem, limits: place.SolveLimits = milp.NO_LIMITS) -> gang_problem.GangSolution:
    """The best choice of nodes. Infeasible is a result with nothing chosen.

    Without `limits.seconds` the answer is proven: OPTIMAL, gap 0. When the time is over, the best choice so far is
    given with termination LIMIT and a bound that holds.
    """
    forest = gang_problem.Forest(problem)
    deadline = gang_problem.Deadline(limits)
    if not forest.nested:
        return gang_milp.search(problem, forest, deadline)
    relaxed = gang_tree.search(problem, forest, deadline)
    if not relaxed.chosen or gang_problem.satisfies(problem, forest, relaxed.indices):
        return relaxed
    return gang_milp.search(problem, forest, deadline, relaxed)
