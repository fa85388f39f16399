"""A fault at an instant that a seed has drawn: the job ends as it should, whole, and nothing is left (`make chaos`)."""

from __future__ import annotations

import pytest

from .instants import PHASES, ROWS, Instant, draw, rows_of
from .mortal import Mortal
from .playing import Play

SEEDS = (36,)
"""An agent stopped."""
MORE_SEEDS = (9, 23, 27, 43, 51)
"""A server killed, a supervisor killed, agent and server killed, a cancel and a kill, two jobs: for `make thorough`;
`make chaos` has them, too."""
DRAWN = [
    *(pytest.param(draw(seed, is_short=True), id=f"seed-{seed}") for seed in SEEDS),
    *(pytest.param(draw(seed, is_short=True), id=f"seed-{seed}", marks=pytest.mark.thorough) for seed in MORE_SEEDS),
]


@pytest.mark.feature("F5", "M1")
@pytest.mark.parametrize("instant", DRAWN)
def test_a_fault_at_a_random_instant_loses_and_leaves_nothing(mortal: Mortal, instant: Instant):
    Play(mortal, instant).run()


def test_a_seed_is_enough_to_play_it_again_and_sixty_in_a_row_have_every_fault():
    drawn = [draw(seed) for seed in range(len(ROWS))]
    assert drawn == [draw(seed) for seed in range(len(ROWS))]
    assert len(ROWS) == len(set(ROWS)) == 60
    assert {(one.fault, one.phase) for one in drawn if one.victims == ("server",)} >= {("killed", p) for p in PHASES}
    assert {round(one.lasts_s) for one in drawn if one.fault == "killed" and one.victims == ("server",)} == {0, 20, 60}


def test_nodes_are_switched_off_where_jobs_have_their_own_and_a_seed_draws_by_engine():
    netlab, slurm = rows_of("netlab"), rows_of("slurm")
    assert rows_of("local") == ROWS
    assert {row.phase for row in netlab if row.fault == "node off"} == {"staging", "running", "finalizing"}
    assert not any(row.fault == "disk full" for row in (*netlab, *slurm))
    assert {row for row in netlab if row.phase == "queued"} == {*netlab} - {*slurm}
    drawn = {(one.fault, one.phase) for one in (draw(seed, "slurm") for seed in range(len(slurm)))}
    assert drawn == {(row.fault, row.phase) for row in slurm}
