"""What Ctrl-C and SIGTERM mean."""

import os
import select
import signal
from io import StringIO

import pytest

from drumbeat.cli.follow.background_reader import Signalled
from drumbeat.cli.follow.interrupts import QUESTION, InterruptAction, ask, choose

CTRL_C, TERM = Signalled(signal.SIGINT), Signalled(signal.SIGTERM)


class CtrlC(StringIO):
    """A user who presses Ctrl-C instead of answering."""

    def readline(self, *_: object) -> str:
        raise KeyboardInterrupt


@pytest.mark.parametrize(
    ("typed", "choice"),
    [
        ("d\n", InterruptAction.DETACH),
        ("Cancel\n", InterruptAction.CANCEL),
        ("g\n", InterruptAction.GO_ON),
        ("\nwhat?\nc\n", InterruptAction.CANCEL),
        ("", InterruptAction.DETACH),
    ],
)
def test_user_is_asked_until_the_answer_is_valid(typed: str, choice: InterruptAction):
    out = StringIO()
    assert ask(StringIO(typed), out) is choice
    assert out.getvalue().startswith(QUESTION)


def test_a_second_ctrl_c_detaches():
    assert ask(CtrlC(), StringIO()) is InterruptAction.DETACH


@pytest.mark.parametrize(
    ("signalled", "is_stopping", "choice"),
    [
        (CTRL_C, False, InterruptAction.CANCEL),
        (CTRL_C, True, InterruptAction.DETACH),
        (TERM, False, InterruptAction.DETACH),
        (TERM, True, InterruptAction.DETACH),
    ],
)
def test_ctrl_c_cancels_and_sigterm_detaches_without_a_terminal(
    signalled: Signalled, is_stopping: bool, choice: InterruptAction
):
    assert choose(signalled, is_stopping=is_stopping, has_user=False) is choice


def test_ctrl_c_before_the_answer_is_read_is_not_lost(monkeypatch: pytest.MonkeyPatch):
    """The interpreter notes a signal, and is about to read: nothing would break that off any more."""
    ours, theirs = os.pipe()
    select_, noted = select.select, list[int]()

    def first_noted(*files: object) -> object:
        os.write(signal.set_wakeup_fd(-1), bytes([signal.SIGINT]))
        noted.append(1)
        select_(*files)
        raise KeyboardInterrupt

    monkeypatch.setattr(select, "select", first_noted)
    with os.fdopen(ours) as answers, os.fdopen(theirs, "w"):
        assert ask(answers, StringIO()) is InterruptAction.DETACH
    assert noted
