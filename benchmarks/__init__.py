"""What slurm-ofu costs, always measured beside something bare in the same run."""
