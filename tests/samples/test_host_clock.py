"""The host's clocks, and a wait that a signal ends.

Signals go to the thread that blocks them: pytest may have others, which they would end, and pytest with them.
"""

import signal
import threading
import time
from collections.abc import Iterator

import pytest

from slurm_ofu.samples.host_clock import HostClock

STOP = (signal.SIGUSR1, signal.SIGUSR2)


@pytest.fixture
def clock() -> Iterator[HostClock]:
    before = signal.pthread_sigmask(signal.SIG_BLOCK, ())
    try:
        yield HostClock(STOP)
        while signal.sigtimedwait(STOP, 0) is not None:
            pass
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def test_boottime_is_the_kernels(clock: HostClock) -> None:
    """Durations come from a clock that neither steps nor stops (CLOCK_BOOTTIME)."""
    before = time.clock_gettime_ns(time.CLOCK_BOOTTIME)
    assert before <= clock.boottime_ns() <= time.clock_gettime_ns(time.CLOCK_BOOTTIME)
    assert time.time_ns() == pytest.approx(clock.wall_ns(), abs=10**9)


def test_a_wait_ends_at_its_deadline(clock: HostClock) -> None:
    """Without a signal the wait ends at the deadline, not before; one that passed ends at once."""
    deadline = clock.boottime_ns() + 30_000_000
    assert not clock.wait_until(deadline)
    assert deadline <= clock.boottime_ns()
    assert not clock.wait_until(deadline)


@pytest.mark.parametrize("number", STOP)
def test_a_signal_between_two_waits_is_not_lost(clock: HostClock, number: signal.Signals) -> None:
    """A signal that came before the wait ends it."""
    signal.raise_signal(number)
    assert clock.wait_until(clock.boottime_ns() + 60 * 10**9)
    assert number == clock.stopped_by


def test_a_signal_during_a_wait_ends_it(clock: HostClock) -> None:
    """A signal ends the wait it comes in."""
    timer = threading.Timer(0.05, signal.pthread_kill, (threading.get_ident(), signal.SIGUSR1))
    timer.start()
    assert clock.wait_until(clock.boottime_ns() + 60 * 10**9)
    timer.join()


def test_after_a_stop_short_waits_are_kept(clock: HostClock) -> None:
    """After a stop it still waits for the distance that a last reading has to keep, and says stop."""
    signal.raise_signal(signal.SIGUSR1)
    clock.wait_until(clock.boottime_ns() + 10**9)
    deadline = clock.boottime_ns() + 30_000_000
    assert clock.wait_until(deadline)
    assert deadline <= clock.boottime_ns()
