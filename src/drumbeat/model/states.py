"""The states and reasons of a job, and the classes of retry: the words that cross processes.

What each of them means, and which move follows which, is `core/reason_table.py`.
"""

from __future__ import annotations

from enum import StrEnum


class State(StrEnum):
    """The state of a job."""

    QUEUED = "queued"
    PROVISIONING = "provisioning"
    STAGING = "staging"
    RUNNING = "running"
    STOPPING = "stopping"
    FINALIZING = "finalizing"
    COMPLETED = "completed"
    FAILED = "failed"
    CANCELED = "canceled"

    @property
    def is_terminal(self) -> bool:
        """Whether the job never leaves the state."""
        return self in (State.COMPLETED, State.FAILED, State.CANCELED)


class JobKind(StrEnum):
    """The kind of a job: with ranks of its own, or a parent of other jobs."""

    COMMAND = "command"
    SWEEP = "sweep"
    PIPELINE = "pipeline"
    DEPLOYMENT = "deployment"


TERMINAL = frozenset(state for state in State if state.is_terminal)
"""The states that a job never leaves."""


class Retry(StrEnum):
    """The class of a failure for retries."""

    OWN = "own"
    """The job's own doing: counts against `max_retries`."""
    FREE = "free"
    """The machines' doing: doesn't count."""
    LATER = "later"
    """A trouble that passes, and was waited for in vain: a user runs the job again when it has passed."""
    NEVER = "never"
    """A retry can't help, or mustn't happen."""


class Reason(StrEnum):
    """Why a job is in its state. Closed: each has a row in `REASONS`."""

    ACCEPTED = "accepted"
    WAITING_FOR_SLOTS = "waiting_for_slots"
    WAITING_FOR_TURN = "waiting_for_turn"
    WAITING_FOR_QUOTA = "waiting_for_quota"
    REPLACING_NODES = "replacing_nodes"
    RESIZING = "resizing"
    IN_QUEUE = "in_queue"
    STARTING_NODES = "starting_nodes"
    PREPARING_NODES = "preparing_nodes"
    BUILDING_ENVIRONMENT = "building_environment"
    BACKING_OFF = "backing_off"
    RESTARTING_RANKS = "restarting_ranks"
    RANKS_RUNNING = "ranks_running"
    TRAINING = "training"
    HANGING = "hanging"
    TRIALS_RUNNING = "trials_running"
    STEPS_RUNNING = "steps_running"
    REPLICAS_RUNNING = "replicas_running"
    KEEPING_RESULTS = "keeping_results"
    FINISHED = "finished"
    STOPPED_EARLY = "stopped_early"
    TRIALS_ENDED = "trials_ended"
    STEPS_ENDED = "steps_ended"
    CANCEL_REQUESTED = "cancel_requested"
    CANCELED_OUTSIDE = "canceled_outside"
    TIMED_OUT = "timed_out"
    RANK_FAILED = "rank_failed"
    RANK_KILLED = "rank_killed"
    RANK_LEFT_EARLY = "rank_left_early"
    RANK_COULD_NOT_START = "rank_could_not_start"
    BAD_COMMAND = "bad_command"
    STAGING_FAILED = "staging_failed"
    OUT_OF_REACH = "out_of_reach"
    ENVIRONMENTS_DIFFER = "environments_differ"
    RESULTS_LOST = "results_lost"
    NODE_LOST = "node_lost"
    NODE_UNHEARD = "node_unheard"
    NODE_TAKEN = "node_taken"
    PREEMPTED = "preempted"
    OUT_OF_MEMORY = "out_of_memory"
    NODES_FAILED = "nodes_failed"
    KEEPER_LOST = "keeper_lost"
    MACHINE_RESTARTED = "machine_restarted"
    RANKS_HUNG = "ranks_hung"
    RENDEZVOUS_TIMED_OUT = "rendezvous_timed_out"
    NODES_REFUSED = "nodes_refused"
    SHARE_MISSING = "share_missing"
    NODE_UNUSABLE = "node_unusable"
    TOO_BIG = "too_big"
    TRIALS_FAILED = "trials_failed"
    STEP_FAILED = "step_failed"
    REPLICAS_FAILED = "replicas_failed"
