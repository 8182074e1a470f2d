"""What the hooks left of a run → its record in the outbox.

One path for every end: the sampler's own, a finisher's after the sampler died, a node's after a
reboot. Facts come from ``delivery.spool``, sums from ``integrals``, the record from ``records``.
"""

import contextlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from slurm_ofu import __version__
from slurm_ofu.delivery.spool import Spool
from slurm_ofu.errors import StateError
from slurm_ofu.gpu_models import find_model
from slurm_ofu.integrals.gpu_fold import GpuFold
from slurm_ofu.integrals.quarters import quarter_sums
from slurm_ofu.integrals.totals import Allocation, Rules, gpu_totals
from slurm_ofu.records.build import node_record, seconds_per_quarter
from slurm_ofu.records.codec import encode
from slurm_ofu.samples.checkpoint import Checkpoint, GpuState, decode_checkpoint
from slurm_ofu.slurm.gpu_order import parse_positions
from slurm_ofu.slurm.gres_conf import nodes_without_gpus
from slurm_ofu.slurm.hostlists import compress, expand
from slurm_ofu.slurm.job_env import exit_code, job_of, node_name, parse_facts
from slurm_ofu.slurm.sharing import Holding, sharers
from slurm_ofu.values import (
    Config,
    GpuTotals,
    HookFacts,
    Job,
    NodeRecord,
    QuarterSums,
    Reason,
    SamplerHealth,
)
from slurm_ofu.wiring.claiming import with_peak

#: The wall clock may have been set between a hook's file and the look at it.
NAME_LIMIT_S = 60.0


@dataclass(frozen=True, slots=True, kw_only=True)
class End:
    """When a run ended on this node. ``uptime_ns`` is ``None`` where nothing says it."""

    uptime_ns: int | None
    epoch_s: float


def read_facts(spool: Spool, tag: str, hook: str) -> HookFacts | None:
    """What a hook wrote, or ``None`` where it wrote nothing that can be read."""
    found = spool.facts(tag, hook)
    if found is None:
        return None
    with contextlib.suppress(StateError):
        return parse_facts(found[0], epoch_s=found[1])
    return None


def finish_run(
    spool: Spool,
    tag: str,
    config: Config,
    *,
    checkpoint: Checkpoint | None = None,
    prolog: HookFacts | None = None,
    epilog: HookFacts | None = None,
) -> NodeRecord:
    """Make the record of a run and put it into the outbox.

    What is not given is read from the spool. Raises StateError where not even the job's id is known,
    OSError where the outbox cannot be written.
    """
    record, note = assemble(spool, tag, config, checkpoint=checkpoint, prolog=prolog, epilog=epilog)
    spool.finish(tag, encode(record), done_note=note)
    return record


def assemble(
    spool: Spool,
    tag: str,
    config: Config,
    *,
    checkpoint: Checkpoint | None = None,
    prolog: HookFacts | None = None,
    epilog: HookFacts | None = None,
) -> tuple[NodeRecord, str]:
    """The record of a run, and what a second epilog would say of it. Raises StateError."""
    prolog = prolog or read_facts(spool, tag, "prolog")
    epilog = epilog or read_facts(spool, tag, "epilog")
    if checkpoint is None:
        checkpoint = saved_checkpoint(spool, tag)
    first = prolog or epilog or _facts_from_tag(spool, tag)
    job = job_of(prolog, epilog or (None if prolog else first), config.cluster_name)
    if prolog is None:
        job = _certain_life(job, spool, first)
    else:
        job = replace(job, node_list=_gpu_nodes(job.node_list, prolog))
    end = _end(prolog, epilog, checkpoint, first)
    held = None if prolog is None or end.uptime_ns is None else (end.uptime_ns - prolog.uptime_ns) / 1e9
    shared = _sharers(spool, tag, first.boot_id, job.gpu_positions, end.uptime_ns)
    gpus = _gpus(checkpoint, job.gpu_positions, config, held, prolog is not None, shared)
    # A slice of a GPU has not the peak of its model.
    whole = (gpu.gpu_model if gpu.sm_share_ratio >= 1 else None for gpu in gpus)
    claim = with_peak(job.claim, whole, config.gpu_models)
    record = node_record(
        job=replace(job, claim=claim),
        node_name=node_name(first),
        prolog=prolog,
        end_uptime_ns=end.uptime_ns,
        end_epoch_s=end.epoch_s,
        exit_code=exit_code(epilog),
        gpus=gpus,
        quarters=_quarters(checkpoint, config, gpus, end.epoch_s, held, shared),
        health=checkpoint.health if checkpoint else SamplerHealth(),
        software_version=__version__,
    )
    return record, _done_note(epilog, first.boot_id, job.gpu_positions, end.uptime_ns)


def _gpu_nodes(node_list: str | None, prolog: HookFacts) -> str | None:
    """The node list without nodes that have no GPU by slurm.conf: nothing will be heard from those."""
    conf = prolog.environment.get("SLURM_CONF")
    if node_list is None or conf is None:
        return node_list
    with contextlib.suppress(OSError, ValueError):
        names = expand(node_list)
        without = nodes_without_gpus(Path(conf), names) - {node_name(prolog)}
        if without:
            return compress([name for name in names if name not in without])
    return node_list


def _certain_life(job: Job, spool: Spool, epilog: HookFacts) -> Job:
    """A life without a prolog that follows a requeued one on this very node: the epilog of the one before
    has already said its restart count, which makes it certain."""
    for tag, note in spool.done_notes():
        job_id, life, _ = tag.split(".")
        said, _, boot_id, *_ = [*note.split(), "", "", ""]
        if int(job_id) == job.key.job_id and boot_id == epilog.boot_id and said == str(int(life) + 1):
            key = replace(job.key, restart_count=int(said))
            if int(said) <= job.key.restart_count:
                return replace(job, key=key, restart_certain=True)
    return job


def _done_note(
    epilog: HookFacts | None, boot_id: str, positions: Sequence[int], end_uptime_ns: int | None
) -> str:
    """What stays known of a finished run for a day: what a second epilog would say, and what it held."""
    said = epilog.environment if epilog else {}
    held = ",".join(map(str, positions)) or "-"
    end = 0 if end_uptime_ns is None else end_uptime_ns // 10**7
    restart, began = said.get("SLURM_JOB_RESTART_COUNT", "0"), said.get("SLURM_JOB_START_TIME", "-")
    return f"{restart} {began} {boot_id or '-'} {end} {held}"


def _sharers(
    spool: Spool, tag: str, boot_id: str, positions: Sequence[int], end_uptime_ns: int | None
) -> Mapping[int, int]:
    """Position → how many runs of this node held it at once, from what the spool knows of the others."""
    end = float("inf") if end_uptime_ns is None else end_uptime_ns / 1e9
    run = Holding(positions=frozenset(positions), start_seconds=_start(tag), end_seconds=end)
    job = tag.partition(".")[0]  # lives of one job follow each other
    others = [_active(spool, other, boot_id) for other in spool.tags() if other.partition(".")[0] != job]
    others += [
        _finished(other, note, boot_id)
        for other, note in spool.done_notes()
        if other.partition(".")[0] != job
    ]
    return sharers(run, [other for other in others if other is not None])


def _start(tag: str) -> float:
    return int(tag.rpartition(".")[2]) / 100


def _active(spool: Spool, tag: str, boot_id: str) -> Holding | None:
    prolog, epilog = read_facts(spool, tag, "prolog"), read_facts(spool, tag, "epilog")
    if prolog is None or prolog.boot_id != boot_id:
        return None
    positions = parse_positions(prolog.environment.get("SLURM_JOB_GPUS", "")) or ()
    return Holding(
        positions=frozenset(positions), start_seconds=_start(tag), end_seconds=_held_until(spool, tag, epilog)
    )


def _held_until(spool: Spool, tag: str, epilog: HookFacts | None) -> float:
    """A run whose epilog was lost must not hold its GPU for ever: without a sampler it held it as long as
    that is known."""
    if epilog is not None:
        return epilog.uptime_ns / 1e9
    if spool.sampler_lives(tag):
        return float("inf")
    saved = saved_checkpoint(spool, tag)
    return _start(tag) if saved is None else saved.saved_ns / 1e9


def _finished(tag: str, note: str, boot_id: str) -> Holding | None:
    words = note.split()
    if len(words) != 5 or words[2] != boot_id or not words[3].isdecimal():
        return None
    positions = parse_positions(words[4]) or ()
    return Holding(positions=frozenset(positions), start_seconds=_start(tag), end_seconds=int(words[3]) / 100)


def saved_checkpoint(spool: Spool, tag: str) -> Checkpoint | None:
    """The last checkpoint, or ``None`` where there is none that this version can read to the end."""
    data = spool.checkpoint(tag)
    if data is None:
        return None
    with contextlib.suppress(StateError, KeyError, TypeError, ValueError, AttributeError):
        checkpoint = decode_checkpoint(data)
        for gpu in checkpoint.gpus:
            if gpu.fold is not None:
                GpuFold.from_state(dict(gpu.fold))
        return checkpoint
    return None


def is_known(spool: Spool, tag: str, boot_epoch_s: float) -> bool:
    """Whether there is a run to make a record of: some hook's word or the sampler's, or at least a name
    that a hook of this boot left on a full disk. Such a hook made its file at the very uptime in it."""
    if any(read_facts(spool, tag, hook) for hook in ("prolog", "epilog")) or saved_checkpoint(spool, tag):
        return True
    found = spool.facts(tag, "prolog") or spool.facts(tag, "epilog")
    named = boot_epoch_s + int(tag.rpartition(".")[2]) / 100
    return found is not None and abs(found[1] - named) < NAME_LIMIT_S


def _facts_from_tag(spool: Spool, tag: str) -> HookFacts:
    """Hooks that could not write (a full disk) still left names: the job and the restart count."""
    job_id, restart, uptime = tag.split(".")
    written = spool.facts(tag, "prolog") or spool.facts(tag, "epilog")
    if written is None:
        raise StateError(f"{tag}: no hook left anything")
    return HookFacts(
        boot_id="",
        uptime_ns=int(uptime) * 10**7,
        epoch_s=written[1],
        environment={"SLURM_JOB_ID": job_id, "SLURM_JOB_RESTART_COUNT": restart},
    )


def _end(
    prolog: HookFacts | None, epilog: HookFacts | None, checkpoint: Checkpoint | None, first: HookFacts
) -> End:
    """The epilog's word; else, after a reboot, the last thing that the sampler saved."""
    if epilog is not None:
        return End(uptime_ns=epilog.uptime_ns, epoch_s=epilog.epoch_s)
    if checkpoint is not None:
        epoch_s = (checkpoint.saved_ns + checkpoint.wall_offset_ns) / 1e9
        return End(uptime_ns=checkpoint.saved_ns, epoch_s=epoch_s)
    return End(uptime_ns=None if prolog else first.uptime_ns, epoch_s=first.epoch_s)


def _gpus(
    checkpoint: Checkpoint | None,
    positions: Sequence[int],
    config: Config,
    held: float | None,
    prolog_ran: bool,
    shared: Mapping[int, int],
) -> tuple[GpuTotals, ...]:
    if checkpoint is None:
        reason = _reason_without_sampler(held, prolog_ran, config.sampler.interval_seconds)
        return tuple(
            GpuTotals(
                position=position,
                reason=reason,
                allocated_seconds=None if held is None else held / shared.get(position, 1),
            )
            for position in positions
        )
    return tuple(_gpu(gpu, checkpoint, config, held, shared) for gpu in checkpoint.gpus)


def _reason_without_sampler(held: float | None, prolog_ran: bool, interval_seconds: float) -> Reason:
    if not prolog_ran:
        return "not_started"
    # A job shorter than two intervals may be over before its sampler ever looked.
    return "short" if held is not None and held < 2 * interval_seconds else "sampler_died"


def _gpu(
    state: GpuState, checkpoint: Checkpoint, config: Config, held: float | None, shared: Mapping[int, int]
) -> GpuTotals:
    given = _allocation(state, held, shared)
    if state.fold is None:
        return GpuTotals(
            position=state.position,
            reason=state.reason or "sampler_died",
            allocated_seconds=None if held is None else held * given.weight,
            uuid=state.uuid,
            gpu_model=state.gpu_model,
            mapped_by=state.mapped_by,
            source=state.source,
            source_note=state.source_note,
            mig_profile=state.mig_profile,
            sm_share_ratio=state.sm_share_ratio,
        )
    return gpu_totals(
        GpuFold.from_state(dict(state.fold)),
        given,
        find_model(state.gpu_model, config.gpu_models),
        Rules(interval_seconds=checkpoint.interval_seconds, refresh_seconds=checkpoint.refresh_seconds),
        died=not checkpoint.ended,
        wall_offset_ns=checkpoint.wall_offset_ns,
    )


def _allocation(state: GpuState, held: float | None, shared: Mapping[int, int]) -> Allocation:
    return Allocation(
        position=state.position,
        allocated_seconds=held,
        uuid=state.uuid,
        gpu_model=state.gpu_model,
        mapped_by=state.mapped_by,
        sm_count=state.sm_count,
        sharers=shared.get(state.position, 1),
        source=state.source,
        source_note=state.source_note,
        mig_profile=state.mig_profile,
        sm_share_ratio=state.sm_share_ratio,
    )


def _quarters(
    checkpoint: Checkpoint | None,
    config: Config,
    gpus: Sequence[GpuTotals],
    end_epoch_s: float,
    held: float | None,
    shared: Mapping[int, int],
) -> tuple[QuarterSums, ...]:
    allocated = seconds_per_quarter(end_epoch_s - held, end_epoch_s) if held is not None else {}
    states = checkpoint.gpus if checkpoint else tuple(GpuState(position=gpu.position) for gpu in gpus)
    rows: list[QuarterSums] = []
    for name in dict.fromkeys(state.gpu_model for state in states):
        folds = [
            (GpuFold.from_state(dict(state.fold)) if state.fold else None, _allocation(state, held, shared))
            for state in states
            if state.gpu_model == name
        ]
        model = find_model(name, config.gpu_models)
        refresh = config.sampler.counter_refresh_seconds
        rows += quarter_sums(folds, model, name, refresh, allocated)
    return tuple(rows)


def environment_facts(environment: dict[str, str], uptime_ns: int, epoch_s: float) -> HookFacts:
    """Facts out of a process's own environment, for when the spool could not hold them."""
    kept = {name: value for name, value in environment.items() if name.startswith(("SLURM", "CUDA"))}
    return HookFacts(boot_id="", uptime_ns=uptime_ns, epoch_s=epoch_s, environment=kept)
