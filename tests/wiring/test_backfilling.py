"""OFU of past jobs out of samples that real servers keep, against the truth."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import pytest

from slurm_ofu.counters.pattern import Pattern, Segment
from slurm_ofu.counters.prometheus import Prometheus
from slurm_ofu.errors import SamplesError, SamplesTooMany
from slurm_ofu.figures import figures
from slurm_ofu.store.backfilling import Asked
from slurm_ofu.store.read import Reader
from slurm_ofu.values import AccountingRow, Config, Figures, GpuTotals, NodeRecord, Selection
from slurm_ofu.wiring import backfilling
from slurm_ofu.wiring.backfilling import Backfilled, backfill
from tests.standins.stored_samples import (
    CLOCK,
    KINDS,
    TENSOR,
    Gpu,
    Series,
    Server,
    labelled,
    require,
    steady,
    without,
)
from tests.store.accounting_rows import make_row
from tests.store.databases import make_store, query
from tests.store.records import make_gpu, make_job, make_record
from tests.wiring.test_completing import Slurmdbd

pytestmark = pytest.mark.contract

T = 1_750_003_200  # a full hour
HOUR = 3600
NOW = T + 30 * 86_400.0
BLANK = 140737488355328.0
DAYS = 2


def _swinging(busy: float, tensor: float, clock: float, idle: float) -> Pattern:
    """Work at two clocks in turn, then a pause: nothing in step with the samples."""
    work = [
        Segment(seconds=seconds, tensor_active_ratio=tensor, sm_clock_mhz=mhz, sm_active_ratio=0.9)
        for _ in range(5)
        for seconds, mhz in ((busy * 0.61, clock), (busy * 0.39, clock - 225))
    ]
    pause = Segment(
        seconds=idle,
        tensor_active_ratio=0.0,
        sm_clock_mhz=345.0,
        sm_active_ratio=0.0,
        utilisation_ratio=0.0,
    )
    return Pattern([*work, pause])


SWINGING = [
    _swinging(*one)
    for one in (
        (41.37, 0.8, 1980, 97.13),
        (7.31, 0.5, 1755, 311.7),
        (61.13, 0.9, 1740, 89.39),
        (3.17, 0.3, 1980, 0.01),
    )
]


def _node(name: str, patterns: Sequence[Pattern], **more: str) -> list[Gpu]:
    return [Gpu(name, number, pattern, extra=more) for number, pattern in enumerate(patterns)]


def _all(gpus: Sequence[Gpu], hours: float = 4, step: float = 30.0, offset: float = 3.25) -> list[Series]:
    return [one for gpu in gpus for one in gpu.series(T - 900, T + hours * HOUR, step, offset=offset)]


WHOLE = _node("whole", SWINGING)
JOBS = _node("jobs", [steady(0.6), steady(0.5), steady(0.2), steady(0.9)])
SEVERAL = _node("several", [steady(0.1 * number) for number in range(1, 5)])
TWO_CLOCKS = Pattern(
    [
        Segment(seconds=seconds, tensor_active_ratio=0.6, sm_clock_mhz=mhz)
        for seconds, mhz in ((7.31, 1980.0), (4.87, 1755.0))
    ]
)
LONG = Gpu("long", 0, TWO_CLOCKS)


def _blanks() -> list[Series]:
    """Every tenth tensor figure of the first hour is none: NaN, infinite, blank, or not a ratio."""
    series = _all([Gpu("blanks", 0, steady(0.4))], hours=2)
    bad = ("NaN", "inf", BLANK, 1.5)
    tensor = next(one for one in series if one.name == TENSOR)
    for number, at in enumerate(at for at in tensor.samples if T < at <= T + HOUR):
        if number % 10 == 0:
            tensor.samples[at] = float(bad[number // 10 % 4])
    return series


def _replicas() -> list[Series]:
    """Two Prometheis, seven seconds apart; one was away for half an hour, the other for an hour."""
    gpu = Gpu("replicas", 0, steady(0.4))
    one = without(_all([gpu], hours=3), lambda at: T + 600 < at <= T + 2400)
    other = without(_all([gpu], hours=3, offset=10.25), lambda at: T + 3600 < at <= T + 7200)
    return labelled(one, prometheus_replica="a") + labelled(other, prometheus_replica="b")


def _mapped() -> list[Series]:
    """Job 501 has GPUs 0 and 1, 502 GPU 2, whose samples come thrice; GPU 3 keeps the label of 499."""
    zero, one, two, three = (_all([gpu]) for gpu in JOBS)
    copies = [labelled(two, hpc_job=job) for job in ("502", "", "498")]
    return [
        *labelled(zero + one, hpc_job="501"),
        *(series for copy in copies for series in copy),
        *labelled(three, hpc_job="499"),
    ]


def _slices() -> list[Series]:
    gpu = Gpu("slices", 0, steady(0.5), extra={"GPU_I_PROFILE": "1g.11gb"})
    return [one for number in ("7", "8") for one in labelled(_all([gpu], hours=2), GPU_I_ID=number)]


def _world() -> list[Series]:
    """Everything that is stored; each node is one story."""
    clocks = [one for one in _all([Gpu("clocks", 0, steady(0.5))], hours=2) if one.name == CLOCK]
    newer = Gpu("newer", 0, steady(0.3), host_label="hostname")
    renamed = {TENSOR: "DCGM_FI_PROF_TENSOR_UTIL_RATIO"}
    return [
        *_all(WHOLE),
        *without(_all([Gpu("gap", 0, steady(0.5))]), lambda at: T + 1800 < at <= T + 5400),
        *_blanks(),
        *_replicas(),
        *_mapped(),
        *_all(SEVERAL, hours=2),
        *_slices(),
        *clocks,
        *_all([Gpu("brief", 0, steady(0.5))], hours=1, offset=3.0),
        *(replace(one, name=renamed.get(one.name, one.name)) for one in _all([newer], hours=2)),
        *_all([Gpu("target.example.org", 0, steady(0.7), host_label="instance")], hours=2),
        *_all([Gpu("first", 0, steady(0.25)), Gpu("second", 0, steady(0.75))], hours=3),
        *[one for one in LONG.series(T, T + DAYS * 86_400, 10.0) if one.name in (TENSOR, CLOCK)],
    ]


@pytest.fixture(scope="module", params=KINDS)
def server(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """A real server that has stored the world."""
    require(request.param)
    stored = Server(request.param, tmp_path_factory.mktemp("stored") / "server", _world())
    yield stored
    stored.close()


@dataclass
class Told:
    """Who is told how far it is."""

    total: int = 0
    count: int = 0

    def start(self, total: int) -> None:
        """See the protocol."""
        self.total = total

    def done(self, count: int) -> None:
        """See the protocol."""
        self.count += count


@dataclass
class Site:
    """A database, what slurmdbd knows, and a server."""

    config: Config
    prometheus: Prometheus
    told: Told = field(default_factory=Told)

    def backfill(
        self,
        *rows: AccountingRow,
        again: bool = False,
        dry: list[NodeRecord] | None = None,
        now: float = NOW,
        prometheus: Prometheus | None = None,
    ) -> Backfilled:
        """Backfill the whole time of the world."""
        asked = Asked(start_epoch_s=T - 86_400.0, end_epoch_s=NOW, again=again)
        self.prometheus.query_count = 0
        self.told = Told()
        return backfill(
            self.config,
            asked,
            now,
            prometheus=prometheus or self.prometheus,
            progress=self.told,
            say=None if dry is None else dry.append,
            accounting=Slurmdbd(list(rows)),
        )

    @property
    def database(self) -> Path:
        """Its file."""
        return Path(self.config.database.removeprefix("sqlite://"))

    @property
    def reader(self) -> Reader:
        """The database's."""
        return Reader(self.config.database.removeprefix("sqlite://"))

    def figures(self, job_id: int) -> list[Figures]:
        """Of each run of a job."""
        return [figures(row.sums) for row in self.reader.jobs(Selection(job_ids=(job_id,)))]

    def gpus(self, job_id: int) -> list[GpuTotals]:
        """The GPUs of a job's only run."""
        [row] = self.reader.jobs(Selection(job_ids=(job_id,)))
        assert row.run is not None
        return [gpu.totals for gpu in self.reader.page(row.run.run_id).gpus]

    def nodes(self) -> list[tuple[str, str, int]]:
        """Every node: its name, reason, and whether it was backfilled."""
        path = self.reader.path
        return query(path, "SELECT node_name, reason, backfilled FROM run_node ORDER BY node_name, run_id")


@pytest.fixture
def site(server: Server, tmp_path: Path) -> Site:
    """Nothing is known yet, and no pause is made."""
    config = Config(path="/x", database=f"sqlite://{tmp_path}/ofu.db", database_group=None)
    return Site(config, Prometheus(server.url, timeout_seconds=60.0, pause=lambda _seconds: None))


def row(
    node: str, job_id: int = 42, *, start: int = T + 17, end: int = T + 2 * HOUR, gpus: int = 1
) -> AccountingRow:
    """A job on one node."""
    return make_row(job_id=job_id, node_list=node, start=start, end=end, gpu_count=gpus)


def test_the_truth_within_the_bar(site: Site) -> None:
    """A job that had every GPU of its node: each GPU's OFU, and the job's, against what they really did."""
    start, end = T + 17, T + 3 * HOUR + 17
    done = site.backfill(row("whole", start=start, end=end, gpus=4))
    [its] = site.figures(42)
    truth = sum(gpu.ofu_ratio(start, end) for gpu in WHOLE) / 4
    assert its.ofu_ratio is not None and its.ofu_error_pp is not None
    assert 100 * abs(its.ofu_ratio - truth) <= its.ofu_error_pp < 5.0
    assert ("scraped", "ok", 4.0) == (its.estimator, its.reason, its.gpu_count)
    assert its.coverage_ratio is not None and its.coverage_ratio > 0.999
    for gpu, totals in zip(WHOLE, site.gpus(42), strict=True):
        assert (gpu.uuid, gpu.number, "whole_node", "prometheus", 1830.0) == (
            *(totals.uuid, totals.position, totals.mapped_by, totals.source),
            totals.reference_clock_mhz,
        )
        assert totals.tensor_ref_seconds is not None and totals.tensor_ref_error_seconds is not None
        ofu = totals.tensor_ref_seconds / totals.covered_seconds
        assert (
            abs(ofu - gpu.ofu_ratio(start, end))
            <= 3 * totals.tensor_ref_error_seconds / totals.covered_seconds
        )
    assert (1, 1, 1) == (done.record_count, done.count("measured"), done.counts.due_count)
    assert (1, 1) == (site.told.total, site.told.count)


def test_quarter_hours_and_the_time_line_add_up(site: Site) -> None:
    """To the same sums."""
    site.backfill(row("whole", gpus=4))
    path = site.reader.path
    [(covered, tensor)] = query(path, "SELECT SUM(covered_seconds), SUM(tensor_ref_seconds) FROM run_gpu")
    [quarters] = query(path, "SELECT SUM(covered_seconds), SUM(tensor_ref_seconds) FROM quarter_hour")
    assert pytest.approx((covered, tensor)) == quarters
    [(allocated,)] = query(path, "SELECT SUM(allocated_seconds) FROM quarter_hour")
    assert pytest.approx(4 * (2 * HOUR - 17)) == allocated


def test_twice_changes_nothing(site: Site) -> None:
    """What is stored is not asked for again, and done again it comes out the same."""
    jobs = row("whole", gpus=4), row("gap", 43)
    site.backfill(*jobs)
    before = query(site.reader.path, "SELECT * FROM run_node, run_gpu, run")
    done = site.backfill(*jobs)
    assert (1, 0, 2) == (done.query_count, done.record_count, done.counts.backfilled_count)
    again = site.backfill(*jobs, again=True)
    assert 2 == again.record_count
    assert before == query(site.reader.path, "SELECT * FROM run_node, run_gpu, run")


def test_a_gap_is_not_covered(site: Site) -> None:
    """An hour without samples is an hour without a figure, neither idle nor like the rest."""
    site.backfill(row("gap", start=T, end=T + 3 * HOUR))
    [its], [gpu] = site.figures(42), site.gpus(42)
    assert pytest.approx(2 / 3, abs=0.01) == its.coverage_ratio
    assert pytest.approx(0.5 * 1755 / 1830, abs=1e-6) == its.ofu_ratio
    assert pytest.approx(2 * HOUR, abs=60) == gpu.utilisation_covered_seconds


def test_values_that_are_none(site: Site) -> None:
    """NaN, infinities, blank codes and ratios above 1 are missing: not a number, and not the neighbour's."""
    site.backfill(row("blanks", start=T, end=T + HOUR))
    [its] = site.figures(42)
    assert pytest.approx(0.4 * 1755 / 1830, abs=1e-6) == its.ofu_ratio
    assert pytest.approx(0.9, abs=0.01) == its.coverage_ratio


def test_replicas_are_neither_added_nor_averaged(site: Site) -> None:
    """One speaks, the other where it is silent: all is covered, once."""
    site.backfill(row("replicas", start=T, end=T + 2 * HOUR))
    [its], [gpu] = site.figures(42), site.gpus(42)
    assert pytest.approx(0.4 * 1755 / 1830, abs=1e-6) == its.ofu_ratio
    assert pytest.approx(1.0, abs=0.02) == its.coverage_ratio
    assert 235 <= gpu.interval_count <= 243


def test_the_exporters_mapping_of_jobs(site: Site) -> None:
    """The label hpc_job says which GPUs; copies of a sample count once, and old labels mean nothing."""
    window = {"start": T + 600, "end": T + 2 * HOUR}
    done = site.backfill(
        row("jobs", 501, gpus=2, **window), row("jobs", 502, gpus=1, **window), row("jobs", 503, **window)
    )
    both, one = site.gpus(501), site.gpus(502)
    assert [(0, "hpc_job", "ok"), (1, "hpc_job", "ok")] == [
        (gpu.position, gpu.mapped_by, gpu.reason) for gpu in both
    ]
    assert [(2, "hpc_job", "ok")] == [(gpu.position, gpu.mapped_by, gpu.reason) for gpu in one]
    assert [pytest.approx(tensor * 1755 / 1830, abs=1e-6) for tensor in (0.55, 0.2)] == [
        site.figures(job)[0].ofu_ratio for job in (501, 502)
    ]
    assert pytest.approx(2 * HOUR - 600) == one[0].covered_seconds
    [third] = site.gpus(503)
    assert ("unmapped", None, 0.0, 2 * HOUR - 600.0) == (
        *(third.reason, third.tensor_ref_seconds, third.covered_seconds),
        third.allocated_seconds,
    )
    assert (2, 1) == (done.count("measured"), done.count("unmapped"))


def test_a_part_of_a_node_without_a_mapping(site: Site) -> None:
    """Which GPUs it had is not guessed: unmapped, and allocated all the same."""
    site.backfill(row("several", gpus=2))
    [its] = site.figures(42)
    assert (None, "unmapped", 2.0) == (its.ofu_ratio, its.reason, its.gpu_count)
    assert pytest.approx(2 * (2 * HOUR - 17) / HOUR) == its.gpu_hours


def test_a_whole_node_that_somebody_else_had_as_well(site: Site) -> None:
    """Two jobs at once cannot both have had every GPU; one after the other they can."""
    later = row("several", 43, start=T + HOUR, gpus=4)
    site.backfill(row("several", end=T + HOUR + 1, gpus=4), later)
    assert ["unmapped", "unmapped"] == [site.figures(job)[0].reason for job in (42, 43)]


def test_a_node_of_which_the_exporter_shows_a_part(site: Site) -> None:
    """Four GPUs are seen and another job had eight there: which four this one had is not known. The mean of
    a job on several nodes says nothing of one of them."""
    larger = row("several", 43, start=T + HOUR, end=T + HOUR + 600, gpus=8)
    site.backfill(row("several", end=T + HOUR, gpus=4), larger)
    assert ["unmapped", "unmapped"] == [site.figures(job)[0].reason for job in (42, 43)]
    mean = make_row(
        job_id=45, node_list="brief,newer", node_count=2, start=T + 7 * HOUR, end=T + 8 * HOUR, gpu_count=6
    )
    site.backfill(row("brief", 44, end=T + HOUR - 60), mean)
    assert "ok" == site.figures(44)[0].reason


def test_one_job_after_the_other(site: Site) -> None:
    """At the same second one ends and the other begins."""
    later = row("several", 43, start=T + HOUR, gpus=4)
    site.backfill(row("several", end=T + HOUR, gpus=4), later)
    assert ["ok", "ok"] == [site.figures(job)[0].reason for job in (42, 43)]


def test_slices_are_not_weighed_as_gpus(site: Site) -> None:
    """Two instances of one GPU are two devices; without their share of it they are not measured."""
    site.backfill(row("slices", gpus=2))
    assert [("no_source", None, "1g.11gb", 0.0)] * 2 == [
        (gpu.reason, gpu.tensor_ref_seconds, gpu.mig_profile, gpu.covered_seconds) for gpu in site.gpus(42)
    ]


def test_clocks_without_tensor_figures(site: Site) -> None:
    """C02: no figure, and why."""
    done = site.backfill(row("clocks"))
    [gpu] = site.gpus(42)
    assert ("no_source", None, 0.0) == (gpu.reason, gpu.tensor_ref_seconds, gpu.covered_seconds)
    assert 1 == done.count("without_figure")


def test_jobs_shorter_than_two_intervals(site: Site) -> None:
    """C77: short, not 0; also one that lies between two samples."""
    done = site.backfill(
        row("brief", start=T + 10, end=T + 30), row("brief", 43, start=T + 1000, end=T + 1045)
    )
    for job in (42, 43):
        [gpu] = site.gpus(job)
        assert ("short", True) == (gpu.reason, gpu.tensor_ref_seconds is None or gpu.tensor_ref_seconds > 0)
        assert gpu.allocated_seconds is not None and gpu.covered_seconds <= gpu.allocated_seconds
    assert 2 == done.count("short")


def test_names_of_fields_and_labels_of_every_age(site: Site) -> None:
    """The newer names, the host in the newer label, or only in the target's; without its domain."""
    site.backfill(row("newer"), row("target", 43))
    assert [pytest.approx(tensor * 1755 / 1830, abs=1e-6) for tensor in (0.3, 0.7)] == [
        site.figures(job)[0].ofu_ratio for job in (42, 43)
    ]


def test_nodes_of_which_nothing_is_stored(site: Site) -> None:
    """They stay silent; a job on them and others keeps what they would add."""
    both = make_row(node_list="first,empty", node_count=2, gpu_count=2, start=T, end=T + 2 * HOUR)
    done = site.backfill(both, row("empty", 43), row("whole", 44, start=T - 40_000, end=T - 30_000))
    assert [
        ("empty", "not_delivered", 0),
        ("empty", "not_delivered", 0),
        ("first", "ok", 1),
        ("whole", "not_delivered", 0),
    ] == site.nodes()
    [its] = site.figures(42)
    assert pytest.approx((2.0, 0.5), abs=0.01) == (its.gpu_count, its.coverage_ratio)
    assert (1, 2) == (done.count("measured"), done.count("without_samples"))


def test_lives_of_a_requeued_job(site: Site) -> None:
    """Each has the node and the time that it had."""
    first = replace(row("first", end=T + HOUR), state="REQUEUED")
    again = replace(row("second", start=T + HOUR + 120), submit_epoch_s=T + HOUR)
    site.backfill(first, again)
    assert [pytest.approx(tensor * 1755 / 1830, abs=1e-6) for tensor in (0.25, 0.75)] == [
        its.ofu_ratio for its in site.figures(42)
    ]


def test_a_node_that_spoke_keeps_its_record(site: Site) -> None:
    """Whatever is stored of it; and it replaces what was backfilled when it comes late."""
    whole = row("whole", gpus=4)
    its = make_record(
        make_job(node_list="whole"),
        node="whole",
        start=T + 17.0,
        end=T + 2.0 * HOUR,
        gpus=[make_gpu(covered=9.0)],
    )
    site.backfill(whole)
    make_store(site.reader.path, made=False).write([its])
    done = site.backfill(whole, again=True)
    assert (1, 0) == (done.query_count, done.record_count)
    assert [("whole", "ok", 0)] == site.nodes()
    assert [9.0] == [gpu.covered_seconds for gpu in site.gpus(42)]


def test_more_points_than_query_range_gives(site: Site) -> None:
    """C73: two days every ten seconds, 17,280 points of a series, all counted once."""
    start, end = T + 10, T + DAYS * 86_400 - 10
    done = site.backfill(row("long", start=start, end=end))
    [gpu], [its] = site.gpus(42), site.figures(42)
    assert 17_277 <= gpu.interval_count <= 17_279
    assert pytest.approx(end - start) == gpu.covered_seconds
    assert its.ofu_ratio is not None and its.ofu_error_pp is not None
    assert 100 * abs(its.ofu_ratio - LONG.ofu_ratio(start, end)) <= its.ofu_error_pp
    assert (DAYS + 1) * 3 + DAYS * 4 + 2 >= done.query_count


def test_queries_follow_hours_not_jobs(site: Site) -> None:
    """A hundred jobs of two minutes on one node cost what one of their hours costs."""
    short = [row("first", 100 + at, start=T + 60 * at, end=T + 60 * at + 45) for at in range(100)]
    done = site.backfill(*short)
    assert (100, True) == (done.record_count, done.query_count <= 1 + 3 + 2)


def test_trying_it_out_stores_nothing(site: Site) -> None:
    """A dry run tells every record, and leaves no trace, neither of them nor of Slurm's accounting."""
    told: list[NodeRecord] = []
    done = site.backfill(row("whole", gpus=4), dry=told)
    assert [("whole", 4, True)] == [(one.node_name, len(one.gpus), one.backfilled) for one in told]
    assert 1 == done.record_count
    assert not site.database.exists()
    site.backfill(row("whole", gpus=4))
    before = site.database.read_bytes()
    assert 1 == site.backfill(row("whole", 2, gpus=4, start=T + 7200), dry=[]).counts.backfilled_count
    assert before == site.database.read_bytes()


def test_a_server_that_is_away_is_found_before_anything_is_stored(site: Site) -> None:
    """A mistyped address fills no report with silent jobs."""
    gone = Prometheus("http://127.0.0.1:9", timeout_seconds=1.0, pause=lambda _seconds: None)
    with pytest.raises(SamplesError):
        site.backfill(row("whole", gpus=4), prometheus=gone)
    assert not site.database.exists()


def test_a_job_that_has_only_just_ended(site: Site) -> None:
    """Its last samples may not be there yet: it is left for later."""
    job = row("whole", gpus=4)
    done = site.backfill(job, now=T + 2 * HOUR + 100.0)
    assert (1, [("whole", "not_delivered", 0)]) == (done.late_count, site.nodes())
    done = site.backfill(job, now=T + 2 * HOUR + 400.0)
    assert (0, [("whole", "ok", 1)]) == (done.late_count, site.nodes())


@pytest.mark.parametrize("kind", KINDS)
def test_a_server_that_gives_few_samples_at_once(kind: str, tmp_path: Path) -> None:
    """Shorter windows are asked for, down to a limit, and nothing is lost or counted twice."""
    require(kind)
    gpus = _node("small", SWINGING)
    limit = {"prometheus": "--query.max-samples=2000", "victoria-metrics": "-search.maxSamplesPerSeries=100"}[
        kind
    ]
    server = Server(kind, tmp_path / "server", _all(gpus), limit)
    try:
        config = Config(path="/x", database=f"sqlite://{tmp_path}/ofu.db", database_group=None)
        site = Site(config, Prometheus(server.url, timeout_seconds=60.0, pause=lambda _seconds: None))
        site.backfill(row("small", start=T, end=T + 3 * HOUR, gpus=4))
        [its] = site.figures(42)
        assert its.coverage_ratio is not None and its.coverage_ratio > 0.999
        assert [pytest.approx(3 * HOUR)] * 4 == [gpu.covered_seconds for gpu in site.gpus(42)]
        with pytest.raises(SamplesTooMany, match="samples"):
            site.prometheus.samples('{Hostname="small"}', T, T + 3 * HOUR)
    finally:
        server.close()


def test_what_the_servers_say_to_nonsense(server: Server) -> None:
    """An address beside the API, and a question that is none, are errors that say what was asked."""
    for url in (f"{server.url}/no/such/place", f"{server.url}/graph"):
        with pytest.raises(SamplesError, match="not the API"):
            Prometheus(url, timeout_seconds=60.0, pause=lambda _seconds: None).label_values(
                "x", "{a='b'}", T, T + 1
            )
    with pytest.raises(SamplesError, match="HTTP status 4"):
        Prometheus(server.url, timeout_seconds=60.0).samples("nonsense{", T, T + 60)


def test_the_margins_hold_the_samples_around_a_run() -> None:
    """Two and a half of any usual interval."""
    assert 2.5 * 120 <= backfilling.MARGIN_SECONDS
