"""Rows of Slurm's accounting by the ids that people write: 123, 123_4, 123+1; with sacct, of all times.

Unlike :meth:`Accounting.rows_of`, which takes raw ids, 123 brings every task of that array and every
component of that heterogeneous job: whatever `sacctmgr modify job where jobid=123` would change is among
these rows.
"""

import secrets
from collections.abc import Iterator, Sequence
from typing import Final

from slurm_ofu.slurm import client_command
from slurm_ofu.slurm.accounting_text import Layout, layout_of, parse
from slurm_ofu.values import AccountingConfig, AccountingRow

SECONDS: Final = 300.0
IDS_PER_CALL: Final = 200
_ALWAYS: Final = ("-a", "-X", "-D", "-n", "-P", "--noconvert")


class AddressedRows:
    """Asks sacct. Raises AccountingError."""

    def __init__(self, config: AccountingConfig) -> None:
        self._config = config
        self._layout: Layout | None = None

    def rows(self, cluster: str | None, addresses: Sequence[str]) -> Iterator[AccountingRow]:
        """All that belongs to these ids, former lives and segments included. ``None``: the local cluster."""
        for at in range(0, len(addresses), IDS_PER_CALL):
            yield from self._ask(cluster, addresses[at : at + IDS_PER_CALL])

    def _ask(self, cluster: str | None, addresses: Sequence[str]) -> Iterator[AccountingRow]:
        if self._layout is None:
            said = self._run(("sacct", "--helpformat"))
            self._layout = layout_of(said.stdout.decode("utf-8", "replace"))
        delimiter = f"\x1f{secrets.token_hex(8)}\x1f"
        where = f"-M{cluster}" if cluster else "--local"
        form = (f"--delimiter={delimiter}", f"-o{self._layout.argument}")
        finished = self._run(("sacct", where, *_ALWAYS, *form, "-j" + ",".join(addresses)))
        for row, _ in parse([finished.stdout], self._layout, delimiter):
            yield row

    def _run(self, argv: Sequence[str]) -> client_command.Finished:
        finished = client_command.run(argv, config=self._config, timeout_seconds=SECONDS)
        # It may exit with 0 when slurmdbd's database went away, and then has printed nothing.
        if finished.returncode or (not finished.stdout and "error:" in finished.stderr):
            raise client_command.failure(argv[0], finished)
        return finished
