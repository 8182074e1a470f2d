"""Job ids as people write them."""

import click
import pytest
from hypothesis import given
from hypothesis import strategies as st

from slurm_ofu.cli.job_ids import asked_jobs
from slurm_ofu.cli.options import MalformedJobId
from slurm_ofu.cli.report import report
from slurm_ofu.reports.asked_jobs import AskedJob
from tests.reports.examples import HOSTILE

CONTEXT = click.Context(report)
OPTION = next(option for option in report.params if option.name == "jobs")


def parsed(*lists: str) -> tuple[AskedJob, ...]:
    """What these values of the option mean."""
    return asked_jobs(CONTEXT, OPTION, lists)


@pytest.mark.parametrize(
    ("text", "job"),
    [
        ("123", AskedJob(text="123", job_id=123)),
        ("4294967295", AskedJob(text="4294967295", job_id=4294967295)),
        ("123_0", AskedJob(text="123_0", array_tasks=((123, 0),))),
        ("123_4", AskedJob(text="123_4", array_tasks=((123, 4),))),
        ("123_[4]", AskedJob(text="123_[4]", array_tasks=((123, 4),))),
        ("123_[1-3]", AskedJob(text="123_[1-3]", array_tasks=((123, 1), (123, 2), (123, 3)))),
        ("123_[7,1-2,2]", AskedJob(text="123_[7,1-2,2]", array_tasks=((123, 7), (123, 1), (123, 2)))),
        ("123+0", AskedJob(text="123+0", het_component=(123, 0))),
        ("123+11", AskedJob(text="123+11", het_component=(123, 11))),
        ("123_[1-3%2]", AskedJob(text="123_[1-3%2]", array_tasks=((123, 1), (123, 2), (123, 3)))),
        ("123_[1,7%10]", AskedJob(text="123_[1,7%10]", array_tasks=((123, 1), (123, 7)))),
        ("123.batch", AskedJob(text="123.batch", job_id=123)),
        ("123.0", AskedJob(text="123.0", job_id=123)),
        ("123_4.extern", AskedJob(text="123_4.extern", array_tasks=((123, 4),))),
        ("123+1.0", AskedJob(text="123+1.0", het_component=(123, 1))),
        ("67108865", AskedJob(text="67108865", job_id=67108865)),  # of a federation: 1 on cluster 1
    ],
)
def test_ids(text: str, job: AskedJob) -> None:
    """A plain id, a task or tasks of an array and a component are written as Slurm writes them; how many
    tasks run at once is no matter, and a step stands for its job."""
    assert (job,) == parsed(text)


@pytest.mark.parametrize(
    ("lists", "texts"),
    [
        (("1,2",), ["1", "2"]),
        (("1", "2"), ["1", "2"]),
        (("2,1,2",), ["2", "1"]),
        (("1_[1,3],2",), ["1_[1,3]", "2"]),
        (("7,1_[1,3-4],2+1,9_[2,3]",), ["7", "1_[1,3-4]", "2+1", "9_[2,3]"]),
        ((" 1 , 2_3 ",), ["1", "2_3"]),
        (("1,",), ["1"]),
        (("1_[1,2],",), ["1_[1,2]"]),
        ((), []),
    ],
)
def test_lists(lists: tuple[str, ...], texts: list[str]) -> None:
    """Commas divide ids but not the tasks within brackets; each id counts once, in its place; a comma after
    the last one is no harm."""
    assert texts == [job.text for job in parsed(*lists)]


MALFORMED = [
    *("abc", "-5", "0", "0_1", "1,,2", ",", "1,,", ",1", "", "4294967296", "9" * 99, "١٢", "1 2", HOSTILE),
    *("1_", "1_x", "1_[]", "1_[1", "1_1]", "1_[3-1]", "1_[1-]", "1_[-1]", "1_[1,,2]", "1_[1-2-3]", "1_[1:2]"),
    *("1_[1-5%2%3]", "1+", "1+x", "1+-1", "1+[0-1]", "+1", "_1", "1_2_3", "1+2+3", "1_2+3", "1_[1],[2]"),
    *("1_99999999999", "1_[1-5%]", "1_[%2]", "1_[1-5]%2", "1_4%2", "1.", "1..0", "1.0.0", ".batch", "1.b-c"),
]


@pytest.mark.parametrize("text", MALFORMED)
def test_what_is_no_id(text: str) -> None:
    """Anything else is a MalformedJobId that says how ids are written."""
    with pytest.raises(MalformedJobId, match="is not a job id: write 1234 "):
        parsed(text)


@pytest.mark.parametrize(
    ("text", "hint"),
    [
        ("123_1-3", r"write 123_\[1-3\] for several tasks"),
        ("123_[0-1000]", "over 1000 tasks: ask for the whole array, 123"),
        ("123_[0-999,5000]", "over 1000 tasks: ask for the whole array, 123"),
        ("123_[0-4000000000]", "over 1000 tasks: ask for the whole array, 123"),
    ],
)
def test_hints(text: str, hint: str) -> None:
    """Tasks without brackets and too many tasks have a hint of their own."""
    with pytest.raises(MalformedJobId, match=hint):
        parsed(text)


def test_a_thousand_tasks_are_not_too_many() -> None:
    """As many tasks as Slurm's arrays have by default can be asked for by their numbers."""
    (job,) = parsed("123_[0-999]")
    assert 1000 == len(job.array_tasks)


@pytest.mark.property
@given(st.one_of(st.text(max_size=40), st.text("0123456789_+[]-,.", max_size=20)))
def test_any_text_is_ids_or_malformed(text: str) -> None:
    """Whatever is written is understood or refused as malformed; nothing that is understood is empty."""
    try:
        jobs = parsed(text)
    except MalformedJobId:
        return
    assert jobs
    assert all(job.job_id or job.array_tasks or job.het_component for job in jobs)
