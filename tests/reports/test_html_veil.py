"""Who may be named in the static pages."""

from slurm_ofu.reports.html_veil import HIDDEN, PERSONAL, Veil, asked_for, users_of
from slurm_ofu.values import Selection, UsageRow
from tests.figures.examples import measured
from tests.reports.examples import accounted, job_row

ROWS = [
    job_row(1, **accounted(user="wilma", account="wilma", state="CANCELLED by 1000", comment="wilma's")),
    job_row(2, **accounted(user="fred", account="physics", qos="fred-high")),
]
SEEN = Veil(show_users=True, users=users_of(ROWS))
VEILED = Veil(show_users=False, users=users_of(ROWS))


def test_nothing_that_could_name_a_user_is_left() -> None:
    """Without users a run has neither user nor job name, nor the uid of who cancelled it."""
    run = VEILED.row(ROWS[0]).run
    assert run is not None
    assert (HIDDEN, None, None, "CANCELLED") == (run.user, run.job_name, run.comment, run.state)


def test_names_made_of_a_user_name_are_not_told() -> None:
    """An account or QOS that is a user's name, or has one in it, is not told apart; others are."""
    names = ("wilma", "gpu_wilma", "Wilma.2", "wilmas-fred", "wilmas", "mywilma", "physics", None)
    accounts = [VEILED.account(name) for name in names]
    assert [*[PERSONAL] * 4, "wilmas", "mywilma", "physics", None] == accounts
    compound = Veil(show_users=False, users=frozenset(("wilma_f", "al")))
    assert [PERSONAL, PERSONAL, "wilma"] == [compound.account(name) for name in ("x-wilma_f", "al", "wilma")]
    run = VEILED.row(ROWS[1]).run
    assert run is not None
    assert ("physics", PERSONAL) == (run.account, run.qos)


def test_where_users_are_shown_only_comments_are_not() -> None:
    """A comment may say anything, so no page ever shows it; all else stays as it was."""
    run = SEEN.row(ROWS[0]).run
    assert run is not None
    assert ("wilma", "wilma", "train", None) == (run.user, run.account, run.job_name, run.comment)


def test_groups_named_after_users_are_pooled() -> None:
    """The personal accounts become one line whose sums are theirs."""
    rows = [UsageRow(group=name, sums=measured()) for name in ("physics", "wilma", "fred_x")]
    names = [(row.group, row.sums.run_count) for row in VEILED.groups(rows)]
    assert [("physics", 1), (PERSONAL, 2)] == names
    assert rows == SEEN.groups(rows)


def test_what_was_asked_for_names_users_only_where_they_are_shown() -> None:
    """The line under a title says that users were chosen, and which only where the site allows it."""
    selection = Selection(users=("wilma", "fred"), partitions=("gpu",), job_names=("secret",), job_ids=(7,))
    assert "user wilma, fred; partition gpu; job name secret; 1 chosen job" == asked_for(
        selection, show_users=True
    )
    assert "2 chosen users; partition gpu; 1 chosen job name; 1 chosen job" == asked_for(
        selection, show_users=False
    )
    assert "" == asked_for(Selection(), show_users=False)
