"""ofu-admin's commands around the collector: collect, install, new-key."""

from datetime import datetime, timezone
from pathlib import Path

import click

from slurm_ofu.cli.options import EXIT_USAGE, config_option
from slurm_ofu.config import load_config
from slurm_ofu.delivery.key_file import add_key
from slurm_ofu.wiring.collecting import collect, collect_once
from slurm_ofu.wiring.delivering import owner_id
from slurm_ofu.wiring.installing import default_config, default_python
from slurm_ofu.wiring.installing_collector import install_collector


def say(line: str) -> None:
    """To standard error: the journal, where systemd started us."""
    click.echo(f"ofu-admin: {line}", err=True)


@click.command("collect", short_help="Take in the records of nodes, as a service.")
@config_option
@click.option("--once", is_flag=True, help="Take in what is in the inbox, and end: for cron, without HTTP.")
def collect_command(config: str | None, once: bool) -> int:
    """Take in the records of all nodes: over HTTP and from the inbox directory, into the database.

    The one process that writes a cluster's database; see operate.md. Runs until it is told to end (SIGTERM).
    While the database cannot be used, records wait in the inbox; when that is full, nodes are asked to
    come back later.

    Exit code 0: ended as it was told to, or with --once: everything is stored; 1: the configuration cannot
    be used, or with --once: something was rejected, stayed or failed; 4: another collector has the inbox,
    or with --once: the database is busy or cannot be used, and every file is still there.
    """
    settings = load_config(config)
    if not once:
        collect(settings, say)
        return 0
    done, failed = collect_once(settings, say)
    for why in (*done.rejected, *done.kept):
        say(why)
    click.echo(f"{done.stored} records stored, {len(done.rejected)} rejected, {len(done.kept)} kept")
    return EXIT_USAGE if done.rejected or done.kept or failed else 0


@click.command("install", short_help="Write the collector's unit, inbox and configuration.")
@click.option("--config", type=click.Path(path_type=Path), help="Configuration file; written if absent.")
@click.option(
    "--systemd-dir", type=click.Path(path_type=Path), default="/etc/systemd/system", show_default=True
)
@click.option("--no-systemd", is_flag=True, help="Write no unit (then start `ofu-admin collect` otherwise).")
def install_command(config: Path | None, systemd_dir: Path, no_systemd: bool) -> None:
    """Write the collector's systemd unit, its inbox, and a configuration where there is none.

    Unit and inbox are those of [database] owner, else of root. Run it again after an upgrade, or when
    owner, url or inbox of the configuration were changed.
    """
    said = install_collector(
        (config or default_config()).absolute(),
        None if no_systemd else systemd_dir.absolute(),
        python=default_python().absolute(),
    )
    for line in said:
        click.echo(line)


@click.command("new-key", short_help="Make a key that signs records, or one more of them.")
@config_option
@click.option("--file", "path", type=click.Path(path_type=Path), help="Key file. [[collector] key_file]")
@click.argument("name", required=False)
def new_key_command(config: str | None, path: Path | None, name: str | None) -> None:
    """Make a key for authentication = "key": a key file, or one more line at the end of an existing one.

    NAME tells keys apart; without it today's date. Nothing that is there is changed, and no secret is
    shown. The first line of a file signs, every line is accepted.
    """
    settings = load_config(config)
    click.echo(
        add_key(
            path or Path(settings.collector.signing.key_file),
            name or datetime.now(timezone.utc).strftime("%Y%m%d"),
            owner_id(settings),
        )
    )
