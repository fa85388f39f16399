"""Reads the two compressed lists in Slurm's variables: host names and tasks per node."""

from __future__ import annotations

import re

_BRACKETS = re.compile(r"\[([^\]]*)\]")
_REPEATED = re.compile(r"(\d+)(?:\(x(\d+)\))?$")


def first_host(nodes: str) -> str:
    """Returns the first name of a list such as `gpu[03-05,9]-ib,login`; "" of an empty one."""
    depth, end = 0, len(nodes)
    for at, letter in enumerate(nodes):
        depth += (letter == "[") - (letter == "]")
        if letter == "," and depth == 0:
            end = at
            break
    return _BRACKETS.sub(lambda match: re.split("[-,]", match[1])[0], nodes[:end])


def tasks_on(counts: str, node: int) -> int | None:
    """Returns the number of tasks on a node by a list such as `2(x3),1`; None if the list doesn't say it."""
    at = 0
    for part in filter(None, counts.split(",")):
        read = _REPEATED.match(part)
        if read is None:
            return None
        at += int(read[2] or 1)
        if node < at:
            return int(read[1])
    return None
