"""Tests that depend on Slurm, on every Slurm that Debian has: those that this machine lacks in chroots."""
