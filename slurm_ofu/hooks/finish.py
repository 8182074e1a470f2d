"""The finisher: records for runs whose sampler is gone, and the outbox emptied.

Started by the hooks when there is something to do, from a timer and at boot; any number at once.
"""

import sys
from collections.abc import Sequence
from pathlib import Path

from slurm_ofu.config import load_config
from slurm_ofu.delivery.spool import Spool
from slurm_ofu.errors import ConfigError
from slurm_ofu.hooks.log import say
from slurm_ofu.hooks.process import DELIVERING, options_of, rename, step_back
from slurm_ofu.wiring.delivering import deliver, finish_ended_runs
from slurm_ofu.wiring.host import boot_id


def main(arguments: Sequence[str] | None = None) -> int:
    """The process. Its exit code is nobody's concern: the hooks do not wait for it."""
    rename(DELIVERING)
    step_back()
    options = options_of(arguments)
    try:
        finish(Spool(Path(options["spool"])), options["config"])
    except ConfigError as error:
        waiting = f"runs and records wait in {options['spool']} until it is mended"
        say(f"the configuration cannot be used, {waiting}: {error}", bad=True)
        return 1
    except Exception as error:  # noqa: BLE001  the boundary: whatever it is, it goes to syslog
        say(f"finishing runs in {options['spool']}: {type(error).__name__}: {error}", bad=True)
        return 1
    return 0


def finish(spool: Spool, config_path: str) -> None:
    """Finish what ended and hand on what waits; problems go to syslog, and nothing is lost by them."""
    config = load_config(config_path)
    _, problems = finish_ended_runs(spool, config, boot_id())
    delivered = deliver(spool, config)
    for problem in (*problems, *delivered.problems):
        say(problem, bad=True)


if __name__ == "__main__":
    sys.exit(main())
