"""Which life of Slurm's accounting is which run."""

from slurm_ofu.store.linking import ToldRun, link
from slurm_ofu.store.lives import StoredRow, lives_of
from slurm_ofu.values import AccountingRow
from tests.store.accounting_rows import START_S, make_row

HOUR, DAY = 3600, 86400


def make_run(
    run_id: int,
    start: float | None,
    end: float,
    *,
    count: int = 0,
    certain: bool = True,
    sluid: str | None = None,
    uid: int | None = 1000,
    user: str | None = "ada",
) -> ToldRun:
    """What nodes told of a run, in seconds from START_S."""
    return ToldRun(
        run_id=run_id,
        restart_count=count,
        restart_certain=certain,
        sluid=sluid,
        uid=uid,
        user=user,
        start_epoch_s=None if start is None else START_S + start,
        end_epoch_s=START_S + end,
    )


def life(start: int, end: int | None, **words: object) -> AccountingRow:
    """A row, in seconds from START_S."""
    ends = None if end is None else START_S + end
    state = "RUNNING" if end is None else "COMPLETED"
    return make_row(start=START_S + start, end=ends, **{"state": state, **words})  # type: ignore[arg-type]


def _links(rows: list[AccountingRow], runs: list[ToldRun]) -> dict[int, int]:
    """By run_id, the start of its life, in seconds from START_S."""
    pairs = link(lives_of([StoredRow(row=row) for row in rows]), runs)
    return {run_id: its.start_epoch_s - START_S for run_id, its in sorted(pairs.items())}


def test_equal_sluids_beat_everything() -> None:
    """The same SLUID is the same life, whatever the times say."""
    rows = [life(0, 100, sluid="sA"), life(300, 400, sluid="sB")]
    assert {1: 300} == _links(rows, [make_run(1, 0, 100, sluid="sB")])


def test_different_sluids_are_never_one_life() -> None:
    """Where both have one and they differ, no times make them one."""
    assert {} == _links([life(0, 100, sluid="sA")], [make_run(1, 0, 100, sluid="sB")])


def test_an_epilogs_sluid_decides_nothing() -> None:
    """It may be the next life's: the times decide."""
    rows = [life(0, 100, sluid="sA", restart_count=0), life(300, 400, sluid="sB", restart_count=1)]
    assert {1: 0} == _links(rows, [make_run(1, None, 100, count=1, certain=False, sluid="sB")])


def test_a_segment_brings_its_sluid() -> None:
    """Each segment of a resized job has a SLUID of its own; the prolog was told the first."""
    rows = [
        life(0, 10, state="RESIZING", sluid="sA", node_list="n[1-2]"),
        make_row(submit=START_S + 10, end=START_S + 20, sluid="sB"),
    ]
    assert {1: 0} == _links(rows, [make_run(1, 5000, 5020, sluid="sA")])


def test_restart_counts_decide_where_slurm_says_them() -> None:
    """24.11 and later: the prolog's restart count is the row's, however wrong a clock is."""
    rows = [life(0, 100, restart_count=0), life(200, 300, restart_count=1)]
    assert {1: 200} == _links(rows, [make_run(1, 0, 100, count=1)])
    assert {} == _links(rows, [make_run(1, 0, 100, count=2)])


def test_a_requeue_on_22_05_is_told_by_the_times() -> None:
    """C42: without a restart count in the rows, each run lies nearest to its own life."""
    rows = [life(0, 1000, state="REQUEUED"), life(1120, 3000)]
    runs = [make_run(1, 1, 1002), make_run(2, 1121, 3001, count=1)]
    assert {1: 0, 2: 1120} == _links(rows, runs)
    assert {1: 0} == _links(rows, runs[:1])
    assert {2: 1120} == _links(rows, runs[1:])


def test_a_run_that_overlaps_its_life_needs_no_earlier_row() -> None:
    """The first life's row was purged: the second is found nevertheless."""
    assert {2: 1120} == _links([life(1120, 3000)], [make_run(2, 1121, 3001, count=1)])


def test_clocks_an_hour_off_keep_the_order_of_lives() -> None:
    """22.05, short lives, a node an hour ahead: runs and lives are paired in their order."""
    rows = [life(0, 600, state="REQUEUED"), life(720, 1320)]
    runs = [make_run(1, HOUR, HOUR + 600), make_run(2, HOUR + 720, HOUR + 1320, count=1)]
    assert {1: 0, 2: 720} == _links(rows, runs)


def test_clocks_an_hour_off_and_a_run_that_is_missing() -> None:
    """Where the spans do not meet, the restart count tells which life it was."""
    rows = [life(0, 600, state="REQUEUED"), life(720, 1320)]
    assert {1: 0} == _links(rows, [make_run(1, HOUR, HOUR + 600)])
    assert {1: 0} == _links(rows, [make_run(1, -HOUR, -HOUR + 600)])
    assert {2: 720} == _links(rows, [make_run(2, -HOUR, -HOUR + 600, count=1)])


def test_clocks_that_disagree_between_the_lives() -> None:
    """Two nodes, one of them an hour ahead: the restart counts order the runs, not their clocks."""
    rows = [life(0, 600, state="REQUEUED"), life(720, 1320)]
    runs = [make_run(1, HOUR, HOUR + 600), make_run(2, 720, 1320, count=1)]
    assert {1: 0, 2: 720} == _links(rows, runs)


def test_another_user_is_another_job() -> None:
    """C57: ids that wrap: the row of another user is never this run's, an unknown user fits."""
    assert {} == _links([life(0, 100, uid=2000, user="eve")], [make_run(1, 0, 100)])
    assert {} == _links([life(0, 100, uid=None, user="eve")], [make_run(1, 0, 100, uid=None)])
    assert {1: 0} == _links([life(0, 100, uid=None, user=None)], [make_run(1, 0, 100)])


def test_an_id_that_came_back_finds_its_own_year() -> None:
    """C57: the same id and user, years apart: each run has the life of its time, and none is stretched."""
    rows = [life(0, 100), life(400 * DAY, 400 * DAY + 100)]
    runs = [make_run(1, 400 * DAY, 400 * DAY + 99), make_run(2, 0, 99)]
    assert {1: 400 * DAY, 2: 0} == _links(rows, runs)
    assert {} == _links(rows, [make_run(3, 200 * DAY, 200 * DAY + 99)])


def test_a_life_has_one_run() -> None:
    """Two runs, one life: the nearer one is its, the other has none."""
    assert {2: 0} == _links([life(0, 100)], [make_run(1, 5000, 5100), make_run(2, 0, 100)])


def test_runs_of_epilogs_alone_get_what_is_left() -> None:
    """Their restart count may be one too high; a certain run goes first."""
    rows = [life(0, 100, state="REQUEUED", restart_count=0), life(300, 400, restart_count=1)]
    runs = [make_run(1, None, 101, count=1, certain=False), make_run(2, 300, 401, count=1)]
    assert {1: 0, 2: 300} == _links(rows, runs)


def test_a_life_that_goes_on_keeps_its_run() -> None:
    """A node whose part is over already belongs to the life that still runs, not to the one before."""
    rows = [life(0, 100, state="REQUEUED"), life(300, None)]
    assert {1: 300} == _links(rows, [make_run(1, 301, 350, count=1)])


def test_many_lives_are_all_found() -> None:
    """A job that was preempted forty times: forty runs, each with its life."""
    rows = [life(at * 500, at * 500 + 300, state="PREEMPTED") for at in range(40)]
    runs = [make_run(at, at * 500 + 1, at * 500 + 302, count=at) for at in range(40)]
    assert {at: at * 500 for at in range(40)} == _links(rows, runs)
