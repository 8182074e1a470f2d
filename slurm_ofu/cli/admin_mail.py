"""ofu-admin mail: digests by e-mail."""

from collections.abc import Sequence
from datetime import datetime, timezone

import click

from slurm_ofu.cli.admin_reconcile import window_of
from slurm_ofu.cli.local_zone import LocalZone
from slurm_ofu.cli.options import EXIT_OK, EXIT_USAGE, comma_lists, config_option
from slurm_ofu.config import load_config
from slurm_ofu.errors import UsageError
from slurm_ofu.reports.free_text import printable
from slurm_ofu.values import Selection
from slurm_ofu.wiring.mailing import Mail, Mailing


@click.command("mail", short_help="Tell users by e-mail what audits found in their jobs.")
@config_option
@click.option("--send", is_flag=True, help="Send. Without it everything is shown, and nothing is sent.")
@click.option("--admins", is_flag=True, help="The whole audits to [mail] admins, instead of to users.")
@click.option(
    *("-u", "--user", "users"),
    callback=comma_lists,
    multiple=True,
    metavar="NAME,…",
    help="To these users only. [default: whoever the audits name]",
)
@click.option(
    *("-S", "--starttime"), default="now-7days", show_default=True, metavar="TIME", help="Jobs since then."
)
@click.option(*("-E", "--endtime"), default="now", show_default=True, metavar="TIME", help="Jobs until then.")
def mail_command(
    config: str | None, send: bool, admins: bool, users: tuple[str, ...], starttime: str, endtime: str
) -> int:
    """Tell users by e-mail what the audits found in their own jobs, sparingly.

    Whoever has no entry in any of [mail] audits gets nothing; nobody is told of a figure that is missing or
    doubtful. A user gets at most one mail in days_between days, and does not hear of the same job, or family
    of jobs, again within again_days. A mail that the server has taken is noted in the database at once. The
    connection is encrypted where the server offers STARTTLS; its certificate must be good then, unless the
    server is this host.

    Exit code 0: all that is due was sent, or shown; 1: some was not sent (it stays due), an option or the
    configuration cannot be used; 4: the database cannot be used, or another process is sending mail; 5: this
    user may not read it, or (--send) not write to it.
    """
    if admins and users:
        raise UsageError("--admins and --user exclude each other: choose one")
    settings = load_config(config)
    zone = LocalZone()
    now = datetime.now(timezone.utc).astimezone(zone)
    start, end = window_of(starttime, endtime, now)
    if admins and not settings.mail.admins:
        raise UsageError(f"{settings.path}: [mail] admins names nobody")
    mailing = Mailing(settings, now_epoch_s=now.timestamp(), zone=zone)
    selection = Selection(start_epoch_s=start.timestamp(), end_epoch_s=end.timestamp())

    def mails() -> list[Mail]:
        return mailing.to_admins(selection) if admins else mailing.to_users(selection, users)

    if not send:
        shown = mails()
        return _shown(shown, mailing.looked_at)
    with mailing.alone():
        return _sent(mailing, mails())


def _shown(mails: Sequence[Mail], looked_at: Sequence[str]) -> int:
    for mail in mails:
        click.echo(_line(mail))
        if mail.letter is not None:
            click.echo(f"\nSubject: {mail.letter.subject}\n\n{mail.letter.text}\n{'-' * 78}")
    due = sum(mail.letter is not None for mail in mails)
    if due:
        click.echo(f"{_count(due)} would be sent: --send sends")
    else:
        for line in () if mails else looked_at:
            click.echo(printable(line))
        click.echo("nothing would be sent")
    return EXIT_OK


def _sent(mailing: Mailing, mails: Sequence[Mail]) -> int:
    for mail in mails:
        if mail.letter is None:
            click.echo(_line(mail))
    sent = failed = 0
    for outcome in mailing.send(mails):
        if outcome.problem is None:
            sent += 1
            click.echo(f"sent {_line(outcome.mail)}")
        else:
            failed += 1
            click.echo(f"ofu-admin: not sent: {printable(outcome.problem)}", err=True)
    click.echo(f"{_count(sent)} sent" + (f", {failed} not" if failed else ""))
    return EXIT_USAGE if failed else EXIT_OK


def _line(mail: Mail) -> str:
    to = mail.name if mail.recipient is None else str(mail.recipient)
    return f"{printable(to)}: {printable('; '.join(mail.why))}"


def _count(mails: int) -> str:
    return "1 mail" if mails == 1 else f"{mails} mails"
