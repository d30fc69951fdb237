"""One job over many nodes, exactly: the entry to the searches. `gang_problem` says what is asked and what is best.

Nodes lie in a tree of domains, and a level that is required, a preferred one and forced nodes follow the tree: the tree
search answers. What crosses the tree (`side`, `max_domains` above 1) is first left out: an answer that happens to keep
it is best with it, too. A limit on one level (Slurm's --switches) that leaves no domain to spare is a preference for
few domains of that level, and the tree search answers again. Only otherwise, and where domains overlap, a MILP is
solved.
"""

from __future__ import annotations

import msgspec

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
    return _by_preference(problem, forest, deadline) or gang_milp.search(problem, forest, deadline, relaxed)


def _by_preference(
    problem: gang_problem.GangProblem, forest: gang_problem.Forest, deadline: gang_problem.Deadline
) -> gang_problem.GangSolution | None:
    """The answer where a single limit used_l(S) <= most is all that crosses the tree, and min used_l(S) >= most.

    Then only choices with used_l(S) = most keep it, if any do, and those are what a preference for level l leaves.
    """
    crossing = [(level, most) for level, most in problem.max_domains if most != 1]
    if problem.side or len(crossing) != 1 or problem.preferred not in {None, crossing[0][0]}:
        return None
    level, most = crossing[0]
    rest = tuple(limit for limit in problem.max_domains if limit[1] == 1)
    fewest = gang_tree.search(msgspec.structs.replace(problem, preferred=level, max_domains=rest), forest, deadline)
    if fewest.solve.termination is not place.Termination.OPTIMAL or fewest.domains_used[level] < most:
        return None
    if fewest.domains_used[level] > most:
        return gang_problem.nothing(gang_tree.METHOD, place.Termination.INFEASIBLE, deadline.seconds)
    return gang_problem.answer(
        problem, forest, fewest.indices, method=gang_tree.METHOD, floor=None, seconds=deadline.seconds
    )
