"""Executables that stand in for Slurm's client commands and misbehave, each in its own way."""

from __future__ import annotations

from pathlib import Path

from slurm_ofu.slurm.accounting_text import COLUMNS, MARK
from slurm_ofu.values import AccountingConfig

HELPFORMAT = "echo " + " ".join(COLUMNS)
#: One row of every column, in shell: $D is the delimiter, $1 the job id.
ROW = r"""
row() {
    printf '%s' "$1" "$D" "$1" "$D" c1 "$D" COMPLETED "$D" 0:0 "$D" 1700000000 "$D" 1700000000 "$D" \
        1700000001 "$D" 1700000009 "$D" 8 "$D" 00:00:00 "$D" 60 "$D" 1 "$D" n1 "$D" gres/gpu=2 "$D" \
        alice "$D" 1000 "$D" astro "$D" gpu "$D" normal "$D" 0 "$D" s1 "$D" name "$D" "$D" "$D" "$D" "$1"
    echo
}
"""
START = f"""#!/bin/sh
D=''
for argument; do
    case "$argument" in
        --helpformat) HELP=1 ;;
        --delimiter=*) D="${{argument#--delimiter=}}" ;;
    esac
done
{ROW}
"""


def fake(folder: Path, body: str, *, helpformat: str = HELPFORMAT, name: str = "sacct") -> AccountingConfig:
    """A command that prints `helpformat` when asked for it, and else does what `body` says."""
    command = folder / name
    command.write_text(f'{START}if [ "$HELP" ]; then {helpformat}; exit; fi\n{body}\n')
    command.chmod(0o755)
    return AccountingConfig(bin_dir=str(folder), slurm_conf=str(folder / "slurm.conf"))


def printed(fields: dict[str, str], delimiter: str) -> bytes:
    """A row as sacct prints it."""
    values = [fields[name] for name in (*COLUMNS, MARK)]
    return (delimiter.join(values) + "\n").encode("utf-8", "surrogateescape")
