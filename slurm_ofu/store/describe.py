"""Print docs/schema.md: the accounting database, described from itself.

python -m slurm_ofu.store.describe > docs/schema.md
"""

import sqlite3
import sys
from contextlib import closing

from slurm_ofu.store.columns import COLUMNS, RELATIONS
from slurm_ofu.store.schema import CREATE_VIEWS, MIGRATIONS, SCHEMA_VERSION

_PREFACE = """\
# The accounting database

Generated from the database itself by `python -m slurm_ofu.store.describe`; do not edit.

One SQLite file, schema {version} (`PRAGMA user_version`). It opens as it is with `sqlite3`, sqlite-utils and
datasette. NULL always means "not known" or "not measured", never 0. Rows and views hold sums: a ratio is one
sum divided by another, so `SUM(tensor_ref_seconds) / SUM(ofu_covered_seconds)` over any rows of `run_sums` is
their OFU. Times are seconds since 1970, UTC.
"""


def schema_page() -> str:
    """The text of docs/schema.md."""
    with closing(sqlite3.connect(":memory:")) as opened:
        for statement in (*(text for _, texts in MIGRATIONS for text in texts), *CREATE_VIEWS):
            opened.execute(statement)
        sections = [_PREFACE.format(version=SCHEMA_VERSION)]
        sections += [_relation(opened, name, meaning) for name, meaning in RELATIONS.items()]
        return "\n".join(sections)


def _relation(opened: sqlite3.Connection, name: str, meaning: str) -> str:
    lines = [f"## {name}", "", meaning, "", "| column | type | meaning |", "|---|---|---|"]
    for _, column, kind, not_null, _, key in opened.execute(f"PRAGMA table_info({name})"):
        # SQLite's versions differ in the type that they give to a view's sum
        words = [
            kind if kind in ("INTEGER", "TEXT") else "REAL",
            "NOT NULL" if not_null else "",
            "(key)" if key else "",
        ]
        lines.append(f"| `{column}` | {' '.join(filter(None, words))} | {COLUMNS[name][column]} |")
    uniques = [_columns(opened, index) for index, origin in _indexes(opened, name) if origin == "u"]
    lines += ["", *(f"Unique: {', '.join(columns)}." for columns in uniques)] if uniques else []
    return "\n".join(lines) + "\n"


def _indexes(opened: sqlite3.Connection, table: str) -> list[tuple[str, str]]:
    return [(row[1], row[3]) for row in opened.execute(f"PRAGMA index_list({table})")]


def _columns(opened: sqlite3.Connection, index: str) -> list[str]:
    return [row[2] for row in opened.execute(f"PRAGMA index_info({index})")]


if __name__ == "__main__":
    sys.stdout.write(schema_page())
