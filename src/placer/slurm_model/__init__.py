"""What Slurm itself will choose: nodes, GPU indices, CPU ids and each task's view, by release.

The rules were found in recordings of real Slurm 22.05, 24.11 and 26.05 (`fixtures/slurm_choices`, a sample) and kept
only where these obey them; a rule that differs by release names it ([22], [24], [26], [24+] = both later ones). The
order of the sections is the order of the work:

1. `ask`: numbers taken from the options.            5. `tasks`: tasks to nodes, then cores.
2. `usable`: can the node be used at all.            6. `pools`, `gpus`, `gpus_22`: which GPUs.
3. `cores`: cores per socket, GPUs near them.        7. `steps`: what a task sees.
4. `search`, `tree`, `flat`, `nodes`: which nodes.   `predict` runs sections 2 to 6.

Covered: cons_tres with CR_Core_Memory, topology/tree or none, the default task distribution. Not covered: node sharing,
preemption, reservations, core specialisation, RestrictedCoresPerGPU, --ntasks-per-core, topology/block, LLN, MIG and
shards, several GPU requests in one job, GPUs near several but not all sockets.
"""
