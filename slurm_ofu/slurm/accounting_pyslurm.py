"""Slurm's accounting, asked through pyslurm (extra `slurm-ofu[pyslurm]`), in a process of its own.

pyslurm is compiled against one minor version of Slurm. Where it does not fit, libslurm ends the process
that imported it, or crashes it; a question to a slurmdbd that hangs cannot be broken off. So nothing here
imports it: a child does (`pyslurm_child`), and prints rows as JSON.

What it cannot say (pyslurm 25.11): the SLUID; an exit code from 128 on (it takes 128 off); a text that is not
UTF-8; a user that this host does not know. It keeps one row per job id, and asks slurmdbd for the latest life
only: former lives, and segments of resized jobs, are asked for one by one. Of those, one that became eligible
in the very second in which the next was submitted is not found.
"""

import json
import os
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing
from pathlib import Path

from slurm_ofu.errors import AccountingError, AccountingUnusable
from slurm_ofu.slurm import client_command
from slurm_ofu.slurm.cluster_names import ClusterNames
from slurm_ofu.slurm.pyslurm_child import DONE, LACKS, READY
from slurm_ofu.values import AccountingConfig, AccountingRow

SILENCE_SECONDS = 300.0
IDS_PER_CALL = 200
#: Where slurm.conf is unless somebody says otherwise: Slurm's usual places, and what slurmd fetched.
USUAL_PLACES = ("/etc/slurm/slurm.conf", "/etc/slurm-llnl/slurm.conf", "/run/slurm/conf/slurm.conf")

#: Not -m: this package need not be where Python looks.
_START = (
    "import sys; sys.path.insert(0, sys.argv.pop(1));"
    " from slurm_ofu.slurm.pyslurm_child import main; main(sys.argv[1:])"
)
_ROOT = str(Path(__file__).resolve().parents[2])


class PyslurmAccounting:
    """An :class:`~slurm_ofu.protocols.Accounting` over pyslurm; see the module for what its rows lack."""

    name = "pyslurm"
    lacks = LACKS

    def __init__(self, config: AccountingConfig, *, silence_seconds: float = SILENCE_SECONDS) -> None:
        self._config = config
        self._silence_seconds = silence_seconds
        self._clusters = ClusterNames(config)

    def rows(
        self, start_epoch_s: float, end_epoch_s: float, *, clusters: Sequence[str] = ()
    ) -> Iterator[AccountingRow]:
        """See :class:`~slurm_ofu.protocols.Accounting`."""
        for cluster in clusters or (None,):
            yield from self._ask(cluster, {"start": start_epoch_s, "end": end_epoch_s})

    def rows_of(self, cluster: str, job_ids: Sequence[int]) -> Iterator[AccountingRow]:
        """See :class:`~slurm_ofu.protocols.Accounting`."""
        ids = sorted(set(job_ids))
        for at in range(0, len(ids), IDS_PER_CALL):
            yield from self._ask(cluster or None, {"ids": ids[at : at + IDS_PER_CALL]})

    def _ask(self, cluster: str | None, question: Mapping[str, object]) -> Iterator[AccountingRow]:
        slurm_conf = find_slurm_conf(self._config, os.environ)
        asked = json.dumps({"cluster": cluster, **question})
        some = False
        for row in self._answers([sys.executable, "-c", _START, _ROOT, slurm_conf, asked]):
            some = True
            yield row
        if cluster and not some:
            self._clusters.check(cluster)

    def _answers(self, argv: Sequence[str]) -> Iterator[AccountingRow]:
        """The child's rows. They count only when this ends without an error."""
        output = client_command.stream(argv, config=self._config, silence_seconds=self._silence_seconds)
        ready, done, rest = False, False, b""
        with closing(output):
            while True:
                try:
                    *lines, rest = (rest + next(output)).split(b"\n")
                except StopIteration as end:
                    finished: client_command.Finished = end.value
                    break
                for line in lines:
                    done = line == DONE
                    if ready and not done:
                        yield _row(line)
                    ready = ready or line == READY
        if finished.returncode or not done:
            raise _failure(finished, ready)


def find_slurm_conf(config: AccountingConfig, environment: Mapping[str, str]) -> str:
    """The slurm.conf to use; without one, libslurm would look for a configless slurmctld for a minute."""
    said = config.slurm_conf or environment.get("SLURM_CONF")
    for path in (said,) if said else USUAL_PLACES:
        if Path(path).is_file():
            return path
    raise AccountingUnusable(
        f"pyslurm: not usable because there is no {said or ' or '.join(USUAL_PLACES)};"
        " [accounting] slurm_conf names it"
    )


def _row(line: bytes) -> AccountingRow:
    try:
        return AccountingRow(**json.loads(line))
    except (ValueError, TypeError) as error:
        raise AccountingError(f"pyslurm's rows cannot be read: {error} in {line[:200]!r}") from error


def _failure(finished: client_command.Finished, ready: bool) -> AccountingError:
    """Before it was ready it cannot be used here; afterwards slurmdbd did not answer, or it crashed."""
    if ready:
        return client_command.failure("pyslurm", finished)
    said = [line.strip() for line in finished.stderr.splitlines() if line.strip()]
    because = said[-1][:300] if said else f"it ended its process ({finished.returncode})"
    return AccountingUnusable(f"pyslurm: not usable because {because}")
