PRAGMA application_id = 1330009393;
PRAGMA user_version = 1;
BEGIN TRANSACTION;
CREATE TABLE "_sqlite_migrations" (
   "id" INTEGER PRIMARY KEY,
   "migration_set" TEXT,
   "name" TEXT,
   "applied_at" TEXT
);
INSERT INTO "_sqlite_migrations" VALUES(1,'slurm-ofu','0001_runs','2026-11-29 17:33:47.333542+00:00');
CREATE TABLE gpu_timeline (
    run_id INTEGER NOT NULL,
    node_name TEXT NOT NULL CHECK (typeof(node_name) IN ('text', 'null')),
    position INTEGER NOT NULL CHECK (typeof(position) IN ('integer', 'null') AND (position IS NULL OR position >= 0)),
    timeline_json TEXT NOT NULL CHECK (typeof(timeline_json) IN ('text', 'null')),
    PRIMARY KEY (run_id, node_name, position),
    FOREIGN KEY (run_id, node_name, position) REFERENCES run_gpu (run_id, node_name, position)
        ON DELETE CASCADE ON UPDATE CASCADE
);
INSERT INTO "gpu_timeline" VALUES(1,'n1',0,'[1750000500.0,1800.0,[[350.0,1750.0],[350.0,1750.0]]]');
INSERT INTO "gpu_timeline" VALUES(1,'n1',1,'[1750000500.0,1800.0,[[350.0,1750.0],[350.0,1750.0]]]');
INSERT INTO "gpu_timeline" VALUES(1,'n2',0,'[1750000500.0,1800.0,[[350.0,1750.0],[350.0,1750.0]]]');
INSERT INTO "gpu_timeline" VALUES(3,'n1',0,'[1750000500.0,1800.0,[[350.0,1750.0],[350.0,1750.0]]]');
CREATE TABLE quarter_hour (
    run_id INTEGER NOT NULL,
    node_name TEXT NOT NULL CHECK (typeof(node_name) IN ('text', 'null')),
    gpu_model TEXT CHECK (typeof(gpu_model) IN ('text', 'null')),
    start_epoch_s INTEGER NOT NULL CHECK (typeof(start_epoch_s) IN ('integer', 'null') AND (start_epoch_s IS NULL OR start_epoch_s >= 0)) CHECK (start_epoch_s % 900 = 0),
    allocated_seconds REAL NOT NULL CHECK (typeof(allocated_seconds) IN ('real', 'null') AND (allocated_seconds IS NULL OR allocated_seconds BETWEEN 0 AND 9e307)),
    covered_seconds REAL NOT NULL CHECK (typeof(covered_seconds) IN ('real', 'null') AND (covered_seconds IS NULL OR covered_seconds BETWEEN 0 AND 9e307)),
    tensor_active_seconds REAL NOT NULL CHECK (typeof(tensor_active_seconds) IN ('real', 'null') AND (tensor_active_seconds IS NULL OR tensor_active_seconds BETWEEN 0 AND 9e307)),
    tensor_ref_seconds REAL CHECK (typeof(tensor_ref_seconds) IN ('real', 'null') AND (tensor_ref_seconds IS NULL OR tensor_ref_seconds BETWEEN 0 AND 9e307)),
    tensor_ref_error_seconds REAL CHECK (typeof(tensor_ref_error_seconds) IN ('real', 'null') AND (tensor_ref_error_seconds IS NULL OR tensor_ref_error_seconds BETWEEN 0 AND 9e307)),
    UNIQUE (run_id, node_name, gpu_model, start_epoch_s),
    FOREIGN KEY (run_id, node_name) REFERENCES run_node (run_id, node_name)
        ON DELETE CASCADE ON UPDATE CASCADE
);
INSERT INTO "quarter_hour" VALUES(1,'n1','NVIDIA H100 80GB HBM3',1750000500,900.0,880.0,200.0,180.0,1.0);
INSERT INTO "quarter_hour" VALUES(1,'n1',NULL,1750000500,900.0,880.0,200.0,180.0,1.0);
CREATE TABLE run (
    run_id INTEGER PRIMARY KEY,
    cluster TEXT NOT NULL CHECK (typeof(cluster) IN ('text', 'null')),
    job_id INTEGER NOT NULL CHECK (typeof(job_id) IN ('integer', 'null') AND (job_id IS NULL OR job_id >= 0)),
    restart_count INTEGER NOT NULL CHECK (typeof(restart_count) IN ('integer', 'null') AND (restart_count IS NULL OR restart_count >= 0)),
    incarnation INTEGER NOT NULL CHECK (typeof(incarnation) IN ('integer', 'null') AND (incarnation IS NULL OR incarnation >= 0)),
    restart_certain INTEGER NOT NULL CHECK (typeof(restart_certain) = 'integer' AND restart_certain IN (0, 1)),
    sluid TEXT CHECK (typeof(sluid) IN ('text', 'null')),
    user_name TEXT CHECK (typeof(user_name) IN ('text', 'null')),
    uid INTEGER CHECK (typeof(uid) IN ('integer', 'null') AND (uid IS NULL OR uid >= 0)),
    account TEXT CHECK (typeof(account) IN ('text', 'null')),
    partition TEXT CHECK (typeof(partition) IN ('text', 'null')),
    node_list TEXT CHECK (typeof(node_list) IN ('text', 'null')),
    node_count INTEGER CHECK (typeof(node_count) IN ('integer', 'null') AND (node_count IS NULL OR node_count >= 0)),
    comment TEXT CHECK (typeof(comment) IN ('text', 'null')),
    exit_code TEXT CHECK (typeof(exit_code) IN ('text', 'null')),
    job_name TEXT CHECK (typeof(job_name) IN ('text', 'null')),
    array_job_id INTEGER CHECK (typeof(array_job_id) IN ('integer', 'null') AND (array_job_id IS NULL OR array_job_id >= 0)),
    array_task_id INTEGER CHECK (typeof(array_task_id) IN ('integer', 'null') AND (array_task_id IS NULL OR array_task_id >= 0)),
    state TEXT CHECK (typeof(state) IN ('text', 'null')),
    start_epoch_s REAL CHECK (typeof(start_epoch_s) IN ('real', 'null') AND (start_epoch_s IS NULL OR start_epoch_s BETWEEN -9e307 AND 9e307)),
    end_epoch_s REAL CHECK (typeof(end_epoch_s) IN ('real', 'null') AND (end_epoch_s IS NULL OR end_epoch_s BETWEEN -9e307 AND 9e307)) NOT NULL,
    first_heard_epoch_s REAL CHECK (typeof(first_heard_epoch_s) IN ('real', 'null') AND (first_heard_epoch_s IS NULL OR first_heard_epoch_s BETWEEN -9e307 AND 9e307)) NOT NULL,
    updated_epoch_s REAL CHECK (typeof(updated_epoch_s) IN ('real', 'null') AND (updated_epoch_s IS NULL OR updated_epoch_s BETWEEN -9e307 AND 9e307)) NOT NULL,
    UNIQUE (cluster, job_id, restart_count, incarnation)
);
INSERT INTO "run" VALUES(1,'alpha',42,0,0,1,'s1','ada',1000,'physics','gpu','n[1-3]',3,NULL,'0:0',NULL,NULL,NULL,NULL,1750000500.0,1750004100.0,1750004500.0,1750004500.0);
INSERT INTO "run" VALUES(2,'alpha',7,0,0,0,NULL,'ada',1000,'physics','gpu',NULL,1,NULL,'0:0',NULL,NULL,NULL,NULL,NULL,1750004100.0,1750004500.0,1750004500.0);
INSERT INTO "run" VALUES(3,'alpha',42,0,1,1,NULL,'eve',7,'physics','gpu','n1',1,NULL,'0:0',NULL,NULL,NULL,NULL,1759000500.0,1759000560.0,1750004500.0,1750004500.0);
INSERT INTO "run" VALUES(4,'alpha',43,1,0,1,NULL,NULL,NULL,'physics','gpu','n1',1,NULL,'0:0',NULL,NULL,NULL,NULL,1750000500.0,1750000505.5,1750004500.0,1750004500.0);
CREATE TABLE run_gpu (
    run_id INTEGER NOT NULL,
    node_name TEXT NOT NULL CHECK (typeof(node_name) IN ('text', 'null')),
    position INTEGER NOT NULL CHECK (typeof(position) IN ('integer', 'null') AND (position IS NULL OR position >= 0)),
    reason TEXT NOT NULL CHECK (reason IS NULL OR reason IN ('ok', 'short', 'no_source', 'unknown_model', 'unmapped', 'source_lost', 'profiling_locked', 'suspect', 'shared', 'sampler_died', 'not_started', 'not_delivered', 'opted_out')),
    allocated_seconds REAL CHECK (typeof(allocated_seconds) IN ('real', 'null') AND (allocated_seconds IS NULL OR allocated_seconds BETWEEN 0 AND 9e307)),
    covered_seconds REAL NOT NULL CHECK (typeof(covered_seconds) IN ('real', 'null') AND (covered_seconds IS NULL OR covered_seconds BETWEEN 0 AND 9e307)),
    uuid TEXT CHECK (typeof(uuid) IN ('text', 'null')),
    gpu_model TEXT CHECK (typeof(gpu_model) IN ('text', 'null')),
    mapped_by TEXT CHECK (typeof(mapped_by) IN ('text', 'null')),
    reference_clock_mhz REAL CHECK (typeof(reference_clock_mhz) IN ('real', 'null') AND (reference_clock_mhz IS NULL OR reference_clock_mhz BETWEEN 0 AND 9e307)),
    estimator TEXT CHECK (estimator IS NULL OR estimator IN ('cycles', 'sampled', 'scraped')),
    interval_count INTEGER NOT NULL CHECK (typeof(interval_count) IN ('integer', 'null') AND (interval_count IS NULL OR interval_count >= 0)),
    tensor_active_seconds REAL CHECK (typeof(tensor_active_seconds) IN ('real', 'null') AND (tensor_active_seconds IS NULL OR tensor_active_seconds BETWEEN 0 AND 9e307)),
    tensor_ref_seconds REAL CHECK (typeof(tensor_ref_seconds) IN ('real', 'null') AND (tensor_ref_seconds IS NULL OR tensor_ref_seconds BETWEEN 0 AND 9e307)),
    tensor_ref_error_seconds REAL CHECK (typeof(tensor_ref_error_seconds) IN ('real', 'null') AND (tensor_ref_error_seconds IS NULL OR tensor_ref_error_seconds BETWEEN 0 AND 9e307)),
    error_degrees REAL CHECK (typeof(error_degrees) IN ('real', 'null') AND (error_degrees IS NULL OR error_degrees BETWEEN 0 AND 9e307)),
    disagreement_ratio REAL CHECK (typeof(disagreement_ratio) IN ('real', 'null') AND (disagreement_ratio IS NULL OR disagreement_ratio BETWEEN -9e307 AND 9e307)),
    sm_active_seconds REAL CHECK (typeof(sm_active_seconds) IN ('real', 'null') AND (sm_active_seconds IS NULL OR sm_active_seconds BETWEEN 0 AND 9e307)),
    sm_active_covered_seconds REAL NOT NULL CHECK (typeof(sm_active_covered_seconds) IN ('real', 'null') AND (sm_active_covered_seconds IS NULL OR sm_active_covered_seconds BETWEEN 0 AND 9e307)),
    dram_active_seconds REAL CHECK (typeof(dram_active_seconds) IN ('real', 'null') AND (dram_active_seconds IS NULL OR dram_active_seconds BETWEEN 0 AND 9e307)),
    dram_active_covered_seconds REAL NOT NULL CHECK (typeof(dram_active_covered_seconds) IN ('real', 'null') AND (dram_active_covered_seconds IS NULL OR dram_active_covered_seconds BETWEEN 0 AND 9e307)),
    utilisation_seconds REAL CHECK (typeof(utilisation_seconds) IN ('real', 'null') AND (utilisation_seconds IS NULL OR utilisation_seconds BETWEEN 0 AND 9e307)),
    utilisation_covered_seconds REAL NOT NULL CHECK (typeof(utilisation_covered_seconds) IN ('real', 'null') AND (utilisation_covered_seconds IS NULL OR utilisation_covered_seconds BETWEEN 0 AND 9e307)),
    power_joules REAL CHECK (typeof(power_joules) IN ('real', 'null') AND (power_joules IS NULL OR power_joules BETWEEN 0 AND 9e307)),
    power_covered_seconds REAL NOT NULL CHECK (typeof(power_covered_seconds) IN ('real', 'null') AND (power_covered_seconds IS NULL OR power_covered_seconds BETWEEN 0 AND 9e307)),
    energy_joules REAL CHECK (typeof(energy_joules) IN ('real', 'null') AND (energy_joules IS NULL OR energy_joules BETWEEN 0 AND 9e307)),
    memory_max_bytes INTEGER CHECK (typeof(memory_max_bytes) IN ('integer', 'null') AND (memory_max_bytes IS NULL OR memory_max_bytes >= 0)),
    throttled_power_seconds REAL CHECK (typeof(throttled_power_seconds) IN ('real', 'null') AND (throttled_power_seconds IS NULL OR throttled_power_seconds BETWEEN 0 AND 9e307)),
    throttled_thermal_seconds REAL CHECK (typeof(throttled_thermal_seconds) IN ('real', 'null') AND (throttled_thermal_seconds IS NULL OR throttled_thermal_seconds BETWEEN 0 AND 9e307)),
    throttle_covered_seconds REAL NOT NULL CHECK (typeof(throttle_covered_seconds) IN ('real', 'null') AND (throttle_covered_seconds IS NULL OR throttle_covered_seconds BETWEEN 0 AND 9e307)),
    PRIMARY KEY (run_id, node_name, position),
    FOREIGN KEY (run_id, node_name) REFERENCES run_node (run_id, node_name)
        ON DELETE CASCADE ON UPDATE CASCADE
);
INSERT INTO "run_gpu" VALUES(1,'n1',0,'ok',3600.0,3500.0,'GPU-0','NVIDIA H100 80GB HBM3','minor',1830.0,'sampled',350,800.0,700.0,3.0,900.0,NULL,2000.0,3500.0,NULL,0.0,NULL,0.0,NULL,0.0,1500000.0,85899345920,NULL,NULL,0.0);
INSERT INTO "run_gpu" VALUES(1,'n1',1,'short',3600.0,3500.0,'GPU-1','NVIDIA H100 80GB HBM3','minor',1830.0,'sampled',350,800.0,0.0,3.0,900.0,NULL,2000.0,3500.0,NULL,0.0,NULL,0.0,NULL,0.0,1500000.0,85899345920,NULL,NULL,0.0);
INSERT INTO "run_gpu" VALUES(1,'n2',0,'ok',3000.0,3500.0,'GPU-0','NVIDIA H100 80GB HBM3','minor',1830.0,'sampled',350,800.0,700.0,3.0,900.0,NULL,2000.0,3500.0,NULL,0.0,NULL,0.0,NULL,0.0,1500000.0,85899345920,NULL,NULL,0.0);
INSERT INTO "run_gpu" VALUES(2,'n9',0,'not_started',NULL,0.0,'GPU-0',NULL,'minor',NULL,NULL,0,NULL,NULL,NULL,NULL,NULL,NULL,0.0,NULL,0.0,NULL,0.0,NULL,0.0,NULL,NULL,NULL,NULL,0.0);
INSERT INTO "run_gpu" VALUES(3,'n1',0,'ok',60.0,3500.0,'GPU-0','NVIDIA H100 80GB HBM3','minor',1830.0,'sampled',350,800.0,700.0,3.0,900.0,NULL,2000.0,3500.0,NULL,0.0,NULL,0.0,NULL,0.0,1500000.0,85899345920,NULL,NULL,0.0);
INSERT INTO "run_gpu" VALUES(4,'n1',0,'no_source',3600.0,0.0,'GPU-0','NVIDIA H100 80GB HBM3','minor',NULL,NULL,0,NULL,NULL,NULL,NULL,NULL,NULL,0.0,NULL,0.0,NULL,0.0,NULL,0.0,NULL,NULL,NULL,NULL,0.0);
CREATE TABLE run_node (
    run_id INTEGER NOT NULL REFERENCES run (run_id) ON DELETE CASCADE ON UPDATE CASCADE,
    node_name TEXT NOT NULL CHECK (typeof(node_name) IN ('text', 'null')),
    reason TEXT NOT NULL CHECK (reason IS NULL OR reason IN ('ok', 'short', 'no_source', 'unknown_model', 'unmapped', 'source_lost', 'profiling_locked', 'suspect', 'shared', 'sampler_died', 'not_started', 'not_delivered', 'opted_out')),
    epilog_restart_count INTEGER CHECK (typeof(epilog_restart_count) IN ('integer', 'null') AND (epilog_restart_count IS NULL OR epilog_restart_count >= 0)),
    epilog_sluid TEXT CHECK (typeof(epilog_sluid) IN ('text', 'null')),
    gpu_count REAL CHECK (typeof(gpu_count) IN ('real', 'null') AND (gpu_count IS NULL OR gpu_count BETWEEN 0 AND 9e307)),
    gpu_count_assumed INTEGER NOT NULL CHECK (typeof(gpu_count_assumed) = 'integer' AND gpu_count_assumed IN (0, 1)),
    allocated_seconds REAL CHECK (typeof(allocated_seconds) IN ('real', 'null') AND (allocated_seconds IS NULL OR allocated_seconds BETWEEN 0 AND 9e307)),
    allocated_seconds_assumed INTEGER NOT NULL CHECK (typeof(allocated_seconds_assumed) = 'integer' AND allocated_seconds_assumed IN (0, 1)),
    assumed_gpu_seconds REAL CHECK (typeof(assumed_gpu_seconds) IN ('real', 'null') AND (assumed_gpu_seconds IS NULL OR assumed_gpu_seconds BETWEEN 0 AND 9e307)),
    start_epoch_s REAL CHECK (typeof(start_epoch_s) IN ('real', 'null') AND (start_epoch_s IS NULL OR start_epoch_s BETWEEN -9e307 AND 9e307)),
    end_epoch_s REAL CHECK (typeof(end_epoch_s) IN ('real', 'null') AND (end_epoch_s IS NULL OR end_epoch_s BETWEEN -9e307 AND 9e307)),
    tick_count INTEGER NOT NULL CHECK (typeof(tick_count) IN ('integer', 'null') AND (tick_count IS NULL OR tick_count >= 0)),
    missed_ticks INTEGER NOT NULL CHECK (typeof(missed_ticks) IN ('integer', 'null') AND (missed_ticks IS NULL OR missed_ticks >= 0)),
    late_max_seconds REAL NOT NULL CHECK (typeof(late_max_seconds) IN ('real', 'null') AND (late_max_seconds IS NULL OR late_max_seconds BETWEEN 0 AND 9e307)),
    wall_step_seconds REAL NOT NULL CHECK (typeof(wall_step_seconds) IN ('real', 'null') AND (wall_step_seconds IS NULL OR wall_step_seconds BETWEEN 0 AND 9e307)),
    placement TEXT CHECK (typeof(placement) IN ('text', 'null')),
    source TEXT CHECK (typeof(source) IN ('text', 'null')),
    software_version TEXT NOT NULL CHECK (typeof(software_version) IN ('text', 'null')),
    fingerprint INTEGER NOT NULL CHECK (typeof(fingerprint) IN ('integer', 'null') AND (fingerprint IS NULL OR fingerprint >= 0)),
    PRIMARY KEY (run_id, node_name)
);
INSERT INTO "run_node" VALUES(1,'n1','ok',NULL,NULL,2.0,0,3600.0,0,NULL,1750000500.0,1750004100.0,350,1,0.5,0.0,'own scope',NULL,'0.1.0',748942693);
INSERT INTO "run_node" VALUES(1,'n2','ok',NULL,NULL,1.0,0,3000.0,0,NULL,1750000500.0,1750004100.0,350,1,0.5,0.0,'own scope',NULL,'0.1.0',504003143);
INSERT INTO "run_node" VALUES(1,'n3','not_delivered',NULL,NULL,1.5,1,3600.0,1,5400.0,NULL,NULL,0,0,0.0,0.0,NULL,NULL,'',0);
INSERT INTO "run_node" VALUES(2,'n9','not_started',0,NULL,1.0,0,NULL,1,NULL,NULL,1750004100.0,350,1,0.5,0.0,'own scope',NULL,'0.1.0',947695459);
INSERT INTO "run_node" VALUES(3,'n1','ok',NULL,NULL,1.0,0,60.0,0,NULL,1759000500.0,1759000560.0,350,1,0.5,0.0,'own scope',NULL,'0.1.0',3589707433);
INSERT INTO "run_node" VALUES(4,'n1','ok',NULL,NULL,1.0,0,5.5,0,NULL,1750000500.0,1750000505.5,350,1,0.5,0.0,'own scope',NULL,'0.1.0',469903499);
CREATE UNIQUE INDEX "idx__sqlite_migrations_migration_set_name"
    ON "_sqlite_migrations" ("migration_set", "name");
CREATE INDEX run_by_end ON run (end_epoch_s);
CREATE INDEX run_by_user ON run (user_name, start_epoch_s);
CREATE INDEX run_by_partition ON run (partition, start_epoch_s);
CREATE INDEX run_by_account ON run (account, start_epoch_s);
CREATE INDEX run_by_job ON run (job_id);
CREATE INDEX run_node_by_epilog ON run_node (run_id) WHERE epilog_restart_count IS NOT NULL;
CREATE INDEX quarter_hour_by_start ON quarter_hour (start_epoch_s);
CREATE VIEW run_gpu_sums AS SELECT run_id, 
    SUM(allocated_seconds) AS gpu_allocated_seconds,
    SUM(covered_seconds) AS covered_seconds,
    SUM(CASE WHEN tensor_ref_seconds IS NOT NULL THEN covered_seconds END) AS ofu_covered_seconds,
    SUM(CASE WHEN tensor_ref_seconds IS NOT NULL THEN tensor_active_seconds END)
        AS ofu_tensor_active_seconds,
    SUM(CASE WHEN tensor_active_seconds IS NOT NULL THEN covered_seconds END) AS tpa_covered_seconds,
    SUM(tensor_active_seconds) AS tensor_active_seconds,
    SUM(tensor_ref_seconds) AS tensor_ref_seconds,
    SUM(tensor_ref_error_seconds) * SUM(tensor_ref_error_seconds) AS tensor_ref_variance,
    MIN(CASE WHEN tensor_ref_error_seconds IS NOT NULL THEN error_degrees END) AS error_degrees,
    SUM(sm_active_seconds) AS sm_active_seconds,
    SUM(sm_active_covered_seconds) AS sm_active_covered_seconds,
    SUM(energy_joules) AS energy_joules
 FROM run_gpu GROUP BY run_id;
CREATE VIEW run_node_sums AS SELECT run_id, 
    SUM(gpu_count) AS gpu_count,
    SUM(CASE WHEN allocated_seconds IS NULL THEN gpu_count - (SELECT COUNT(g.allocated_seconds)
        FROM run_gpu AS g WHERE g.run_id = run_node.run_id AND g.node_name = run_node.node_name) ELSE 0.0 END)
        AS gpu_count_unknown_time,
    SUM(assumed_gpu_seconds) AS assumed_gpu_seconds
 FROM run_node GROUP BY run_id;
CREATE VIEW run_sums AS SELECT r.run_id AS run_id, r.cluster AS cluster, r.job_id AS job_id,
        r.restart_count AS restart_count, r.user_name AS user_name, r.account AS account,
        r.partition AS partition, r.start_epoch_s AS start_epoch_s, r.end_epoch_s AS end_epoch_s,
        
    n.gpu_count AS gpu_count,
    n.gpu_count_unknown_time AS gpu_count_unknown_time,
    CASE WHEN g.gpu_allocated_seconds IS NULL AND n.assumed_gpu_seconds IS NULL THEN NULL
         ELSE COALESCE(g.gpu_allocated_seconds, 0.0) + COALESCE(n.assumed_gpu_seconds, 0.0)
    END AS allocated_seconds,
    g.covered_seconds AS covered_seconds,
    g.ofu_covered_seconds AS ofu_covered_seconds,
    g.ofu_tensor_active_seconds AS ofu_tensor_active_seconds,
    g.tensor_active_seconds AS tensor_active_seconds,
    g.tensor_ref_seconds AS tensor_ref_seconds,
    g.tensor_ref_variance AS tensor_ref_variance,
    CASE WHEN g.error_degrees > 0 THEN g.tensor_ref_variance * g.tensor_ref_variance / g.error_degrees
    END AS tensor_ref_variance_per_degree,
    g.tpa_covered_seconds AS tpa_covered_seconds,
    g.sm_active_seconds AS sm_active_seconds,
    g.sm_active_covered_seconds AS sm_active_covered_seconds,
    g.energy_joules AS energy_joules

    FROM run AS r LEFT JOIN run_node_sums AS n ON n.run_id = r.run_id
    LEFT JOIN run_gpu_sums AS g ON g.run_id = r.run_id;
COMMIT;
