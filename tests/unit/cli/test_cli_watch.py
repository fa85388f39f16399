"""A job that is followed: stages, logs, the countdown, the live line."""

from dataclasses import replace
from datetime import timedelta
from io import StringIO

import pytest

from drumbeat.cli.follow.event_printer import Watch
from drumbeat.cli.follow.live_line import SPINNER, LiveLine, Now, spin
from drumbeat.cli.follow.log_lines import LogLook, LogView
from drumbeat.cli.terminal.styles import Ink
from drumbeat.model.api.jobs import End, Event, ExitView, NodeView
from tests.unit.cli.samples import NOON, a_job, after, event_line, piece

CLEAR = "\r\x1b[2K"


class Screen:
    """A terminal, or a file, as text."""

    def __init__(
        self, *, is_live: bool = False, is_quiet: bool = False, width: int = 60, ink: Ink | None = None
    ) -> None:
        self.out = StringIO()
        self.line = LiveLine(self.out, is_live=is_live, width=lambda: width)
        self.watch = Watch(a_job(), self.line, LogView(LogLook()), ink or Ink(), is_quiet=is_quiet)

    def see(self, *events: Event, at_s: float = 0.0) -> str:
        self.watch.see(list(events), Now(after(at_s), at_s))
        return self.take()

    def take(self) -> str:
        text = self.out.getvalue()
        self.out.seek(0)
        self.out.truncate()
        return text


@pytest.mark.feature("M4")
def test_stages_come_with_the_time_since_submission_and_each_once():
    screen = Screen()
    first, second = event_line(1, "queued", "first in line"), event_line(2, "staging", "code goes to 2 nodes", 1.25)
    assert screen.see(first, second) == (
        "   0.0s  queued       first in line\n   1.2s  staging      code goes to 2 nodes\n"
    )
    assert screen.see(first, second) == ""


def test_logs_and_stages_are_printed_in_their_order():
    screen = Screen()
    shown = screen.see(piece("a\nb"), event_line(1, "stopping", "told to stop"), End("canceled", 143))
    assert shown == "0:0 │ a\n   0.0s  stopping     told to stop\n0:0 │ b\n"
    assert screen.watch.has_ended


@pytest.mark.feature("M4")
def test_a_live_line_stays_below_what_is_printed():
    screen = Screen(is_live=True)
    status = f"{SPINNER[0]} running · 0.0s · 4 ranks run on 2 nodes"
    assert screen.see(a_job()) == status
    assert screen.see(piece("a\n")) == f"{CLEAR}0:0 │ a\n{status}"
    screen.watch.close()
    assert screen.take() == CLEAR


def test_the_live_line_never_wraps():
    screen = Screen(is_live=True, width=12)
    assert screen.see(a_job(sentence="長い文")) == f"{SPINNER[0]} running …"


def test_live_line_is_removed_at_the_end():
    screen = Screen(is_live=True)
    screen.see(a_job())
    assert screen.see(End("completed", 0)) == CLEAR


@pytest.mark.feature("F7")
def test_the_grace_time_counts_down_in_the_live_line():
    screen = Screen(is_live=True, width=80)
    stopping = a_job(state="stopping", sentence="a person asked for it", stop_at=NOON + timedelta(seconds=30))
    assert screen.see(stopping) == f"{SPINNER[0]} stopping · SIGKILL in 30s · 0.0s · a person asked for it"
    assert "SIGKILL in 18s" in screen.see(at_s=12.0)


@pytest.mark.feature("F7")
def test_grace_time_is_printed_every_ten_seconds_without_a_live_line():
    screen = Screen()
    stopping = a_job(state="stopping", stop_at=after(30))
    assert screen.see(stopping) == ""
    assert screen.see(at_s=1.0) == "   1.0s  stopping     SIGKILL in 29s\n"
    assert screen.see(at_s=5.0) == ""
    assert screen.see(at_s=10.0) == "    10s  stopping     SIGKILL in 20s\n"
    assert screen.see(at_s=30.0) == "    30s  stopping     SIGKILL sent, waiting for the ranks to be gone\n"
    assert screen.see(at_s=60.0) == ""


def test_ranks_that_stop_within_a_second_get_no_countdown():
    screen = Screen()
    assert screen.see(a_job(state="stopping", stop_at=after(30))) == ""
    assert screen.see(a_job(state="finalizing"), at_s=0.9) == ""
    assert screen.see(a_job(state="stopping", stop_at=after(60)), at_s=30.0) == ""
    assert screen.see(at_s=31.0) == "    31s  stopping     SIGKILL in 29s\n"


def test_no_time_is_counted_down_when_no_rank_is_left():
    screen = Screen()
    ends = tuple(NodeView(n, exits=(ExitView(2 * n, 1, None, 0.0), ExitView(2 * n + 1, 0, None, 0.0))) for n in (0, 1))
    assert screen.see(a_job(state="stopping", stop_at=after(30), nodes=ends)) == ""
    assert screen.see(a_job(state="stopping", stop_at=after(30), nodes=ends[:1])) == ""
    assert "SIGKILL in 29s" in screen.see(at_s=1.0)


def test_sentence_of_a_stage_is_not_repeated_by_the_next_one():
    screen = Screen()
    why = "rank 1 on node 0 stopped with exit code 7: ValueError: no; then KeyError"
    shown = screen.see(
        event_line(1, "stopping", f"{why}; SIGTERM to every rank"),
        event_line(2, "finalizing", f"{why}; it was tried 3 times"),
        event_line(3, "failed", f"{why}; it was tried 3 times"),
    )
    assert shown == (
        f"   0.0s  stopping     {why}; SIGTERM to every rank\n"
        "   0.0s  finalizing   it was tried 3 times\n"
        "   0.0s  failed\n"
    )


def test_error_is_not_repeated_when_its_ranks_are_named_together_later():
    screen = Screen()
    screen.see(event_line(1, "stopping", "rank 1 on node 0 stopped: ValueError: no; SIGTERM to every rank"))
    shown = screen.see(event_line(2, "finalizing", "all 2 ranks stopped: ValueError: no; it was tried 3 times"))
    assert shown == "   0.0s  finalizing   all 2 ranks stopped; it was tried 3 times\n"


def test_changed_cause_is_printed_in_full():
    screen = Screen()
    screen.see(event_line(1, "stopping", "rank 1 failed; SIGTERM to every rank"))
    assert screen.see(event_line(2, "staging", "rank 0 failed; again")).endswith("staging      rank 0 failed; again\n")


def test_trouble_in_sending_outputs_is_shown_once_with_the_next_step():
    screen = Screen()
    full = NodeView(1, detail="sending outputs waits: the disk is full")
    job = a_job(state="finalizing", nodes=(NodeView(0, detail="sending outputs: file 1 of 2"), full))
    assert screen.see(job) == (
        "── node 1: sending outputs waits: the disk is full; "
        "to give up what isn't kept: drumbeat cancel mnist-7f3a --discard ──\n"
    )
    assert screen.see(job) == ""


@pytest.mark.feature("M4")
def test_live_line_has_the_progress_of_the_nodes():
    screen = Screen(is_live=True, width=100)
    coming = NodeView(0, detail="input train: 1.2 GB of 4.5 GB, 182.0 MB/s, 18 s left")
    assert screen.see(a_job(state="staging", nodes=(coming,), node_count=1)).endswith(
        "staging · 0.0s · input train: 1.2 GB of 4.5 GB, 182.0 MB/s, 18 s left"
    )
    stuck = NodeView(1, detail="input train: 0.3 GB of 4.5 GB; waits: no answer from the store")
    assert screen.see(a_job(state="staging", nodes=(coming, stuck), node_count=2)).endswith(
        "staging · 0.0s · node 1: input train: 0.3 GB of 4.5 GB; waits: no answer from the store"
    )
    assert screen.see(a_job(state="running", nodes=(coming,))).endswith("running · 0.0s · 4 ranks run on 2 nodes")


@pytest.mark.feature("M4")
def test_progress_without_a_live_line_is_periodic_and_each_wait_printed_once():
    def staging(detail: str) -> Event:
        return a_job(state="staging", sentence="1 agent enrolled", nodes=(NodeView(0, detail=detail),), node_count=1)

    screen = Screen()
    assert screen.see(staging(""), at_s=100) == ""
    assert screen.see(staging("input train: 1 MB of 9 MB"), at_s=129) == ""
    assert (
        screen.see(staging("input train: 2 MB of 9 MB"), at_s=130)
        == "         staging      input train: 2 MB of 9 MB\n"
    )
    assert screen.see(staging("input train: 3 MB of 9 MB"), at_s=131) == ""
    waits = "── node 0: input train: 3 MB of 9 MB; waits: no answer ──\n"
    assert screen.see(staging("input train: 3 MB of 9 MB; waits: no answer"), at_s=132) == waits
    assert screen.see(staging("input train: 4 MB of 9 MB; waits: no answer"), at_s=133) == ""


def test_progress_is_printed_when_due_if_following_begins_within_a_stage():
    coming = a_job(
        state="staging", sentence="1 agent enrolled", nodes=(NodeView(0, detail="half of it"),), node_count=1
    )
    screen = Screen()
    assert screen.see(coming, at_s=100) == ""
    assert screen.see(at_s=129) == ""
    assert screen.see(at_s=130) == "         staging      half of it\n"


@pytest.mark.feature("M4")
def test_cause_of_a_delay_is_coloured_on_a_terminal():
    screen = Screen(is_live=True, ink=Ink(is_on=True))
    full = NodeView(0, detail="sending outputs waits: the disk is full")
    assert "\x1b[33m── node 0: sending outputs waits" in screen.see(a_job(state="finalizing", nodes=(full,)))
    assert "\x1b[33m── the disk is full ──" in screen.see(a_job(notice="the disk is full"))


@pytest.mark.feature("M4")
def test_recurring_wait_is_printed_once_and_with_a_count_for_many_nodes():
    def waiting(*reasons: str) -> Event:
        nodes = tuple(NodeView(n, detail=f"input train waits: {why}" if why else "") for n, why in enumerate(reasons))
        return a_job(state="staging", nodes=nodes, node_count=len(nodes))

    screen = Screen()
    shown = [screen.see(waiting(why)) for why in ("503", "", "reset", "503", "", "reset")]
    assert [bool(text) for text in shown] == [True, False, True, False, False, False]
    shown_of_many = screen.see(waiting("503", *["refused"] * 9))
    assert shown_of_many.count("refused") == 3
    assert shown_of_many.endswith("; and 6 more nodes wait ──\n")


def test_finalizing_job_shows_its_progress_and_why_it_ended():
    sending = NodeView(0, detail="sending outputs: file 1 of 2")
    job = a_job(state="finalizing", sentence="rank 1 failed", nodes=(sending,), node_count=1)
    assert job.progress == "sending outputs: file 1 of 2; rank 1 failed"
    assert replace(job, nodes=(replace(sending, lost=True),)).progress == "rank 1 failed"


def test_quiet_prints_nothing():
    screen = Screen(is_quiet=True)
    assert screen.see(event_line(1, "queued", "first"), piece("a\n"), End("completed", 0)) == ""


def test_control_characters_in_a_sentence_are_escaped():
    screen = Screen(is_live=True)
    assert "\x1b[2J" not in screen.see(a_job(sentence="\x1b[2J"), event_line(1, "queued", "\x1b[2J"))


def test_the_spinner_turns():
    assert [spin(now / 10) for now in range(3)] == list(SPINNER[:3])
