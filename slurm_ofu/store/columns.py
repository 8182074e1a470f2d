"""What each table, view and column of the accounting database means."""

from collections.abc import Mapping
from typing import Final

from slurm_ofu.store.views import SIDE_SUMS

_RUN_ID: Final = "the run, see table run"
_NODE_NAME: Final = "the node, as Slurm names it"
_REASON: Final = "why there is no figure, or what qualifies it; ok (see metric.md)"

RELATIONS: Final[Mapping[str, str]] = {
    "run": "One life of one job: a requeued job has several, a job id that comes back another incarnation."
    " What its nodes told, completed by Slurm's own accounting.",
    "run_told": "What the nodes told of a run, before anything was completed; which run a record belongs to"
    " rests on it. A run without a row here is silent: only Slurm's accounting knows it.",
    "run_node": "One node of one run; also nodes that were allocated and never heard from.",
    "run_gpu": "One GPU of one node of one run: numerators and denominators, never ratios.",
    "gpu_timeline": "OFU of one GPU over the life of its run, at most 128 buckets.",
    "quarter_hour": "One UTC quarter hour of one run on one node, summed over the GPUs of one model.",
    "accounting_row": "One row of Slurm's own accounting: one life of one job, or one segment of a job"
    " that was resized. Only rows with GPUs or of a job id that a run has.",
    "accounting_progress": "How far the accounting of each cluster was read.",
    "run_band": "A run that others on its GPU model are compared to: finished, of one GPU model, mostly"
    " measured, of half a GPU-hour or more, and with tensor work.",
    "band_count": "The rows of run_band counted, which triggers keep: what percentiles are read from.",
    "warning": "What users were told by e-mail, and when.",
    "write_back": "What became of writing a run's OFU into Slurm's accounting.",
    "gpu_accounted": "View: run_gpu, on the time that Slurm's accounting charges (see metric.md, 6).",
    "run_sums": "View: each run with the sums over its GPUs and nodes.",
    "run_gpu_sums": "View: sums over the rows of gpu_accounted of each run.",
    "run_node_sums": "View: sums over the rows of run_node of each run.",
}

_RUN: Final[Mapping[str, str]] = {
    "run_id": "number of the run in this database; nothing to Slurm",
    "cluster": "Slurm's ClusterName",
    "job_id": "Slurm's job id; comes back after years",
    "restart_count": "how often the job had been requeued, as the prolog saw it",
    "incarnation": "0 for the first job (by start) with this cluster, id and restart count; 1 for the next…",
    "restart_certain": "0: only epilogs spoke of this run, and their restart count may be one too high",
    "sluid": "Slurm's own unique id of the run (24.11 and later)",
    "user_name": "the user",
    "uid": "the user's number",
    "account": "the account that is charged",
    "partition": "the partition it ran in",
    "node_list": "its nodes as a Slurm host list, the prolog's; else accounting's",
    "node_count": "how many nodes it was given",
    "comment": "the user's comment on the job",
    "exit_code": "exit code and signal, code:signal",
    "job_name": "name of the job; accounting fills it in",
    "array_job_id": "id of the array; accounting fills it in",
    "array_task_id": "index in the array; accounting fills it in",
    "state": "Slurm's state at the end; accounting fills it in",
    "start_epoch_s": "start by Slurm; earliest on any node till accounting was read, seconds since 1970",
    "end_epoch_s": "end by Slurm; latest on any node till accounting was read, seconds since 1970",
    "first_heard_epoch_s": "when it was first heard of, seconds since 1970",
    "updated_epoch_s": "when a record, or accounting, last said something of it, seconds since 1970",
    "qos": "quality of service; accounting fills it in",
    "het_job_id": "job id of a heterogeneous job's leader; accounting fills it in",
    "het_offset": "number of the component; accounting fills it in",
    "submit_epoch_s": "when it was submitted, or requeued, seconds since 1970; accounting fills it in",
    "elapsed_seconds": "how long it ran by Slurm, suspended time not counted; accounting fills it in",
    "suspended_seconds": "how long it was suspended; accounting fills it in",
    "alloc_tres": "what it was given, as Slurm prints it, of a resized job at first; accounting fills it in",
    "slurm_gpu_count": "GPUs by Slurm's accounting, the most at once; NULL: it does not say",
    "heard": "0: silent, known from Slurm's accounting alone; no node ever spoke of it",
    "accounted": "1: over in Slurm's accounting, and completed from it",
    "claim_kind": "what the job claims of itself in its comment: mfu or tflops",
    "claim_value": "the claim: a ratio, or TFLOP/s per GPU",
    "claim_text": "the claim as it stood in the comment",
    "claim_peak_tflops": "dense 16-bit peak of one of its GPUs, which tflops are held against",
    "claim_source": "where the comment was read: epilog, else accounting",
    "running": "1: it goes on; figures are those so far, and end_epoch_s is when they were made",
}

_RUN_TOLD: Final[Mapping[str, str]] = {
    "run_id": _RUN_ID,
    "start_epoch_s": "earliest start on any node, by the node's clock, seconds since 1970",
    "end_epoch_s": "latest end on any node, by the node's clock, seconds since 1970",
    "sluid": "Slurm's own unique id of the run, where a hook is told it (26.05 and later)",
    "user_name": _RUN["user_name"],
    "uid": _RUN["uid"],
    "account": _RUN["account"],
    "partition": _RUN["partition"],
    "node_list": "its nodes as a Slurm host list, the prolog's",
    "node_count": _RUN["node_count"],
    "comment": _RUN["comment"],
    "exit_code": "exit code and signal as the epilog saw them",
    "claim_kind": _RUN["claim_kind"],
    "claim_value": _RUN["claim_value"],
    "claim_text": _RUN["claim_text"],
    "claim_peak_tflops": _RUN["claim_peak_tflops"],
}

_ACCOUNTING_ROW: Final[Mapping[str, str]] = {
    "cluster": _RUN["cluster"],
    "job_id": "Slurm's raw job id: of an array task, of a component",
    "submit_epoch_s": "submission; of a further segment the resize, of a further life the requeue",
    "run_id": "the run it belongs to, see table run; NULL while there is none",
    "start_epoch_s": "start, seconds since 1970; NULL: it never started",
    "end_epoch_s": "end, seconds since 1970; NULL: it goes on",
    "elapsed_seconds": "Slurm's elapsed time; of a further segment, on 22.05, from the job's start",
    "suspended_seconds": "suspended time, of this segment alone",
    "state": "one word, such as COMPLETED",
    "exit_code": _RUN["exit_code"],
    "user_name": _RUN["user_name"],
    "uid": _RUN["uid"],
    "account": _RUN["account"],
    "partition": _RUN["partition"],
    "qos": "quality of service",
    "job_name": "name of the job",
    "array_job_id": "id of the array",
    "array_task_id": "index in the array",
    "het_job_id": "job id of a heterogeneous job's leader",
    "het_offset": "number of the component",
    "node_list": "its nodes as a Slurm host list",
    "node_count": "how many nodes",
    "alloc_tres": "what it was given, as Slurm prints it; gres/gpu and gres/gpu:type are not to be added",
    "gpu_count": "GPUs over all nodes; NULL: Slurm does not say",
    "restart_count": "how often the job had been requeued (24.11 and later)",
    "sluid": "Slurm's own unique id of the row (24.11 and later)",
    "comment": "the user's comment on the job",
    "claim_kind": _RUN["claim_kind"],
    "claim_value": _RUN["claim_value"],
    "claim_text": _RUN["claim_text"],
    "claim_peak_tflops": _RUN["claim_peak_tflops"],
}

_WRITE_BACK: Final[Mapping[str, str]] = {
    "run_id": _RUN_ID,
    "status": "written, left_alone, superseded or failed",
    "field": "the field of Slurm's accounting",
    "token": "the text",
    "attempts": "how often it was tried",
    "next_epoch_s": "when it is tried again, seconds since 1970; NULL: never",
    "message": "what there is to say about it",
    "updated_epoch_s": "when this was last changed, seconds since 1970",
}

_RUN_NODE: Final[Mapping[str, str]] = {
    "run_id": _RUN_ID,
    "node_name": _NODE_NAME,
    "reason": _REASON,
    "epilog_restart_count": "the restart count an epilog told, where no prolog ran; NULL otherwise",
    "epilog_sluid": "the SLUID an epilog told, where no prolog ran; NULL otherwise",
    "gpu_count": "GPUs allocated on it",
    "gpu_count_assumed": "1: never heard from; gpu_count is assumed (see metric.md, 2.5)",
    "allocated_seconds": "how long the run held the node",
    "allocated_seconds_assumed": "1: the node did not say; the longest that any other node of the run said",
    "assumed_gpu_seconds": "GPU-seconds allocated here that no row of run_gpu accounts for; NULL: none",
    "start_epoch_s": "start on this node, seconds since 1970",
    "end_epoch_s": "end on this node, seconds since 1970",
    "tick_count": "how often the sampler looked",
    "missed_ticks": "deadlines that passed while another tick was late",
    "late_max_seconds": "the sampler's worst lateness",
    "wall_step_seconds": "sum of steps of the wall clock of more than one second",
    "placement": "where the sampler ran: own scope, or why not",
    "source": "the counter source",
    "software_version": "version of slurm-ofu that made the record",
    "interim": "1: the run went on when this was told; a later record takes its place",
    "backfilled": "1: made afterwards, out of samples that others had stored",
    "accounted_seconds": "how long the run held the node by Slurm's accounting, suspended time not counted",
    "accounted_suspended_seconds": "how long it was suspended meanwhile, by Slurm's accounting",
    "fingerprint": "checksum of the record; decides between two that are equally good",
}

_SIDE_FIGURES: Final[Mapping[str, str]] = {
    "sm_active_seconds": "share of SMs with any warp, integrated over time",
    "sm_active_covered_seconds": "seconds over which that is known",
    "dram_active_seconds": "share of time with memory traffic, integrated",
    "dram_active_covered_seconds": "seconds over which that is known",
    "utilisation_seconds": "time with any kernel on the GPU",
    "utilisation_covered_seconds": "seconds over which that is known",
    "power_joules": "power readings, integrated over time",
    "power_covered_seconds": "seconds over which that is known",
    "energy_joules": "from the GPU's own energy counter",
    "memory_max_bytes": "most memory seen in use",
    "throttled_power_seconds": "time slowed down by the power limit",
    "throttled_thermal_seconds": "time slowed down by heat",
    "throttle_covered_seconds": "seconds over which those two are known",
}

_RUN_GPU: Final[Mapping[str, str]] = {
    "run_id": _RUN_ID,
    "node_name": _NODE_NAME,
    "position": "in the node's Slurm device list",
    "reason": _REASON,
    "allocated_seconds": "how long the run held the GPU",
    "covered_seconds": "of these, how many were measured",
    "uuid": "the GPU's UUID",
    "gpu_model": "the name the driver prints, unchanged",
    "mapped_by": "how the position was resolved to this UUID",
    "source": "the counter source that spoke for it",
    "source_note": "why not a better one",
    "mig_profile": "of a MIG slice, as in 1g.10gb",
    "sm_share_ratio": "a MIG slice's share of its GPU's SMs: all times of this row are times that; else 1",
    "reference_clock_mhz": "SM clock at which the vendor's dense tensor peak holds",
    "estimator": "cycles, sampled or scraped (see metric.md)",
    "interval_count": "intervals summed",
    "tensor_active_seconds": "time with an active tensor pipe; NULL: not measured",
    "tensor_ref_seconds": "the same at the reference clock: the numerator of OFU; NULL: not known",
    "tensor_ref_error_seconds": "one sigma of tensor_ref_seconds",
    "error_degrees": "degrees of freedom behind that sigma; NULL: very many",
    "disagreement_ratio": "OFU by cycles minus by sampling, where they disagree",
    **_SIDE_FIGURES,
    "idle_seconds": "time without SM activity and tensor work, by minutes (see metric.md, 7.1)",
    "idle_covered_seconds": "seconds over which that is known",
    "idle_tail_seconds": "of these, the stretch up to the run's end",
    "non_tensor_seconds": "time busy without tensor work, by minutes",
    "non_tensor_covered_seconds": "seconds over which that is known",
    "peak_tensor_ref_seconds": "tensor_ref_seconds of the busiest five minutes",
    "peak_covered_seconds": "how much of those was measured",
    "tensor_megacycles": "1e6 active cycles per SM, where no reference clock was known; NULL otherwise",
    "tensor_megacycles_error": "one sigma of tensor_megacycles",
}

_GPU_TIMELINE: Final[Mapping[str, str]] = {
    "run_id": _RUN_ID,
    "node_name": _NODE_NAME,
    "position": "as in run_gpu",
    "timeline_json": "[start_epoch_s, bucket_seconds, [[tensor_ref_seconds or null, covered_seconds], …]]",
}

_QUARTER_HOUR: Final[Mapping[str, str]] = {
    "run_id": _RUN_ID,
    "node_name": _NODE_NAME,
    "gpu_model": "as in run_gpu; NULL: unknown",
    "start_epoch_s": "start of the quarter hour, seconds since 1970, a multiple of 900",
    "allocated_seconds": "GPU-seconds held within it",
    "covered_seconds": "of these, how many were measured",
    "tensor_active_seconds": "GPU-seconds with an active tensor pipe",
    "tensor_ref_seconds": "the same at the reference clock; NULL: not known",
    "tensor_ref_error_seconds": "one sigma of tensor_ref_seconds",
    "idle_seconds": "GPU-seconds without SM activity and tensor work; NULL: not kept, or not judged",
    "idle_covered_seconds": "GPU-seconds over which that is known; NULL: not kept",
    "non_tensor_seconds": "GPU-seconds busy without tensor work; NULL: not kept, or not judged",
    "non_tensor_covered_seconds": "GPU-seconds over which that is known; NULL: not kept",
}

_HELD_SUSPENDED: Final = "GPU-seconds that were held while the job was suspended; in no other sum"
_UNKNOWN_TIME: Final = "of these, GPUs of which nobody knows how long they were held: in no sum of seconds"

_SUMMED_GPUS: Final[Mapping[str, str]] = {
    "covered_seconds": "measured GPU-seconds, those of suspect GPUs left out, as in all that is measured",
    "ofu_covered_seconds": "measured GPU-seconds of GPUs that have an OFU: the denominator of OFU",
    "ofu_tensor_active_seconds": "GPU-seconds with an active tensor pipe, of GPUs that have an OFU",
    "tpa_covered_seconds": "measured GPU-seconds of GPUs whose tensor activity is known",
    "tensor_active_seconds": "GPU-seconds with an active tensor pipe",
    "tensor_ref_seconds": "the same at the reference clock: the numerator of OFU",
    "tensor_ref_variance": "squared sum of the GPUs' sigmas, since GPUs of one run swing together",
    "sm_active_seconds": _SIDE_FIGURES["sm_active_seconds"],
    "sm_active_covered_seconds": _SIDE_FIGURES["sm_active_covered_seconds"],
    "energy_joules": _SIDE_FIGURES["energy_joules"],
    **{name: _RUN_GPU[name] for name in SIDE_SUMS},
}

_BAND: Final[Mapping[str, str]] = {
    "gpu_model": "as in run_gpu",
    "day": "UTC day of the run's end: seconds since 1970 / 86400, rounded down",
    "band": "OFU in whole per cent, rounded down",
}

COLUMNS: Final[Mapping[str, Mapping[str, str]]] = {
    "run": _RUN,
    "run_told": _RUN_TOLD,
    "run_node": _RUN_NODE,
    "run_gpu": _RUN_GPU,
    "gpu_timeline": _GPU_TIMELINE,
    "quarter_hour": _QUARTER_HOUR,
    "accounting_row": _ACCOUNTING_ROW,
    "accounting_progress": {
        "cluster": _RUN["cluster"],
        "read_until_epoch_s": "everything up to here was read, seconds since 1970",
    },
    "run_band": {
        "run_id": _RUN_ID,
        **_BAND,
        "gpu_seconds": "its measured GPU-seconds",
    },
    "band_count": {
        **_BAND,
        "run_count": "how many runs",
        "gpu_seconds": "their measured GPU-seconds",
    },
    "warning": {
        "user_name": "who was told",
        "audit": "of what kind it was, as `ofu-admin audit` names it",
        "subject": "what it was about: a job, or a family of jobs",
        "sent_epoch_s": "when, the last time, seconds since 1970",
    },
    "write_back": _WRITE_BACK,
    "gpu_accounted": {
        **_RUN_GPU,
        "allocated_seconds": "how long the run held the GPU, by Slurm's accounting where that says it",
        "covered_seconds": "of these, how many were measured; at most all of them",
    },
    "run_sums": {
        **{name: _RUN[name] for name in ("run_id", "cluster", "job_id", "restart_count", "user_name")},
        **{name: _RUN[name] for name in ("account", "partition", "start_epoch_s", "end_epoch_s")},
        **_SUMMED_GPUS,
        "gpu_count": "GPUs allocated, those assumed of silent nodes included",
        "gpu_count_unknown_time": _UNKNOWN_TIME,
        "allocated_seconds": "GPU-seconds allocated, those assumed of silent nodes included",
        "tensor_ref_variance_per_degree": "squared variance over the fewest degrees of freedom of any GPU",
        "held_suspended_seconds": _HELD_SUSPENDED,
    },
    "run_gpu_sums": {
        **_SUMMED_GPUS,
        "run_id": _RUN_ID,
        "gpu_allocated_seconds": "GPU-seconds allocated of GPUs that have a row",
        "error_degrees": "fewest degrees of freedom of any GPU",
    },
    "run_node_sums": {
        "run_id": _RUN_ID,
        "gpu_count": "GPUs allocated, those assumed of silent nodes included",
        "gpu_count_unknown_time": _UNKNOWN_TIME,
        "assumed_gpu_seconds": "GPU-seconds allocated that no row of run_gpu accounts for",
        "held_suspended_seconds": _HELD_SUSPENDED,
    },
}
