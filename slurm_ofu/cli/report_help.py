"""What ofu-report says of itself: on one screen, and in full."""

from collections.abc import Callable
from typing import Any, TypeVar

import click

_Function = TypeVar("_Function", bound=Callable[..., Any])

SHORT_HELP = """\
Usage: ofu-report [OPTIONS]          Overall FLOP Utilization (OFU) of GPU jobs

Without options: your jobs of today. Options mean what they mean to sacct.

  -j, --jobs ID,…          a page per job: 123, 123_4, 123_[1-5], 123+1
  -S, --starttime TIME     from when: 2026-11-01, now-7days  [today]
  -E, --endtime TIME       until when  [now]
  -u, --user NAME,…        of these users     -a, --allusers  of everybody
  -A, --accounts NAME,…    of these accounts  -r, --partition NAME,…
  -s, --state STATE,…      CD, F, TO, R, …    -q, --qos NAME,…
  -N, --nodelist HOSTS     n[1-4]             --name NAME,…   -M, --clusters
  --by WHAT                job, user, account, partition, qos, node,
                           gpu-model, job-name, month, day, hour  [job]
  --sort WHAT, --worst N   order of the lines, runs with most lost GPU-hours
  -o, --format FIELD,…     columns (NAME%20, +NAME); --helpformat: all there are
  -P, -p, --csv, --json    for programs       -n, --noheader  --html DIR: pages

OFU is tensor activity × clock, in per cent of the peak. "n/a (reason)": not
measured, which is not zero. Coverage: the share of GPU time that was measured.
A page of more: ofu-report --help-all, man ofu-report; ofu-report tile --help
"""

HELP = """Show the Overall FLOP Utilization (OFU) of Slurm GPU jobs.

OFU is the share of the GPUs' tensor peak that was in use, measured in hardware: tensor pipe
activity times SM clock over the reference clock at which the vendor's peak holds.

Without options: your own jobs of today, one line each, and what they add up to (root: everybody's).
A job counts with what lies in the window; of one that still runs that is what its nodes have told so far.
With --jobs: a page per job, of any time (a line each where there are more than 20); a page is about the whole
job, whatever the window.

\b
How to read it
  OFU        in per cent, ± the half-width of its 95 % interval. May exceed
             100 % (clock above the reference clock): shown as measured.
  n/a (…)    nothing was measured, and why. It is not zero; zero is "0.0 %".
  Coverage   the share of the allocated GPU time that was measured. Below 95 %
             the ± says nothing about the rest.
  (… +2)     the most telling reason, and how many others; see Notes.
  (so far)   it still runs.
  (idle)     nothing ran on the GPUs; (no tensor work): busy with FP64 or
             plain FP32, say. Programs get this as the field Kind (work_kind).
  (mixed)    several GPU models are pooled in it.
  Tensor     tensor pipe activity: what is lost by not computing.
  Clock      SM clock while computing, of the reference clock: what is lost by
             slow clocks. OFU = Tensor × Clock.
  Idle       GPU-hours in which nothing ran on the GPUs.
  Lost       GPU-hours below the goal that the site has set for the partition,
             of what was measured. Runs busy without tensor cores have none.
  Bands      how many runs have an OFU of <2/2-10/10-20/20-40/>=40 %.
  TOTAL      all lines pooled by GPU time, not the mean of the lines.
  unknown    not known yet, or never: name, state, array and exact times come
             from Slurm's accounting, which is read some minutes later.
  Claimed    on a page: what the job says of itself in its comment (mfu=0.41
             or tflops=412), beside its OFU.

\b
Examples
  ofu-report                                my jobs of today
  ofu-report -S now-7days                   my jobs of the past seven days
  ofu-report -s R                           my running jobs, so far
  ofu-report -j 4711,4712                   a page for each of two jobs
  ofu-report -j 4720_3                      … for task 3 of an array
  ofu-report -u wilma,fred -S 2026-11-01    the jobs of two users since then
  ofu-report -a --by user -S 1101 -E 1201   every user in November
  ofu-report -a --by day -S now-2weeks      the days of two weeks
  ofu-report -a --by month -S 2026-01-01    the months of a year
  ofu-report -a --by account --csv          accounts, for a spreadsheet
  ofu-report -o JobID,JobName%30,OFU        these columns
  ofu-report -n -P -o JobID,OFU             for the shell, as sacct does it
  ofu-report --json | jq '.total.ofu_ratio'
  ofu-report --from-slurm -S now-7days      the same from sacct
  ofu-report tile --help                    what padding costs one GEMM

\b
Times are Slurm's (local): YYYY-MM-DD[THH:MM[:SS]], MMDD, HH:MM, today, noon,
now-2hours, now-7days, … Machine formats give ratios from 0 to 1 (what ends
in _pp: percentage points) and seconds since 1970; what was not measured is
empty (null). With --format times are as sacct shows them.

\b
As with sacct long options may be cut short (--start), and -X, -D and -L are
taken: they ask for what is shown anyway. Unlike sacct, --state looks at how a
run ended (R: it goes on), whenever that was, and not at what state it was in
during the window; and without --clusters all clusters are meant.

\b
Environment
  OFU_FORMAT          as --format, where lines are by job
  SLURM_TIME_FORMAT   times with --format: standard, relative, or strftime's
  NO_COLOR            no colours, unless --color=always
  OFU_CONFIG          the configuration file

\b
Exit codes
  0  answered; jobs that were asked for and are not there are named on stderr
  1  an option or the configuration cannot be used
  2  nothing matches (said on stderr)
  3  a job id is malformed
  4  the accounting database is missing or cannot be read
     (with --from-slurm: Slurm's accounting does not answer)
  5  you are not permitted to read the accounting database
"""


def short_help_option() -> click.Option:
    """-h and --help: one screen."""

    def show(ctx: click.Context, param: click.Parameter, value: bool) -> None:
        if value and not ctx.resilient_parsing:
            click.echo(SHORT_HELP, nl=False)
            ctx.exit()

    return click.Option(
        ["-h", "--help"],
        is_flag=True,
        is_eager=True,
        expose_value=False,
        callback=show,
        help="The most used of this, on one screen.",
    )


def show_all(ctx: click.Context, param: click.Parameter, value: bool) -> None:
    """A click callback: everything, as the manual page has it."""
    if value and not ctx.resilient_parsing:
        click.echo(ctx.get_help())
        ctx.exit()


def eager_flag(*names: str, callback: Any, help: str) -> Callable[[_Function], _Function]:
    """A flag that answers at once, whatever else is asked for."""
    return click.option(*names, is_flag=True, is_eager=True, expose_value=False, callback=callback, help=help)
