"""Keep it, find it again: the accounting database. All SQL of slurm-ofu is in this room."""
