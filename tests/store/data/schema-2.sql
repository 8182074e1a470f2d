PRAGMA application_id = 1330009393;
PRAGMA user_version = 2;
BEGIN TRANSACTION;
CREATE TABLE "_sqlite_migrations" (
   "id" INTEGER PRIMARY KEY,
   "migration_set" TEXT,
   "name" TEXT,
   "applied_at" TEXT
);
INSERT INTO "_sqlite_migrations" VALUES(1,'slurm-ofu','0001_runs','2026-11-29 22:21:03.690565+00:00');
INSERT INTO "_sqlite_migrations" VALUES(2,'slurm-ofu','0002_accounting','2026-11-29 22:21:03.706241+00:00');
CREATE TABLE accounting_progress (
    cluster TEXT NOT NULL CHECK (typeof(cluster) IN ('text', 'null')) PRIMARY KEY,
    read_until_epoch_s REAL CHECK (typeof(read_until_epoch_s) IN ('real', 'null') AND (read_until_epoch_s IS NULL OR read_until_epoch_s BETWEEN -9e307 AND 9e307)) NOT NULL
);
CREATE TABLE accounting_row (
    cluster TEXT NOT NULL CHECK (typeof(cluster) IN ('text', 'null')),
    job_id INTEGER NOT NULL CHECK (typeof(job_id) IN ('integer', 'null') AND (job_id IS NULL OR job_id >= 0)),
    submit_epoch_s INTEGER NOT NULL CHECK (typeof(submit_epoch_s) IN ('integer', 'null') AND (submit_epoch_s IS NULL OR submit_epoch_s >= 0)),
    run_id INTEGER REFERENCES run (run_id) ON DELETE SET NULL ON UPDATE CASCADE,
    start_epoch_s INTEGER CHECK (typeof(start_epoch_s) IN ('integer', 'null') AND (start_epoch_s IS NULL OR start_epoch_s >= 0)),
    end_epoch_s INTEGER CHECK (typeof(end_epoch_s) IN ('integer', 'null') AND (end_epoch_s IS NULL OR end_epoch_s >= 0)),
    elapsed_seconds INTEGER NOT NULL CHECK (typeof(elapsed_seconds) IN ('integer', 'null') AND (elapsed_seconds IS NULL OR elapsed_seconds >= 0)),
    suspended_seconds INTEGER NOT NULL CHECK (typeof(suspended_seconds) IN ('integer', 'null') AND (suspended_seconds IS NULL OR suspended_seconds >= 0)),
    state TEXT NOT NULL CHECK (typeof(state) IN ('text', 'null')),
    exit_code TEXT CHECK (typeof(exit_code) IN ('text', 'null')),
    user_name TEXT CHECK (typeof(user_name) IN ('text', 'null')),
    uid INTEGER CHECK (typeof(uid) IN ('integer', 'null') AND (uid IS NULL OR uid >= 0)),
    account TEXT CHECK (typeof(account) IN ('text', 'null')),
    partition TEXT CHECK (typeof(partition) IN ('text', 'null')),
    qos TEXT CHECK (typeof(qos) IN ('text', 'null')),
    job_name TEXT CHECK (typeof(job_name) IN ('text', 'null')),
    array_job_id INTEGER CHECK (typeof(array_job_id) IN ('integer', 'null') AND (array_job_id IS NULL OR array_job_id >= 0)),
    array_task_id INTEGER CHECK (typeof(array_task_id) IN ('integer', 'null') AND (array_task_id IS NULL OR array_task_id >= 0)),
    het_job_id INTEGER CHECK (typeof(het_job_id) IN ('integer', 'null') AND (het_job_id IS NULL OR het_job_id >= 0)),
    het_offset INTEGER CHECK (typeof(het_offset) IN ('integer', 'null') AND (het_offset IS NULL OR het_offset >= 0)),
    node_list TEXT CHECK (typeof(node_list) IN ('text', 'null')),
    node_count INTEGER CHECK (typeof(node_count) IN ('integer', 'null') AND (node_count IS NULL OR node_count >= 0)),
    alloc_tres TEXT CHECK (typeof(alloc_tres) IN ('text', 'null')),
    gpu_count INTEGER CHECK (typeof(gpu_count) IN ('integer', 'null') AND (gpu_count IS NULL OR gpu_count >= 0)),
    restart_count INTEGER CHECK (typeof(restart_count) IN ('integer', 'null') AND (restart_count IS NULL OR restart_count >= 0)),
    sluid TEXT CHECK (typeof(sluid) IN ('text', 'null')),
    comment TEXT CHECK (typeof(comment) IN ('text', 'null')),
    claim_kind TEXT CHECK (claim_kind IS NULL OR claim_kind IN ('mfu', 'tflops')), claim_value REAL CHECK (typeof(claim_value) IN ('real', 'null') AND (claim_value IS NULL OR claim_value BETWEEN 0 AND 9e307)), claim_text TEXT CHECK (typeof(claim_text) IN ('text', 'null')), claim_peak_tflops REAL CHECK (typeof(claim_peak_tflops) IN ('real', 'null') AND (claim_peak_tflops IS NULL OR claim_peak_tflops BETWEEN 0 AND 9e307)),
    PRIMARY KEY (cluster, job_id, submit_epoch_s)
);
INSERT INTO "accounting_row" VALUES('alpha',1,1750000490,1,1750000500,1750004100,3600,0,'COMPLETED','0:0','ada',1000,'physics','gpu','normal','train',NULL,NULL,NULL,NULL,'n1',1,NULL,2,NULL,NULL,NULL,NULL,NULL,NULL,NULL);
INSERT INTO "accounting_row" VALUES('alpha',3,1750000490,3,1750000500,1750004100,3000,600,'COMPLETED','0:0','eve',1000,'physics','gpu','normal','train',NULL,NULL,NULL,NULL,'n1',1,NULL,1,NULL,NULL,'mfu=0.3',NULL,NULL,NULL,NULL);
INSERT INTO "accounting_row" VALUES('alpha',6,1750000490,6,1750000500,1750004100,3600,0,'COMPLETED','0:0','ada',1000,'physics','gpu','normal','train',NULL,NULL,NULL,NULL,'n1',1,NULL,1,NULL,NULL,NULL,NULL,NULL,NULL,NULL);
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
INSERT INTO "gpu_timeline" VALUES(2,'n1',0,'[1750000500.0,1800.0,[[350.0,1750.0],[350.0,1750.0]]]');
INSERT INTO "gpu_timeline" VALUES(3,'n1',0,'[1750000500.0,1800.0,[[350.0,1750.0],[350.0,1750.0]]]');
INSERT INTO "gpu_timeline" VALUES(4,'n1',0,'[1750000500.0,1800.0,[[350.0,1750.0],[350.0,1750.0]]]');
INSERT INTO "gpu_timeline" VALUES(5,'n1',0,'[1750000500.0,1800.0,[[350.0,1750.0],[350.0,1750.0]]]');
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
INSERT INTO "quarter_hour" VALUES(4,'n1','NVIDIA H100 80GB HBM3',1750000500,900.0,880.0,200.0,180.0,1.0);
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
    updated_epoch_s REAL CHECK (typeof(updated_epoch_s) IN ('real', 'null') AND (updated_epoch_s IS NULL OR updated_epoch_s BETWEEN -9e307 AND 9e307)) NOT NULL, qos TEXT CHECK (typeof(qos) IN ('text', 'null')), het_job_id INTEGER CHECK (typeof(het_job_id) IN ('integer', 'null') AND (het_job_id IS NULL OR het_job_id >= 0)), het_offset INTEGER CHECK (typeof(het_offset) IN ('integer', 'null') AND (het_offset IS NULL OR het_offset >= 0)), submit_epoch_s REAL CHECK (typeof(submit_epoch_s) IN ('real', 'null') AND (submit_epoch_s IS NULL OR submit_epoch_s BETWEEN -9e307 AND 9e307)), elapsed_seconds REAL CHECK (typeof(elapsed_seconds) IN ('real', 'null') AND (elapsed_seconds IS NULL OR elapsed_seconds BETWEEN 0 AND 9e307)), suspended_seconds REAL CHECK (typeof(suspended_seconds) IN ('real', 'null') AND (suspended_seconds IS NULL OR suspended_seconds BETWEEN 0 AND 9e307)), alloc_tres TEXT CHECK (typeof(alloc_tres) IN ('text', 'null')), slurm_gpu_count INTEGER CHECK (typeof(slurm_gpu_count) IN ('integer', 'null') AND (slurm_gpu_count IS NULL OR slurm_gpu_count >= 0)), heard INTEGER NOT NULL CHECK (typeof(heard) = 'integer' AND heard IN (0, 1)) DEFAULT 1, accounted INTEGER NOT NULL CHECK (typeof(accounted) = 'integer' AND accounted IN (0, 1)) DEFAULT 0, claim_kind TEXT CHECK (claim_kind IS NULL OR claim_kind IN ('mfu', 'tflops')), claim_value REAL CHECK (typeof(claim_value) IN ('real', 'null') AND (claim_value IS NULL OR claim_value BETWEEN 0 AND 9e307)), claim_text TEXT CHECK (typeof(claim_text) IN ('text', 'null')), claim_peak_tflops REAL CHECK (typeof(claim_peak_tflops) IN ('real', 'null') AND (claim_peak_tflops IS NULL OR claim_peak_tflops BETWEEN 0 AND 9e307)), claim_source TEXT CHECK (claim_source IS NULL OR claim_source IN ('epilog', 'accounting')),
    UNIQUE (cluster, job_id, restart_count, incarnation)
);
INSERT INTO "run" VALUES(1,'alpha',1,0,0,1,NULL,'ada',1000,'physics','gpu','n1',1,NULL,'0:0','train',NULL,NULL,'COMPLETED',1750000500.0,1750004100.0,1750004500.0,1750004500.0,'normal',NULL,NULL,1750000490.0,3600.0,0.0,NULL,2,1,1,NULL,NULL,NULL,NULL,NULL);
INSERT INTO "run" VALUES(2,'alpha',2,0,0,1,NULL,'ada',1000,'physics','gpu','n1',1,NULL,'0:0',NULL,NULL,NULL,NULL,1750000500.0,1750004100.0,1750004500.0,1750004500.0,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,1,0,NULL,NULL,NULL,NULL,NULL);
INSERT INTO "run" VALUES(3,'alpha',3,0,0,1,NULL,'eve',1000,'physics','gpu','n1',1,'mfu=0.3','0:0','train',NULL,NULL,'COMPLETED',1750000500.0,1750004100.0,1750004500.0,1750004500.0,'normal',NULL,NULL,1750000490.0,3000.0,600.0,NULL,1,1,1,NULL,NULL,NULL,NULL,NULL);
INSERT INTO "run" VALUES(4,'alpha',4,0,0,1,NULL,'ada',1000,'physics','gpu','n1',1,NULL,'0:0',NULL,NULL,NULL,NULL,1750000500.0,1750004100.0,1750004500.0,1750004500.0,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,1,0,NULL,NULL,NULL,NULL,NULL);
INSERT INTO "run" VALUES(5,'alpha',5,0,0,1,NULL,'ada',1000,'physics','gpu','n[1-2]',2,NULL,'0:0',NULL,NULL,NULL,NULL,1750000500.0,1750004100.0,1750004500.0,1750004500.0,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,1,0,NULL,NULL,NULL,NULL,NULL);
INSERT INTO "run" VALUES(6,'alpha',6,0,0,0,NULL,'ada',1000,'physics','gpu','n1',1,NULL,'0:0','train',NULL,NULL,'COMPLETED',1750000500.0,1750004100.0,1750004500.0,1750004500.0,'normal',NULL,NULL,1750000490.0,3600.0,0.0,NULL,1,0,1,NULL,NULL,NULL,NULL,NULL);
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
INSERT INTO "run_gpu" VALUES(1,'n1',1,'suspect',3600.0,3500.0,'GPU-1','NVIDIA H100 80GB HBM3','minor',1830.0,'sampled',350,800.0,0.0,3.0,900.0,NULL,2000.0,3500.0,NULL,0.0,NULL,0.0,NULL,0.0,1500000.0,85899345920,NULL,NULL,0.0);
INSERT INTO "run_gpu" VALUES(2,'n1',0,'unknown_model',3600.0,3500.0,'GPU-0','NVIDIA H20','minor',NULL,'sampled',350,800.0,NULL,NULL,NULL,NULL,2000.0,3500.0,NULL,0.0,NULL,0.0,NULL,0.0,1500000.0,85899345920,NULL,NULL,0.0);
INSERT INTO "run_gpu" VALUES(3,'n1',0,'ok',3600.0,3500.0,'GPU-0','NVIDIA H100 80GB HBM3','minor',1830.0,'sampled',350,0.0,0.0,3.0,900.0,NULL,3400.0,3500.0,NULL,0.0,NULL,0.0,NULL,0.0,1500000.0,85899345920,NULL,NULL,0.0);
INSERT INTO "run_gpu" VALUES(4,'n1',0,'ok',3600.0,3500.0,'GPU-0','NVIDIA H100 80GB HBM3','minor',1980.0,'sampled',350,800.0,700.0,3.0,900.0,NULL,2000.0,3500.0,NULL,0.0,NULL,0.0,NULL,0.0,1500000.0,85899345920,NULL,NULL,0.0);
INSERT INTO "run_gpu" VALUES(5,'n1',0,'ok',3600.0,3500.0,'GPU-0','NVIDIA H100 80GB HBM3','minor',1830.0,'sampled',350,800.0,700.0,3.0,900.0,NULL,2000.0,3500.0,NULL,0.0,NULL,0.0,NULL,0.0,1500000.0,85899345920,NULL,NULL,0.0);
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
    fingerprint INTEGER NOT NULL CHECK (typeof(fingerprint) IN ('integer', 'null') AND (fingerprint IS NULL OR fingerprint >= 0)), accounted_seconds REAL CHECK (typeof(accounted_seconds) IN ('real', 'null') AND (accounted_seconds IS NULL OR accounted_seconds BETWEEN 0 AND 9e307)), accounted_suspended_seconds REAL CHECK (typeof(accounted_suspended_seconds) IN ('real', 'null') AND (accounted_suspended_seconds IS NULL OR accounted_suspended_seconds BETWEEN 0 AND 9e307)),
    PRIMARY KEY (run_id, node_name)
);
INSERT INTO "run_node" VALUES(1,'n1','ok',NULL,NULL,2.0,0,3600.0,0,NULL,1750000500.0,1750004100.0,350,1,0.5,0.0,'own scope',NULL,'0.1.0',1994377281,3600.0,0.0);
INSERT INTO "run_node" VALUES(2,'n1','unknown_model',NULL,NULL,1.0,0,3600.0,0,NULL,1750000500.0,1750004100.0,350,1,0.5,0.0,'own scope',NULL,'0.1.0',1562847991,NULL,NULL);
INSERT INTO "run_node" VALUES(3,'n1','ok',NULL,NULL,1.0,0,3600.0,0,NULL,1750000500.0,1750004100.0,350,1,0.5,0.0,'own scope',NULL,'0.1.0',2183362343,3000.0,600.0);
INSERT INTO "run_node" VALUES(4,'n1','ok',NULL,NULL,1.0,0,3600.0,0,NULL,1750000500.0,1750004100.0,350,1,0.5,0.0,'own scope',NULL,'0.1.0',416096801,NULL,NULL);
INSERT INTO "run_node" VALUES(5,'n1','ok',NULL,NULL,1.0,0,3600.0,0,NULL,1750000500.0,1750004100.0,350,1,0.5,0.0,'own scope',NULL,'0.1.0',3233777279,NULL,NULL);
INSERT INTO "run_node" VALUES(5,'n2','not_delivered',NULL,NULL,1.0,1,3600.0,1,3600.0,NULL,NULL,0,0,0.0,0.0,NULL,NULL,'',0,NULL,NULL);
INSERT INTO "run_node" VALUES(6,'n1','not_delivered',NULL,NULL,1.0,1,NULL,1,NULL,NULL,NULL,0,0,0.0,0.0,NULL,NULL,'',0,3600.0,0.0);
CREATE TABLE run_told (
    run_id INTEGER PRIMARY KEY REFERENCES run (run_id) ON DELETE CASCADE ON UPDATE CASCADE,
    start_epoch_s REAL CHECK (typeof(start_epoch_s) IN ('real', 'null') AND (start_epoch_s IS NULL OR start_epoch_s BETWEEN -9e307 AND 9e307)),
    end_epoch_s REAL CHECK (typeof(end_epoch_s) IN ('real', 'null') AND (end_epoch_s IS NULL OR end_epoch_s BETWEEN -9e307 AND 9e307)) NOT NULL,
    sluid TEXT CHECK (typeof(sluid) IN ('text', 'null')),
    user_name TEXT CHECK (typeof(user_name) IN ('text', 'null')),
    uid INTEGER CHECK (typeof(uid) IN ('integer', 'null') AND (uid IS NULL OR uid >= 0)),
    account TEXT CHECK (typeof(account) IN ('text', 'null')),
    partition TEXT CHECK (typeof(partition) IN ('text', 'null')),
    node_list TEXT CHECK (typeof(node_list) IN ('text', 'null')),
    node_count INTEGER CHECK (typeof(node_count) IN ('integer', 'null') AND (node_count IS NULL OR node_count >= 0)),
    comment TEXT CHECK (typeof(comment) IN ('text', 'null')),
    exit_code TEXT CHECK (typeof(exit_code) IN ('text', 'null')),
    claim_kind TEXT CHECK (claim_kind IS NULL OR claim_kind IN ('mfu', 'tflops')), claim_value REAL CHECK (typeof(claim_value) IN ('real', 'null') AND (claim_value IS NULL OR claim_value BETWEEN 0 AND 9e307)), claim_text TEXT CHECK (typeof(claim_text) IN ('text', 'null')), claim_peak_tflops REAL CHECK (typeof(claim_peak_tflops) IN ('real', 'null') AND (claim_peak_tflops IS NULL OR claim_peak_tflops BETWEEN 0 AND 9e307))
);
INSERT INTO "run_told" VALUES(1,1750000500.0,1750004100.0,NULL,'ada',1000,'physics','gpu','n1',1,NULL,'0:0',NULL,NULL,NULL,NULL);
INSERT INTO "run_told" VALUES(2,1750000500.0,1750004100.0,NULL,'ada',1000,'physics','gpu','n1',1,NULL,'0:0',NULL,NULL,NULL,NULL);
INSERT INTO "run_told" VALUES(3,1750000500.0,1750004100.0,NULL,'eve',1000,'physics','gpu','n1',1,NULL,'0:0',NULL,NULL,NULL,NULL);
INSERT INTO "run_told" VALUES(4,1750000500.0,1750004100.0,NULL,'ada',1000,'physics','gpu','n1',1,NULL,'0:0',NULL,NULL,NULL,NULL);
INSERT INTO "run_told" VALUES(5,1750000500.0,1750004100.0,NULL,'ada',1000,'physics','gpu','n[1-2]',2,NULL,'0:0',NULL,NULL,NULL,NULL);
CREATE TABLE write_back (
    run_id INTEGER PRIMARY KEY REFERENCES run (run_id) ON DELETE CASCADE ON UPDATE CASCADE,
    status TEXT NOT NULL CHECK (status IS NULL OR status IN ('written', 'left_alone', 'superseded', 'failed')),
    field TEXT CHECK (typeof(field) IN ('text', 'null')),
    token TEXT CHECK (typeof(token) IN ('text', 'null')),
    attempts INTEGER NOT NULL CHECK (typeof(attempts) IN ('integer', 'null') AND (attempts IS NULL OR attempts >= 0)),
    next_epoch_s REAL CHECK (typeof(next_epoch_s) IN ('real', 'null') AND (next_epoch_s IS NULL OR next_epoch_s BETWEEN -9e307 AND 9e307)),
    message TEXT CHECK (typeof(message) IN ('text', 'null')),
    updated_epoch_s REAL CHECK (typeof(updated_epoch_s) IN ('real', 'null') AND (updated_epoch_s IS NULL OR updated_epoch_s BETWEEN -9e307 AND 9e307)) NOT NULL
);
INSERT INTO "write_back" VALUES(1,'written','SystemComment','ofu1:ofu=0.2',0,NULL,NULL,1750009000.0);
CREATE UNIQUE INDEX "idx__sqlite_migrations_migration_set_name"
    ON "_sqlite_migrations" ("migration_set", "name");
CREATE INDEX run_by_end ON run (end_epoch_s);
CREATE INDEX run_by_user ON run (user_name, start_epoch_s);
CREATE INDEX run_by_partition ON run (partition, start_epoch_s);
CREATE INDEX run_by_account ON run (account, start_epoch_s);
CREATE INDEX run_by_job ON run (job_id);
CREATE INDEX run_node_by_epilog ON run_node (run_id) WHERE epilog_restart_count IS NOT NULL;
CREATE INDEX quarter_hour_by_start ON quarter_hour (start_epoch_s);
CREATE INDEX run_by_array ON run (array_job_id, array_task_id) WHERE array_job_id IS NOT NULL;
CREATE INDEX run_by_het ON run (het_job_id, het_offset) WHERE het_job_id IS NOT NULL;
CREATE INDEX run_node_by_node ON run_node (node_name, end_epoch_s);
CREATE INDEX accounting_row_by_run ON accounting_row (run_id);
CREATE VIEW gpu_accounted AS SELECT run_id, node_name, position, reason, charged_seconds AS allocated_seconds, CASE WHEN weight_covered_seconds IS NULL THEN running_covered_seconds ELSE charged_seconds END AS covered_seconds, uuid, gpu_model, mapped_by, reference_clock_mhz, estimator, interval_count, CASE WHEN weight_covered_seconds IS NULL THEN tensor_active_seconds ELSE tensor_active_seconds * weight_covered_seconds END AS tensor_active_seconds, CASE WHEN weight_covered_seconds IS NULL THEN tensor_ref_seconds ELSE tensor_ref_seconds * weight_covered_seconds END AS tensor_ref_seconds, CASE WHEN weight_covered_seconds IS NULL THEN tensor_ref_error_seconds ELSE tensor_ref_error_seconds * weight_covered_seconds END AS tensor_ref_error_seconds, error_degrees, disagreement_ratio, CASE WHEN weight_sm_active_covered_seconds IS NULL THEN sm_active_seconds ELSE sm_active_seconds * weight_sm_active_covered_seconds END AS sm_active_seconds, CASE WHEN weight_sm_active_covered_seconds IS NULL THEN running_sm_active_covered_seconds ELSE charged_seconds END AS sm_active_covered_seconds, CASE WHEN weight_dram_active_covered_seconds IS NULL THEN dram_active_seconds ELSE dram_active_seconds * weight_dram_active_covered_seconds END AS dram_active_seconds, CASE WHEN weight_dram_active_covered_seconds IS NULL THEN running_dram_active_covered_seconds ELSE charged_seconds END AS dram_active_covered_seconds, CASE WHEN weight_utilisation_covered_seconds IS NULL THEN utilisation_seconds ELSE utilisation_seconds * weight_utilisation_covered_seconds END AS utilisation_seconds, CASE WHEN weight_utilisation_covered_seconds IS NULL THEN running_utilisation_covered_seconds ELSE charged_seconds END AS utilisation_covered_seconds, power_joules, power_covered_seconds, energy_joules, memory_max_bytes, CASE WHEN weight_throttle_covered_seconds IS NULL THEN throttled_power_seconds ELSE throttled_power_seconds * weight_throttle_covered_seconds END AS throttled_power_seconds, CASE WHEN weight_throttle_covered_seconds IS NULL THEN throttled_thermal_seconds ELSE throttled_thermal_seconds * weight_throttle_covered_seconds END AS throttled_thermal_seconds, CASE WHEN weight_throttle_covered_seconds IS NULL THEN running_throttle_covered_seconds ELSE charged_seconds END AS throttle_covered_seconds FROM (SELECT *, 
    CASE WHEN accounted_seconds IS NOT NULL AND running_covered_seconds > charged_seconds
        THEN charged_seconds / running_covered_seconds END AS weight_covered_seconds, 
    CASE WHEN accounted_seconds IS NOT NULL AND running_sm_active_covered_seconds > charged_seconds
        THEN charged_seconds / running_sm_active_covered_seconds END AS weight_sm_active_covered_seconds, 
    CASE WHEN accounted_seconds IS NOT NULL AND running_dram_active_covered_seconds > charged_seconds
        THEN charged_seconds / running_dram_active_covered_seconds END AS weight_dram_active_covered_seconds, 
    CASE WHEN accounted_seconds IS NOT NULL AND running_utilisation_covered_seconds > charged_seconds
        THEN charged_seconds / running_utilisation_covered_seconds END AS weight_utilisation_covered_seconds, 
    CASE WHEN accounted_seconds IS NOT NULL AND running_throttle_covered_seconds > charged_seconds
        THEN charged_seconds / running_throttle_covered_seconds END AS weight_throttle_covered_seconds FROM (SELECT *, 
    CASE WHEN running_ratio IS NULL THEN covered_seconds
        ELSE MAX(covered_seconds * running_ratio, COALESCE(tensor_active_seconds, 0.0)) END AS running_covered_seconds, 
    CASE WHEN running_ratio IS NULL THEN sm_active_covered_seconds
        ELSE MAX(sm_active_covered_seconds * running_ratio, COALESCE(sm_active_seconds, 0.0)) END AS running_sm_active_covered_seconds, 
    CASE WHEN running_ratio IS NULL THEN dram_active_covered_seconds
        ELSE MAX(dram_active_covered_seconds * running_ratio, COALESCE(dram_active_seconds, 0.0)) END AS running_dram_active_covered_seconds, 
    CASE WHEN running_ratio IS NULL THEN utilisation_covered_seconds
        ELSE MAX(utilisation_covered_seconds * running_ratio, COALESCE(utilisation_seconds, 0.0)) END AS running_utilisation_covered_seconds, 
    CASE WHEN running_ratio IS NULL THEN throttle_covered_seconds
        ELSE MAX(throttle_covered_seconds * running_ratio, COALESCE(throttled_power_seconds, 0.0), COALESCE(throttled_thermal_seconds, 0.0)) END AS running_throttle_covered_seconds FROM (
SELECT g.*,
    CASE WHEN n.accounted_seconds IS NULL THEN g.allocated_seconds
        WHEN n.allocated_seconds_assumed = 0 AND n.allocated_seconds > 0
            AND g.allocated_seconds <> n.allocated_seconds
            THEN g.allocated_seconds * (n.accounted_seconds / n.allocated_seconds)
        ELSE n.accounted_seconds END AS charged_seconds,
    n.accounted_seconds AS accounted_seconds,
    CASE WHEN n.accounted_suspended_seconds > 0
        THEN n.accounted_seconds / (n.accounted_seconds + n.accounted_suspended_seconds)
    END AS running_ratio
FROM run_gpu AS g JOIN run_node AS n ON n.run_id = g.run_id AND n.node_name = g.node_name
)));
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
 FROM gpu_accounted GROUP BY run_id;
CREATE VIEW run_node_sums AS SELECT run_id, 
    SUM(gpu_count) AS gpu_count,
    SUM(CASE WHEN accounted_seconds IS NULL AND allocated_seconds IS NULL
        THEN gpu_count - (SELECT COUNT(g.allocated_seconds)
        FROM run_gpu AS g WHERE g.run_id = run_node.run_id AND g.node_name = run_node.node_name) ELSE 0.0 END)
        AS gpu_count_unknown_time,
    SUM(CASE WHEN accounted_seconds IS NULL THEN assumed_gpu_seconds
        ELSE accounted_seconds * (gpu_count - (SELECT COUNT(*)
        FROM run_gpu AS g WHERE g.run_id = run_node.run_id AND g.node_name = run_node.node_name)) END)
        AS assumed_gpu_seconds
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
