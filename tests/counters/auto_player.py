"""A process that opens ``auto`` as the sampler does, over the stand-in NVML library, and prints what it saw.

``python -m tests.counters.auto_player SETTINGS ROUNDS``, with SETTINGS the fields of SamplerConfig as JSON:
every GPU is read so many times in real time, after the laws' manner.
"""

import json
import sys
import time
from dataclasses import asdict
from pathlib import Path

from slurm_ofu.counters.catalogue import open_source
from slurm_ofu.values import SamplerConfig
from tests.counters.laws import broken_laws


def main(settings: str, rounds: str) -> None:
    """Print who spoke for each GPU, which laws were broken, and what was loaded."""
    config = SamplerConfig(**json.loads(settings))
    source = open_source(config, job_id=1)
    has_dcgm = Path(config.dcgmi).exists()  # whose rows set the stretches
    broken = broken_laws(source, time.sleep, rounds=int(rounds), has_gaps=has_dcgm)
    print(
        json.dumps(
            {
                "choices": [asdict(source.choice(device)) for device in source.devices()],
                "has_cycles": source.has_cycles,
                "broken": broken,
                "parser": "prometheus_client" in sys.modules,
            }
        )
    )


if __name__ == "__main__":
    main(*sys.argv[1:])
