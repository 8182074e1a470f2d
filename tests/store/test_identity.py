"""Which run a record belongs to."""

from slurm_ofu.store.identity import StoredRun, Told, certain_run, epilog_run, uncertain_run

DAY = 86400.0


def make_run(
    run_id: int,
    start: float,
    end: float,
    *,
    count: int = 0,
    certain: bool = True,
    sluid: str | None = None,
    uid: int | None = None,
) -> StoredRun:
    """A stored run."""
    return StoredRun(
        run_id=run_id,
        restart_count=count,
        restart_certain=certain,
        incarnation=0,
        sluid=sluid,
        uid=uid,
        start_epoch_s=start,
        end_epoch_s=end,
    )


def make_told(
    start: float, end: float, *, count: int = 0, sluid: str | None = None, uid: int | None = None
) -> Told:
    """What a record says."""
    return Told(restart_count=count, sluid=sluid, uid=uid, start_epoch_s=start, end_epoch_s=end)


def _id(run: StoredRun | None) -> int | None:
    return None if run is None else run.run_id


def test_a_day_apart_is_the_same_run_and_more_is_not() -> None:
    """A run's span widened by a day tells it from a job id that came back."""
    runs = [make_run(1, 0.0, 100.0)]
    assert 1 == _id(certain_run(make_told(DAY + 100, 8 * DAY), runs))
    assert _id(certain_run(make_told(DAY + 101, 8 * DAY), runs)) is None


def test_an_epilog_of_another_day_joins_no_life_by_its_sluid() -> None:
    """An epilog alone may speak with the next life's SLUID: its end decides always."""
    runs = [make_run(1, 0.0, 100.0, sluid="sA"), make_run(2, 90_000.0, 90_100.0, sluid="sB")]
    assert 1 == _id(epilog_run(make_told(100, 100, count=1, sluid="sB"), runs[:1]))
    assert _id(epilog_run(make_told(5_000, 5_000, count=1, sluid="sB"), runs)) is None


def test_another_restart_count_is_another_run() -> None:
    """A prolog's restart count is believed."""
    assert _id(certain_run(make_told(0, 100, count=1), [make_run(1, 0.0, 100.0)])) is None


def test_a_sluid_decides_where_both_have_one() -> None:
    """Equal SLUIDs are one run and different ones two; without one the times decide."""
    runs = [make_run(1, 0.0, 100.0, sluid="sA"), make_run(2, 0.0, 100.0, sluid="sB")]
    assert 2 == _id(certain_run(make_told(90 * DAY, 91 * DAY, sluid="sB"), runs))
    assert _id(certain_run(make_told(0, 100, sluid="sC"), runs)) is None
    assert 1 == _id(certain_run(make_told(0, 100), runs))


def test_another_user_is_another_run() -> None:
    """Two users never share a run; an unknown one fits either."""
    runs = [make_run(1, 0.0, 100.0, uid=5)]
    assert _id(certain_run(make_told(0, 100, uid=6), runs)) is None
    assert 1 == _id(certain_run(make_told(0, 100), runs))


def test_an_epilog_belongs_to_the_life_that_its_end_is_nearest_to() -> None:
    """Of the lives up to its restart count, within two minutes, the nearest one."""
    runs = [make_run(1, 0.0, 1000.0), make_run(2, 1150.0, 3000.0, count=1)]
    for end, expected in [(1000.0, 1), (1070.0, 1), (1080.0, 2), (3000.0, 2), (3121.0, None)]:
        assert expected == _id(epilog_run(make_told(end, end, count=1), runs))
    assert _id(epilog_run(make_told(3000, 3000, count=0), runs)) is None


def test_epilogs_alone_meet_within_two_minutes() -> None:
    """Epilogs of one run end together, so those of another life stay apart."""
    runs = [make_run(1, 1000.0, 1000.0, certain=False)]
    assert 1 == _id(uncertain_run(make_told(1100, 1100), runs))
    assert _id(uncertain_run(make_told(1121, 1121), runs)) is None
