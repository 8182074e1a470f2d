"""What the static pages may say: where users are not shown, nothing that could name one reaches them."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Final

from slurm_ofu.figures import pool
from slurm_ofu.reports.free_text import printable
from slurm_ofu.values import JobPage, RunRow, Selection, UsageRow

HIDDEN: Final = "(not shown)"
PERSONAL: Final = "(users' own)"


@dataclass(frozen=True, slots=True, kw_only=True)
class Veil:
    """``users``: every user there is. Comments are never shown: a job may say anything in its own."""

    show_users: bool
    users: frozenset[str]

    def run(self, run: RunRow) -> RunRow:
        """A run as the pages may show it."""
        if self.show_users:
            return replace(run, comment=None)
        return replace(
            run,
            comment=None,
            user=HIDDEN,
            job_name=None,
            account=self.account(run.account),
            qos=self.account(run.qos),
            state=None if run.state is None else run.state.partition(" by ")[0],
        )

    def row(self, row: UsageRow) -> UsageRow:
        """The same of a row."""
        return row if row.run is None else replace(row, run=self.run(row.run))

    def page(self, page: JobPage) -> JobPage:
        """The same of a job's page."""
        return replace(page, row=self.row(page.row))

    def account(self, name: str | None) -> str | None:
        """An account or QOS; where it is named after a user, it is not told apart from others that are."""
        if name is None or self.show_users:
            return name
        return PERSONAL if _names_a_user(name, self.users) else name

    def groups(self, rows: Sequence[UsageRow]) -> list[UsageRow]:
        """Rows by account or QOS, those that are named after users pooled into one."""
        hidden = [row for row in rows if self.account(row.group) != row.group]
        shown = [row for row in rows if self.account(row.group) == row.group]
        own = [UsageRow(group=PERSONAL, sums=pool(row.sums for row in hidden))] if hidden else []
        return [*shown, *own]


@lru_cache(maxsize=4096)
def _names_a_user(name: str, users: frozenset[str]) -> bool:
    """Whether any of the users' names stands in it as a word, between other than letters and digits."""
    words = name.casefold()
    return any(_stands_in(words, user.casefold()) for user in users if user)


def _stands_in(words: str, user: str) -> bool:
    at = words.find(user)
    while at >= 0:
        around = words[at - 1 : at] + words[at + len(user) : at + len(user) + 1]
        if not any(map(str.isalnum, around)):
            return True
        at = words.find(user, at + 1)
    return False


def users_of(rows: Iterable[UsageRow]) -> frozenset[str]:
    """The users of these runs."""
    return frozenset(row.run.user for row in rows if row.run is not None and row.run.user is not None)


def asked_for(selection: Selection, *, show_users: bool) -> str:
    """Which runs the pages are about, as in ``users wilma, fred; partition gpu``; empty for all."""
    named = (
        ("user", selection.users, show_users),
        ("account", selection.accounts, show_users),
        ("partition", selection.partitions, True),
        ("cluster", selection.clusters, True),
        ("QOS", selection.qos, show_users),
        ("job name", selection.job_names, show_users),
        ("node", selection.node_names, True),
        ("state", selection.states, True),
    )
    texts = [
        f"{what} {', '.join(map(printable, names))}"
        if told
        else f"{len(names)} chosen {what}{'s' if len(names) > 1 else ''}"
        for what, names, told in named
        if names
    ]
    chosen = (selection.job_ids, selection.array_tasks, selection.het_components)
    if count := sum(map(len, chosen)):
        texts.append(f"{count} chosen job{'s' if count > 1 else ''}")
    return "; ".join(texts)
