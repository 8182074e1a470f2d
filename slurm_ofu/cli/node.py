"""ofu-node: what is done on a compute node: install, check, deliver."""

import contextlib
from collections.abc import Iterator
from pathlib import Path

import click

from slurm_ofu import __version__
from slurm_ofu.cli.options import EXIT_USAGE, OfuGroup, config_option
from slurm_ofu.config import load_config
from slurm_ofu.delivery.spool import Spool
from slurm_ofu.errors import UsageError
from slurm_ofu.wiring.checking import check
from slurm_ofu.wiring.delivering import Delivered, deliver, finish_ended_runs
from slurm_ofu.wiring.findings import Finding
from slurm_ofu.wiring.host import boot_id
from slurm_ofu.wiring.installing import Places, default_config, default_python, install

LOOK_AT_IT = "upgrade its receiver and rename it back to .record, or report it"
_MARKS = {"ok": ("ok  ", "green"), "note": ("note", "yellow"), "bad": ("BAD ", "red")}


@click.group("ofu-node", cls=OfuGroup, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, "-V", "--version", prog_name="ofu-node")
def main() -> None:
    """Set up slurm-ofu on this compute node, check it, and deliver what waits here."""


@contextlib.contextmanager
def _files_named() -> Iterator[None]:
    """A file that this user may not use is told by its name; an error without one is the output's."""
    try:
        yield
    except OSError as error:
        if error.filename is None:
            raise
        hint = ": run as root" if isinstance(error, PermissionError) else ""
        raise UsageError(f"{error.filename}: {error.strerror}{hint}") from error


@main.command("install", short_help="Write the hooks, the configuration, the spool and units.")
@click.option("--config", type=click.Path(path_type=Path), help="Configuration file; written if absent.")
@click.option(
    "--prolog-dir", type=click.Path(path_type=Path), default="/etc/slurm/prolog.d", show_default=True
)
@click.option(
    "--epilog-dir", type=click.Path(path_type=Path), default="/etc/slurm/epilog.d", show_default=True
)
@click.option(
    "--systemd-dir", type=click.Path(path_type=Path), default="/etc/systemd/system", show_default=True
)
@click.option("--no-systemd", is_flag=True, help="Write no units (then run `ofu-node deliver` from cron).")
@click.option(
    "--spool-dir",
    type=click.Path(path_type=Path),
    help="Where hooks keep their state, for a configuration that is written. [/var/spool/slurm-ofu]",
)
@click.option("--python", type=click.Path(path_type=Path), help="Interpreter for the hooks. [this one]")
def install_command(
    config: Path | None,
    prolog_dir: Path,
    epilog_dir: Path,
    systemd_dir: Path,
    no_systemd: bool,
    spool_dir: Path | None,
    python: Path | None,
) -> None:
    """Write the hooks, the configuration, the spool and the units; compile byte-code.

    An existing configuration is kept; hooks and units are replaced, so run it again after an upgrade.
    """
    places = Places(
        config=(config or default_config()).absolute(),
        prolog_dir=prolog_dir,
        epilog_dir=epilog_dir,
        systemd_dir=None if no_systemd else systemd_dir,
        python=(python or default_python()).absolute(),
        spool_dir=spool_dir.absolute() if spool_dir else None,
    )
    with _files_named():
        said = install(places)
    for line in said:
        click.echo(line)
    click.echo(f"\nslurm.conf needs:\n  Prolog={prolog_dir}/*\n  Epilog={epilog_dir}/*")
    click.echo("  PrologFlags=Alloc\n  PrologEpilogTimeout=60")
    click.echo("then `scontrol reconfigure`, and `ofu-node check` says what is still amiss.")


@main.command("check", short_help="Say what can be measured on this node, and what is amiss.")
@config_option
@click.option("--slurm-conf", help="slurm.conf. [$SLURM_CONF, else /etc/slurm/slurm.conf]")
@click.option("--node", help="This node's name in Slurm. [host name]")
def check_command(config: str | None, slurm_conf: str | None, node: str | None) -> int:
    """Say which GPUs this node has and in which order, which counters will be used, and what is amiss.

    Exit code 0: nothing bad; 1: something is.
    """
    findings = [_show(finding) for finding in check(config, slurm_conf=slurm_conf, node=node)]
    return EXIT_USAGE if any(finding.verdict == "bad" for finding in findings) else 0


def _show(finding: Finding) -> Finding:
    mark, colour = _MARKS[finding.verdict]
    click.echo(f"{click.style(mark, fg=colour)}  {finding.what:<13} {finding.text}")
    return finding


@main.command("deliver", short_help="Finish runs that nobody finished, and send what waits.")
@config_option
def deliver_command(config: str | None) -> int:
    """Finish runs that nobody finished (after a reboot, say) and deliver the records that wait here.

    Exit code 0: nothing is left waiting; 1: something is, or was rejected by its receiver.
    """
    settings = load_config(config)
    spool = Spool(Path(settings.spool_dir))
    with _files_named():
        before = spool.rejected()
        finished, problems = finish_ended_runs(spool, settings, boot_id())
        delivered = deliver(spool, settings, at_once=True)
        rejected = spool.rejected()
    earlier = [f"{path}: was rejected earlier: {LOOK_AT_IT}" for path in before if path in rejected]
    return _summary(finished, (*problems, *delivered.problems, *earlier), delivered, len(rejected))


def _summary(finished: int, problems: tuple[str, ...], delivered: Delivered, rejected: int) -> int:
    for problem in problems:
        click.echo(f"ofu-node: {problem}", err=True)
    counts = f"{finished} runs finished, {delivered.sent} records delivered, {delivered.left} waiting"
    click.echo(f"{counts}, {rejected} rejected" if rejected else counts)
    return EXIT_USAGE if problems or delivered.left or rejected else 0
