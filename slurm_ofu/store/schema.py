"""The tables of the accounting database, as migrations in order.

A migration, once released, is never edited: a change is another migration. Types are enforced by
CHECKs, since the oldest SQLite that we run on (3.34, EL9) has no STRICT tables. A CHECK lets NULL
pass, SQLite stores NaN as NULL (the writer refuses it), and the ranges shut infinities out. Plain
text and the standard library only: the hooks' writer reads ``SCHEMA_VERSION`` here.
"""

from typing import Final

from slurm_ofu.store.column_types import amount as _amount
from slurm_ofu.store.column_types import count as _count
from slurm_ofu.store.column_types import flag as _flag
from slurm_ofu.store.column_types import one_of as _one_of
from slurm_ofu.store.column_types import signed as _signed
from slurm_ofu.store.column_types import text as _text
from slurm_ofu.store.views import VIEW_NAMES, VIEWS

APPLICATION_ID: Final = 0x4F465531  # "OFU1", in the file's header: tells our database from others


EXIT_BUSY: Final = 75  # of the migrating process, as sysexits' EX_TEMPFAIL


_REASONS_1: Final = (
    "'ok', 'short', 'no_source', 'unknown_model', 'unmapped', 'source_lost', 'profiling_locked', 'suspect',"
    " 'shared', 'sampler_died', 'not_started', 'not_delivered', 'opted_out'"
)
_ESTIMATORS_1: Final = "'cycles', 'sampled', 'scraped'"

_RUN_1: Final = f"""
CREATE TABLE run (
    run_id INTEGER PRIMARY KEY,
    {_text("cluster", null=False)},
    {_count("job_id", null=False)},
    {_count("restart_count", null=False)},
    {_count("incarnation", null=False)},
    {_flag("restart_certain")},
    {_text("sluid")},
    {_text("user_name")},
    {_count("uid")},
    {_text("account")},
    {_text("partition")},
    {_text("node_list")},
    {_count("node_count")},
    {_text("comment")},
    {_text("exit_code")},
    {_text("job_name")},
    {_count("array_job_id")},
    {_count("array_task_id")},
    {_text("state")},
    {_signed("start_epoch_s")},
    {_signed("end_epoch_s")} NOT NULL,
    {_signed("first_heard_epoch_s")} NOT NULL,
    {_signed("updated_epoch_s")} NOT NULL,
    UNIQUE (cluster, job_id, restart_count, incarnation)
)
"""

_RUN_NODE_1: Final = f"""
CREATE TABLE run_node (
    run_id INTEGER NOT NULL REFERENCES run (run_id) ON DELETE CASCADE ON UPDATE CASCADE,
    {_text("node_name", null=False)},
    {_one_of("reason", _REASONS_1, null=False)},
    {_count("epilog_restart_count")},
    {_text("epilog_sluid")},
    {_amount("gpu_count")},
    {_flag("gpu_count_assumed")},
    {_amount("allocated_seconds")},
    {_flag("allocated_seconds_assumed")},
    {_amount("assumed_gpu_seconds")},
    {_signed("start_epoch_s")},
    {_signed("end_epoch_s")},
    {_count("tick_count", null=False)},
    {_count("missed_ticks", null=False)},
    {_amount("late_max_seconds", null=False)},
    {_amount("wall_step_seconds", null=False)},
    {_text("placement")},
    {_text("source")},
    {_text("software_version", null=False)},
    {_count("fingerprint", null=False)},
    PRIMARY KEY (run_id, node_name)
)
"""

_RUN_GPU_1: Final = f"""
CREATE TABLE run_gpu (
    run_id INTEGER NOT NULL,
    {_text("node_name", null=False)},
    {_count("position", null=False)},
    {_one_of("reason", _REASONS_1, null=False)},
    {_amount("allocated_seconds")},
    {_amount("covered_seconds", null=False)},
    {_text("uuid")},
    {_text("gpu_model")},
    {_text("mapped_by")},
    {_amount("reference_clock_mhz")},
    {_one_of("estimator", _ESTIMATORS_1)},
    {_count("interval_count", null=False)},
    {_amount("tensor_active_seconds")},
    {_amount("tensor_ref_seconds")},
    {_amount("tensor_ref_error_seconds")},
    {_amount("error_degrees")},
    {_signed("disagreement_ratio")},
    {_amount("sm_active_seconds")},
    {_amount("sm_active_covered_seconds", null=False)},
    {_amount("dram_active_seconds")},
    {_amount("dram_active_covered_seconds", null=False)},
    {_amount("utilisation_seconds")},
    {_amount("utilisation_covered_seconds", null=False)},
    {_amount("power_joules")},
    {_amount("power_covered_seconds", null=False)},
    {_amount("energy_joules")},
    {_count("memory_max_bytes")},
    {_amount("throttled_power_seconds")},
    {_amount("throttled_thermal_seconds")},
    {_amount("throttle_covered_seconds", null=False)},
    PRIMARY KEY (run_id, node_name, position),
    FOREIGN KEY (run_id, node_name) REFERENCES run_node (run_id, node_name)
        ON DELETE CASCADE ON UPDATE CASCADE
)
"""

_GPU_TIMELINE_1: Final = f"""
CREATE TABLE gpu_timeline (
    run_id INTEGER NOT NULL,
    {_text("node_name", null=False)},
    {_count("position", null=False)},
    {_text("timeline_json", null=False)},
    PRIMARY KEY (run_id, node_name, position),
    FOREIGN KEY (run_id, node_name, position) REFERENCES run_gpu (run_id, node_name, position)
        ON DELETE CASCADE ON UPDATE CASCADE
)
"""

_QUARTER_HOUR_1: Final = f"""
CREATE TABLE quarter_hour (
    run_id INTEGER NOT NULL,
    {_text("node_name", null=False)},
    {_text("gpu_model")},
    {_count("start_epoch_s", null=False)} CHECK (start_epoch_s % 900 = 0),
    {_amount("allocated_seconds", null=False)},
    {_amount("covered_seconds", null=False)},
    {_amount("tensor_active_seconds", null=False)},
    {_amount("tensor_ref_seconds")},
    {_amount("tensor_ref_error_seconds")},
    UNIQUE (run_id, node_name, gpu_model, start_epoch_s),
    FOREIGN KEY (run_id, node_name) REFERENCES run_node (run_id, node_name)
        ON DELETE CASCADE ON UPDATE CASCADE
)
"""

_INDEXES_1: Final = (
    "CREATE INDEX run_by_end ON run (end_epoch_s)",
    "CREATE INDEX run_by_user ON run (user_name, start_epoch_s)",
    "CREATE INDEX run_by_partition ON run (partition, start_epoch_s)",
    "CREATE INDEX run_by_account ON run (account, start_epoch_s)",
    "CREATE INDEX run_by_job ON run (job_id)",
    "CREATE INDEX run_node_by_epilog ON run_node (run_id) WHERE epilog_restart_count IS NOT NULL",
    "CREATE INDEX quarter_hour_by_start ON quarter_hour (start_epoch_s)",
)

_CLAIM_KINDS_2: Final = "'mfu', 'tflops'"
_CLAIM_2: Final = (
    _one_of("claim_kind", _CLAIM_KINDS_2),
    _amount("claim_value"),
    _text("claim_text"),
    _amount("claim_peak_tflops"),
)

# What the nodes told of a run: the identity of a record rests on it, and what Slurm's accounting adds to
# table run can be taken back. A run without a row here is known from accounting alone.
_RUN_TOLD_2: Final = f"""
CREATE TABLE run_told (
    run_id INTEGER PRIMARY KEY REFERENCES run (run_id) ON DELETE CASCADE ON UPDATE CASCADE,
    {_signed("start_epoch_s")},
    {_signed("end_epoch_s")} NOT NULL,
    {_text("sluid")},
    {_text("user_name")},
    {_count("uid")},
    {_text("account")},
    {_text("partition")},
    {_text("node_list")},
    {_count("node_count")},
    {_text("comment")},
    {_text("exit_code")},
    {", ".join(_CLAIM_2)}
)
"""
_FILL_RUN_TOLD_2: Final = """
INSERT INTO run_told (run_id, start_epoch_s, end_epoch_s, sluid, user_name, uid, account, partition,
    node_list, node_count, comment, exit_code)
SELECT run_id, start_epoch_s, end_epoch_s, sluid, user_name, uid, account, partition,
    node_list, node_count, comment, exit_code FROM run
"""

_ACCOUNTING_ROW_2: Final = f"""
CREATE TABLE accounting_row (
    {_text("cluster", null=False)},
    {_count("job_id", null=False)},
    {_count("submit_epoch_s", null=False)},
    run_id INTEGER REFERENCES run (run_id) ON DELETE SET NULL ON UPDATE CASCADE,
    {_count("start_epoch_s")},
    {_count("end_epoch_s")},
    {_count("elapsed_seconds", null=False)},
    {_count("suspended_seconds", null=False)},
    {_text("state", null=False)},
    {_text("exit_code")},
    {_text("user_name")},
    {_count("uid")},
    {_text("account")},
    {_text("partition")},
    {_text("qos")},
    {_text("job_name")},
    {_count("array_job_id")},
    {_count("array_task_id")},
    {_count("het_job_id")},
    {_count("het_offset")},
    {_text("node_list")},
    {_count("node_count")},
    {_text("alloc_tres")},
    {_count("gpu_count")},
    {_count("restart_count")},
    {_text("sluid")},
    {_text("comment")},
    {", ".join(_CLAIM_2)},
    PRIMARY KEY (cluster, job_id, submit_epoch_s)
)
"""

_ACCOUNTING_PROGRESS_2: Final = f"""
CREATE TABLE accounting_progress (
    {_text("cluster", null=False)} PRIMARY KEY,
    {_signed("read_until_epoch_s")} NOT NULL
)
"""

_WRITE_BACK_STATUS_2: Final = "'written', 'left_alone', 'superseded', 'failed'"
_WRITE_BACK_2: Final = f"""
CREATE TABLE write_back (
    run_id INTEGER PRIMARY KEY REFERENCES run (run_id) ON DELETE CASCADE ON UPDATE CASCADE,
    {_one_of("status", _WRITE_BACK_STATUS_2, null=False)},
    {_text("field")},
    {_text("token")},
    {_count("attempts", null=False)},
    {_signed("next_epoch_s")},
    {_text("message")},
    {_signed("updated_epoch_s")} NOT NULL
)
"""

_RUN_COLUMNS_2: Final = (
    _text("qos"),
    _count("het_job_id"),
    _count("het_offset"),
    _signed("submit_epoch_s"),
    _amount("elapsed_seconds"),
    _amount("suspended_seconds"),
    _text("alloc_tres"),
    _count("slurm_gpu_count"),
    f"{_flag('heard')} DEFAULT 1",
    f"{_flag('accounted')} DEFAULT 0",
    *_CLAIM_2,
    _one_of("claim_source", "'epilog', 'accounting'"),
)

_RUN_GPU_COLUMNS_3: Final = (
    _text("source"),
    _text("source_note"),
    _text("mig_profile"),
    f"{_amount('sm_share_ratio', null=False)} DEFAULT 1.0",
    _amount("idle_seconds"),
    f"{_amount('idle_covered_seconds', null=False)} DEFAULT 0.0",
    _amount("idle_tail_seconds"),
    _amount("non_tensor_seconds"),
    f"{_amount('non_tensor_covered_seconds', null=False)} DEFAULT 0.0",
    _amount("peak_tensor_ref_seconds"),
    f"{_amount('peak_covered_seconds', null=False)} DEFAULT 0.0",
    _amount("tensor_megacycles"),
    _amount("tensor_megacycles_error"),
)

_INDEXES_2: Final = (
    "CREATE INDEX run_by_array ON run (array_job_id, array_task_id) WHERE array_job_id IS NOT NULL",
    "CREATE INDEX run_by_het ON run (het_job_id, het_offset) WHERE het_job_id IS NOT NULL",
    "CREATE INDEX run_node_by_node ON run_node (node_name, end_epoch_s)",
    "CREATE INDEX accounting_row_by_run ON accounting_row (run_id)",
)

_QUARTER_COLUMNS_4: Final = tuple(
    _amount(name)
    for name in ("idle_seconds", "idle_covered_seconds", "non_tensor_seconds", "non_tensor_covered_seconds")
)
# A run among others on its GPU model: at most one row for each. Triggers keep the counts.
_RUN_BAND_4: Final = f"""
CREATE TABLE run_band (
    run_id INTEGER PRIMARY KEY REFERENCES run (run_id) ON DELETE CASCADE ON UPDATE CASCADE,
    {_text("gpu_model", null=False)},
    {_count("day", null=False)},
    {_count("band", null=False)},
    {_count("gpu_seconds", null=False)}
)
"""
_BAND_COUNT_4: Final = f"""
CREATE TABLE band_count (
    {_text("gpu_model", null=False)},
    {_count("day", null=False)},
    {_count("band", null=False)},
    {_count("run_count", null=False)},
    {_count("gpu_seconds", null=False)},
    PRIMARY KEY (gpu_model, day, band)
)
"""
_COUNT_IN_4: Final = """
CREATE TRIGGER run_band_in AFTER INSERT ON run_band BEGIN
    INSERT OR IGNORE INTO band_count VALUES (NEW.gpu_model, NEW.day, NEW.band, 0, 0);
    UPDATE band_count SET run_count = run_count + 1, gpu_seconds = gpu_seconds + NEW.gpu_seconds
    WHERE gpu_model = NEW.gpu_model AND day = NEW.day AND band = NEW.band;
END
"""
_COUNT_OUT_4: Final = """
CREATE TRIGGER run_band_out AFTER DELETE ON run_band BEGIN
    UPDATE band_count SET run_count = run_count - 1, gpu_seconds = gpu_seconds - OLD.gpu_seconds
    WHERE gpu_model = OLD.gpu_model AND day = OLD.day AND band = OLD.band;
    DELETE FROM band_count WHERE run_count = 0
        AND gpu_model = OLD.gpu_model AND day = OLD.day AND band = OLD.band;
END
"""
_WARNING_4: Final = f"""
CREATE TABLE warning (
    {_text("user_name", null=False)},
    {_text("audit", null=False)},
    {_text("subject", null=False)},
    {_signed("sent_epoch_s")} NOT NULL,
    PRIMARY KEY (user_name, audit, subject)
)
"""

#: (name, statements) in the order in which they are applied.
MIGRATIONS: Final[tuple[tuple[str, tuple[str, ...]], ...]] = (
    ("0001_runs", (_RUN_1, _RUN_NODE_1, _RUN_GPU_1, _GPU_TIMELINE_1, _QUARTER_HOUR_1, *_INDEXES_1)),
    (
        "0002_accounting",
        (
            *(_RUN_TOLD_2, _FILL_RUN_TOLD_2, _ACCOUNTING_ROW_2, _ACCOUNTING_PROGRESS_2, _WRITE_BACK_2),
            *(f"ALTER TABLE run ADD COLUMN {column}" for column in _RUN_COLUMNS_2),
            f"ALTER TABLE run_node ADD COLUMN {_amount('accounted_seconds')}",
            f"ALTER TABLE run_node ADD COLUMN {_amount('accounted_suspended_seconds')}",
            *_INDEXES_2,
        ),
    ),
    (
        "0003_sources",
        (
            *(f"ALTER TABLE run_gpu ADD COLUMN {column}" for column in _RUN_GPU_COLUMNS_3),
            f"ALTER TABLE run_node ADD COLUMN {_flag('backfilled')} DEFAULT 0",
        ),
    ),
    (
        "0004_audits",
        (
            f"ALTER TABLE run ADD COLUMN {_flag('running')} DEFAULT 0",
            f"ALTER TABLE run_node ADD COLUMN {_flag('interim')} DEFAULT 0",
            *(f"ALTER TABLE quarter_hour ADD COLUMN {column}" for column in _QUARTER_COLUMNS_4),
            *(_RUN_BAND_4, _BAND_COUNT_4, _COUNT_IN_4, _COUNT_OUT_4, _WARNING_4),
        ),
    ),
)

#: Kept in ``PRAGMA user_version``: the number of migrations that a database has seen.
SCHEMA_VERSION: Final = len(MIGRATIONS)

#: Views are code, not data: every migration drops them, the last one makes them anew. A change of a
#: view alone needs an empty migration.
DROP_VIEWS: Final = tuple(f"DROP VIEW IF EXISTS {name}" for name in VIEW_NAMES)
CREATE_VIEWS: Final = VIEWS
