"""Slurm's commands, files and printed words -> placer's types, and back."""
