"""Who failed first: one verdict from how the ranks of a round ended.

Ranks rarely fail alone: the first one takes the others down through the collective they wait in. The cause is the
earliest failure that isn't itself such a symptom; where every failure is a symptom, it is the rank that left before
them with exit code 0, and only then the earliest symptom.
"""

from __future__ import annotations

import re
import signal
from collections.abc import Sequence

from drumbeat.core.job import Verdict
from drumbeat.core.states import REASONS, Reason
from drumbeat.protocol.agent import RankExit

Exit = tuple[int, RankExit]

_SYMPTOM = re.compile(
    r"connection (closed|reset|refused) by (remote )?peer|connection reset|connection refused|broken pipe"
    r"|remote process exited|peer .*(gone|disconnected)|gloo.*(timed out|timeout)|DistNetworkError|DistStoreError"
    r"|ncclRemoteError|ncclSystemError|socket (closed|timeout)|Watchdog caught collective operation timeout",
    re.IGNORECASE,
)
_ERROR_LINE = re.compile(
    r"^(?:[\w.]+\.)?([A-Z]\w*(?:Error|Exception|Exit|Interrupt|Warning|Timeout|NotFound))\b:?.*$", re.MULTILINE
)
_FRAME = re.compile(r'^\s*File "([^"]+)", line (\d+)', re.MULTILINE)
_TORCH_PREFIX = re.compile(r"^\[rank\d+\]: ?", re.MULTILINE)
"""What torch.distributed puts before each line of a traceback."""
_NEVER_RAN = ("SyntaxError", "IndentationError", "TabError", "ModuleNotFoundError", "ImportError")
_BAD_COMMAND = re.compile(
    r"can't open file|command not found|^usage:|: error: |No such file or directory", re.MULTILINE
)


def verdict(exits: Sequence[Exit]) -> Verdict:
    """The cause among the (node, exit) pairs of a round, which hold at least one failure."""
    node, cause = culprit(exits)
    reason = reason_of(cause)
    return Verdict(
        reason=reason,
        sentence=f"rank {cause.rank} on node {node} {_how(cause, reason)}",
        rank=cause.rank,
        node=node,
        code=shell_code(cause),
        tail=cause.tail,
        advice=advice(cause, reason),
        place=place(cause),
    )


def culprit(exits: Sequence[Exit]) -> Exit:
    """The rank that was the cause."""
    ordered = sorted(exits, key=lambda pair: (pair[1].at, pair[1].order))
    failures = [pair for pair in ordered if pair[1].is_failure]
    own = [pair for pair in failures if not pair[1].told] or failures
    causes = [pair for pair in own if not is_symptom(pair[1])]
    if causes:
        return causes[0]
    left = [pair for pair in ordered if not pair[1].is_failure and pair[1].at <= own[0][1].at]
    return left[0] if left else own[0]


def is_symptom(ended: RankExit) -> bool:
    """Whether the rank failed because another one was gone."""
    return bool(_SYMPTOM.search(error_line(ended.tail)))


def reason_of(cause: RankExit) -> Reason:
    """The reason that the cause's own end stands for."""
    if cause.error:
        return Reason.RANK_COULD_NOT_START
    if not cause.is_failure:
        return Reason.RANK_LEFT_EARLY
    if cause.signal is not None or (cause.code or 0) > 128:
        return Reason.RANK_KILLED
    if cause.code in (126, 127) or error_line(cause.tail).startswith(_NEVER_RAN):
        return Reason.BAD_COMMAND
    if cause.code == 2 and _BAD_COMMAND.search(cause.tail):
        return Reason.BAD_COMMAND
    return Reason.RANK_FAILED


def error_line(tail: str) -> str:
    """The last line of a log that names an error, "" if none does."""
    found = [match[0].strip() for match in _ERROR_LINE.finditer(_TORCH_PREFIX.sub("", tail))]
    return found[-1] if found else ""


def place(cause: RankExit) -> str:
    """File, line and kind of the error, the same for the same error at the same place; "" when it isn't known."""
    frames = _FRAME.findall(_TORCH_PREFIX.sub("", cause.tail))
    kind = error_line(cause.tail).split(":")[0]
    return f"{frames[-1][0]}:{frames[-1][1]} {kind}" if frames and kind else ""


def shell_code(cause: RankExit) -> int:
    """The exit code as a shell would give it: 128 + n for signal n; 1 for a rank that left early or never started."""
    if cause.signal is not None:
        return 128 + cause.signal
    return cause.code or 1


def advice(cause: RankExit, reason: Reason) -> str:
    """What a person can do about it."""
    line = error_line(cause.tail)
    if line.startswith("ModuleNotFoundError"):
        return "Install the missing package in the environment that the job runs in (`drumbeat plan` shows which)."
    if "out of memory" in cause.tail.lower():
        return "Use a smaller batch or model, or ask for more nodes."
    return REASONS[reason].advice


def _how(cause: RankExit, reason: Reason) -> str:
    if cause.error:
        return f"could not be started: {cause.error}"
    if reason is Reason.RANK_LEFT_EARLY:
        return "left with exit code 0 while the other ranks still needed it"
    line = error_line(cause.tail)
    if cause.signal is not None or reason is Reason.RANK_KILLED:
        return f"was ended by {_signal_name(cause)}" + (f" ({line})" if line else "")
    return f"stopped with exit code {cause.code}" + (f": {_short(line)}" if line else "")


def _signal_name(cause: RankExit) -> str:
    number = cause.signal if cause.signal is not None else (cause.code or 128) - 128
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"


def _short(line: str, length: int = 200) -> str:
    return line if len(line) <= length else line[: length - 1] + "…"
