"""What should somebody look at? Pure: figures in, findings and lists out.

An audit is a function by the name that ``values.AUDIT_NAMES`` has for it, in a module of that name:

    waste(runs, settings, goals) -> AuditResult           and regressions, claims
    idle(runs, gpus, settings, goals) -> AuditResult      and unused, hardware
    coverage(runs, nodes, settings, goals) -> AuditResult

    runs      Sequence[UsageRow], by job, in any order: each with ``run`` and what lies in the window
    gpus      Mapping[int, Sequence[RunGpu]], by ``run_id``: single GPUs, of whole runs; those of runs of one
              GPU that are over may be absent, and so may all
    nodes     Sequence[UsageRow], by node
    settings  AuditConfig: thresholds, minimum runtimes and GPU-hours, exclusions
    goals     Goals: the OFU expected of a partition

By keyword some take what only they need: when it is now, where the window begins, which GPU models there are.

Of GpuTotals these fields are there, the rest is at its default: position, reason, allocated_seconds,
covered_seconds, uuid, gpu_model, mig_profile, sm_share_ratio, reference_clock_mhz, tensor_active_seconds,
tensor_ref_seconds, and sm_active, idle, non_tensor and throttled ones with their covered seconds.

``eligible`` alone says who is judged: ``judged(runs, settings, why_not)`` gives the runs that are and
``left_out`` by reason. ``why_not`` is one of ``not_judged`` (excluded, opted_out, suspect, shared, short),
``no_ofu`` (these, and unmeasured, low_coverage), ``not_ranked`` (these, and non_tensor, unknown_work),
``no_idle`` (the first, and what is not known to be idle or busy). A result is the same whatever the order
of the runs; entries come with the greatest ``weight_gpu_hours`` first (claims: by how far apart), then by
subject; those below
``settings.minimum_gpu_hours`` are dropped (``eligible.heaviest``), and
``summary["below_minimum_count"]`` says how many. Names of figures end in their units, as everywhere.
"""
