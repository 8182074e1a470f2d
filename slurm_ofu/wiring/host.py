"""Facts about this host."""

import time
from pathlib import Path


def boot_id() -> str:
    """The kernel's id of this boot."""
    return Path("/proc/sys/kernel/random/boot_id").read_text().strip()


def boot_epoch_s() -> float:
    """When this boot began, by the wall clock as it is now and by the uptime that the hooks read."""
    return time.time() - float(Path("/proc/uptime").read_text().split()[0])
