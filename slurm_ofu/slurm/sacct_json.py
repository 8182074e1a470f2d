"""Slurm's accounting, asked with `sacct --json`, pinned to one shape of it. Offered from 24.11 on.

The whole answer has to be made, printed and read before there is a first row, at ten times the bytes of text:
so only small windows are taken. What it is for: a second opinion on what text says.
"""

from collections.abc import Iterator, Sequence

from slurm_ofu.errors import AccountingError, AccountingUnusable
from slurm_ofu.slurm import accounting_window as windows
from slurm_ofu.slurm import client_command
from slurm_ofu.slurm.accounting_json import LACKS, PARSER, parse_json
from slurm_ofu.slurm.accounting_text import Dated
from slurm_ofu.slurm.cluster_names import ClusterNames
from slurm_ofu.values import AccountingConfig, AccountingRow

TIMEOUT_SECONDS = 120.0
LONGEST_WINDOW_HOURS = 24
IDS_PER_CALL = 200
#: How getopt says that sacct takes no --json, or no --json=….
_NO_SUCH_OPTION = ("doesn't allow an argument", "unrecognized option")


class SacctJson:
    """An :class:`~slurm_ofu.protocols.Accounting` over `sacct --json`; its rows lack what `lacks` names."""

    name = "sacct-json"
    lacks = LACKS

    def __init__(self, config: AccountingConfig, *, timeout_seconds: float = TIMEOUT_SECONDS) -> None:
        self._config = config
        self._timeout_seconds = timeout_seconds
        self._offered = False
        self._clusters = ClusterNames(config)

    def rows(
        self, start_epoch_s: float, end_epoch_s: float, *, clusters: Sequence[str] = ()
    ) -> Iterator[AccountingRow]:
        """See :class:`~slurm_ofu.protocols.Accounting`; AccountingUnusable for a window of over 24 hours."""
        window = windows.whole(start_epoch_s, end_epoch_s)
        hours = (window.end - window.start) / 3600
        if hours > LONGEST_WINDOW_HOURS:
            raise AccountingUnusable(
                f"sacct-json: not usable for {hours:.0f} hours at once, at most for {LONGEST_WINDOW_HOURS}:"
                ' all of it would be held in memory; [accounting] source = "sacct" takes any window'
            )
        if window.start == window.end:
            return
        for cluster in clusters or (None,):
            for dated in self._ask(cluster, f"-Suts{window.start}", f"-Euts{window.end}"):
                if windows.is_in(dated, start_epoch_s, end_epoch_s):
                    yield dated[0]

    def rows_of(self, cluster: str, job_ids: Sequence[int]) -> Iterator[AccountingRow]:
        """See :class:`~slurm_ofu.protocols.Accounting`."""
        ids = sorted(set(job_ids))
        for at in range(0, len(ids), IDS_PER_CALL):
            batch = ids[at : at + IDS_PER_CALL]
            for row, _ in self._ask(cluster or None, "-j" + ",".join(map(str, batch))):
                if row.job_id in batch:
                    yield row

    def _ask(self, cluster: str | None, *condition: str) -> Iterator[Dated]:
        self._check_offer()
        where = f"-M{cluster}" if cluster else "--local"
        some = False
        for dated in parse_json(self._run(f"--json={PARSER}", where, "-a", "-X", "-D", *condition)):
            some = True
            yield dated
        if cluster and not some:
            self._clusters.check(cluster)

    def _check_offer(self) -> None:
        if self._offered:
            return
        try:
            offered = self._run("--json=list")
        except AccountingUnusable:
            raise
        except AccountingError as error:
            if any(words in str(error) for words in _NO_SUCH_OPTION):
                raise self._unusable(str(error)) from error
            raise  # before 26.05 it asks slurmdbd even for that
        if f"/{PARSER}" not in offered:
            raise self._unusable(f"it offers {' '.join(offered.split()) or 'none'}")
        self._offered = True

    def _unusable(self, because: str) -> AccountingUnusable:
        return AccountingUnusable(
            f"sacct-json: not usable because this sacct has no data parser {PARSER}, which 24.11 and later"
            f" have: {because}"
        )

    def _run(self, *arguments: str) -> str:
        said = client_command.run(
            ["sacct", *arguments], config=self._config, timeout_seconds=self._timeout_seconds
        )
        # With a parser that it does not have, sacct prints nothing and exits with 0.
        if said.returncode or not said.stdout.strip():
            raise client_command.failure("sacct", said)
        return said.stdout.decode("utf-8", "replace")
