"""Failpoints that two kinds of tests share: the simulator's, and kills of real processes."""

SIMULATED = (
    "submit.before_commit", "submit.after_commit", "loop.before_commit", "loop.after_commit", "effect.before",
    "effect.looked", "effect.started", "effect.claimed", "effect.stopped", "effect.keeping_story", "effect.story_kept",
)  # fmt: skip
"""Points at which the simulator, too, kills a server (tests/unit/simulation)."""
