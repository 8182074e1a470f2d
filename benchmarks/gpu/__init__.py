"""Is the number right on a real GPU? One script, ``python -m benchmarks.gpu.validate``."""
