"""Writing into a comment field of Slurm's accounting, many jobs at once, each checked before and after.

One sacct reads the rows, one sacctmgr writes them (a line of its stdin for each job: one connection, and a
line that fails does not keep the others from being tried), one sacct reads them back. What sacctmgr says is
only used to explain: what counts is what accounting holds afterwards.
"""

import os
import pwd
import re
from collections import defaultdict
from collections.abc import Iterable, Sequence
from typing import Final

from slurm_ofu.errors import AccountingUnusable
from slurm_ofu.slurm import client_command
from slurm_ofu.slurm.comments import Composing, Step, Target, address, commands, outcome, step
from slurm_ofu.slurm.sacct import SILENCE_SECONDS, Sacct
from slurm_ofu.values import AccountingConfig, AccountingRow

#: A line takes 1 ms on 24.11 and later, 270 ms on 22.05 (seen on one machine).
WRITING_SECONDS: Final = (60.0, 5.0)  # in all, and for each job
#: sacctmgr reads its stdin with readline: nobody's key bindings, no escape sequences.
_PLAIN_READLINE: Final = {"INPUTRC": "/dev/null", "TERM": "dumb"}
_VERSION: Final = re.compile(r"(\d+)\.(\d+)")
_ECHO: Final = ("sacctmgr: modify", "sacctmgr: <", "<")  # of its input
_DENIED: Final = re.compile(r"^\s*Error with request: Access/permission denied", re.MULTILINE)
_COMPLAINTS: Final = re.compile(r"error|denied|nothing modified|privilege|unknown|problem", re.IGNORECASE)


class CommentWriter:
    """Writes tokens into ``field``. Raises AccountingError where accounting does not answer: then each
    target may or may not have been written, and trying again later sorts it out.

    Raises AccountingUnusable where this user may not write.
    """

    def __init__(self, config: AccountingConfig, field: str, composing: Composing) -> None:
        self._config = config
        self._field = field
        self._composing = composing
        self._accounting = Sacct(config)
        self._version: tuple[int, int] | None = None

    def plan(self, targets: Sequence[Target]) -> list[Step]:
        """What is to be done about each target. Changes nothing."""
        version, rows = self._slurm_version(), self._rows(targets)
        return [
            step(target, rows, field=self._field, version=version, composing=self._composing)
            for target in targets
        ]

    def write(self, targets: Sequence[Target]) -> list[Step]:
        """Do it; what became of each target, none of them "write"."""
        steps = self.plan(targets)
        wanted = [one for one in steps if one.kind == "write"]
        if not wanted:
            return steps
        said = self._modify(wanted)
        rows = self._rows([one.target for one in wanted])
        done = {one.target.run_id: outcome(one, rows, field=self._field, said=said) for one in wanted}
        return [done.get(one.target.run_id, one) for one in steps]

    def _modify(self, steps: Sequence[Step]) -> str:
        """Run sacctmgr; what it complained of, shortened."""
        whole, each = WRITING_SECONDS
        finished = client_command.run(
            ["sacctmgr", "-i"],
            config=self._config,
            stdin=commands(steps, self._field).encode("ascii"),
            timeout_seconds=whole + each * len(steps),
            variables=_PLAIN_READLINE,
        )
        said = finished.stdout.decode("utf-8", "replace") + finished.stderr
        if _DENIED.search(said):
            user = _own_name()
            raise AccountingUnusable(
                f"Slurm's accounting does not let {user} change {self._field}: run as root or as SlurmUser,"
                f" or once: sacctmgr add user {user} adminlevel=operator account=ACCOUNT"
                f" (an existing one: sacctmgr modify user {user} set adminlevel=operator)"
            )
        if client_command.is_unreachable(finished.stderr):
            raise client_command.failure("sacctmgr", finished)
        lines = [line.strip() for line in said.splitlines() if not line.startswith(_ECHO)]
        return " / ".join(dict.fromkeys(line for line in lines if _COMPLAINTS.search(line)))[:300]

    def _rows(self, targets: Iterable[Target]) -> list[AccountingRow]:
        """All that accounting has by the targets' addresses."""
        by_cluster: dict[str, list[str]] = defaultdict(list)
        for target in targets:
            by_cluster[target.cluster].append(address(target))
        asked = (self._accounting.rows_addressed(cluster, found) for cluster, found in by_cluster.items())
        return [row for rows in asked for row in rows]

    def _slurm_version(self) -> tuple[int, int]:
        """This sacctmgr's, without its last part."""
        if self._version is None:
            finished = client_command.run(
                ("sacctmgr", "-V"), config=self._config, timeout_seconds=SILENCE_SECONDS
            )
            if finished.returncode:
                raise client_command.failure("sacctmgr", finished)
            said = finished.stdout.decode("utf-8", "replace")
            version = _VERSION.search(said)
            if version is None:
                raise AccountingUnusable(f"sacctmgr -V names no version: {said[:100]!r}")
            self._version = int(version[1]), int(version[2])
        return self._version


def _own_name() -> str:
    try:
        return pwd.getpwuid(os.geteuid()).pw_name
    except KeyError:
        return f"uid {os.geteuid()}"
