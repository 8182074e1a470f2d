"""What GPUs of a run were used for."""

import pytest

from slurm_ofu.figures.gpu_use import side_of_gpus, tail_on_the_clock, tail_ratio, use_of_gpus, use_of_sums
from tests.audits.pages import GIB, unseen, unused, worked
from tests.figures.examples import HOUR, measured


def test_busy_ratios_leave_out_idle_time() -> None:
    """What a GPU did while at work does not depend on how long it was idle."""
    for idle in (0.0, 0.5, 0.9):
        use = use_of_gpus([worked(idle=idle, sm=0.8, tensor=0.4, memory=0.2, non_tensor=0.1)])
        assert (idle, 0.8, 0.4, 0.2, 0.1) == pytest.approx(
            (
                use.idle_ratio,
                use.busy_sm_ratio,
                use.busy_tensor_ratio,
                use.busy_memory_ratio,
                use.non_tensor_ratio,
            )
        )


def test_an_idle_gpu_did_nothing_while_at_work() -> None:
    """Without any time at work there are no ratios of it: not 0."""
    use = use_of_gpus([unused()])
    assert (1.0, None, None, None, None) == (
        use.idle_ratio,
        use.busy_sm_ratio,
        use.busy_tensor_ratio,
        use.busy_memory_ratio,
        use.non_tensor_ratio,
    )


def test_what_is_not_known_is_not_zero() -> None:
    """A GPU of which nothing was measured has no ratios, nor has a suspect one, whatever its counters say."""
    for gpu in (unseen(), worked(reason="suspect")):
        use = use_of_gpus([gpu])
        assert (None, None, None, 0.0) == (
            use.idle_ratio,
            use.busy_sm_ratio,
            use.busy_memory_ratio,
            use.judged_seconds,
        )


def test_a_suspect_gpu_is_not_averaged_in() -> None:
    """What several GPUs did together is what those did that are believed."""
    use = use_of_gpus([worked(memory=0.2), worked(memory=0.8, idle=0.9, reason="suspect")])
    assert pytest.approx(0.2) == use.busy_memory_ratio
    assert 0.0 == use.idle_ratio


def test_a_side_figure_of_a_few_minutes_does_not_speak() -> None:
    """What is known of less than half of the time that was judged is not known."""
    few = worked(
        dram_active_seconds=0.4 * HOUR,
        dram_active_covered_seconds=1.6 * HOUR,
        throttled_thermal_seconds=0.4 * HOUR,
        throttle_covered_seconds=1.6 * HOUR,
    )
    use = use_of_gpus([few])
    assert (None, None) == (use.busy_memory_ratio, use.throttled_thermal_ratio)


def test_sums_have_no_memory_activity() -> None:
    """Of a run without GPU rows the sums speak, which do not hold memory activity."""
    use = use_of_sums(measured(idle_seconds=8 * HOUR, idle_covered_seconds=16 * HOUR))
    assert (0.5, 1.0, None) == (use.idle_ratio, use.busy_sm_ratio, use.busy_memory_ratio)


def test_a_part_of_a_gpu_is_idle_for_the_whole_time() -> None:
    """The tail of a shared GPU or of a MIG slice is told as time on the clock; a whole GPU's as it is, also
    where suspended time has left the GPU's own."""
    held = 4 * HOUR
    assert pytest.approx(held) == tail_on_the_clock(unused(share=0.25), held)
    shared = unused(reason="shared", allocated_seconds=2 * HOUR, idle_tail_seconds=HOUR)
    assert 2 * HOUR == tail_on_the_clock(shared, held)
    assert HOUR == tail_on_the_clock(unused(hours=2, idle_tail_seconds=HOUR), held)
    assert None is tail_on_the_clock(unused(tail=None), held)
    assert None is tail_on_the_clock(unused(reason="suspect"), held)
    assert 0.5 == tail_ratio(shared)
    assert None is tail_ratio(unused(reason="suspect"))


def test_power_is_that_of_one_gpu() -> None:
    """Mean power is pooled over the time in which it is known, memory is the most of any GPU."""
    half = worked(power_joules=200.0 * HOUR, power_covered_seconds=HOUR, memory_max_bytes=2 * GIB)
    full = worked(power_joules=600.0 * 3 * HOUR, power_covered_seconds=3 * HOUR, memory_max_bytes=GIB)
    side = side_of_gpus([half, full, unseen()])
    assert (500.0, 2 * GIB) == (side.power_watts, side.memory_max_bytes)
    assert (None, None) == (side_of_gpus([unseen()]).power_watts, side_of_gpus([]).memory_max_bytes)
