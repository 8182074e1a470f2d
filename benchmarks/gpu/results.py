"""What was found so far, on disk at every moment: whoever ends the script early keeps it."""

import json
import os
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from benchmarks.gpu.report import report


@dataclass(slots=True)
class Results:
    """The result file and the report beside it, written anew after every part."""

    path: Path
    table: dict[str, Any] = field(default_factory=dict)

    @property
    def report_path(self) -> Path:
        """Where the Markdown goes."""
        return self.path.with_suffix(".md")

    def put(self, name: str, value: Any) -> None:
        """Keep something, under a dotted name."""
        *sections, last = name.split(".")
        table = self.table
        for section in sections:
            table = table.setdefault(section, {})
        table[last] = value
        self._write()

    def add(self, name: str, value: Any) -> None:
        """Append something to a list."""
        self.table.setdefault(name, []).append(value)
        self._write()

    def problem(self, part: str, what: str) -> None:
        """A part that could not be done, and why."""
        self.add("problems", {"part": part, "what": what})

    def _write(self) -> None:
        text = json.dumps(self.table, indent=1, ensure_ascii=False, allow_nan=False)
        for path, content in ((self.path, text), (self.report_path, report(self.table))):
            unfinished = path.with_name(f"{path.name}.{os.getpid()}.part")
            unfinished.write_text(content + "\n", encoding="utf-8")
            unfinished.replace(path)
