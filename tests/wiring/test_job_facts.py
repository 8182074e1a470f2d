"""What the hook scripts wrote down → who the job is."""

import subprocess
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from slurm_ofu.errors import StateError
from slurm_ofu.slurm.claim import COMMENT_LIMIT
from slurm_ofu.slurm.job_env import exit_code, job_of, node_name, parse_facts
from slurm_ofu.values import Claim, HookFacts

BOOT = "1b4e28ba-2fa1-11d2-883f-0016d3cca427"
ROOT = Path(__file__).parents[2]
VALUES = st.text(st.characters(codec="utf-8", exclude_characters="\0"), min_size=1, max_size=80)
NAMES = st.sampled_from(["SLURM_JOB_ID", "SLURM_JOB_COMMENT", "CUDA_VISIBLE_DEVICES", "SLURM_JOB_EXTRA"])


def written(environment: dict[str, str], *, end: bool = True) -> bytes:
    """A facts file as the shell writes it."""
    entries = [*environment.items(), *([("OFU_END", "1")] if end else [])]
    body = b"".join(f"{name}={value}".encode() + b"\0" for name, value in entries)
    return f"OFU1 {BOOT} 123.45\n".encode() + body


def facts(epoch_s: float = 1.0, **environment: str) -> HookFacts:
    return parse_facts(written({"SLURM_JOB_ID": "7", **environment}), epoch_s=epoch_s)


@pytest.mark.property
@settings(deadline=None, max_examples=100)
@given(st.dictionaries(NAMES, VALUES))
def test_whatever_slurm_said_comes_back(environment: dict[str, str]) -> None:
    """Every value comes back as it was: blanks, newlines, quotes and equals signs in it too."""
    its = parse_facts(written(environment), epoch_s=5.5)
    assert (environment, BOOT, 123_450_000_000, 5.5) == (
        its.environment,
        its.boot_id,
        its.uptime_ns,
        its.epoch_s,
    )


def test_the_shell_writes_what_python_reads(tmp_path: Path) -> None:
    """The prolog's own function, run by the shell, writes a file that comes back as it was."""
    text = (ROOT / "prolog/00-slurm-ofu").read_text()
    function = text[text.index("facts() {") : text.index("facts 2>/dev/null")]
    comment = "two\nlines, \"quotes\" 'and' = $HOME `x` \\n %s é"
    program = f"boot={BOOT} uptime=123.45\n{function}\nfacts"
    done = subprocess.run(
        ["/bin/sh", "-c", program],
        env={"SLURM_JOB_ID": "7", "SLURM_JOB_COMMENT": comment, "SLURM_JOB_USER": "", "HOME": "/root"},
        capture_output=True,
        cwd=tmp_path,
        check=True,
    )
    its = parse_facts(done.stdout, epoch_s=0.0)
    assert {"SLURM_JOB_ID": "7", "SLURM_JOB_COMMENT": comment} == its.environment


GOOD = written({"SLURM_JOB_ID": "7", "SLURM_JOB_COMMENT": "x" * 50})


@pytest.mark.parametrize("length", range(len(GOOD) - 1))
def test_an_incomplete_file_is_a_state_error(length: int) -> None:
    """A file that was cut off anywhere, by a full disk or a crash, is a StateError."""
    with pytest.raises(StateError):
        parse_facts(GOOD[:length], epoch_s=0.0)


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"OFU2 " + GOOD[5:],
        GOOD.replace(BOOT.encode(), b"no boot"),
        GOOD.replace(b"123.45", b"-1.45"),
        written({}, end=False),
        b"\xff" * 100,
    ],
)
def test_another_file_is_a_state_error(data: bytes) -> None:
    """A file that is no facts file is a StateError."""
    with pytest.raises(StateError):
        parse_facts(data, epoch_s=0.0)


def test_bytes_that_are_no_text_are_replaced() -> None:
    """A value in another encoding costs letters, not the job."""
    data = GOOD.replace(b"x" * 50, b"caf\xe9")
    assert "caf\ufffd" == parse_facts(data, epoch_s=0.0).environment["SLURM_JOB_COMMENT"]


# --------------------------------------------------------------- who the job is


def test_the_prologs_word_goes_first() -> None:
    """After a requeue the epilog's restart count is one too high, and after a shrink its node list is
    only what was released: the prolog's word goes before the epilog's."""
    prolog = facts(SLURM_JOB_RESTART_COUNT="1", SLURM_JOB_NODELIST="n[1-4]", SLURM_JOB_NUM_NODES="4")
    epilog = facts(SLURM_JOB_RESTART_COUNT="2", SLURM_JOB_NODELIST="n4", SLURM_JOB_NUM_NODES="1")
    job = job_of(prolog, epilog)
    assert (1, True, "n[1-4]", 4) == (
        job.key.restart_count,
        job.restart_certain,
        job.node_list,
        job.node_count,
    )


def test_an_epilog_alone_is_uncertain() -> None:
    """Only an epilog spoke: its restart count cannot be trusted, and its node list is not the job's."""
    job = job_of(None, facts(SLURM_JOB_RESTART_COUNT="2", SLURM_JOB_NODELIST="n4", SLURM_JOB_NUM_NODES="1"))
    assert (2, False, None, None) == (
        job.key.restart_count,
        job.restart_certain,
        job.node_list,
        job.node_count,
    )


def test_the_comment_is_the_latest() -> None:
    """A comment may be changed while the job runs: the epilog's is the one; it is cut at its limit."""
    prolog, epilog = facts(SLURM_JOB_COMMENT="before"), facts(SLURM_JOB_COMMENT="after")
    assert "after" == job_of(prolog, epilog).comment
    assert "before" == job_of(prolog, facts()).comment == job_of(prolog, None).comment
    assert COMMENT_LIMIT == len(job_of(facts(SLURM_JOB_COMMENT="x" * 5000), None).comment or "")
    assert None is job_of(facts(), facts()).comment


def test_the_claim_is_that_of_the_comment() -> None:
    """What the kept comment claims is the job's claim: the epilog's comment goes first, also where it
    claims nothing; and a claim that the cut may have shortened is none."""
    prolog = facts(SLURM_JOB_COMMENT="mfu=0.3")
    claim = job_of(prolog, facts(SLURM_JOB_COMMENT="mfu=0.41")).claim
    assert Claim(kind="mfu", value=0.41, text="mfu=0.41") == claim
    assert None is job_of(prolog, facts(SLURM_JOB_COMMENT="done")).claim
    assert "mfu=0.3" == getattr(job_of(prolog, None).claim, "text", None)
    assert None is job_of(facts(SLURM_JOB_COMMENT="x" * (COMMENT_LIMIT - 8) + " mfu=0.41"), None).claim


def test_what_is_missing_is_none() -> None:
    """A variable that Slurm did not set is None, not an empty text and not zero."""
    job = job_of(facts(), None)
    assert [None] * 7 == [
        job.user,
        job.uid,
        job.account,
        job.partition,
        job.node_list,
        job.node_count,
        job.key.sluid,
    ]
    assert (7, 0, "unknown", ()) == (
        job.key.job_id,
        job.key.restart_count,
        job.key.cluster,
        job.gpu_positions,
    )


@pytest.mark.parametrize("text", ["x", "-1", "1.5", " ", "1e3"])
def test_numbers_that_are_none(text: str) -> None:
    """A number that is none is not known."""
    job = job_of(facts(SLURM_JOB_UID=text, SLURM_JOB_NUM_NODES=text, SLURM_JOB_RESTART_COUNT=text), None)
    assert (None, None, 0) == (job.uid, job.node_count, job.key.restart_count)


def test_a_site_may_name_the_cluster() -> None:
    """The configuration's cluster name goes before Slurm's."""
    assert "slurms" == job_of(facts(SLURM_CLUSTER_NAME="slurms"), None).key.cluster
    assert "sites" == job_of(facts(SLURM_CLUSTER_NAME="slurms"), None, "sites").key.cluster


@pytest.mark.parametrize("job_id", ["", "x", "-7", "7 8"])
def test_no_job_id_no_job(job_id: str) -> None:
    """Without a job id there is no job."""
    with pytest.raises(StateError, match="job id"):
        job_of(facts(SLURM_JOB_ID=job_id), None)
    with pytest.raises(StateError, match="job id"):
        job_of(None, None)


@pytest.mark.parametrize(
    ("text", "expected"), [("0,1,2,3", (0, 1, 2, 3)), ("3,1", (3, 1)), ("0-2,7", (0, 1, 2, 7)), ("x", ())]
)
def test_gpu_positions(text: str, expected: tuple[int, ...]) -> None:
    """SLURM_JOB_GPUS gives the positions in Slurm's device list, in its order."""
    assert expected == job_of(facts(SLURM_JOB_GPUS=text), None).gpu_positions


def test_node_and_exit_code() -> None:
    """The node is the one that slurmd is; the exit code is the epilog's."""
    said = facts(SLURMD_NODENAME="n1", SLURM_JOB_EXIT_CODE2="1:9")
    assert ("n1", "1:9") == (node_name(said), exit_code(said))
    assert ("unknown", None, None) == (node_name(facts()), exit_code(facts()), exit_code(None))
