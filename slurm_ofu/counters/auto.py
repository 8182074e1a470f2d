"""``auto``: for each GPU the best source that answers for it: nvml, else dcgm, else exporter.

NVML comes first and says which GPUs there are. Only a GPU without figures there, by return codes and never
for an error that may pass, makes the others be asked; and only in its second reading, so that no other GPU's
first waits for them. Who has spoken for a GPU does so to the end, also when it falls silent: somebody else in
its place would have another estimator. Where nobody speaks for a GPU, all are asked again, at ever longer
distances.
"""

import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace

from slurm_ofu.errors import SourceError
from slurm_ofu.protocols import CounterSource
from slurm_ofu.values import DeviceIdentity, Reading, Reason, SourceChoice

#: How long before the others are asked again about a GPU; doubled each time.
ASK_AGAIN_NS = 60 * 10**9
#: How long a failure to open one of them holds for every GPU: an engine that hangs costs seconds.
FAILURE_NS = 30 * 10**9
_MEANINGS: dict[Reason, str] = {
    "no_source": "no tensor activity of this GPU",
    "profiling_locked": "somebody else holds the profiling hardware",
}
#: Given NVML, which the source may use and must not keep from others; ``None`` where there is none.
Opener = Callable[[CounterSource | None], CounterSource]


def boottime_ns() -> int:
    """CLOCK_BOOTTIME in nanoseconds."""
    return time.clock_gettime_ns(time.CLOCK_BOOTTIME)


@dataclass(slots=True)
class _Other:
    """A source to fall back on."""

    name: str
    opener: Opener
    source: CounterSource | None = None
    problem: SourceError | None = None  # of the latest attempt
    failed_ns: int = 0


@dataclass(slots=True)
class _Voice:
    """Who speaks for one GPU: ``source``, which knows it as ``twin``."""

    source: CounterSource | None
    twin: DeviceIdentity
    was_put_off: bool = False  # NVML has no figures: the others are to be asked
    is_settled: bool = False  # it has given figures
    passed_over: list[str] = field(default_factory=list)  # why nobody better
    reason: Reason = "no_source"  # while nobody speaks
    ask_again_ns: int = 0
    patience_ns: int = ASK_AGAIN_NS

    def asked(self, now_ns: int) -> None:
        """The others have been asked; not again for a while."""
        self.ask_again_ns = now_ns + self.patience_ns
        self.patience_ns *= 2


class _Lent:
    """NVML, for somebody who would close it."""

    def __init__(self, nvml: CounterSource) -> None:
        self.name = nvml.name
        self.has_cycles = nvml.has_cycles
        self.min_interval_seconds = nvml.min_interval_seconds
        self.devices, self.choice = nvml.devices, nvml.choice
        self.read, self.sm_clock_mhz = nvml.read, nvml.sm_clock_mhz

    def close(self) -> None:
        """Its owner does that."""


class AutoSource:
    """A CounterSource that is several."""

    name = "auto"

    def __init__(
        self,
        nvml: CounterSource | SourceError,
        others: Sequence[tuple[str, Opener]],
        *,
        now_ns: Callable[[], int] = boottime_ns,
    ) -> None:
        """``nvml``: open, or why there is none; ``others``: how to open them, the best first. Raises
        SourceError where nobody knows any GPU."""
        self._nvml = None if isinstance(nvml, SourceError) else nvml
        self._why_not_nvml = str(nvml) if isinstance(nvml, SourceError) else "nvml: no GPM on this GPU"
        self._others = [_Other(name, opener) for name, opener in others]
        self._now_ns = now_ns
        self._voices: dict[str, _Voice] = {}
        self._devices = self._find_devices()
        self.has_cycles = False
        self.min_interval_seconds = 0.0
        self._sum_up()

    def devices(self) -> tuple[DeviceIdentity, ...]:
        """As NVML has them, else the first other source that has any."""
        return self._devices

    def choice(self, device: DeviceIdentity) -> SourceChoice:
        """Who speaks for a GPU and why nobody better. Asks nobody: that is the readings' affair."""
        voice = self._voice(device)
        if voice.source is None:
            return SourceChoice(source="none", note="; ".join(voice.passed_over) or None)
        own = voice.source.choice(voice.twin)
        notes = [*voice.passed_over, *([own.note] if own.note else [])]
        return SourceChoice(source=own.source, note="; ".join(notes) or None)

    def read(self, device: DeviceIdentity) -> Reading:
        """What whoever speaks for this GPU says of it."""
        voice = self._voice(device)
        reading = self._first_or_next(voice, device)
        self._sum_up()
        return reading

    def sm_clock_mhz(self, device: DeviceIdentity) -> float | None:
        """The clock, by whoever speaks for this GPU."""
        voice = self._voice(device)
        return None if voice.source is None else voice.source.sm_clock_mhz(voice.twin)

    def close(self) -> None:
        """Close whoever is open."""
        for source in self._opened():
            source.close()

    # ---- who speaks

    def _first_or_next(self, voice: _Voice, device: DeviceIdentity) -> Reading:
        reading = self._spoken(voice, device)
        if not voice.is_settled and reading.fault in _MEANINGS:
            if self._is_by_nvml(voice) and not voice.was_put_off:
                voice.was_put_off = True
                return replace(reading, fault=None, waiting=True)
            if reading.taken_ns >= voice.ask_again_ns:
                reading = self._ask_others(voice, device, reading)
        if not voice.is_settled and reading.fault is None and not reading.waiting:
            voice.is_settled = True
            self._let_go()
        return reading

    def _voice(self, device: DeviceIdentity) -> _Voice:
        return self._voices.setdefault(device.uuid, _Voice(self._nvml, device))

    def _is_by_nvml(self, voice: _Voice) -> bool:
        return voice.source is not None and voice.source is self._nvml

    def _spoken(self, voice: _Voice, device: DeviceIdentity) -> Reading:
        if voice.source is not None:
            return voice.source.read(voice.twin)
        if self._nvml is not None:
            return replace(self._nvml.read(device), fault=voice.reason)
        return Reading(since_ns=None, taken_ns=self._now_ns(), fault=voice.reason)

    def _ask_others(self, voice: _Voice, device: DeviceIdentity, before: Reading) -> Reading:
        """The first of the others that has this GPU. One that is locked out may get in later, and speaks
        where there is nobody else."""
        voice.passed_over = [self._why_not(device)]
        locked: tuple[CounterSource, DeviceIdentity, Reading] | None = None
        reasons: list[Reason] = []
        for other in self._others:
            try:
                source = self._open(other)
                twin = _twin(device, source)
                reading = before if source is voice.source else source.read(twin)
            except SourceError as problem:
                voice.passed_over.append(f"{other.name}: {problem}")
                reasons += ["profiling_locked"] if problem.reason == "profiling_locked" else []
                continue
            if reading.fault is None:
                voice.source, voice.twin = source, twin
                return reading
            if reading.fault == "profiling_locked" and locked is None:
                locked = source, twin, reading
            voice.passed_over.append(f"{other.name}: {_MEANINGS.get(reading.fault, 'does not answer')}")
        voice.asked(self._now_ns())
        if locked is not None:
            voice.source, voice.twin, reading = locked
            return reading
        voice.source, voice.reason = None, reasons[0] if reasons else "no_source"
        return replace(before, fault=voice.reason)

    def _why_not(self, device: DeviceIdentity) -> str:
        """What is in NVML's way on this very GPU."""
        note = None if self._nvml is None else self._nvml.choice(device).note
        return self._why_not_nvml if note is None else f"nvml: {note}"

    # ---- what is open

    def _sum_up(self) -> None:
        """What holds for all of them together."""
        elsewhere = any(voice.source not in (None, self._nvml) for voice in self._voices.values())
        self.has_cycles = self._nvml is not None and self._nvml.has_cycles and not elsewhere
        self.min_interval_seconds = max(
            (source.min_interval_seconds for source in self._opened()), default=0.0
        )

    def _opened(self) -> list[CounterSource]:
        sources = [self._nvml, *(other.source for other in self._others)]
        return [source for source in sources if source is not None]

    def _open(self, other: _Other) -> CounterSource:
        if other.problem is not None and self._now_ns() - other.failed_ns < FAILURE_NS:
            raise other.problem
        if other.source is None:
            try:
                other.source = other.opener(None if self._nvml is None else _Lent(self._nvml))
            except SourceError as problem:
                other.problem, other.failed_ns = problem, self._now_ns()
                raise
            other.problem = None
            self._announce(other.source)
        return other.source

    def _announce(self, source: CounterSource) -> None:
        """Which GPUs it will be asked about, all at once: DCGM starts a child for them."""
        for voice in self._voices.values():
            if voice.was_put_off and not voice.is_settled:
                with suppress(SourceError):
                    source.choice(_twin(voice.twin, source))

    def _let_go(self) -> None:
        """Close who was asked and speaks for nobody: it may hold what somebody else needs."""
        speaking = [voice.source for voice in self._voices.values()]
        for other in self._others:
            if other.source is not None and other.source not in speaking:
                other.source.close()
                other.source = None

    def _find_devices(self) -> tuple[DeviceIdentity, ...]:
        if self._nvml is not None:
            return self._nvml.devices()
        problems = [self._why_not_nvml]
        reason = "no_source"
        for other in self._others:
            try:
                if found := self._open(other).devices():
                    return found
                problems.append(f"{other.name}: knows no GPU")
            except SourceError as problem:
                problems.append(f"{other.name}: {problem}")
                reason = problem.reason if problem.reason == "profiling_locked" else reason
        self.close()
        raise SourceError("; ".join(problems), reason=reason)


def _twin(device: DeviceIdentity, source: CounterSource) -> DeviceIdentity:
    """The same GPU or slice, as another source has it."""
    for twin in source.devices():
        if twin.uuid == device.uuid or (
            device.parent_uuid is not None
            and (device.parent_uuid, device.gpu_instance_id) == (twin.parent_uuid, twin.gpu_instance_id)
        ):
            return twin
    raise SourceError("does not know this GPU")
