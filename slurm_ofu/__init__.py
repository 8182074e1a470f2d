"""slurm-ofu: Overall FLOP Utilization of every Slurm GPU job."""

__version__ = "0.4.0"
