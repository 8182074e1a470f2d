"""The short-lived process that hands on one interim record of a run, while the sampler samples.

Started by the sampler, which waits for nothing of it and ends it when the job does. It opens no GPU.
"""

import signal
import sys
from collections.abc import Sequence
from pathlib import Path

from slurm_ofu.config import load_config
from slurm_ofu.delivery.spool import Spool
from slurm_ofu.errors import RecordRefused
from slurm_ofu.hooks.log import say
from slurm_ofu.hooks.process import DELIVERING, DONE, NEVER, NOT_NOW, options_of, rename, step_back
from slurm_ofu.wiring.interims import publish_interim


def main(arguments: Sequence[str] | None = None) -> int:
    """The process. ``--quiet yes``: what is the matter was said before."""
    signal.pthread_sigmask(signal.SIG_SETMASK, ())  # the sampler's are blocked, and that is inherited
    rename(DELIVERING)
    step_back()
    options = options_of(arguments)
    try:
        publish_interim(Spool(Path(options["spool"])), options["tag"], load_config(options["config"]))
    except RecordRefused as error:
        _say(options, f"it is refused, and no more are made: {error}")
        return NEVER
    except Exception as error:  # noqa: BLE001  the boundary: whatever it is, it goes to syslog
        _say(options, f"{type(error).__name__}: {error}")
        return NOT_NOW
    return DONE


def _say(options: dict[str, str], why: str) -> None:
    if options.get("quiet") != "yes":
        say(f"run {options['tag']}: no interim record; the job's final one is not affected: {why}", bad=True)


if __name__ == "__main__":
    sys.exit(main())
