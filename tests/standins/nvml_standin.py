"""The stand-in libnvidia-ml.so.1: how to compile it, what to make it play, what the exact answer is.

`nvml/standin.c` documents the scenario file and every assumption about the driver that it makes.
"""

from __future__ import annotations

import math
import os
import re
import shutil
import subprocess
import uuid
from bisect import bisect_right
from collections.abc import Callable
from dataclasses import dataclass, fields, replace
from importlib.metadata import PackageNotFoundError, distribution
from itertools import accumulate
from pathlib import Path

SOURCE = Path(__file__).parent / "nvml" / "standin.c"
LIBRARY_NAME = "libnvidia-ml.so.1"
HEADER_PACKAGE = "nvidia-nvml-dev"
FEWEST_FUNCTIONS = 300
DECLARATION = re.compile(r"\bDECLDIR\s+(?:\w+\s*\*?\s*)?(nvml\w+)\s*\(")

# Which functions each variant lacks, as a pattern for their whole names.
VARIANTS = {
    "full": re.compile(r"(?!)"),
    "no_gpm": re.compile(r"nvmlGpm\w+"),
    "old_names": re.compile(r"nvmlDeviceGet\w*ClocksEventReasons"),
}


# Keys of the scenario file that hold a field of Gpu as it is.
PLAIN_GPU_KEYS = (
    *("name", "mig", "counters", "counter_scale", "counter_base", "max_clock_mhz", "clock_step_mhz"),
    *("architecture", "memory_total_bytes", "memory_reserved_bytes", "unknown_metric_error"),
    *("refresh_seconds", "origin_s", "lost_at_s", "device", "mig_monitor", "mig_slots", "mig_sms"),
)


class StandInError(RuntimeError):
    """The stand-in could not be built, or was given a scenario that makes no sense."""


# ---- building -------------------------------------------------------------------------------


def header_path() -> Path:
    """nvml.h of the installed nvidia-nvml-dev; its licence does not let us ship a copy."""
    try:
        listed = distribution(HEADER_PACKAGE).files or []
    except PackageNotFoundError as error:
        raise StandInError(f"{HEADER_PACKAGE} is not installed: pip install {HEADER_PACKAGE}") from error
    found = [Path(str(entry.locate())) for entry in listed if entry.name == "nvml.h"]
    if not found or not found[0].is_file():
        raise StandInError(f"the installed {HEADER_PACKAGE} has no nvml.h: reinstall it")
    return found[0].resolve()


def declared_functions(header: str) -> tuple[str, ...]:
    """The names of all functions that nvml.h declares, each once, sorted."""
    return tuple(sorted(set(DECLARATION.findall(header))))


def exported_functions(variant: str) -> tuple[str, ...]:
    """The names that the library of this variant has; all others are truly absent from it."""
    if variant not in VARIANTS:
        raise StandInError(f"variant {variant!r} is none of {', '.join(VARIANTS)}")
    names = declared_functions(header_path().read_text(encoding="utf-8"))
    if len(names) < FEWEST_FUNCTIONS:
        raise StandInError(f"only {len(names)} functions found in {header_path()}: has its form changed?")
    return tuple(name for name in names if not VARIANTS[variant].fullmatch(name))


def stubs(names: tuple[str, ...]) -> str:
    """C that answers NOT_SUPPORTED for each name, unless standin.c defines it: its symbols are weak."""
    lines = [f'STUB({name}) {{ return standin_unsupported("{name}"); }}' for name in names]
    head = "int standin_unsupported(const char *);\n#define STUB(name) __attribute__((weak)) int name(void)"
    return "\n".join((head, *lines, ""))


def version_script(names: tuple[str, ...]) -> str:
    """The linker's list of what the library exports."""
    return "{\n  global:\n" + "".join(f"    {name};\n" for name in names) + "  local: *;\n};\n"


def build(directory: Path, *, variant: str = "full") -> Path:
    """Compile the stand-in as `directory`/libnvidia-ml.so.1, soname and all, and return its path."""
    names = exported_functions(variant)
    directory.mkdir(parents=True, exist_ok=True)
    (directory / "stubs.c").write_text(stubs(names), encoding="ascii")
    (directory / "exports.map").write_text(version_script(names), encoding="ascii")
    library = directory / LIBRARY_NAME
    _compile((str(SOURCE), str(directory / "stubs.c")), directory / "exports.map", library)
    return library


def _compile(sources: tuple[str, ...], exports: Path, output: Path) -> None:
    compiler = shutil.which("gcc") or shutil.which("cc")
    if compiler is None:
        raise StandInError("no C compiler: install gcc")
    options = f"-std=gnu11 -O2 -Wall -Wextra -fPIC -shared -pthread -Wl,-soname,{LIBRARY_NAME}".split()
    paths = [f"-I{header_path().parent}", f"-Wl,--version-script={exports}", "-o", str(output)]
    command = [compiler, *options, *paths, *sources, "-lm", "-ldl"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise StandInError(f"{compiler} failed on the stand-in:\n{done.stderr}")


# ---- what it plays --------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class Segment:
    """A stretch of constant behaviour. Ratios are 0-1, the clock is above 0."""

    seconds: float
    tensor_ratio: float = 0.0
    sm_clock_mhz: float = 1980.0
    sm_active_ratio: float = 0.0
    dram_active_ratio: float = 0.0
    power_watts: float = 100.0
    utilisation_ratio: float = 0.0
    memory_used_bytes: int = 0
    throttle_reasons: int = 0
    gated: bool = False  # no cycle elapses, whatever a reading of the clock says

    def __post_init__(self) -> None:
        if nanoseconds(self.seconds) <= 0 or self.sm_clock_mhz <= 0:
            raise StandInError(f"a segment needs a duration and a clock above 0: {self}")

    def line(self) -> str:
        """Its part of the scenario file."""
        options = (f"{field.name}={getattr(self, field.name)}" for field in fields(self)[1:-1])
        return " ".join(("segment", str(self.seconds), *options, *(["gated"] if self.gated else [])))

    @property
    def cycling_mhz(self) -> float:
        """1e6 SM cycles that elapse in a second."""
        return 0.0 if self.gated else self.sm_clock_mhz


@dataclass(frozen=True, slots=True, kw_only=True)
class Slice:
    """A MIG device of a GPU. Its segments hang on its GPU's origin; their clocks should be its GPU's."""

    segments: tuple[Segment, ...]
    slice_uuid: str
    mig_index: int
    gpu_instance: int
    profile: str = "1g.10gb"
    sms: int = 16
    compute_instance: int = 0
    gpu_slices: int = 1
    compute_slices: int = 1
    counters: str = "absent"
    slice_utilisation: int = 0  # 1: as later drivers tell it
    memory_total_bytes: int = 10_000_000_000
    memory_reserved_bytes: int = 50_000_000

    def lines(self) -> list[str]:
        """Its part of the scenario file."""
        keys = {field.name: getattr(self, field.name) for field in fields(self)[2:]}
        lines = ["slice", f"uuid {self.slice_uuid}", *(f"{key} {value}" for key, value in keys.items())]
        return [*lines, *(segment.line() for segment in self.segments)]


@dataclass(frozen=True, slots=True, kw_only=True)
class Gpu:
    """One GPU: what it is, the course it repeats for ever, and what is wrong with it.

    minor, pci and gpu_uuid default to values made from the GPU's index. Times are seconds of CLOCK_BOOTTIME.
    """

    segments: tuple[Segment, ...]
    name: str = "NVIDIA H100 80GB HBM3"
    gpu_uuid: str | None = None
    minor: int | None = None
    pci: str | None = None
    sms: int = 132
    cores_per_sm: int = 128
    reference_clock_mhz: float = 1830.0
    max_clock_mhz: int = 1980
    architecture: int = 9
    compute_capability: tuple[int, int] = (9, 0)
    memory_total_bytes: int = 85_520_809_984
    memory_reserved_bytes: int = 524_288_000
    gpm: bool = True
    mig: str = "off"
    mig_monitor: int = 0
    mig_slots: int = 7
    mig_sms: int = 132
    slices: tuple[Slice, ...] = ()  # of a GPU whose `mig` is on
    counters: str = "absolute"
    counters_summed_over_sms: bool = False
    counter_base: float = 0.0
    unknown_metric_error: int = 3
    refresh_seconds: float = 0.0
    clock_step_mhz: int = 0
    device: Path | None = None
    lost_at_s: float | None = None
    reset_at_s: tuple[float, ...] = ()
    origin_s: float = 0.0

    @property
    def counter_scale(self) -> int:
        return self.sms if self.counters_summed_over_sms else 1

    def uuid(self, index: int) -> str:
        return self.gpu_uuid or f"GPU-{uuid.uuid5(uuid.NAMESPACE_URL, f'gpu/{index}')}"

    def lines(self, index: int) -> list[str]:
        """Its part of the scenario file."""
        keys: dict[str, object] = {key: getattr(self, key) for key in PLAIN_GPU_KEYS}
        keys["uuid"] = self.uuid(index)
        keys["minor"] = index if self.minor is None else self.minor
        keys["pci"] = self.pci or f"00000000:{0x18 + index:02X}:00.0"
        keys["cores"] = self.sms * self.cores_per_sm
        keys["compute_capability"] = "{} {}".format(*self.compute_capability)
        keys["gpm"] = int(self.gpm)
        lines = ["gpu", *(f"{key} {value}" for key, value in keys.items() if value is not None)]
        lines += [f"reset_at_s {at_s}" for at_s in self.reset_at_s]
        lines += [segment.line() for segment in self.segments]
        return [*lines, *(line for its in self.slices for line in its.lines())]

    def seconds_in_segments(self, start_s: float, end_s: float) -> tuple[float, ...]:
        """How long each segment holds between two instants, exact to the nanosecond."""
        held = map(self._nanoseconds_in_segments, (start_s, end_s))
        return tuple((until_end - until_start) / 1e9 for until_start, until_end in zip(*held, strict=True))

    def _nanoseconds_in_segments(self, at_s: float) -> list[int]:
        durations = [nanoseconds(segment.seconds) for segment in self.segments]
        periods, phase = divmod(nanoseconds(at_s) - nanoseconds(self.origin_s), sum(durations))
        held = []
        for duration in durations:
            part = min(phase, duration)
            held.append(periods * duration + part)
            phase -= part
        return held

    def segment_at(self, at_s: float) -> Segment:
        """What holds at an instant; a boundary belongs to the segment that begins there."""
        ends = list(accumulate(nanoseconds(segment.seconds) for segment in self.segments))
        phase = (nanoseconds(at_s) - nanoseconds(self.origin_s)) % ends[-1]
        return self.segments[bisect_right(ends, phase)]

    def seen_at(self, at_s: float) -> float:
        """The instant whose counters a GPM sample taken at at_s holds: the latest refresh."""
        step = nanoseconds(self.refresh_seconds) or 1
        return nanoseconds(at_s) // step * step / 1e9


@dataclass(frozen=True, slots=True, kw_only=True)
class Fault:
    """Something that goes wrong in the functions that match a shell pattern; see standin.c."""

    function: str
    device: int | None = None
    from_s: float | None = None
    until_s: float | None = None
    skip: int | None = None
    error: int | None = None
    delay_us: float | None = None
    metric: int | None = None
    value: float | None = None
    nan: bool = False
    hang: bool = False
    cured_by_init: bool = False

    def line(self) -> str:
        words = ["fault", self.function]
        for field in fields(self)[1:]:
            value = getattr(self, field.name)
            if value != field.default:
                words.append(field.name if value is True else f"{field.name}={value}")
        return " ".join(words)


@dataclass(frozen=True, slots=True, kw_only=True)
class Truth:
    """What really happened on one GPU between two instants. Ratios are 0-1."""

    seconds: float
    ofu: float
    tensor_ref_seconds: float
    tpa_time_weighted: float
    tpa_cycle_weighted: float
    sm_active: float
    sm_active_time_weighted: float
    dram_active: float
    utilisation: float
    energy_joules: float
    mean_clock_mhz: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Counters:
    """The absolute counters (GPM ids 248, 249 and 250; energy) as they stand at an instant."""

    sm_cycles_elapsed: float
    sm_cycles_active: float
    mma_cycles_active: float
    energy_millijoules: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Scenario:
    """A node: its GPUs in NVML index order, its driver, and what goes wrong from the start."""

    gpus: tuple[Gpu, ...]
    driver_version: str = "595.45.04"
    nvml_version: str = "13.595.45.04"
    call_cost_us: float = 0.0
    faults: tuple[Fault, ...] = ()
    control: Path | None = None
    calls_file: Path | None = None

    def write(self, path: Path) -> Path:
        """Write the scenario file and return its path."""
        keys = ("driver_version", "nvml_version", "call_cost_us", "control", "calls_file")
        lines = [f"{key} {getattr(self, key)}" for key in keys if getattr(self, key) is not None]
        lines += [fault.line() for fault in self.faults]
        lines += [line for index, gpu in enumerate(self.gpus) for line in gpu.lines(index)]
        path.write_text("\n".join((*lines, "")), encoding="utf-8")
        return path

    def uuid(self, gpu: int) -> str:
        return self.gpus[gpu].uuid(gpu)

    def slice_truth(self, gpu: int, place: int, start_s: float, end_s: float) -> Truth:
        """The same of the GPU's slice at that place, relative to the slice's own SMs."""
        whole = self.gpus[gpu]
        alone = replace(whole, segments=whole.slices[place].segments, slices=())
        return Scenario(gpus=(alone,)).truth(0, start_s, end_s)

    def truth(self, gpu: int, start_s: float, end_s: float) -> Truth:
        """The exact integrals over [start_s, end_s] of CLOCK_BOOTTIME; start_s must lie before end_s."""
        if nanoseconds(end_s) <= nanoseconds(start_s):
            raise StandInError(f"no time lies between {start_s} and {end_s}")
        total = _integrator(self.gpus[gpu], start_s, end_s)
        seconds = total(lambda segment: 1.0)
        megacycles = total(lambda segment: segment.cycling_mhz)
        tensor = total(lambda segment: segment.tensor_ratio * segment.cycling_mhz)
        reference = self.gpus[gpu].reference_clock_mhz
        return Truth(
            seconds=seconds,
            ofu=tensor / reference / seconds,
            tensor_ref_seconds=tensor / reference,
            tpa_time_weighted=total(lambda segment: segment.tensor_ratio) / seconds,
            tpa_cycle_weighted=tensor / megacycles,
            sm_active=total(lambda segment: segment.sm_active_ratio * segment.cycling_mhz) / megacycles,
            sm_active_time_weighted=total(lambda segment: segment.sm_active_ratio) / seconds,
            dram_active=total(lambda segment: segment.dram_active_ratio) / seconds,
            utilisation=total(lambda segment: segment.utilisation_ratio) / seconds,
            energy_joules=total(lambda segment: segment.power_watts),
            mean_clock_mhz=megacycles / seconds,
        )

    def counters(self, gpu: int, at_s: float) -> Counters:
        """The counters at an instant: since boot or the latest reset, with the GPU's scale and base."""
        device = self.gpus[gpu]
        total = _integrator(device, max((at for at in device.reset_at_s if at <= at_s), default=0.0), at_s)
        cycles = (
            total(lambda segment: segment.cycling_mhz),
            total(lambda segment: segment.sm_active_ratio * segment.cycling_mhz),
            total(lambda segment: segment.tensor_ratio * segment.cycling_mhz),
        )
        elapsed, active, mma = (device.counter_base + 1e6 * device.counter_scale * each for each in cycles)
        energy = 1e3 * total(lambda segment: segment.power_watts)
        return Counters(
            sm_cycles_elapsed=elapsed,
            sm_cycles_active=active,
            mma_cycles_active=mma,
            energy_millijoules=energy,
        )


def nanoseconds(seconds: float) -> int:
    """Rounded as the C side does it, so that both see the same instant."""
    return round(seconds * 1e9)


def _integrator(gpu: Gpu, start_s: float, end_s: float) -> Callable[[Callable[[Segment], float]], float]:
    held = tuple(zip(gpu.seconds_in_segments(start_s, end_s), gpu.segments, strict=True))
    return lambda quantity: math.fsum(seconds * quantity(segment) for seconds, segment in held)


# ---- steering and reading a run -------------------------------------------------------------


class Control:
    """The control file: stops and moves the library's time and switches faults, in running processes."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.at_s = 0.0
        self._time = "time real"
        self._faults: tuple[Fault, ...] = ()

    def freeze(self, at_s: float) -> None:
        """Stop the library's time at an instant."""
        self.at_s = at_s
        self._set_time(f"time frozen {at_s}")

    def step(self, seconds: float) -> None:
        """Move the frozen time on."""
        self.freeze(self.at_s + seconds)

    def run(self, *, offset_s: float = 0.0) -> None:
        """Let time run, that far from CLOCK_BOOTTIME."""
        self._set_time(f"time offset {offset_s}")

    def inject(self, *faults: Fault) -> None:
        """Replace the faults that are switched on here; none switches all off."""
        self._faults = faults
        self._write()

    def _set_time(self, line: str) -> None:
        self._time = line
        self._write()

    def _write(self) -> None:
        unfinished = self.path.with_name(f"{self.path.name}.{os.getpid()}")
        unfinished.write_text("\n".join((self._time, *(fault.line() for fault in self._faults), "")), "utf-8")
        unfinished.replace(self.path)


def environment(library: Path, scenario: Path) -> dict[str, str]:
    """The variables that make a process use the stand-in and this scenario."""
    return {"LD_LIBRARY_PATH": str(library.parent), "OFU_NVML_SCENARIO": str(scenario)}


def read_calls(path: Path) -> dict[int, dict[str, int]]:
    """Calls per process and function; a process's last line holds its totals."""
    calls: dict[int, dict[str, int]] = {}
    for line in path.read_text(encoding="ascii").splitlines():
        pid, *words = line.split()
        calls[int(pid)] = {name: int(count) for name, count in zip(words[::2], words[1::2], strict=True)}
    return calls
