"""The key `clean_rounds` of a job: what an earlier round wrote beside its checkpoints is moved away and removed.

A file in the attempt's folder names the round for which code and outputs were last made, so that an agent that is
killed in the middle is followed by one that begins this again, and none does it to a round whose ranks have started.
"""

from __future__ import annotations

import contextlib
import os

from drumbeat.model import folder_layout
from drumbeat.node.inputs.cache.link_tree import remove
from drumbeat.node.platform import completion_marks

_RECORD, _LEFT = "clean-round", "left"


def is_used(root: str, number: int) -> bool:
    """Whether code and outputs were made for an earlier round."""
    return 0 < _recorded(root) < number


def clear(root: str) -> None:
    """Takes the code folder and the outputs away, and the mark of the preparation, which may have changed the code.

    What can't be removed, such as the files of another user, stays in a folder that goes with the attempt's. Raises
    OSError.
    """
    completion_marks.take(f"{root}/{completion_marks.PREPARED}")
    left = f"{root}/{_LEFT}"
    os.makedirs(left, exist_ok=True)
    names = set(os.listdir(f"{root}/outputs")) if os.path.isdir(f"{root}/outputs") else set[str]()
    outputs = [folder_layout.output_path(root, name) for name in sorted(names - {folder_layout.RUN_ARTIFACTS})]
    for place in (folder_layout.code_folder(root), *outputs):
        if os.path.lexists(place):
            os.rename(place, _free_name(left))
    with contextlib.suppress(OSError):
        remove(left)


def record(root: str, number: int) -> None:
    """Notes that code and outputs are those with which a round begins. Raises OSError."""
    os.makedirs(root, exist_ok=True)
    part = f"{root}/{_RECORD}.part"
    with open(part, "w", encoding="utf-8") as file:
        file.write(str(number))
    os.replace(part, f"{root}/{_RECORD}")


def _recorded(root: str) -> int:
    try:
        with open(f"{root}/{_RECORD}", encoding="utf-8") as file:
            return int(file.read())
    except (OSError, ValueError):
        return 0


def _free_name(folder: str) -> str:
    number = 0
    while os.path.lexists(f"{folder}/{number}"):
        number += 1
    return f"{folder}/{number}"
