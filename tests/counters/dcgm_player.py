"""A process that opens a source over both stand-ins, NVML's and DCGM's, in real time, and prints what it saw.

``python -m tests.counters.dcgm_player SETTINGS``, with SETTINGS the fields of SamplerConfig as JSON. It is
its own process because a library, once loaded, stays.
"""

import json
import sys
import time
from dataclasses import asdict

from slurm_ofu.counters.catalogue import open_source
from slurm_ofu.values import SamplerConfig
from tests.counters.laws import broken_laws

PATIENT_S = 30.0


def main(settings: str) -> None:
    """Each device's first figure and clock, who spoke for it, and which laws were broken after that."""
    source = open_source(SamplerConfig(**json.loads(settings)), job_id=1)
    seen: dict[str, object] = {}
    deadline = time.monotonic() + PATIENT_S
    while len(seen) < len(source.devices()) and time.monotonic() < deadline:
        for device in source.devices():
            reading = source.read(device)
            if reading.tensor_active_ratio is not None:
                clock_mhz = source.sm_clock_mhz(device)
                choice = asdict(source.choice(device))
                seen.setdefault(device.uuid, {**asdict(reading), "clock_mhz": clock_mhz, "choice": choice})
        time.sleep(0.3)
    print(json.dumps({"seen": seen, "broken": broken_laws(source, time.sleep, rounds=8, has_gaps=True)}))


if __name__ == "__main__":
    main(*sys.argv[1:])
