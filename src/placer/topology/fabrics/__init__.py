"""Readers of fabrics that are not Slurm's: discovery dumps, cluster models, tables, Kubernetes objects."""
