"""A stand-in for ``dcgmi``: discovery and dmon as DCGM 2, 3 and 4 print them, over a course known exactly.

``install`` writes a program ``dcgmi`` that plays a scenario, read anew for each question and each row, so
that a test can break things while dmon runs. What is known of the real one, from its sources: the host
engine updates its values at its own pace, from when the watch was set; dmon sleeps a delay between two
prints and prints the latest values, so the two drift; the first values are blank; DCGM 2 aligns to the right
and complains on stdout, later ones to the left and on stderr; the header comes again after 14 prints; an
error setting watches comes after the header. Figures of the hardware are means by cycles.
"""

import json
import os
import signal
import stat
import sys
import time
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

from tests.standins.nvml_standin import Gpu, Segment

SHORT_NAMES = {1004: "TENSO", 100: "SMCLK", 1002: "SMACT", 1005: "DRAMA", 203: "GPUTL", 155: "POWER"}
WIDTHS = {100: 5, 203: 5, 155: 6}
PROFILING = (1002, 1004, 1005)
HEADER_EVERY = 14
LOCKED = "The third-party Profiling module returned an unrecoverable error"


@dataclass(frozen=True, slots=True, kw_only=True)
class Instance:
    """A GPU instance (MIG) by NVML's id, with DCGM's entity number and a course of its own."""

    gi: int
    entity: int
    segments: tuple[Segment, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Card:
    """A GPU by DCGM's number, which need not be NVML's index."""

    number: int
    uuid: str
    segments: tuple[Segment, ...]
    name: str = "NVIDIA A100-SXM4-80GB"
    origin_s: float = 0.0
    instances: tuple[Instance, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Scenario:
    """A node's GPUs, its DCGM, and what is wrong at present."""

    cards: tuple[Card, ...]
    version: int = 3
    first_is_blank: bool = True
    descending: bool = False
    unsupported: tuple[int, ...] = ()  # fields whose watch is refused
    engine: str = "up"  # down, hung, or dies: dmon ends in the middle
    locked: bool = False  # setting a watch of a profiling field fails
    paused: bool = False  # profiling fields are blank
    blank: str = "N/A"
    every_other_blank: bool = False
    stalled: bool = False  # dmon prints nothing more
    noise: tuple[str, ...] = ()  # lines printed before each row
    values: dict[str, str] = field(default_factory=dict)  # field id → what is printed instead


class Installed:
    """The program, and the scenario that it plays."""

    def __init__(self, folder: Path, scenario: Scenario) -> None:
        self.program = folder / "dcgmi"
        self._scenario_file = folder / "dcgmi.scenario"
        self.calls_file = folder / "dcgmi.calls"
        self.scenario = scenario
        self.play()
        root = Path(__file__).parents[2]
        self.program.write_text(
            f"#!{sys.executable} -I\nimport sys\nsys.path.insert(0, {str(root)!r})\n"
            f"from tests.standins.dcgmi_standin import main\nsys.exit(main({str(folder)!r}, sys.argv[1:]))\n"
        )
        self.program.chmod(self.program.stat().st_mode | stat.S_IXUSR | stat.S_IXGRP | stat.S_IXOTH)

    def play(self, **changes: Any) -> None:
        """Go on with the scenario changed."""
        self.scenario = replace(self.scenario, **changes)
        unfinished = self._scenario_file.with_suffix(".new")
        unfinished.write_text(json.dumps(asdict(self.scenario)))
        unfinished.chmod(0o644)
        unfinished.replace(self._scenario_file)

    def calls(self) -> list[dict[str, Any]]:
        """How it was called: pid, arguments, environment."""
        if not self.calls_file.exists():
            return []
        return [json.loads(line) for line in self.calls_file.read_text().splitlines()]


def install(folder: Path, scenario: Scenario) -> Installed:
    """Put the program into a folder."""
    return Installed(folder, scenario)


# ---- the program ------------------------------------------------------------------------------


def main(folder: str, arguments: Sequence[str]) -> int:
    """``dcgmi discovery|dmon …``."""
    signal.signal(signal.SIGPIPE, signal.SIG_DFL)
    path = Path(folder)
    with (path / "dcgmi.calls").open("a") as calls:
        row = {"pid": os.getpid(), "arguments": list(arguments), "environment": dict(os.environ)}
        calls.write(json.dumps(row) + "\n")
    scenario = read(path)
    if scenario.engine == "hung":
        time.sleep(3600)
    if scenario.engine == "down":
        print("Error: unable to establish a connection to the specified host: localhost")
        print("Error: Unable to connect to host engine. Host engine connection invalid/disconnected.")
        return 255
    subsystem, *options = arguments
    if subsystem == "discovery":
        print(hierarchy(scenario) if "-c" in options else listing(scenario))
        return 0
    given = dict(zip(options[::2], options[1::2], strict=True))
    return Dmon(path, scenario, given).run()


def read(folder: Path) -> Scenario:
    """The scenario as it stands now."""
    table = json.loads((folder / "dcgmi.scenario").read_text())
    cards = [
        Card(
            **{
                **card,
                "segments": tuple(Segment(**row) for row in card["segments"]),
                "instances": tuple(
                    Instance(**{**row, "segments": tuple(Segment(**one) for one in row["segments"])})
                    for row in card["instances"]
                ),
            }
        )
        for card in table.pop("cards")
    ]
    lists: dict[str, Any] = {name: tuple(table.pop(name)) for name in ("unsupported", "noise")}
    return Scenario(cards=tuple(cards), **lists, **table)


def listing(scenario: Scenario) -> str:
    """``discovery -l``."""
    rule = "+--------+" + "-" * 70 + "+"
    lines = [f"{len(scenario.cards)} GPUs found.", rule, f"| GPU ID | {'Device Information':<69}|", rule]
    for card in scenario.cards:
        for place, text in enumerate(
            (
                f"Name: {card.name}",
                f"PCI Bus ID: 00000000:{card.number + 1:02X}:00.0",
                f"Device UUID: {card.uuid}",
            )
        ):
            lines.append(f"| {card.number if place == 0 else '':<7}| {text:<69}|")
        lines.append(rule)
    return "\n".join([*lines, "0 NvSwitches found.", "+-----------+", "| Switch ID |", "+-----------+"])


def hierarchy(scenario: Scenario) -> str:
    """``discovery -c``: instances go by NVML's GPU index, which is not DCGM's number."""
    rule = "+-------------------+" + "-" * 68 + "+"
    lines = [rule, f"| {'Instance Hierarchy':<87}|", rule.replace("-", "=")]
    for index, card in enumerate(scenario.cards):
        if not card.instances:
            continue
        lines.append(f"| {f'GPU {index}':<18}| {f'GPU {card.uuid} (EntityID: {card.number})':<67}|")
        for its in card.instances:
            lines.append(f"| {f'-> I {index}/{its.gi}':<18}| {f'GPU Instance (EntityID: {its.entity})':<67}|")
            name = f"   -> CI {index}/{its.gi}/0"
            lines.append(f"| {name:<18}| {f'Compute Instance (EntityID: {its.entity})':<67}|")
        lines.append(rule)
    return "\n".join(lines)


class Dmon:
    """``dmon -e … -i … -d …``."""

    def __init__(self, folder: Path, scenario: Scenario, given: dict[str, str]) -> None:
        self.folder, self.scenario = folder, scenario
        self.fields = [int(word) for word in given["-e"].split(",")]
        self.wanted = given.get("-i", "").split(",")
        self.delay_s = int(given.get("-d", "1000")) / 1000
        self.count = int(given.get("-c", "0"))
        self.watched_s = time.clock_gettime(time.CLOCK_BOOTTIME)

    def run(self) -> int:
        """Print until somebody ends it."""
        entities = list(self.entities())
        if len(entities) != len(self.wanted):
            return self.error("Error: Got error -1 Bad parameter passed to function while adding GPU", -1)
        self.print_header()
        refused = self.refused()
        if refused is not None:
            return self.error(*refused)
        prints = 0
        while True:
            self.scenario = read(self.folder)
            if self.scenario.engine != "up":
                return self.error("Error getting values information. Return -21: connection not valid", -21)
            if not self.scenario.stalled:
                for line in self.scenario.noise:
                    print(line)
                for name, gpu in sorted(entities, reverse=self.scenario.descending):
                    self.print_row(name, gpu, prints)
                sys.stdout.flush()
            prints += 1
            if prints == self.count:
                return 0
            time.sleep(self.delay_s)
            if prints % HEADER_EVERY == 0 and not self.scenario.stalled:
                if self.scenario.version == 2:
                    print()
                self.print_header()

    def entities(self) -> Iterable[tuple[str, Gpu]]:
        """Name and course of what was asked for."""
        for card in self.scenario.cards:
            if str(card.number) in self.wanted:
                yield f"GPU {card.number}", Gpu(segments=card.segments, origin_s=card.origin_s)
            for its in card.instances:
                if f"i:{its.entity}" in self.wanted:
                    yield f"GPU-I {its.entity}", Gpu(segments=its.segments, origin_s=card.origin_s)

    def refused(self) -> tuple[str, int] | None:
        if self.scenario.locked and set(self.fields) & set(PROFILING):
            return f"Error setting watches. Result: {self.code(-37)}{LOCKED}", -37
        if set(self.fields) & set(self.scenario.unsupported):
            return f"Error setting watches. Result: {self.code(-6)}Feature not supported", -6
        return None

    def code(self, number: int) -> str:
        return "" if self.scenario.version == 2 else f"{number}: "

    def error(self, words: str, code: int) -> int:
        print(words, file=sys.stdout if self.scenario.version == 2 else sys.stderr)
        return code % 256

    def print_header(self) -> None:
        names = [SHORT_NAMES.get(field_id, f"F{field_id}") for field_id in self.fields]
        units = ["W" if field_id == 155 else "" for field_id in self.fields]
        if self.scenario.version == 2:
            cells = ((f"# {'Entity':>6}", names), (f"{'Id':>8}", units))
            for head, words in cells:
                print(head + "".join(f"{word:>{self.width(at) + 2}}" for at, word in enumerate(words)))
        else:
            for head, words in (("#Entity", names), ("ID", units)):
                print(
                    f"{head:<10}" + "".join(f"{word:<{self.width(at) + 8}}" for at, word in enumerate(words))
                )
        sys.stdout.flush()

    def width(self, place: int) -> int:
        return WIDTHS.get(self.fields[place], 5)

    def print_row(self, name: str, gpu: Gpu, prints: int) -> None:
        cells = [self.cell(field_id, gpu, prints) for field_id in self.fields]
        if self.scenario.version == 2:
            kind, number = name.split()
            print(
                f"{kind:>8} {number}"
                + "".join(f"{cell:>{self.width(at) + 2}}" for at, cell in enumerate(cells))
            )
        else:
            widths = (self.width(at) for at in range(len(cells)))
            fitted = (f"{fit(cell, its + 6):<{its + 8}}" for cell, its in zip(cells, widths, strict=True))
            print(f"{name:<10}" + "".join(fitted))

    def cell(self, field_id: int, gpu: Gpu, prints: int) -> str:
        now = time.clock_gettime(time.CLOCK_BOOTTIME)
        updated = self.watched_s + (now - self.watched_s) // self.delay_s * self.delay_s
        changed = self.scenario.values.get(str(field_id))
        if changed is not None:
            return changed
        if field_id not in PROFILING:
            segment = gpu.segment_at(updated)
            plain = {100: segment.sm_clock_mhz, 203: 100 * segment.utilisation_ratio}
            return f"{segment.power_watts:.3f}" if field_id == 155 else f"{plain[field_id]:.0f}"
        first = prints == 0 and self.scenario.first_is_blank
        other = self.scenario.every_other_blank and prints % 2 == 1
        if first or other or self.scenario.paused or updated <= self.watched_s:
            return self.scenario.blank
        return f"{mean(gpu, field_id, updated - self.delay_s, updated):.3f}"


def fit(text: str, width: int) -> str:
    """Cut to its column, as DCGM does it."""
    return text if len(text) <= width else f"{text[: width - 3]}..."


def mean(gpu: Gpu, field_id: int, start_s: float, end_s: float) -> float:
    """The hardware's mean: by cycles, but for memory."""
    held = gpu.seconds_in_segments(start_s, end_s)
    name = {1004: "tensor_ratio", 1002: "sm_active_ratio", 1005: "dram_active_ratio"}[field_id]
    weights = [
        seconds * (segment.sm_clock_mhz if field_id != 1005 else 1.0)
        for seconds, segment in zip(held, gpu.segments, strict=True)
    ]
    parts = (weight * getattr(segment, name) for weight, segment in zip(weights, gpu.segments, strict=True))
    return float(sum(parts)) / sum(weights)
