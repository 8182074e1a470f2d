"""Ports for daemons, of which several test processes take some at the same time."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

from .processes import BLOCK, free_ports

ROOT = Path(__file__).resolve().parents[2]
ASK = "import json; from tests.services.processes import free_ports; print(json.dumps(free_ports({count})))"


def test_a_port_is_given_away_once() -> None:
    """Neither this process nor another gets a port again, though nobody listens there yet."""
    ours = free_ports(BLOCK + 5)
    asked = [sys.executable, "-c", ASK.format(count=BLOCK + 5)]
    theirs = json.loads(subprocess.run(asked, cwd=ROOT, capture_output=True, check=True).stdout)
    assert 2 * (BLOCK + 5) == len({*ours, *theirs})
