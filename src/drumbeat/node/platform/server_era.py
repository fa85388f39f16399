"""The latest era of a server that a node has heard (`model/server_era.py`), for all of its processes."""

from __future__ import annotations

import contextlib
import os

from drumbeat.model.agent import Enrolment
from drumbeat.model.server_era import MAX_LENGTH, era_number

_HEARD: dict[str, str] = {}
"""By attempt folder, what this process has heard, which it keeps even on a full disk."""


def heard_era(enrolment: Enrolment) -> str:
    """Returns the header's value with the latest era; "" = none."""
    if enrolment.root not in _HEARD:
        text = ""
        with contextlib.suppress(OSError, ValueError), open(_place(enrolment), encoding="ascii") as file:
            text = file.read(MAX_LENGTH)
        _HEARD[enrolment.root] = text
    return _HEARD[enrolment.root]


def note_era(enrolment: Enrolment, text: str) -> bool:
    """Notes the era of an answer, "" = none. Returns whether it is the latest, so that the answer may be believed."""
    latest, number = era_number(heard_era(enrolment)), era_number(text)
    if number > latest:
        _HEARD[enrolment.root], place = text, _place(enrolment)
        with contextlib.suppress(OSError):
            with open(f"{place}.new", "w", encoding="ascii") as file:
                file.write(text)
            os.replace(f"{place}.new", place)
    return number >= latest


def _place(enrolment: Enrolment) -> str:
    return f"{enrolment.root}/era"
