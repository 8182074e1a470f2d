"""What each table, view and column of the accounting database means."""

from collections.abc import Mapping
from typing import Final

_RUN_ID: Final = "the run, see table run"
_NODE_NAME: Final = "the node, as Slurm names it"
_REASON: Final = "why there is no figure, or what qualifies it; ok (see metric.md)"

RELATIONS: Final[Mapping[str, str]] = {
    "run": "One life of one job: a requeued job has several, a job id that comes back another incarnation.",
    "run_node": "One node of one run; also nodes that were allocated and never heard from.",
    "run_gpu": "One GPU of one node of one run: numerators and denominators, never ratios.",
    "gpu_timeline": "OFU of one GPU over the life of its run, at most 128 buckets.",
    "quarter_hour": "One UTC quarter hour of one run on one node, summed over the GPUs of one model.",
    "run_sums": "View: each run with the sums over its GPUs and nodes.",
    "run_gpu_sums": "View: sums over the rows of run_gpu of each run.",
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
    "node_list": "its nodes as a Slurm host list, the prolog's",
    "node_count": "how many nodes it was given",
    "comment": "the user's comment on the job",
    "exit_code": "exit code and signal as the epilog saw them",
    "job_name": "name of the job; accounting fills it in",
    "array_job_id": "id of the array; accounting fills it in",
    "array_task_id": "index in the array; accounting fills it in",
    "state": "Slurm's state at the end; accounting fills it in",
    "start_epoch_s": "earliest start on any node, seconds since 1970",
    "end_epoch_s": "latest end on any node, seconds since 1970",
    "first_heard_epoch_s": "when the first record of it came in, seconds since 1970",
    "updated_epoch_s": "when the latest record of it came in, seconds since 1970",
}

_RUN_NODE: Final[Mapping[str, str]] = {
    "run_id": _RUN_ID,
    "node_name": _NODE_NAME,
    "reason": _REASON,
    "epilog_restart_count": "the restart count an epilog told, where no prolog ran; NULL otherwise",
    "epilog_sluid": "the SLUID an epilog told, where no prolog ran; NULL otherwise",
    "gpu_count": "GPUs allocated on it",
    "gpu_count_assumed": "1: never heard from; gpu_count is the mean of the run's other nodes",
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
    "reference_clock_mhz": "SM clock at which the vendor's dense tensor peak holds",
    "estimator": "cycles, sampled or scraped (see metric.md)",
    "interval_count": "intervals summed",
    "tensor_active_seconds": "time with an active tensor pipe; NULL: not measured",
    "tensor_ref_seconds": "the same at the reference clock: the numerator of OFU; NULL: not known",
    "tensor_ref_error_seconds": "one sigma of tensor_ref_seconds",
    "error_degrees": "degrees of freedom behind that sigma; NULL: very many",
    "disagreement_ratio": "OFU by cycles minus by sampling, where they disagree",
    **_SIDE_FIGURES,
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
}

_UNKNOWN_TIME: Final = "of these, GPUs of which nobody knows how long they were held: in no sum of seconds"

_SUMMED_GPUS: Final[Mapping[str, str]] = {
    "covered_seconds": "measured GPU-seconds",
    "ofu_covered_seconds": "measured GPU-seconds of GPUs that have an OFU: the denominator of OFU",
    "ofu_tensor_active_seconds": "GPU-seconds with an active tensor pipe, of GPUs that have an OFU",
    "tpa_covered_seconds": "measured GPU-seconds of GPUs whose tensor activity is known",
    "tensor_active_seconds": "GPU-seconds with an active tensor pipe",
    "tensor_ref_seconds": "the same at the reference clock: the numerator of OFU",
    "tensor_ref_variance": "squared sum of the GPUs' sigmas, since GPUs of one run swing together",
    "sm_active_seconds": _SIDE_FIGURES["sm_active_seconds"],
    "sm_active_covered_seconds": _SIDE_FIGURES["sm_active_covered_seconds"],
    "energy_joules": _SIDE_FIGURES["energy_joules"],
}

COLUMNS: Final[Mapping[str, Mapping[str, str]]] = {
    "run": _RUN,
    "run_node": _RUN_NODE,
    "run_gpu": _RUN_GPU,
    "gpu_timeline": _GPU_TIMELINE,
    "quarter_hour": _QUARTER_HOUR,
    "run_sums": {
        **{name: _RUN[name] for name in ("run_id", "cluster", "job_id", "restart_count", "user_name")},
        **{name: _RUN[name] for name in ("account", "partition", "start_epoch_s", "end_epoch_s")},
        **_SUMMED_GPUS,
        "gpu_count": "GPUs allocated, those assumed of silent nodes included",
        "gpu_count_unknown_time": _UNKNOWN_TIME,
        "allocated_seconds": "GPU-seconds allocated, those assumed of silent nodes included",
        "tensor_ref_variance_per_degree": "squared variance over the fewest degrees of freedom of any GPU",
    },
    "run_gpu_sums": {
        **_SUMMED_GPUS,
        "run_id": _RUN_ID,
        "gpu_allocated_seconds": "GPU-seconds allocated, as told by the nodes",
        "error_degrees": "fewest degrees of freedom of any GPU",
    },
    "run_node_sums": {
        "run_id": _RUN_ID,
        "gpu_count": "GPUs allocated, those assumed of silent nodes included",
        "gpu_count_unknown_time": _UNKNOWN_TIME,
        "assumed_gpu_seconds": "GPU-seconds allocated that no row of run_gpu accounts for",
    },
}
