"""Slurm's accounting, asked with `sacct` and read as text: any user, any version from 22.05 on, no library.

Times are asked for, and come, as epochs. A large window is asked in slices (see `accounting_window`), so that
neither sacct nor slurmdbd has to hold it in memory; a slice is read while sacct prints it.
"""

import secrets
import time
from collections.abc import Generator, Iterator, Sequence
from contextlib import closing
from functools import partial

from slurm_ofu.errors import AccountingError
from slurm_ofu.slurm import accounting_window as windows
from slurm_ofu.slurm import client_command
from slurm_ofu.slurm.accounting_text import Dated, Layout, layout_of, parse_batches
from slurm_ofu.slurm.cluster_names import ClusterNames
from slurm_ofu.values import AccountingConfig, AccountingRow

SILENCE_SECONDS = 300.0  # slurmdbd collects a whole slice before sacct prints anything
#: -j of an array job brings all its tasks, so a batch may bring a thousand times its size.
IDS_PER_CALL = 200
_ALWAYS = ("-a", "-X", "-D", "-n", "-P", "--noconvert")


class Sacct:
    """An :class:`~slurm_ofu.protocols.Accounting` over the output of sacct.

    A job that never became eligible to run (held, or waiting for another, until it was cancelled) is in no
    window: slurmdbd looks for jobs by that time. `rows_of` gives it.
    """

    name = "sacct"

    def __init__(self, config: AccountingConfig, *, silence_seconds: float = SILENCE_SECONDS) -> None:
        self._config = config
        self._silence_seconds = silence_seconds
        self._layout: Layout | None = None
        self._clusters = ClusterNames(config)

    def rows(
        self, start_epoch_s: float, end_epoch_s: float, *, clusters: Sequence[str] = ()
    ) -> Iterator[AccountingRow]:
        """See :class:`~slurm_ofu.protocols.Accounting`."""
        now = time.time()
        for cluster in clusters or (None,):
            ask, ask_jobs = partial(self._ask_slice, cluster), partial(self._ask_jobs, cluster)
            yield from windows.each_once(start_epoch_s, end_epoch_s, ask, ask_jobs, now_epoch_s=now)

    def rows_of(self, cluster: str, job_ids: Sequence[int]) -> Iterator[AccountingRow]:
        """See :class:`~slurm_ofu.protocols.Accounting`."""
        for batch in self._ask_jobs(cluster or None, job_ids):
            for row, _ in batch:
                yield row

    def rows_addressed(self, cluster: str | None, addresses: Sequence[str]) -> Iterator[AccountingRow]:
        """Every row of ids as people write them: 123, 123_4, 123+1. ``None``: the local cluster.

        Unlike :meth:`rows_of`, which takes raw ids, 123 brings every task of that array and every component
        of that heterogeneous job: whatever `sacctmgr modify job where jobid=123` would change.
        """
        for at in range(0, len(addresses), IDS_PER_CALL):
            for batch in self._ask(cluster, "-j" + ",".join(addresses[at : at + IDS_PER_CALL])):
                for row, _ in batch:
                    yield row

    def _ask_slice(self, cluster: str | None, part: windows.Slice) -> Iterator[list[Dated]]:
        return self._ask(cluster, f"-Suts{part.start}", f"-Euts{part.end}")

    def _ask_jobs(self, cluster: str | None, job_ids: Sequence[int]) -> Iterator[list[Dated]]:
        ids = sorted(set(job_ids))
        for at in range(0, len(ids), IDS_PER_CALL):
            wanted = frozenset(ids[at : at + IDS_PER_CALL])
            for batch in self._ask(cluster, "-j" + ",".join(map(str, sorted(wanted)))):
                # The id of an array or of a leader brings all that belongs to it.
                yield [dated for dated in batch if dated[0].job_id in wanted]

    def _ask(self, cluster: str | None, *condition: str) -> Iterator[list[Dated]]:
        """One call of sacct; the rows count only when this ends without an error."""
        try:
            yield from self._answers(cluster, condition)
        except AccountingError:
            self._layout = None  # Slurm may have been exchanged under us
            raise

    def _answers(self, cluster: str | None, condition: Sequence[str]) -> Iterator[list[Dated]]:
        layout = self._columns()
        delimiter = "\x1f" + secrets.token_urlsafe(6)  # short: it is half of what sacct prints
        where = f"-M{cluster}" if cluster else "--local"
        argv = ["sacct", where, *_ALWAYS, f"--delimiter={delimiter}", f"-o{layout.argument}", *condition]
        some = False
        with closing(self._output(argv)) as output:
            for batch in parse_batches(output, layout, delimiter):
                some = some or bool(batch)
                yield batch
        if cluster and not some:
            self._clusters.check(cluster)

    def _output(self, argv: Sequence[str]) -> Generator[bytes, None, None]:
        """What sacct prints. Raises AccountingError at its end when it failed.

        slurmdbd loses its database in the middle of a question: then sacct says so on stderr, and exits with
        the low byte of some error's number, which may be 0. It has printed nothing in that case.
        """
        silent = True
        output = client_command.stream(argv, config=self._config, silence_seconds=self._silence_seconds)
        with closing(output):
            while True:
                try:
                    chunk = next(output)
                except StopIteration as end:
                    finished: client_command.Finished = end.value
                    break
                silent = False
                yield chunk
        if finished.returncode or (silent and "error:" in finished.stderr):
            raise client_command.failure("sacct", finished)

    def _columns(self) -> Layout:
        if self._layout is None:
            said = client_command.run(
                ["sacct", "--helpformat"], config=self._config, timeout_seconds=self._silence_seconds
            )
            if said.returncode:  # before 26.05 it asks slurmdbd even for that
                raise client_command.failure("sacct", said)
            self._layout = layout_of(said.stdout.decode("utf-8", "replace"))
        return self._layout
