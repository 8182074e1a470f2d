"""What may be put into a comment field of Slurm's accounting, and of which row. Pure.

A row is addressed so that `sacctmgr modify job` changes it alone: an array's task as ``A_T`` and a component
as ``L+O``, since the raw id of the one that bears the array's or the leader's number changes all of them.
What sacctmgr carries over byte for byte depends on its version; see :func:`hindrance`.
"""

import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Final, Literal

from slurm_ofu.values import AccountingRow

#: The fields that hold free text, and where an accounting row has them.
FIELDS: Final = {"SystemComment": "system_comment", "AdminComment": "admin_comment", "Comment": "comment"}
LONGEST_BYTES: Final = 65535  # of the database's column; what is longer would be cut
_KEEPS_CAPITALS: Final = (23, 2)  # before, sacctmgr wrote everything small
_CLUSTER: Final = re.compile(r"[A-Za-z0-9_.-]+")


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """One run that is to be written to, and what is to stand there."""

    run_id: int
    cluster: str
    job_id: int  # raw
    submit_epoch_s: int  # of its last row in accounting
    token: str
    array_job_id: int | None = None
    array_task_id: int | None = None
    het_job_id: int | None = None
    het_offset: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Composing:
    """How our token and others' text share a field; the token's form is for others to know."""

    with_token: Callable[[str, str], str]
    has_newer_token: Callable[[str], bool]


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """What is to be done about one target: ``text`` to be written, or that nothing is, and why."""

    target: Target
    kind: Literal["write", "written", "left_alone", "superseded", "failed"]
    text: str = ""
    message: str | None = None


def address(target: Target) -> str:
    """What `sacctmgr modify job where jobid=` and `sacct -j` are given."""
    if target.array_job_id is not None and target.array_task_id is not None:
        return f"{target.array_job_id}_{target.array_task_id}"
    if target.het_job_id is not None and target.het_offset is not None:
        return f"{target.het_job_id}+{target.het_offset}"
    return str(target.job_id)


def step(
    target: Target,
    rows: Iterable[AccountingRow],
    *,
    field: str,
    version: tuple[int, int],
    composing: Composing,
) -> Step:
    """What is to be done about a target, ``rows`` being all that accounting has by its address."""
    found = _the_row(target, rows, field)
    if isinstance(found, Step):
        return found
    text = text_in(found, field)
    wanted = composing.with_token(text, target.token)
    if wanted == text:
        return Step(target=target, kind="written", text=text)
    if composing.has_newer_token(text):
        return _left_alone(target, "a newer slurm-ofu has written there")
    if why := hindrance(wanted, version):
        return _left_alone(target, f"{field} holds a text that sacctmgr would not carry over: {why}")
    return Step(target=target, kind="write", text=wanted)


def outcome(written: Step, rows: Iterable[AccountingRow], *, field: str, said: str) -> Step:
    """What became of a step, by the rows that accounting has now; ``said``: sacctmgr, where it complained."""
    found = _the_row(written.target, rows, field)
    if isinstance(found, Step):
        return found
    text = text_in(found, field)
    if text == written.text:
        return Step(target=written.target, kind="written", text=text)
    message = f"{field} holds {text[:100]!r} after writing {written.text[:100]!r}"
    return Step(target=written.target, kind="failed", message=f"{message}; {said}" if said else message)


def text_in(row: AccountingRow, field: str) -> str:
    """What a row has in a field."""
    return getattr(row, FIELDS[field]) or ""


def hindrance(text: str, version: tuple[int, int]) -> str | None:
    """Why sacctmgr of this version would change a text; ``None``: it is carried over byte for byte.

    Seen on 22.05, 24.11 and 26.05: quotes become backticks or end the value, tabs vanish, blanks at either
    end may vanish; before 23.02 capitals are written small. Whether characters beyond ASCII survive depends
    on the database's character set. A backslash survived, but might not with another mode of the database.
    """
    if not text.isascii():
        return "characters beyond ASCII"
    if set(text) & set("\"'"):
        return "quotes"
    if "\\" in text:
        return "backslashes"
    if not text.isprintable():
        return "control characters or line ends"
    if text != text.strip():
        return "blanks at an end"
    if version < _KEEPS_CAPITALS and text != text.lower():
        return "capitals, which this version of Slurm writes small"
    if len(text) > LONGEST_BYTES:
        return f"more than {LONGEST_BYTES} bytes with the token"
    return None


def commands(steps: Sequence[Step], field: str) -> str:
    """Lines for sacctmgr's stdin, one per step. The texts have no :func:`hindrance`."""
    return "".join(
        f"modify job where cluster={one.target.cluster} jobid={address(one.target)}"
        f' set {field}="{one.text}"\n'
        for one in steps
    )


def _left_alone(target: Target, message: str) -> Step:
    return Step(target=target, kind="left_alone", message=message)


def _the_row(target: Target, rows: Iterable[AccountingRow], field: str) -> AccountingRow | Step:
    """The last row of our run, where sacctmgr would change that run alone; else why it is not to be.

    sacctmgr changes the last life of each job that it finds by an address, all segments of it.
    """
    at = address(target)
    lives = [row for row in rows if row.cluster == target.cluster and at in _addresses(row)]
    own = [row for row in lives if row.job_id == target.job_id]
    if not own:
        return Step(target=target, kind="failed", message="Slurm's accounting has no such job")
    row = max(own, key=lambda one: one.submit_epoch_s)
    if row.submit_epoch_s != target.submit_epoch_s:
        return Step(target=target, kind="superseded", message="the job id has another life or job since")
    if others := sorted({one.job_id for one in lives} - {target.job_id}):
        named = ", ".join(map(str, others))
        return _left_alone(target, f"jobid={at} would change other jobs too (raw ids {named})")
    if row.end_epoch_s is None:
        return Step(target=target, kind="failed", message=f"not over yet by Slurm's accounting ({row.state})")
    texts = {text_in(one, field) for one in own if one is row or one.state == "RESIZING"}
    if len(texts) > 1:
        return _left_alone(target, f"the rows of this resized job differ in {field}")
    if not _CLUSTER.fullmatch(target.cluster):
        return _left_alone(target, f"cluster {target.cluster!r} cannot be named to sacctmgr")
    return row


def _addresses(row: AccountingRow) -> tuple[str, ...]:
    """Every jobid= that changes a row."""
    found = [str(row.job_id)]
    if row.array_job_id is not None:
        found += [str(row.array_job_id), f"{row.array_job_id}_{row.array_task_id}"]
    if row.het_job_id is not None:
        found += [str(row.het_job_id), f"{row.het_job_id}+{row.het_offset}"]
    return tuple(found)
