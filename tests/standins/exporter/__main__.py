"""``python -m tests.standins.exporter NODE.json [--port N]``: prints its port and serves.

NODE.json holds the fields of ExporterNode; a GPU's ``pattern`` is a list of segments (see counters.pattern).
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any

from slurm_ofu.counters.pattern import Pattern, Segment
from tests.standins.exporter.page import ExporterGpu, ExporterNode
from tests.standins.exporter.server import ExporterServer


def read_node(path: Path) -> ExporterNode:
    """The node that a file describes."""
    table: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    gpus = tuple(
        ExporterGpu(**{**gpu, "pattern": Pattern([Segment(**row) for row in gpu["pattern"]])})
        for gpu in table.pop("gpus")
    )
    return ExporterNode(gpus=gpus, **table)


def main() -> None:
    """Serve until killed."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("node", type=Path)
    parser.add_argument("--port", type=int, default=0)
    parser.add_argument("--host", default="127.0.0.1")
    given = parser.parse_args()
    server = ExporterServer(read_node(given.node), port=given.port, host=given.host)
    print(server.port, flush=True)
    server.serve()


if __name__ == "__main__":
    main()
