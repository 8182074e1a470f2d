"""Slurm's job states that say nothing of how a job ended."""

from typing import Final

RUNNING: Final = "RUNNING"
#: Our name for the state of a run that is over as far as its nodes say, and of which Slurm has not said how.
UNKNOWN_STATE: Final = "UNKNOWN"
#: States that a job passes through: whatever comes after them is not known yet.
PASSING_STATES: Final = (
    *("PENDING", "CONFIGURING", "RUNNING", "SUSPENDED", "STOPPED", "RESIZING", "SIGNALING"),
    *("COMPLETING", "STAGE_OUT", "SPECIAL_EXIT", "REQUEUE_HOLD", "REQUEUE_FED", "RESV_DEL_HOLD"),
    *("UPDATE_DB", "POWER_UP_NODE", "EXPEDITING"),
)
