"""ofu-admin: what is done on the host of the accounting database."""

from pathlib import Path

import click

from slurm_ofu import __version__
from slurm_ofu.cli.admin_audit import audit_command
from slurm_ofu.cli.admin_backfill import backfill_command
from slurm_ofu.cli.admin_collect import collect_command, install_command, new_key_command
from slurm_ofu.cli.admin_mail import mail_command
from slurm_ofu.cli.admin_recompute import recompute_command
from slurm_ofu.cli.admin_reconcile import reconcile_command
from slurm_ofu.cli.admin_write_back import write_back_command
from slurm_ofu.cli.options import EXIT_USAGE, OfuGroup, config_option
from slurm_ofu.config import load_config, url_path
from slurm_ofu.delivery.inbox import ingest
from slurm_ofu.errors import UsageError
from slurm_ofu.records.codec import decode
from slurm_ofu.wiring.database import out_of_reach, prepare_database
from slurm_ofu.wiring.delivering import open_store, owner_id


@click.group("ofu-admin", cls=OfuGroup, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, "-V", "--version", prog_name="ofu-admin")
def main() -> None:
    """Look after the accounting database."""


for command in (
    *(audit_command, backfill_command, collect_command, install_command, new_key_command),
    *(mail_command, reconcile_command, recompute_command, write_back_command),
):
    main.add_command(command)


@main.command("init", short_help="Create the accounting database, or bring it up to date.")
@config_option
def init_command(config: str | None) -> int:
    """Create the accounting database, or bring it up to date, and give it to its readers' group.

    Not needed for a start: the first record creates it too. Run it after an upgrade, and when the group
    in the configuration was created or changed.
    Exit code 0: its readers can get to it; 1: they cannot enter a directory on the way; 4: it cannot
    be used.
    """
    settings = load_config(config)
    click.echo(prepare_database(settings))
    problem = out_of_reach(settings)
    if problem:
        click.echo(f"ofu-admin: {problem}", err=True)
    return EXIT_USAGE if problem else 0


@main.command("ingest", short_help="Store the records that nodes left in a directory.")
@config_option
@click.argument("directory", required=False, type=click.Path(path_type=Path))
def ingest_command(config: str | None, directory: Path | None) -> int:
    """Store the records that nodes left in DIRECTORY (default: the configuration's dir:/// delivery).

    A file goes away when the database has it; one that is no record is moved to DIRECTORY/rejected.
    One that cannot be read now, or that a newer version wrote, stays.
    Exit code 0: all stored; 1: some were rejected or stayed; 4: the database is busy or cannot be used, and
    every file is still there.
    """
    settings = load_config(config)
    if directory is None:
        if not settings.delivery_to.startswith("dir:"):
            raise UsageError(f"{settings.path}: [delivery] to is no dir:/// URL; name the directory")
        directory = url_path(settings.delivery_to)
    result = ingest(directory, decode=decode, write=open_store(settings).write, owner_id=owner_id(settings))
    for word, reasons in (("rejected", result.rejected), ("kept", result.kept)):
        for why in reasons:
            click.echo(f"ofu-admin: {word} {why}", err=True)
    kept = f", {len(result.kept)} kept" if result.kept else ""
    click.echo(f"{result.stored} records stored, {len(result.rejected)} rejected{kept}")
    return EXIT_USAGE if result.rejected or result.kept else 0
