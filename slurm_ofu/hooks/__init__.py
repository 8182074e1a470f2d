"""What Slurm's hook scripts start; no click, no reports."""
