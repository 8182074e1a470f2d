"""OFU into Slurm's own accounting: what is due is taken from the database, written, and noted there.

Every step may be cut short. What was written and not noted is found written at the next look; while slurmdbd
is away nothing is noted, and everything stays due.
"""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final

from slurm_ofu.config import url_path
from slurm_ofu.errors import AccountingError
from slurm_ofu.records.token import has_newer_token, token_of, with_token
from slurm_ofu.slurm.comments import Composing, Step, Target
from slurm_ofu.slurm.write_back import CommentWriter
from slurm_ofu.store.read import Reader
from slurm_ofu.store.waiting import WaitingReader
from slurm_ofu.store.written_back import Attempt, DueRun, Window, WriteBackQueue
from slurm_ofu.values import Config

RATE_SECONDS: Final = 60.0
#: Older runs are not written of themselves, so that switching it on does not rewrite a whole history.
OLDEST_SECONDS: Final = 30 * 86400.0
BATCH: Final = 25  # jobs per sacctmgr: what an interruption leaves to be found out again
_COMPOSING: Final = Composing(with_token=with_token, has_newer_token=has_newer_token)
_WORDS: Final = {
    "written": "written",
    "left_alone": "left alone",
    "superseded": "superseded",
    "failed": "failed",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class WroteBack:
    """What a look at the queue brought. ``waiting``: runs that are due beyond the rate."""

    counts: Counter[str] = field(default_factory=Counter)
    waiting: int = 0
    messages: tuple[str, ...] = ()  # why anything failed, each once

    def __str__(self) -> str:
        said = [f"{self.counts[kind]} {word}" for kind, word in _WORDS.items() if self.counts[kind]]
        said += [f"{self.waiting} waiting"] if self.waiting else []
        whole = ", ".join(said) or "nothing to write"
        return f"{whole} ({'; '.join(self.messages)})" if self.messages else whole


class WriteBack:
    """One configuration's write-back. Raises AccountingError, StoreError."""

    def __init__(self, config: Config) -> None:
        self._settings = config.write_back
        path = url_path(config.database)
        self._queue = WriteBackQueue(path, wait_seconds=config.delivery_wait_seconds)
        self._waiting = WaitingReader(path, wait_seconds=config.delivery_wait_seconds)
        self._reader = Reader(path, wait_seconds=config.delivery_wait_seconds)
        self._writer = CommentWriter(config.accounting, self._settings.field, _COMPOSING)

    def count_waiting(self, window: Window) -> int:
        """How many runs of the window wait for their row of Slurm's accounting, before which none is due."""
        return len(self._waiting.waiting(window.ended_from_epoch_s, window.ended_by_epoch_s))

    def plan(self, window: Window, most: int) -> list[Step]:
        """What would be done about the runs that are due, the latest first. Changes nothing."""
        targets, _ = self._targets(self._queue.due(window, most))
        batches = (targets[at : at + BATCH] for at in range(0, len(targets), BATCH))
        return [step for batch in batches for step in self._writer.plan(batch)]

    def round(self, window: Window) -> WroteBack:
        """Write what is due, in a minute no more than the configured rate. Raises StoreBusy where another
        process is at it."""
        now = window.now_epoch_s
        with self._queue.alone():
            rate = max(1, int(self._settings.jobs_per_minute))
            left = rate - self._queue.written_since(now - RATE_SECONDS)
            steps: list[Step] = []
            seen: set[int] = set()  # a run that was just heard of again is due at once: in the next round
            silent: dict[str, AccountingError] = {}  # clusters that are not asked again in this round
            while left > len(steps):
                found = self._queue.due(window, BATCH + len(seen))
                due = [run for run in found if run.run_id not in seen][: left - len(steps)]
                if not due:
                    break
                seen |= {run.run_id for run in due}
                for cluster in dict.fromkeys(run.cluster for run in due if run.cluster not in silent):
                    try:
                        steps += self._written([run for run in due if run.cluster == cluster], now)
                    except AccountingError as error:
                        silent[cluster] = error
            if silent and not steps:
                raise next(iter(silent.values()))
            return WroteBack(
                counts=Counter(step.kind for step in steps),
                waiting=0 if left > len(steps) else self._queue.count_due(window),
                messages=(*_failures(steps), *map(str, silent.values())),
            )

    def window(
        self, now_epoch_s: float, start_epoch_s: float | None = None, end_epoch_s: float | None = None
    ) -> Window:
        """The runs that ended between these times, or lately; their nodes had time to report."""
        latest = now_epoch_s - self._settings.wait_seconds
        return Window(
            now_epoch_s=now_epoch_s,
            ended_from_epoch_s=now_epoch_s - OLDEST_SECONDS if start_epoch_s is None else start_epoch_s,
            ended_by_epoch_s=latest if end_epoch_s is None else min(end_epoch_s, latest),
        )

    def _targets(self, due: Sequence[DueRun]) -> tuple[list[Target], list[DueRun]]:
        """What is to be written; and the runs whose token is what it was when they were last dealt with."""
        targets: list[Target] = []
        unchanged: list[DueRun] = []
        for run in due:
            token = token_of(self._reader.page(run.run_id).row.sums)
            same = token == run.token and run.field == self._settings.field
            if same and run.status in ("written", "left_alone"):
                unchanged.append(run)
            else:
                targets.append(_target(run, token))
        return targets, unchanged

    def _written(self, due: Sequence[DueRun], as_of_epoch_s: float) -> list[Step]:
        targets, unchanged = self._targets(due)
        if unchanged:
            self._queue.unchanged([run.run_id for run in unchanged], as_of_epoch_s)
        if not targets:
            return []
        failed_before = {run.run_id: run.attempts for run in due}
        steps = self._writer.write(targets)
        attempts = [self._attempt(step, failed_before[step.target.run_id]) for step in steps]
        self._queue.record(attempts, as_of_epoch_s)
        return steps

    def _attempt(self, step: Step, failed_before: int) -> Attempt:
        assert step.kind != "write", step
        return Attempt(
            run_id=step.target.run_id,
            status=step.kind,
            field=self._settings.field,
            token=step.target.token,
            attempts=failed_before + 1 if step.kind == "failed" else 0,
            message=step.message,
        )


def write_back_due(config: Config, now_epoch_s: float) -> str | None:
    """Write what is due into Slurm's accounting; what an operator should know of it, ``None``: nothing.

    Meant to be called about once a minute: no more than a minute's worth is written at once. Raises
    AccountingError and StoreError.
    """
    if not config.write_back.enabled:
        return None
    write_back = WriteBack(config)
    done = write_back.round(write_back.window(now_epoch_s))
    return str(done) if done.counts or done.waiting or done.messages else None


def _failures(steps: Sequence[Step]) -> tuple[str, ...]:
    """Why anything failed: each reason once, and not too many."""
    said = [step.message or "" for step in steps if step.kind == "failed"]
    return tuple(dict.fromkeys(said))[:3]


def _target(run: DueRun, token: str) -> Target:
    return Target(
        run_id=run.run_id,
        cluster=run.cluster,
        job_id=run.job_id,
        submit_epoch_s=run.last_submit_epoch_s,
        token=token,
        array_job_id=run.array_job_id,
        array_task_id=run.array_task_id,
        het_job_id=run.het_job_id,
        het_offset=run.het_offset,
    )
