"""A line in syslog: where operators look when a node behaves oddly."""

import sys
import syslog


def say(text: str, *, bad: bool = False) -> None:
    """One line under the name ``slurm-ofu``; also on standard error, which the hooks close."""
    syslog.openlog("slurm-ofu", syslog.LOG_PID, syslog.LOG_DAEMON)
    syslog.syslog(syslog.LOG_WARNING if bad else syslog.LOG_INFO, text.replace("\n", " "))
    if sys.stderr is not None:
        print(text, file=sys.stderr)
