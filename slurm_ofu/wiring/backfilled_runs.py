"""One run on one node, out of what a dcgm-exporter had said of the node's GPUs.

Which GPUs the run had, slurmdbd does not say. Only where it is certain is anything measured: the exporter's
own mapping of GPUs to jobs (label hpc_job), else all GPUs of the node where Slurm counts as many and nothing
tells of more than those that were seen.
"""

from bisect import bisect_right
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from slurm_ofu.counters.stored_series import Course, Device, Look
from slurm_ofu.gpu_models import find_model
from slurm_ofu.integrals.gpu_fold import GpuFold
from slurm_ofu.integrals.quarters import quarter_sums
from slurm_ofu.integrals.totals import Allocation, Rules, gpu_totals, part_of
from slurm_ofu.records.build import node_reason, seconds_per_quarter
from slurm_ofu.store.backfilling import RunOnNode
from slurm_ofu.values import (
    Config,
    GpuTotals,
    Job,
    NodeRecord,
    QuarterSums,
    Reading,
    RunKey,
    Sample,
    SamplerHealth,
)

SOURCE = "prometheus"
NOTE = "no sampler of ours measured it"
SLICE_NOTE = "a MIG slice: its share of the GPU is not in the samples"
_BUCKET_SECONDS = 60.0
_USUAL_STEP_SECONDS = 30.0  # dcgm-exporter's own


@dataclass(slots=True)
class _Part:
    """One GPU during the run."""

    course: Course
    fold: GpuFold | None = None  # None: it cannot have been the run's
    labelled: bool = False
    others: set[str] = field(default_factory=set)  # jobs that were mapped to it as well
    look_count: int = 0


class RunFilling:
    """What is found out of one run on one node, window after window. ``neighbours``: other runs that were
    there at the same time; ``most_gpus``: that any run had there."""

    def __init__(
        self, run: RunOnNode, node_name: str, neighbours: Sequence[RunOnNode], most_gpus: int = 0
    ) -> None:
        self.run = run
        self._node_name = node_name
        self._labels = labels_of(run)
        self._overlapping, self._most_gpus = neighbours, most_gpus
        self._start_ns, self._end_ns = round(run.start_epoch_s * 1e9), round(run.end_epoch_s * 1e9)
        self._parts: dict[Device, _Part] = {}

    def add(self, looks: Mapping[Device, Sequence[Look]], courses: Mapping[Device, Course]) -> None:
        """Count the looks of a window at every GPU of the node."""
        within = {
            device: its
            for device, all_looks in looks.items()
            if (its := self._within(all_looks, courses[device]))
        }
        for device, its in within.items():
            part = self._parts.setdefault(device, _Part(course=courses[device]))
            part.look_count += len(its)
            for look in its:
                part.labelled = part.labelled or not self._labels.isdisjoint(look.jobs)
                part.others |= look.jobs - self._labels
            possible = part.labelled or self.run.gpu_count == len(within)
            if part.fold is None and possible:
                part.fold = GpuFold.start(self._start_ns, _BUCKET_SECONDS)
                part.fold.published_clock_mhz = self._clock_before(looks[device])
            if part.fold is not None:
                for look in its:
                    self._fold(part.fold, look, part.course)

    def _within(self, looks: Sequence[Look], course: Course) -> list[Look]:
        """The looks that speak for a part of the run; the last one may come after its end."""
        first = bisect_right(looks, self._start_ns, key=_taken_ns)
        last = bisect_right(looks, self._end_ns, key=_taken_ns)
        within = list(looks[first:last])
        if last < len(looks):
            since = self._since(looks[last], course)
            within += [looks[last]] if since is not None and since < self._end_ns else []
        return within

    def _clock_before(self, looks: Sequence[Look]) -> float | None:
        """The last clock before the run's start: a single one within it has no spread."""
        first = bisect_right(looks, self._start_ns, key=_taken_ns)
        return looks[first - 1].values.get("sm_clock_mhz") if first > 0 else None

    def _since(self, look: Look, course: Course) -> int | None:
        """From when on a look speaks. Without one before, the first of the run speaks from its start on."""
        if look.since_ns is not None:
            return max(look.since_ns, self._start_ns)
        near = look.taken_ns - self._start_ns <= course.longest_step_ns
        return self._start_ns if near else None

    def _fold(self, fold: GpuFold, look: Look, course: Course) -> None:
        since, end = self._since(look, course), min(look.taken_ns, self._end_ns)
        last = fold.side.last_taken_ns
        if since != last:  # the run's start, or a gap's end: nothing is known of the time before
            begin = since if since is not None else end - min(course.step_ns or 0, end - self._start_ns)
            fold.add(_nothing(begin), 0)
        values = look.values
        tensor = values.get("tensor_active_ratio")
        sm_active = values.get("sm_active_ratio")
        if sm_active is None and values.get("engine_active_ratio") == 0:
            sm_active = 0.0
        memory, mask = values.get("memory_used_bytes"), values.get("throttle_mask")
        sample = Sample(
            reading=Reading(
                since_ns=since,
                taken_ns=end,
                tensor_active_ratio=tensor,
                sm_active_ratio=sm_active,
                dram_active_ratio=values.get("dram_active_ratio"),
                published_clock_mhz=values.get("sm_clock_mhz"),
                utilisation_ratio=values.get("utilisation_ratio"),
                power_watts=values.get("power_watts"),
                # A counter's state after the end is not the run's.
                energy_joules=values.get("energy_joules") if look.taken_ns <= self._end_ns else None,
                memory_used_bytes=None if memory is None else int(memory),
                throttle_mask=None if mask is None else int(mask),
                fault=None if tensor is not None else "source_lost" if look.has_tensor else "no_source",
            ),
            clocks_mhz=(),
            clock_before_mhz=None,
        )
        fold.add(sample, 0)

    def record(self, config: Config, software_version: str) -> NodeRecord | None:
        """The run's record; ``None`` where nothing was stored of the node, or not even the number of its
        GPUs is known."""
        if not self._parts:
            return None
        chosen, mapped_by = self._chosen()
        count = max(self.run.gpu_count or 0, len(chosen))
        if count == 0:
            return None
        held = self.run.end_epoch_s - self.run.start_epoch_s
        positions = self._positions()
        given = {device: self._allocation(device, positions[device], held, mapped_by) for device in chosen}
        gpus = [self._totals(self._parts[device], given[device], config) for device in chosen]
        gpus += self._unmeasured(count - len(gpus), {one.position for one in given.values()}, held)
        gpus.sort(key=lambda gpu: gpu.position)
        return NodeRecord(
            job=_job(self.run),
            node_name=self._node_name,
            reason=node_reason(gpus),
            start_epoch_s=self.run.start_epoch_s,
            end_epoch_s=self.run.end_epoch_s,
            allocated_seconds=held,
            exit_code=self.run.exit_code,
            gpus=tuple(gpus),
            quarters=self._quarters(given, gpus, config),
            health=SamplerHealth(source=SOURCE),
            software_version=software_version,
            backfilled=True,
        )

    def _chosen(self) -> tuple[list[Device], str]:
        """The GPUs that the run had, and how that is known; none where it is not."""
        labelled = [device for device, part in self._parts.items() if part.labelled]
        count = self.run.gpu_count
        if labelled and (count is None or len(labelled) == count):
            return labelled, "hpc_job"
        if count == len(self._parts) and not self._overlapping and self._shows_all():
            return list(self._parts), "whole_node"
        return (labelled, "hpc_job") if count is not None and len(labelled) < count else ([], "")

    def _shows_all(self) -> bool:
        """Whether nothing tells of GPUs that were not seen: a larger run, or a number left out."""
        numbers = {_number(part.course.gpu) for part in self._parts.values()}
        complete = numbers in (set(range(len(numbers))), {float("inf")})
        return complete and self._most_gpus <= len(self._parts)

    def _positions(self) -> dict[Device, int]:
        """The exporter's own numbers of the GPUs; of slices, their place among all."""

        def order(device: Device) -> tuple[float, float, str]:
            return _number(self._parts[device].course.gpu), _number(device.instance_id), device.uuid

        numbers = Counter(_number(part.course.gpu) for part in self._parts.values())
        if all(count == 1 and number < 1e6 for number, count in numbers.items()):
            return {device: int(_number(part.course.gpu)) for device, part in self._parts.items()}
        return {device: at for at, device in enumerate(sorted(self._parts, key=order))}

    def _allocation(self, device: Device, position: int, held: float, mapped_by: str) -> Allocation:
        part = self._parts[device]
        names: set[str] = set().union(*(labels_of(other) for other in self._overlapping), set())
        return Allocation(
            position=position,
            allocated_seconds=held,
            uuid=device.uuid,
            gpu_model=part.course.gpu_model,
            mapped_by=mapped_by,
            sharers=1 + len(part.others & names),
            source=SOURCE,
            source_note=NOTE if device.instance_id is None else SLICE_NOTE,
            mig_profile=None if device.instance_id is None else part.course.mig_profile,
        )

    def _totals(self, part: _Part, given: Allocation, config: Config) -> GpuTotals:
        if part.fold is None or given.source_note == SLICE_NOTE:
            whole = GpuTotals(
                position=given.position,
                reason="no_source",
                allocated_seconds=given.allocated_seconds,
                uuid=given.uuid,
                gpu_model=given.gpu_model,
                mapped_by=given.mapped_by,
                source=given.source,
                source_note=given.source_note,
                mig_profile=given.mig_profile,
            )
            return part_of(whole, given)
        if part.fold.side.last_taken_ns != self._end_ns:
            part.fold.add(_nothing(self._end_ns), 0)  # the run went on
        part.fold.clock_after(None)  # no sample after the last one
        step = part.course.step_ns
        rules = Rules(
            interval_seconds=_USUAL_STEP_SECONDS if step is None else step / 1e9,
            refresh_seconds=config.sampler.counter_refresh_seconds,
        )
        model = find_model(given.gpu_model, config.gpu_models)
        return gpu_totals(part.fold, given, model, rules, died=False, wall_offset_ns=0)

    def _unmeasured(self, count: int, taken: set[int], held: float) -> list[GpuTotals]:
        """The run's other GPUs. Where the exporter showed all there were, it lacked those."""
        others = len(self._parts) > len(taken)
        free = [position for position in range(count + len(taken)) if position not in taken]
        return [
            GpuTotals(
                position=position,
                reason="unmapped" if others else "no_source",
                allocated_seconds=held,
                source=SOURCE,
                source_note=NOTE,
            )
            for position in free[:count]
        ]

    def _quarters(
        self, given: Mapping[Device, Allocation], gpus: Sequence[GpuTotals], config: Config
    ) -> tuple[QuarterSums, ...]:
        allocated = seconds_per_quarter(self.run.start_epoch_s, self.run.end_epoch_s)
        by_position = {one.position: (self._measured(device), one) for device, one in given.items()}
        rows: list[QuarterSums] = []
        for name in dict.fromkeys(gpu.gpu_model for gpu in gpus):
            folds = [
                by_position.get(gpu.position, (None, _bare(gpu))) for gpu in gpus if gpu.gpu_model == name
            ]
            model = find_model(name, config.gpu_models)
            rows += quarter_sums(folds, model, name, config.sampler.counter_refresh_seconds, allocated)
        return tuple(rows)

    def _measured(self, device: Device) -> GpuFold | None:
        return self._parts[device].fold if device.instance_id is None else None


def _nothing(taken_ns: int) -> Sample:
    """An instant up to which nothing is known."""
    reading = Reading(since_ns=None, taken_ns=taken_ns, waiting=True)
    return Sample(reading=reading, clocks_mhz=(), clock_before_mhz=None)


def _taken_ns(look: Look) -> int:
    return look.taken_ns


def labels_of(run: RunOnNode) -> frozenset[str]:
    """What a site may write into the exporter's mapping: the raw job id, or that of an array's task."""
    task = f"{run.array_job_id}_{run.array_task_id}"
    return frozenset({str(run.job_id), task} if run.array_task_id is not None else {str(run.job_id)})


def _bare(gpu: GpuTotals) -> Allocation:
    return Allocation(
        position=gpu.position,
        allocated_seconds=gpu.allocated_seconds,
        uuid=None,
        gpu_model=gpu.gpu_model,
        mapped_by=None,
    )


def _number(text: str | None) -> float:
    return float(text) if text is not None and text.isdecimal() and len(text) < 7 else float("inf")


def _job(run: RunOnNode) -> Job:
    key = RunKey(cluster=run.cluster, job_id=run.job_id, restart_count=run.restart_count, sluid=run.sluid)
    return Job(
        key=key,
        restart_certain=True,
        user=run.user,
        uid=run.uid,
        account=run.account,
        partition=run.partition,
        node_list=run.node_list,
        node_count=run.node_count,
    )
