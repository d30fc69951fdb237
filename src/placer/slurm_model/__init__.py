"""What Slurm itself will choose: nodes, GPU indices, CPU ids and each task's view, by release."""
