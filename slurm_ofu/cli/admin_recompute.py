"""ofu-admin recompute: old figures under corrected reference clocks."""

import time

import click

from slurm_ofu.cli.options import config_option
from slurm_ofu.config import load_config
from slurm_ofu.reports.free_text import printable
from slurm_ofu.store.recomputing import OutdatedRows
from slurm_ofu.wiring.recomputing import open_recomputation


@click.command("recompute", short_help="Put stored figures on the reference clocks known now.")
@config_option
@click.option("-n", "--dry-run", is_flag=True, help="Show what would change, and change nothing.")
def recompute_command(config: str | None, dry_run: bool) -> int:
    """Put stored figures on the reference clocks that are known now.

    For after an upgrade that corrects a clock, and after a [gpu_models] row was added or changed. Each row of
    the database says which clock it was made with; those of a GPU model that was unknown get their OFU, but
    neither time-line nor quarter hours nor the peak. Tensor activity, coverage and everything else stay.
    Interrupted, it goes on where it was when it is started again.

    Exit code 0: every figure that can be is on the clock that is known now, and what stays is said; 4: the
    database cannot be used.
    """
    recomputation = open_recomputation(load_config(config))
    outdated = recomputation.outdated()
    for rows in outdated:
        click.echo(_shown(rows))
        if not dry_run:
            for _ in recomputation.recompute(rows, time.time()):
                pass
    if all(rows.new_clock_mhz is None for rows in outdated):
        click.echo("every figure is on the reference clock that is known now")
    return 0


def _shown(rows: OutdatedRows) -> str:
    name, many = printable(rows.gpu_model), f"{rows.gpu_row_count} GPU rows of {rows.run_count} runs"
    if rows.new_clock_mhz is None and rows.old_clock_mhz is None:
        return f"{name}: no reference clock: {many} stay without OFU until [gpu_models] has one"
    text = f"{name}: {_clock(rows.old_clock_mhz)} → {_clock(rows.new_clock_mhz)}, {many}"
    if rows.new_clock_mhz is None:
        return f"{text}: left as they are, there is no [gpu_models] row any more"
    if rows.lost_count:
        text += f"; {rows.lost_count} of them hold no cycles (made before 0.3) and stay without OFU"
    return text


def _clock(mhz: float | None) -> str:
    return "unknown" if mhz is None else f"{mhz:g} MHz"
