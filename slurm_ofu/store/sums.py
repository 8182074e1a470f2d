"""Sums over the selected runs: whole ones added up by the database, cut ones piece by piece."""

import sqlite3
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby
from math import inf
from operator import itemgetter
from typing import Any, Final

from slurm_ofu.store.connection import dicts, each_dict
from slurm_ofu.store.queries import (
    AMONG_DIVIDED,
    DIVIDED,
    SUMMED,
    VARIANCES,
    fill_divided,
    labels_query,
    parts_query,
    parts_usage_query,
    quarters_query,
    runs_query,
    spans_query,
    usage_query,
)
from slurm_ofu.store.ranking import BANDS, goal_by_partition
from slurm_ofu.store.run_rows import run_row
from slurm_ofu.store.selection import BEGIN, GROUPS, PART_GROUPS, Clause, cut, where, whole
from slurm_ofu.store.windows import Cell, Edges, PartKey, Row, add_pieces, add_row, no_sums
from slurm_ofu.values import Goals, Selection, StoredGroup, UsageRow, UsageSums

_Labels = tuple[set[str], set[str], set[str]]  # estimators, reasons, GPU models
_DENOMINATORS: Final = frozenset(
    (
        *("gpu_count", "gpu_count_unknown_time", "ranked_seconds"),
        *(name for name in SUMMED if name.endswith("covered_seconds")),
    )
)


@dataclass(frozen=True, slots=True)
class Asking:
    """One question to an open database."""

    opened: sqlite3.Connection
    goals: Goals

    def usage(self, selection: Selection, by: StoredGroup) -> list[UsageRow]:
        """A row per group; by job: a row per run, oldest first."""
        group = PART_GROUPS.get(by) or GROUPS[by]
        sums = self._sums(group, selection)
        if by != "job":
            names = sorted(sums, key=lambda name: (name is not None, name or ""))
            return [UsageRow(group=name, sums=sums[name]) for name in names]
        return self._with_runs(where(selection), sums)

    def run(self, run_id: int) -> UsageRow | None:
        """One run, whole."""
        clause: Clause = ("run_id = ?", [run_id])
        sums = _all_sums(self._whole("run_id", clause), self._labels("run_id", clause))
        return next(iter(self._with_runs(clause, sums)), None)

    def course(self, selection: Selection, edges: Sequence[float]) -> list[UsageRow]:
        """A row for each span from one edge to the next."""
        lower = -inf if selection.start_epoch_s is None else selection.start_epoch_s
        upper = inf if selection.end_epoch_s is None else selection.end_epoch_s
        spans = Edges(tuple(min(max(edge, lower), upper) for edge in edges))
        rows, labels = _no_rows(spans.span_count), _no_labels()
        if spans.span_count > 0 and spans.at[0] < spans.at[-1]:
            self._fill_course(selection, spans, rows, labels)
        return [
            UsageRow(group=str(edge), sums=usage_sums(rows[number], *labels[number]))
            for number, edge in enumerate(edges[:-1])
        ]

    def _fill_course(
        self, selection: Selection, spans: Edges, rows: dict[Any, Row], labels: dict[Any, _Labels]
    ) -> None:
        self.opened.create_function("span_of", 1, spans.first, deterministic=True)
        self.opened.create_function("last_span_of", 2, spans.last, deterministic=True)
        clause, parameters = where(selection)
        clause += f" AND {BEGIN} < ? AND end_epoch_s >= ?"
        parameters += [spans.at[-1], spans.at[0]]
        group = f"span_of({BEGIN})"
        inside = f"{BEGIN} >= ? AND {group} = last_span_of({BEGIN}, end_epoch_s)"
        ours: Clause = (f"{clause} AND {inside}", [*parameters, spans.at[0]])
        divided: Clause = (
            f"{clause} AND (end_epoch_s > ? OR {BEGIN} >= ?) AND NOT ({inside})",
            [*parameters, spans.at[0], spans.at[0], spans.at[0]],
        )
        for number, row in self._whole(group, ours).items():
            add_row(rows[number], row)
        for number, its in self._labels(group, ours).items():
            _join(labels[number], its)
        self._add_divided(divided, spans, rows, labels)

    def _add_divided(
        self, divided: Clause, spans: Edges, rows: dict[Any, Row], labels: dict[Any, _Labels]
    ) -> None:
        # Which they are is asked once: each question would call us for each run.
        self.opened.execute(DIVIDED)
        self.opened.execute(fill_divided(divided[0]), divided[1])
        divided = (AMONG_DIVIDED, [])
        of_run = self._labels("run_id", divided)

        def total_of(run_id: int, number: int) -> Row:
            _join(labels[number], of_run[run_id])
            return rows[number]

        self._add_pieces(total_of, "run_id", divided, spans)

    def _sums(self, group: str, selection: Selection) -> dict[Any, UsageSums]:
        rows: dict[Any, Row] = defaultdict(no_sums, self._whole(group, whole(selection)))
        divided = cut(selection)
        if divided is not None:
            start, end = selection.start_epoch_s, selection.end_epoch_s
            edges = Edges((-inf if start is None else start, inf if end is None else end))
            self._add_pieces(lambda name, _: rows[name], group, divided, edges)
        return _all_sums(rows, self._labels(group, where(selection)))

    def _whole(self, group: str, clause: Clause) -> dict[Any, Row]:
        goal, goals = goal_by_partition(self.goals)
        query = parts_usage_query if group in PART_GROUPS.values() else usage_query
        rows = dicts(self.opened, query(group, clause[0], goal), clause[1] + goals)
        return {row.pop("grp"): row for row in rows}

    def _add_pieces(
        self, total_of: Callable[[Any, int], Row], group: str, clause: Clause, edges: Edges
    ) -> None:
        """Add each run's sums in each span to those of its group there."""
        goal, goals = goal_by_partition(self.goals)
        times = {run_id: time for run_id, *time in self.opened.execute(spans_query(clause[0]), clause[1])}
        if not times:
            return
        self.opened.create_function("cell_of", 3, edges.cell, deterministic=True)
        quarters = _by_run(self.opened.execute(quarters_query(clause[0]), clause[1]))
        parts = each_dict(self.opened, parts_query(group, clause[0], goal), clause[1] + goals)
        run_id, cells = next(quarters, (inf, {}))
        for which, its in groupby(parts, itemgetter("run_id")):
            while run_id < which:
                run_id, cells = next(quarters, (inf, {}))
            begin, end = times[which]
            add_pieces(total_of, its, cells if run_id == which else {}, begin, end, edges)

    def _labels(self, group: str, clause: Clause) -> dict[Any, _Labels]:
        labels = _no_labels()
        for name, *words in self.opened.execute(labels_query(group, clause[0]), clause[1]):
            for seen, word in zip(labels[name], words, strict=True):
                seen.update(() if word is None else (word,))
        return labels

    def _with_runs(self, clause: Clause, sums: dict[Any, UsageSums]) -> list[UsageRow]:
        return [
            UsageRow(group=str(row["job_id"]), sums=sums[row["run_id"]], run=run_row(row))
            for row in dicts(self.opened, runs_query(clause[0]), clause[1])
        ]


def usage_sums(row: Row, estimators: set[str], reasons: set[str], models: set[str]) -> UsageSums:
    """Numerators may be NULL: nothing measured. Denominators of nothing are 0 seconds."""
    named = (*SUMMED, *VARIANCES, "lost_seconds", "ranked_seconds")
    same: dict[str, Any] = {
        name: 0.0 if row[name] is None and name in _DENOMINATORS else row[name] for name in named
    }
    same["gpu_count"] = float(same["gpu_count"])
    same["gpu_count_unknown_time"] = float(same["gpu_count_unknown_time"])
    bands = tuple(row[name] or 0 for name in BANDS)
    return UsageSums(
        **same,
        run_count=row["run_count"],
        band_run_counts=bands if any(bands) else (),
        non_tensor_run_count=row["non_tensor_run_count"] or 0,
        unmeasured_run_count=row["unmeasured_run_count"] or 0,
        running_run_count=row["running_run_count"] or 0,
        prorated_run_count=row.get("prorated_run_count", 0),
        estimators=tuple(sorted(estimators)),
        reasons=tuple(sorted(reasons)),
        gpu_models=tuple(sorted(models)),
    )


def _all_sums(rows: dict[Any, Row], labels: dict[Any, _Labels]) -> dict[Any, UsageSums]:
    return {name: usage_sums(row, *labels[name]) for name, row in rows.items()}


def _no_rows(count: int) -> dict[Any, Row]:
    return {number: no_sums() for number in range(count)}


def _no_labels() -> dict[Any, _Labels]:
    return defaultdict(lambda: (set(), set(), set()))


def _join(labels: _Labels, more: _Labels) -> None:
    for seen, words in zip(labels, more, strict=True):
        seen.update(words)


def _by_run(rows: sqlite3.Cursor) -> Iterator[tuple[float, dict[PartKey, list[Cell]]]]:
    for run_id, its in groupby(rows, itemgetter(0)):
        cells: dict[PartKey, list[Cell]] = {}
        for _, node, gpu_model, cell, quarter, *amounts in its:
            cells.setdefault((node, gpu_model), []).append((cell, quarter, amounts))
        yield run_id, cells
