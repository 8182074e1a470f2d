"""The sampler's process: started by the prolog, one per job, gone soon after the epilog.

Everything it will ever need is imported before the first reading, so that an upgrade of the package
during a job does not matter to it. SIGUSR1 is the epilog's word that the job is over; SIGTERM is a
stranger's, and ends the sampler with a checkpoint that a finisher turns into a record.
"""

import os
import signal
import sys
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from random import Random
from typing import Any

from slurm_ofu.config import load_config
from slurm_ofu.counters.catalogue import open_source
from slurm_ofu.delivery.spool import Spool
from slurm_ofu.errors import ConfigError, OfuError, SourceError, StateError
from slurm_ofu.gpu_models import find_model
from slurm_ofu.hooks.log import say
from slurm_ofu.hooks.process import (
    DELIVERING,
    SAMPLING,
    OwnScope,
    close_device_files,
    options_of,
    rename,
    step_back,
)
from slurm_ofu.hooks.publishing import Publishing
from slurm_ofu.integrals.gpu_fold import GpuFold
from slurm_ofu.protocols import CounterSource
from slurm_ofu.records.codec import encode
from slurm_ofu.samples.checkpoint import Checkpoint, GpuState, encode_checkpoint
from slurm_ofu.samples.host_clock import HostClock
from slurm_ofu.samples.sampler import Sampler
from slurm_ofu.slurm.gpu_order import Assignment
from slurm_ofu.slurm.job_env import job_of, node_name
from slurm_ofu.slurm.opt_out import asks_not_to_be_profiled
from slurm_ofu.values import Config, DeviceIdentity, HookFacts, Job, SamplerHealth
from slurm_ofu.wiring.delivering import Delivered, deliver, open_delivery
from slurm_ofu.wiring.finishing import assemble, environment_facts, finish_run, read_facts
from slurm_ofu.wiring.gpus import resolve_gpus

#: How long a finished record is kept in memory while the spool cannot take it.
RETRY_SECONDS = 600.0
RETRY_EVERY_SECONDS = 5.0
#: How often a run that is not profiled says that it is there.
STAND_BY_NS = 600 * 10**9
#: How many characters of an error travel with a record.
WHY_LIMIT = 300


@dataclass(slots=True)
class Run:
    """One run of the sampler."""

    tag: str
    spool: Spool
    config: Config
    clock: HostClock
    prolog: HookFacts
    job: Job
    publishing: Publishing
    scope: OwnScope | None = None
    gpus: list[GpuState] = field(default_factory=list)
    folds: dict[int, tuple[DeviceIdentity, GpuFold]] = field(default_factory=dict)
    sampler: Sampler | None = None
    save_failed: bool = False
    no_source: str | None = None  # why there is none

    def checkpoint(self, *, ended: bool = False) -> Checkpoint:
        """Everything summed so far."""
        boottime = self.clock.boottime_ns()
        return Checkpoint(
            saved_ns=boottime,
            wall_offset_ns=self.clock.wall_ns() - boottime,
            interval_seconds=self.interval_seconds(bool(self.sampler and self.sampler.source.has_cycles)),
            refresh_seconds=self.config.sampler.counter_refresh_seconds,
            gpus=tuple(self._with_fold(gpu) for gpu in self.gpus),
            health=self.health(),
            ended=ended,
        )

    def _with_fold(self, gpu: GpuState) -> GpuState:
        if gpu.position not in self.folds:
            return gpu
        device, fold = self.folds[gpu.position]
        state = replace(gpu, fold=fold.state())
        if self.sampler is None:
            return state
        choice = self.sampler.source.choice(device)  # the first readings may have settled it
        return replace(state, source=choice.source, source_note=choice.note)

    def interval_seconds(self, has_cycles: bool) -> float:
        """The configured interval of the estimator at hand."""
        settings = self.config.sampler
        return settings.cycles_interval_seconds if has_cycles else settings.interval_seconds

    def health(self) -> SamplerHealth:
        """How the sampler fares."""
        placement = self.scope.outcome() if self.scope else None
        return (
            self.sampler.health(placement)
            if self.sampler
            else SamplerHealth(placement=placement, source=self.no_source)
        )

    def settle(self) -> None:
        """After the first readings, which must not wait for anybody: out of everybody's way."""
        step_back()
        self.scope = OwnScope(f"slurm-ofu-{self.tag}")
        self.save()

    def save(self) -> None:
        """Write a checkpoint, of which an interim record may be made; a full disk is reported once and costs
        nothing but those."""
        try:
            self.spool.write_checkpoint(self.tag, encode_checkpoint(self.checkpoint()))
            self.save_failed = False
        except OSError as error:
            if not self.save_failed:
                say(f"job {self.job.key.job_id}: no checkpoint: {error}", bad=True)
            self.save_failed = True
            return
        self.publishing.look(self.clock.boottime_ns())


def main(arguments: Sequence[str] | None = None) -> int:
    """The process. Its exit code is nobody's concern: the hooks do not wait for it."""
    clock = HostClock((signal.SIGUSR1, signal.SIGTERM, signal.SIGINT))
    for ignored in (signal.SIGUSR1, signal.SIGHUP, signal.SIGPIPE):
        signal.signal(ignored, signal.SIG_DFL if ignored is signal.SIGUSR1 else signal.SIG_IGN)
    rename(SAMPLING)
    options = options_of(arguments)
    try:
        sample(Spool(Path(options["spool"])), options["tag"], options["config"], clock)
    except ConfigError as error:
        why = f"ConfigError: the configuration cannot be used, and the run is not sampled: {error}"
        say(f"run {options['tag']}: the sampler stops: {why}", bad=True)
        return 1
    except Exception as error:  # noqa: BLE001  the boundary: whatever it is, it goes to syslog
        say(f"run {options['tag']}: the sampler stops: {type(error).__name__}: {error}", bad=True)
        return 1
    return 0


def sample(spool: Spool, tag: str, config_path: str, clock: HostClock) -> None:
    """Sample one run to its end and hand on its record."""
    config = load_config(config_path)
    prolog = read_facts(spool, tag, "prolog") or environment_facts(
        dict(os.environ), uptime_ns=int(tag.rpartition(".")[2]) * 10**7, epoch_s=time.time()
    )
    job = job_of(prolog, None, config.cluster_name)
    with spool.hold(tag) as alone:
        if not alone:
            raise StateError("somebody else works on this run")
        publishing = Publishing.of(tag, spool, config, clock.boottime_ns())
        run = Run(tag, spool, config, clock, prolog, job, publishing)
        comment = prolog.environment.get("SLURM_JOB_COMMENT")
        if config.sampler.allow_opt_out and asks_not_to_be_profiled(comment):
            _stand_by(run)
        else:
            _sample_gpus(run)
        publishing.stop()
        if clock.stopped_by == signal.SIGUSR1 or spool.has_ended(tag):
            _finish(run)
        else:
            run.save()


def _stand_by(run: Run) -> None:
    """The job is not to be profiled: no counter is read. The process stays, because a run whose sampler
    lives is known to hold its GPUs: others that share them have only their part."""
    run.no_source = "none: the job asked not to be profiled"
    run.gpus = _unread(run)
    _wait_for_the_end(run)


def _wait_for_the_end(run: Run) -> None:
    """With nothing to sample: keep saying why."""
    if run.spool.has_ended(run.tag):
        return
    run.settle()
    while not run.clock.wait_until(_next_word_ns(run)):
        run.save()


def _without_samples(run: Run) -> None:
    """No GPU of the run can be sampled. The process stays where that is told while the run goes on."""
    if run.publishing.next_ns is None:
        run.save()
    else:
        _wait_for_the_end(run)


def _next_word_ns(run: Run) -> int:
    now_ns, due_ns = run.clock.boottime_ns(), run.publishing.next_ns
    return now_ns + STAND_BY_NS if due_ns is None else min(now_ns + STAND_BY_NS, max(now_ns, due_ns))


def _unread(run: Run) -> list[GpuState]:
    """Which GPUs the job has, by NVML, which holds no profiling hardware for that and is let go at once: a
    MIG slice must not count as a whole GPU because nobody reads it."""
    named = replace(run.config.sampler, source="nvml")
    try:
        source = open_source(named, job_id=run.job.key.job_id)
    except SourceError:
        return [GpuState(position=position, reason="opted_out") for position in run.job.gpu_positions]
    try:
        assigned = _assigned(run, source)
        states = [_gpu_state(one, source, run.config) for one in assigned]
    finally:
        source.close()
        close_device_files()
    return [replace(state, reason="opted_out", source=None, source_note=None) for state in states]


def _sample_gpus(run: Run) -> None:
    """From opening the source to closing it: afterwards no GPU is held."""
    try:
        source = open_source(run.config.sampler, job_id=run.job.key.job_id)
    except SourceError as error:
        say(f"job {run.job.key.job_id}: no counters: {error}", bad=True)
        run.no_source = " ".join(f"none: {error}".split())[:WHY_LIMIT]
        run.gpus = [GpuState(position=position, reason="no_source") for position in run.job.gpu_positions]
        _without_samples(run)
        return
    try:
        _assign(run, source)
        if run.folds and not run.spool.has_ended(run.tag):
            run.sampler = _sampler(run, source)
            run.sampler.run()
    finally:
        source.close()
        close_device_files()
    if run.sampler is None:
        _without_samples(run)


def _assigned(run: Run, source: CounterSource) -> tuple[Assignment, ...]:
    return resolve_gpus(
        run.job.gpu_positions,
        environment=run.prolog.environment,
        node=node_name(run.prolog),
        source=source,
        config=run.config,
    )


def _assign(run: Run, source: CounterSource) -> None:
    for assignment in _assigned(run, source):
        run.gpus.append(_gpu_state(assignment, source, run.config))
        if assignment.device is None:
            say(
                f"job {run.job.key.job_id}: GPU {assignment.position} unmapped: {assignment.why_not}",
                bad=True,
            )
        else:
            fold = GpuFold.start(run.clock.boottime_ns(), run.config.sampler.interval_seconds)
            run.folds[assignment.position] = (assignment.device, fold)


def _gpu_state(assignment: Assignment, source: CounterSource, config: Config) -> GpuState:
    device = assignment.device
    if device is None:
        return GpuState(position=assignment.position, reason="unmapped", mapped_by=assignment.how)
    model = find_model(device.gpu_model, config.gpu_models)
    known_count = model.sm_count if model else None
    choice = source.choice(device)
    return GpuState(
        position=assignment.position,
        uuid=device.uuid,
        gpu_model=device.gpu_model,
        mapped_by=assignment.how,
        sm_count=known_count if device.sm_count is None else device.sm_count,
        source=choice.source,
        source_note=choice.note,
        mig_profile=device.mig_profile,
        sm_share_ratio=device.sm_share_ratio,
        reason="short",
    )


def _sampler(run: Run, source: CounterSource) -> Sampler:
    settings = run.config.sampler
    return Sampler(
        source=source,
        clock=run.clock,
        folds=run.folds,
        settle=run.settle,
        save=run.save,
        interval_seconds=run.interval_seconds,
        clock_readings=settings.clock_readings,
        checkpoint_seconds=settings.checkpoint_seconds,
        random=Random(settings.seed),
    )


def _finish(run: Run) -> None:
    """The record into the outbox, then on its way. A spool that is full is tried again for a while, and
    the record goes straight to its receiver meanwhile: better there than nowhere."""
    rename(DELIVERING)
    checkpoint = run.checkpoint(ended=True)
    given: dict[str, Any] = {"checkpoint": checkpoint, "prolog": run.prolog, "epilog": _epilog(run)}
    deadline = time.monotonic() + RETRY_SECONDS
    reported = False
    while True:
        try:
            finish_run(run.spool, run.tag, run.config, **given)
            break
        except OSError as error:
            if not reported:
                say(f"job {run.job.key.job_id}: the outbox cannot be written: {error}", bad=True)
            reported = True
        if _sent_directly(run, given) or time.monotonic() > deadline:
            return
        time.sleep(RETRY_EVERY_SECONDS)
    _report(run, deliver(run.spool, run.config, [run.spool.outbox / f"{run.tag}.record"]))


def _epilog(run: Run) -> HookFacts:
    """The epilog's word; where the disk was too full for it, this moment's."""
    return read_facts(run.spool, run.tag, "epilog") or HookFacts(
        boot_id=run.prolog.boot_id,
        uptime_ns=run.clock.boottime_ns(),
        epoch_s=run.clock.wall_ns() / 1e9,
        environment=run.prolog.environment,
    )


def _sent_directly(run: Run, given: dict[str, Any]) -> bool:
    try:
        record, note = assemble(run.spool, run.tag, run.config, **given)
        open_delivery(run.config).send([(record, encode(record))])
    except OfuError:
        return False
    with suppress(OSError):
        run.spool.mark_done(run.tag, note)
    return True


def _report(run: Run, delivered: Delivered) -> None:
    for problem in delivered.problems:
        say(f"job {run.job.key.job_id}: its record waits in {run.spool.outbox}: {problem}", bad=True)


if __name__ == "__main__":
    sys.exit(main())
