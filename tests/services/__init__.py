"""Real services for the tests: a multi-node Slurm cluster with accounting on one machine."""
