"""What the hooks' path loads."""

import subprocess
import sys
from pathlib import Path

PROGRAM = """
import sys
sys.path.append(sys.argv[1])
import slurm_ofu.store.write
slow = {"sqlite_utils", "click", "pluggy", "dateutil", "rich", "asyncio", "random", "hashlib", "argparse"}
print(sorted(slow & set(sys.modules)))
"""


def test_the_writer_loads_the_standard_library_only() -> None:
    """A fresh interpreter with the writer has neither sqlite_utils nor what it brings along."""
    root = str(Path(__file__).parents[2])
    command = [sys.executable, "-I", "-c", PROGRAM, root]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert "[]\n" == done.stdout
