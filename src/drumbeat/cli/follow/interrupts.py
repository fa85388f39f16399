"""Handles Ctrl-C and SIGTERM while a job is followed."""

from __future__ import annotations

import os
import select
import signal
import sys
from collections.abc import Callable, Generator
from contextlib import contextmanager, suppress
from enum import Enum, auto
from io import UnsupportedOperation
from types import FrameType
from typing import TextIO

from drumbeat.cli.follow.background_reader import Signalled

WATCHED = (signal.SIGINT, signal.SIGTERM)
SIGNAL_EXIT = 128
"""A shell's exit code for a signal is this plus the signal's number."""
QUESTION = "detach (the job continues), cancel the job, or go on watching? [d/c/g] "


class InterruptAction(Enum):
    """The effect of an interrupt on the job that is followed."""

    DETACH = auto()
    CANCEL = auto()
    GO_ON = auto()


ANSWERS = {"d": InterruptAction.DETACH, "c": InterruptAction.CANCEL, "g": InterruptAction.GO_ON}


@contextmanager
def signals_to(take: Callable[[int], None]) -> Generator[None]:
    """Hands the signals to `take` instead of ending the program."""

    def handle(number: int, _frame: FrameType | None) -> None:
        take(number)

    before = {number: signal.signal(number, handle) for number in WATCHED}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


class Left(KeyboardInterrupt):
    """Raised for a signal that came before there was a job to ask about."""

    def __init__(self, number: int) -> None:
        super().__init__(number)
        self.number = number


def leave(number: int) -> None:
    """Raises `Left`."""
    raise Left(number)


@contextmanager
def _raising() -> Generator[int]:
    """Lets a signal interrupt a question. Yields a descriptor that is readable once one has come."""
    woken, waker = os.pipe2(os.O_CLOEXEC | os.O_NONBLOCK)
    before = {number: signal.signal(number, signal.default_int_handler) for number in WATCHED}
    other = signal.set_wakeup_fd(waker)
    try:
        yield woken
    finally:
        signal.set_wakeup_fd(other)
        for number, handler in before.items():
            signal.signal(number, handler)
        os.close(woken)
        os.close(waker)


def _line(answers: TextIO, woken: int) -> str:
    """Reads the next line. A signal that came before the reading is noticed first."""
    with suppress(UnsupportedOperation):  # Not a file: an answer can't be typed.
        select.select([answers, woken], [], [])
    return answers.readline()


def choose(signalled: Signalled, *, is_stopping: bool, has_user: bool) -> InterruptAction:
    """SIGTERM detaches. Ctrl-C asks a user; where there is none it cancels, and a second one detaches."""
    if signalled.number == signal.SIGTERM:
        return InterruptAction.DETACH
    if has_user:
        return ask(sys.stdin, sys.stdout)
    return InterruptAction.DETACH if is_stopping else InterruptAction.CANCEL


def ask(answers: TextIO, out: TextIO) -> InterruptAction:
    """The user's choice. Another Ctrl-C, or no answer at all, detaches: that harms nothing."""
    try:
        with _raising() as woken:
            while True:
                print(QUESTION, end="", file=out, flush=True)
                answer = _line(answers, woken)
                if not answer:
                    return InterruptAction.DETACH
                if (first := answer.strip().lower()[:1]) in ANSWERS:
                    return ANSWERS[first]
    except KeyboardInterrupt:
        print(file=out, flush=True)
        return InterruptAction.DETACH
