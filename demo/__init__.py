"""`make demo`: a small cluster's working day in half a minute, without root, Slurm or GPUs."""
