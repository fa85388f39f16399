"""Who failed first: one verdict from how the ranks of a round ended.

Ranks rarely fail alone: the first one takes the others down through the collective they wait in. The cause is the
earliest failure that isn't itself such a symptom; where every failure is a symptom, it is a rank that was stopped while
it was still dying of an error of its own, or the rank that left before them with exit code 0, and only then the
earliest symptom. Ranks that failed in the same way are named together, under the lowest of them. What logs say is read
in tracebacks.py, what a person can do about it stands in advice.py.
"""

from __future__ import annotations

import re
import signal
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from types import MappingProxyType

from drumbeat.core.diagnosis import tracebacks
from drumbeat.core.diagnosis.advice import advice_on
from drumbeat.core.verdict import Verdict
from drumbeat.protocol.agent import LEFT_OUT, RankExit
from drumbeat.protocol.states import Reason

Exit = tuple[int, RankExit]

_PEER_GONE = re.compile(
    r"gloo.*(?:connection|(?:read|write) error|timed out|timeout|closed)|connection (?:closed|reset) by (remote )?peer"
    r"|remote process exited|ncclRemoteError|ncclSystemError|NCCL communicator (?:was|is) aborted"
    r"|Watchdog caught collective operation timeout|Dist(?:Network|Store|Backend)Error|failed to recv, got 0 bytes"
    r"|socket (?:closed|timeout)|client socket has timed out|broken ?pipe|ConnectionResetError|ConnectionAbortedError"
    r"|PMIU_\w+ error|PMI_\w+ returned -1|Horovod has been shut down|HorovodInternalError"
    r"|errors_impl\.UnavailableError"  # TensorFlow's, of a collective that it has given up.
    r"|ray\.exceptions\.(?:(?:Actor|Node|Owner|LocalRaylet)Died|ActorUnavailable|ObjectLost)Error",
    re.IGNORECASE,
)
_WORKERS = re.compile(
    r"(?:multiprocessing/(?:resource_sharer|queues|pool|managers|reductions)|concurrent/futures/process|torch/utils/data/.*)"
    r"\.py$"
)
"""Files that speak with a rank's own worker processes."""
_NOBODY_THERE = re.compile(r"connection refused", re.IGNORECASE)
"""Said of a peer that is gone, but of any other service too: no proof that a rank has left."""
_OWN_AFTER_ALL = re.compile(
    r"EADDRINUSE|address already in use|HTTP|op\.preamble\.length|nccl(?:Invalid\w+|UnhandledCudaError)|CUDA error:"
    r"|creating shared memory segment|no socket interface found",
    re.IGNORECASE,
)
"""Words beside which the above are no symptom: the rank's own port, a download, shapes that differ, its GPU."""
_OF_BEING_STOPPED = re.compile(
    r"^(?:KeyboardInterrupt|SystemExit)|Signal(?:Exception)?\b.*15|SIGTERM|signal: Terminated"
)
_PROCESS_KILLED = re.compile(
    r"^(?:torchrun's rank \S+|a process of deepspeed's|horovodrun's rank \S+|Ray's \w+) was ended by SIG(?!TERM|ABRT)"
)
_NEVER_RAN = ("SyntaxError", "IndentationError", "TabError", "ModuleNotFoundError", "ImportError")
_BAD_COMMAND = re.compile(
    r"can't open file|: command not found|^usage:|: error: |^Error: No such (?:option|command)|: [Ss]yntax error"
    r"|python[\d.]*: (?:No module named|Error while finding module)|error while loading shared libraries"
    r"|line \d+: .*: (?:No such file or directory|Permission denied|Is a directory|cannot execute)",
    re.MULTILINE | re.IGNORECASE,
)
AT_ONCE_S = 1.0
"""Exits this near to each other have no order: a busy keeper sees several at once, and the clocks of nodes differ."""
SEEN_WITHIN_S = 0.1
"""Nor have those of one node that are nearer than this: its keeper sees them one after the other."""
_MPI_CODE = re.compile(r"^Abort\(\d+\)", re.MULTILINE)
"""MPICH says so when it ends the rank with an exit code of its own, whose eighth bit says that an error was fatal."""
_MPI_ABORT = re.compile(r"^Abort\((-?\d+)\) .*application called MPI_Abort\(", re.MULTILINE)
_OF_THE_SHELL = (126, 127)
_PASSING = re.compile(
    r"EADDRINUSE|address already in use|timed? ?out|temporarily unavailable|Failed to (?:start|connect to) GCS",
    re.IGNORECASE,
)
"""Errors of the moment: the same words at the same place don't mean that a third time ends the same way."""


@dataclass(frozen=True)
class _Ended:
    """One exit, with what its log says. aborts: by rank, of all ranks, as Open MPI tells it."""

    node: int
    exit: RankExit
    aborts: Mapping[int, int]

    @cached_property
    def told(self) -> tracebacks.Told:
        return tracebacks.read(self.exit.tail)

    @cached_property
    def root(self) -> str:
        """The first error of all that the log tells of the failure."""
        return self.told.errors[0].say() if self.told.errors else self.told.line

    @property
    def is_missing_a_peer(self) -> bool:
        """Whether the rank failed because another one was gone."""
        is_said = _PEER_GONE.search(self._first) and not _OWN_AFTER_ALL.search(self._first)
        return bool(is_said) and not self.is_missing_a_worker

    @property
    def is_missing_a_worker(self) -> bool:
        """Whether the peer that is gone is a process that the rank itself had started."""
        files = [file for error in self.told.errors for file, _ in error.frames]
        return bool(_PEER_GONE.search(self._first)) and any(_WORKERS.search(file) for file in files)

    @property
    def is_without_launcher(self) -> bool:
        """Whether it was ended with MPI, and wasn't the rank that asked for it."""
        return bool(self.exit.launcher) and not self.is_aborting

    @property
    def is_aborting(self) -> bool:
        """Whether it asked MPI to end all ranks, or MPI did so for an error in it."""
        return self.abort_code is not None or bool(_MPI_CODE.search(self.exit.tail) and not self.is_missing_a_peer)

    @cached_property
    def abort_code(self) -> int | None:
        """What it gave to MPI_Abort, None = it didn't call that. How it was ended for it tells nothing."""
        found = _MPI_ABORT.search(self.exit.tail)
        given = int(found[1]) if found else self.aborts.get(self.exit.rank)
        return None if given is None else given & 0xFF or 1

    @property
    def is_symptom(self) -> bool:
        if self.exit.launcher:
            return self.is_without_launcher
        refused = _NOBODY_THERE.search(self._first) and not _OWN_AFTER_ALL.search(self._first)
        return self.is_missing_a_peer or bool(refused)

    @property
    def has_own_error(self) -> bool:
        """A traceback that neither a missing peer nor being stopped explains."""
        return bool(self.told.errors) and not self.is_symptom and not _OF_BEING_STOPPED.search(self.root)

    @property
    def has_lost_a_process(self) -> bool:
        """Whether a launcher in it says that a process of its own was killed, and not by being stopped."""
        return bool(_PROCESS_KILLED.search(self.told.line))

    @property
    def says_why(self) -> bool:
        """Whether how it ended, or its log, is more than an end."""
        is_told = self.exit.signal is None and bool(self.told.line)
        return is_told or self.has_own_error or self.is_aborting or self.exit.signal == signal.SIGKILL

    @property
    def is_far(self) -> bool:
        """Whether so much was said after the error that the rank may have lived on."""
        return LEFT_OUT in self.exit.tail

    def says_the_same(self, first: _Ended) -> bool:
        """Whether its last words are the first one's error line: it had failed by itself when it was stopped."""
        said, by_first = _numberless(self.told.last), _numberless(first.told.last)
        return said == by_first and bool(_BAD_COMMAND.search(said))

    @property
    def way(self) -> tuple[object, ...]:
        """The same for ranks that failed in the same way, whatever numbers their messages hold."""
        if self.root:
            return (_numberless(self.root),)
        return (self.exit.code, self.exit.signal, self.exit.error)

    @property
    def _first(self) -> str:
        errors = self.told.errors
        is_eof_of_pipe = errors and errors[0].line == "EOFError" and "connection.py" in errors[0].frames[-1][0]
        return "broken pipe" if is_eof_of_pipe else self.root


def _numberless(line: str) -> str:
    return re.sub(r"0x[0-9a-f]+|\d+", "#", line)


def verdict(exits: Sequence[Exit], world: int = 0, names: Mapping[int, str] = MappingProxyType({})) -> Verdict:
    """The cause among the (node, exit) pairs of a round, which hold at least one failure.

    world: how many ranks there are, so that "all" can be said; 0 = not known. names: what ranks are called beside their
    number.
    """
    alike = _culprits(exits)
    # One that was stopped while it said the same is named with the others, but how it ended tells nothing.
    cause = next((one for one in alike if not one.exit.told or one.has_own_error), alike[0])
    reason = _reason(cause)
    how = _how(cause, reason)
    sentence = f"{_who(alike, world, names)} {how if len(alike) == 1 else re.sub('^was ', 'were ', how)}"
    return Verdict(
        reason=reason,
        sentence=sentence,
        rank=cause.exit.rank,
        node=cause.node,
        code=cause.abort_code or shell_code(cause.exit),
        tail=cause.exit.tail,
        advice=advice_on(cause.told, cause.exit, reason, sentence),
        place=_place(cause),
    )


def is_guess(exits: Sequence[Exit]) -> bool:
    """Whether all failures so far only miss a peer, and the one that they miss isn't among the exits."""
    cause = _culprits(exits)[0]
    is_explained = cause.is_aborting or _with_mpirun([cause])
    return (cause.is_missing_a_peer or cause.is_without_launcher) and not is_explained


def shell_code(cause: RankExit) -> int:
    """The exit code as a shell would give it: 128 + n for signal n; 1 for a rank that left early or never started."""
    if cause.signal is not None:
        return 128 + cause.signal
    return cause.code or 1


# --- who --------------------------------------------------------------------------------------------------------
def _culprits(exits: Sequence[Exit]) -> list[_Ended]:
    """The ranks that were the cause, all in the same way, lowest rank first."""
    aborts = {rank: code for _, ended in exits for rank, code in tracebacks.mpi_aborts(ended.tail).items()}
    ordered = [_Ended(*pair, aborts) for pair in sorted(exits, key=lambda pair: (pair[1].at, pair[1].order))]
    failures = [one for one in ordered if one.exit.is_failure]
    own = [one for one in failures if not one.exit.told] or failures
    gone = next((one.exit.at for one in own if one.is_missing_a_peer or one.is_without_launcher), float("inf"))
    # Who ends well after a rank that has lost a peer, and doesn't say why, has lost one too.
    first = next((one for one in own if not one.is_symptom and (one.exit.at <= gone + AT_ONCE_S or one.says_why)), None)
    # Ranks that lose their peer by it can end before the one that asked for it, which is then told to stop with them;
    # well before, on a busy node: exits count from when they are seen. One that says how it failed is none of them.
    is_clear = first is not None and (first.has_own_error or first.exit.signal is not None)
    end = first.exit.at + AT_ONCE_S if first and is_clear else float("inf")
    asking = [one for one in failures if one.is_aborting and one.exit.at <= end]
    is_explained = first is not None and first.has_own_error
    first = next((one for one in asking if not (one.exit.told and is_explained)), first)
    first = first or next((one for one in failures if one.exit.told and one.has_own_error), None)
    first = first or next((one for one in failures if one.exit.told and one.has_lost_a_process), None)
    if first is None:
        return [_left_early(ordered, own) or _with_mpirun(own) or own[0]]
    if with_mpirun := _beside_its_mpirun(first, own):
        return [with_mpirun]
    same = [one for one in failures if one.way == first.way and (one is first or one in own or one.has_own_error)]
    alike = [*same, *(one for one in failures if one not in same and one.says_the_same(first))]
    return sorted(alike, key=lambda one: one.exit.rank)


def _left_early(ordered: Sequence[_Ended], own: Sequence[_Ended]) -> _Ended | None:
    """The first rank that ended well before others missed a peer."""
    # What a launcher says of its own processes on several nodes is no word of ours.
    missing = [one for one in own if one.is_missing_a_peer and not (one.told.host or one.told.process)]
    left = [one for one in ordered if not one.exit.is_failure and not one.exit.told and not one.is_missing_a_peer]
    return next((one for one in left if missing and _is_before(one, missing[0])), None)


def _is_before(one: _Ended, other: _Ended) -> bool:
    """Whether it may have ended before the other one: nodes have clocks of their own."""
    return one.exit.at <= other.exit.at + (AT_ONCE_S if one.node != other.node else SEEN_WITHIN_S)


def _with_mpirun(own: Sequence[_Ended]) -> _Ended | None:
    """The first rank that was ended with mpirun itself, which other nodes only know as an end of MPI."""
    return next((one for one in own if one.exit.launcher.startswith("mpirun")), None)


def _beside_its_mpirun(first: _Ended, own: Sequence[_Ended]) -> _Ended | None:
    """The rank of a killed mpirun, where the first one says nothing: it lost mpirun too, and was seen to end before."""
    if first.told.line or first.exit.signal is not None:
        return None
    with_it = _with_mpirun([one for one in own if abs(one.exit.at - first.exit.at) <= AT_ONCE_S])
    return with_it if with_it and "was ended by" in with_it.exit.launcher else None


def _who(alike: Sequence[_Ended], world: int, names: Mapping[int, str]) -> str:
    ranks = [f"{rank} ({names[rank]})" if rank in names else str(rank) for rank in (one.exit.rank for one in alike)]
    if len(alike) == 1:
        return f"rank {ranks[0]} on node {alike[0].node}"
    if len(alike) == world:
        return f"all {world} ranks"
    if len(ranks) > 8:
        return f"{len(ranks)} ranks, from {ranks[0]} to {ranks[-1]},"
    return f"ranks {', '.join(ranks[:-1])} and {ranks[-1]}"


# --- why --------------------------------------------------------------------------------------------------------
def _reason(cause: _Ended) -> Reason:
    """The reason that the cause's own end stands for."""
    ended, told = cause.exit, cause.told
    if ended.error:
        return Reason.RANK_COULD_NOT_START
    if cause.is_without_launcher:
        return Reason.RANK_KILLED
    if not ended.is_failure:
        return Reason.RANK_LEFT_EARLY
    if told.errors and told.errors[-1].line.startswith(_NEVER_RAN) and not cause.is_far:
        return Reason.BAD_COMMAND
    if (
        cause.abort_code is None
        and _signal(ended) is not None
        and not (told.is_shut_down and told.errors)
        and not _is_stopped_late(cause)
    ):
        return Reason.RANK_KILLED
    is_said = bool(_BAD_COMMAND.search("\n".join(tracebacks.clean(ended.tail)[-6:])))
    if told.errors or not is_said or ended.code not in (1, 2, *_OF_THE_SHELL):
        never_ran = told.line.startswith(_NEVER_RAN) and not cause.is_far
        return Reason.BAD_COMMAND if never_ran else Reason.RANK_FAILED
    return Reason.BAD_COMMAND


def _is_stopped_late(cause: _Ended) -> bool:
    """Its own error had been told when it was stopped with the others."""
    return cause.exit.told and cause.has_own_error


def _signal(ended: RankExit) -> int | None:
    """The signal that ended it, also as a shell tells it (128 + n); None = none."""
    if ended.signal is None and _MPI_CODE.search(ended.tail):
        return None
    number = ended.signal if ended.signal is not None else (ended.code or 0) - 128
    return number if ended.signal is not None or number in set(signal.Signals) else None


def _place(cause: _Ended) -> str:
    """File, line and kind of the error, the same for the same error at the same place on every node.

    "" when it isn't known, or when the error is one of the moment.
    """
    errors = cause.told.errors
    if not errors or cause.is_far or cause.is_symptom or _PASSING.search(cause.root):
        return ""
    file, line = errors[0].frames[-1]
    return f"{file.rpartition('/root/code/')[2]}:{line} {errors[0].kind}"


# --- how --------------------------------------------------------------------------------------------------------
def _how(cause: _Ended, reason: Reason) -> str:
    of = " ".join(filter(None, (cause.told.process, f"on {cause.told.host}" if cause.told.host else "")))
    ended, said = cause.exit, _said(cause) + (f" ({of})" if of else "")
    number = _signal(ended) if cause.abort_code is None else None
    by = tracebacks.signal_name(number or 0)
    if ended.error:
        return f"could not be started: {ended.error}"
    if cause.is_without_launcher:
        return f"was ended because its launcher is gone: {ended.launcher}"
    if reason is Reason.RANK_LEFT_EARLY:
        told = f" (its log tells of {said})" if cause.has_own_error else ""
        return f"left with exit code 0 while the other ranks still needed it{told}"
    if cause.told.is_shut_down and not cause.told.errors:
        return f"was ended by {by} while its program was shutting down: a C++ thread was still running"
    if reason is Reason.RANK_KILLED:
        return f"was ended by {by}" + (f" ({said})" if said else "")
    how = "stopped" if number else f"stopped with exit code {cause.abort_code or ended.code}"
    last = f"the last that it said is “{_short(cause.told.last)}”" if cause.told.last else ""
    said = f"{said}, further up in its log; {last}" if said and cause.is_far else said or last
    return how + (f": {said}" if said else "")


def _said(cause: _Ended) -> str:
    """The error in the order of its happening: what was raised first, then what that led to."""
    errors = cause.told.errors
    if cause.is_missing_a_worker:
        return f"{_short(cause.root)} (a worker process of its own is gone)"
    if len(errors) > 1 and cause.root != cause.told.line:
        return f"{_short(cause.root)}; then {_short(cause.told.line)}"
    return _short(cause.told.line)


def _short(line: str, length: int = 260, end: int = 60) -> str:
    """The line, or its beginning and its end: an error's last words often say how, after a long command or path."""
    return line if len(line) <= length else f"{line[: length - end - 1]}…{line[-end:]}"
