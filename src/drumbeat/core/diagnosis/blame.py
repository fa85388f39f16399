"""Finds the rank that failed first: one verdict from how the ranks of a round ended.

Ranks rarely fail alone: the first one takes the others down through the collective they wait in. The cause is the
earliest failure that isn't itself such a symptom; where every failure is a symptom, it is a rank that was stopped while
it was still dying of an error of its own, or the rank that left before them with exit code 0, and only then the
earliest symptom. Ranks that failed in the same way are named together, under the lowest of them. tracebacks.py reads
the logs, advice.py has the advice.
"""

from __future__ import annotations

import errno
import os
import re
import signal
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from types import MappingProxyType

from drumbeat.core.diagnosis import tracebacks
from drumbeat.core.diagnosis.advice import advice_on
from drumbeat.core.end_verdict import Verdict
from drumbeat.model.agent import LEFT_OUT, RankExit
from drumbeat.model.states import Reason

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
"""Files of Python and torch that communicate with a rank's own worker processes."""
_REFUSED = re.compile(r"connection refused", re.IGNORECASE)
"""The error for a peer that is gone, but for any other service too: no proof that a rank has left."""
_OWN_AFTER_ALL = re.compile(
    r"EADDRINUSE|address already in use|HTTP|op\.preamble\.length|nccl(?:Invalid\w+|UnhandledCudaError)|CUDA error:"
    r"|creating shared memory segment|no socket interface found",
    re.IGNORECASE,
)
"""Text that makes the above an error of the rank's own: its port, a download, different shapes, its GPU."""
_OF_BEING_STOPPED = re.compile(
    r"^(?:KeyboardInterrupt|SystemExit)|Signal(?:Exception)?\b.*15|SIGTERM|signal: Terminated"
)
_PROCESS_KILLED = re.compile(
    r"^(?:torchrun's rank \S+|a process of deepspeed's|horovodrun's rank \S+|Ray's \w+) was ended by SIG(?!TERM|ABRT)"
)
_NEVER_RAN = ("SyntaxError", "IndentationError", "TabError", "ModuleNotFoundError", "ImportError")
_BAD_COMMAND = re.compile(
    r"can't open file|: command not found|^usage:|: error: |^Error: No such (?:option|command)|: [Ss]yntax error"
    r"|: unexpected EOF while looking for matching"
    r"|python[\d.]*: (?:No module named|Error while finding module)|error while loading shared libraries"
    r"|line \d+: .*: (?:No such file or directory|Permission denied|Is a directory|cannot execute)",
    re.MULTILINE | re.IGNORECASE,
)
AT_ONCE_S = 1.0
"""Exits this close together have no order: a busy supervisor sees several at once, and the clocks of nodes differ."""
SEEN_WITHIN_S = 0.1
"""A rank may have left before another one of its node only if it ended at most this long after it."""
_MPI_CODE = re.compile(r"^Abort\(\d+\)", re.MULTILINE)
"""MPICH's line when it ends the rank with its own exit code, whose eighth bit means that an error was fatal."""
_MPI_ABORT = re.compile(r"^Abort\((-?\d+)\) .*application called MPI_Abort\(", re.MULTILINE)
_CODE = "/root/code/"
"""Ends the path of the folder with a job's code, on every node."""
_OF_THE_SHELL = (126, 127)
_PASSING = re.compile(
    r"EADDRINUSE|address already in use|timed? ?out|temporarily unavailable|Failed to (?:start|connect to) GCS",
    re.IGNORECASE,
)
"""Transient errors: the same message at the same place doesn't mean that a third attempt fails too."""
_OUTSIDE = re.compile(
    r"Input/output error|Stale file handle|Transport endpoint is not connected|Network is unreachable|No route to host"
    r"|name resolution|\b50[234]\b.*(?:Error|Unavailable|Gateway)"
    r"|uncorrectable (?:ECC|NVLink)|ECC error|hardware stack error",
    re.IGNORECASE,
)
"""Errors of a machine, a network, a share or a service: the program isn't to blame, and may succeed the next time."""
_LASTING = (
    errno.E2BIG, errno.ENOENT, errno.EACCES, errno.EPERM, errno.ENOEXEC, errno.ENOTDIR, errno.ELOOP, errno.ENAMETOOLONG,
)  # fmt: skip
"""Errors with which a process can't be started the next time either (execve(2), chdir(2))."""
_OF_CRASHES = frozenset(
    {signal.SIGABRT, signal.SIGBUS, signal.SIGFPE, signal.SIGILL, signal.SIGSEGV, signal.SIGSYS, signal.SIGTRAP,
     signal.SIGXCPU, signal.SIGXFSZ}
)  # fmt: skip
"""Signals that a program gets for what it does; others were sent."""


@dataclass(frozen=True)
class _RankEnd:
    """The exit of one rank, with the summary of its log."""

    node: int
    exit: RankExit
    aborts: Mapping[int, int]
    """The codes that ranks gave to MPI_Abort, by rank, as Open MPI reports them."""

    @cached_property
    def log(self) -> tracebacks.LogSummary:
        return tracebacks.read(self.exit.tail)

    @cached_property
    def root(self) -> str:
        """The error of the failure that was raised first."""
        return self.log.errors[0].format() if self.log.errors else self.log.line

    @property
    def is_missing_a_peer(self) -> bool:
        """Whether the rank failed because another one was gone."""
        is_peer_gone = _PEER_GONE.search(self._first) and not _OWN_AFTER_ALL.search(self._first)
        return bool(is_peer_gone) and not self.is_missing_a_worker

    @property
    def is_missing_a_worker(self) -> bool:
        """Whether the missing peer is a process that the rank itself started."""
        files = [file for error in self.log.errors for file, _ in error.frames]
        return bool(_PEER_GONE.search(self._first)) and any(_WORKERS.search(file) for file in files)

    @property
    def is_without_launcher(self) -> bool:
        """Whether the rank ended with its MPI launcher, without having called MPI_Abort."""
        return bool(self.exit.launcher) and not self.is_aborting

    @property
    def is_aborting(self) -> bool:
        """Whether the rank called MPI_Abort, or MPI did for an error in the rank."""
        return self.abort_code is not None or bool(_MPI_CODE.search(self.exit.tail) and not self.is_missing_a_peer)

    @cached_property
    def abort_code(self) -> int | None:
        """The error code that the rank gave to MPI_Abort, None = it didn't call it. Its own exit code differs."""
        match = _MPI_ABORT.search(self.exit.tail)
        code = int(match[1]) if match else self.aborts.get(self.exit.rank)
        return None if code is None else code & 0xFF or 1

    @property
    def is_symptom(self) -> bool:
        if self.exit.launcher:
            return self.is_without_launcher
        refused = _REFUSED.search(self._first) and not _OWN_AFTER_ALL.search(self._first)
        return self.is_missing_a_peer or bool(refused)

    @property
    def has_own_error(self) -> bool:
        """Whether the log has a traceback that neither a missing peer nor the supervisor's signal explains."""
        return bool(self.log.errors) and not self.is_symptom and not _OF_BEING_STOPPED.search(self.root)

    @property
    def has_lost_a_process(self) -> bool:
        """Whether a launcher in the command reports that one of its processes was killed, not just stopped."""
        return bool(_PROCESS_KILLED.search(self.log.line))

    @property
    def has_explanation(self) -> bool:
        """Whether the exit, or the log, explains the failure."""
        has_line = self.exit.signal is None and bool(self.log.line)
        return has_line or self.has_own_error or self.is_aborting or self.exit.signal == signal.SIGKILL

    @property
    def is_far(self) -> bool:
        """Whether more output followed the error than the tail holds: the rank may have survived it."""
        return LEFT_OUT in self.exit.tail

    def has_same_error(self, first: _RankEnd) -> bool:
        """Whether the logs end with the same error: the rank had failed by itself when it was stopped."""
        last, last_of_first = _numberless(self.log.last), _numberless(first.log.last)
        return last == last_of_first and bool(_BAD_COMMAND.search(last))

    @property
    def way(self) -> tuple[object, ...]:
        """A key that ranks share if they failed in the same way; numbers in messages are ignored."""
        if self.root:
            return (_numberless(self.root),)
        return (self.exit.code, self.exit.signal, self.exit.error)

    @property
    def _first(self) -> str:
        errors = self.log.errors
        is_eof_of_pipe = errors and errors[0].line == "EOFError" and "connection.py" in errors[0].frames[-1][0]
        return "broken pipe" if is_eof_of_pipe else self.root


def _numberless(line: str) -> str:
    return re.sub(r"0x[0-9a-f]+|\d+", "#", line)


def verdict(exits: Sequence[Exit], world: int = 0, names: Mapping[int, str] = MappingProxyType({})) -> Verdict:
    """Returns the verdict on the (node, exit) pairs of a round, which have at least one failure.

    world: the number of ranks, so that the sentence can say "all"; 0 = unknown. names: of ranks, beside their numbers.
    """
    alike = _culprits(exits)
    # A rank that was stopped after the same error is named with the others, but its exit code means nothing.
    cause = next((one for one in alike if not one.exit.is_stopped or one.has_own_error), alike[0])
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
        advice=advice_on(cause.log, cause.exit, reason, sentence, _own_line(cause)),
        place=_place(cause),
        is_own=_is_own(cause, reason),
        ranks=tuple(one.exit.rank for one in alike),
    )


def is_guess(exits: Sequence[Exit]) -> bool:
    """Whether all failures so far are symptoms, and the rank that caused them isn't among the exits yet."""
    cause = _culprits(exits)[0]
    is_explained = cause.is_aborting or _with_mpirun([cause])
    return (cause.is_missing_a_peer or cause.is_without_launcher) and not is_explained


def shell_code(cause: RankExit) -> int:
    """Returns the exit code as in a shell: 128 + n for signal n; 1 if the rank left early or never started."""
    if cause.signal is not None:
        return 128 + cause.signal
    return cause.code or 1


# --- who --------------------------------------------------------------------------------------------------------
def _culprits(exits: Sequence[Exit]) -> list[_RankEnd]:
    """Returns the ranks that caused the failure, all in the same way, lowest rank first."""
    aborts = {rank: code for _, ended in exits for rank, code in tracebacks.mpi_aborts(ended.tail).items()}
    ordered = [_RankEnd(*pair, aborts) for pair in sorted(exits, key=lambda pair: (pair[1].at, pair[1].order))]
    failures = [one for one in ordered if one.exit.is_failure]
    own = [one for one in failures if not one.exit.is_stopped] or failures
    gone = next((one.exit.at for one in own if one.is_missing_a_peer or one.is_without_launcher), float("inf"))
    # A rank that ends well after one that lost a peer, and doesn't say why, has lost a peer too.
    first = next(
        (one for one in own if not one.is_symptom and (one.exit.at <= gone + AT_ONCE_S or one.has_explanation)), None
    )
    # Ranks that lose their peer can end before the rank that called MPI_Abort, which is then stopped with them; on a
    # busy node well before, since the supervisor takes the time when it sees the exit. A rank with an error isn't one.
    is_clear = first is not None and (first.has_own_error or first.exit.signal is not None)
    end = first.exit.at + AT_ONCE_S if first and is_clear else float("inf")
    asking = [one for one in failures if one.is_aborting and one.exit.at <= end]
    is_explained = first is not None and first.has_own_error
    first = next((one for one in asking if not (one.exit.is_stopped and is_explained)), first)
    first = first or next((one for one in failures if one.exit.is_stopped and one.has_own_error), None)
    first = first or next((one for one in failures if one.exit.is_stopped and one.has_lost_a_process), None)
    if first is None:
        return [_left_early(ordered, own) or _with_mpirun(own) or own[0]]
    if with_mpirun := _beside_its_mpirun(first, own):
        return [with_mpirun]
    same = [one for one in failures if one.way == first.way and (one is first or one in own or one.has_own_error)]
    alike = [*same, *(one for one in failures if one not in same and one.has_same_error(first))]
    return sorted(alike, key=lambda one: one.exit.rank)


def _left_early(ordered: Sequence[_RankEnd], own: Sequence[_RankEnd]) -> _RankEnd | None:
    """Returns the first rank that exited with 0 before others missed a peer."""
    # A launcher's own report on its processes, on several nodes, isn't about drumbeat's ranks.
    missing = [one for one in own if one.is_missing_a_peer and not (one.log.host or one.log.process)]
    left = [one for one in ordered if not one.exit.is_failure and not one.exit.is_stopped and not one.is_missing_a_peer]
    return next((one for one in left if missing and _is_before(one, missing[0])), None)


def _is_before(one: _RankEnd, other: _RankEnd) -> bool:
    """Whether a rank may have ended before the other, since each node has its own clock."""
    return one.exit.at <= other.exit.at + (AT_ONCE_S if one.node != other.node else SEEN_WITHIN_S)


def _with_mpirun(own: Sequence[_RankEnd]) -> _RankEnd | None:
    """Returns the first rank that ended with mpirun itself, which the other nodes only see as a lost MPI."""
    return next((one for one in own if one.exit.launcher.startswith("mpirun")), None)


def _beside_its_mpirun(first: _RankEnd, own: Sequence[_RankEnd]) -> _RankEnd | None:
    """Returns the rank of a killed mpirun, where the first one has no error: it lost mpirun too, and was seen first."""
    if first.log.line or first.exit.signal is not None:
        return None
    with_it = _with_mpirun([one for one in own if abs(one.exit.at - first.exit.at) <= AT_ONCE_S])
    return with_it if with_it and "was ended by" in with_it.exit.launcher else None


def _who(alike: Sequence[_RankEnd], world: int, names: Mapping[int, str]) -> str:
    ranks = [f"{rank} ({names[rank]})" if rank in names else str(rank) for rank in (one.exit.rank for one in alike)]
    if len(alike) == 1:
        return f"rank {ranks[0]} on node {alike[0].node}"
    if len(alike) == world:
        return f"all {world} ranks"
    if len(ranks) > 8:
        return f"{len(ranks)} ranks, from {ranks[0]} to {ranks[-1]},"
    return f"ranks {', '.join(ranks[:-1])} and {ranks[-1]}"


# --- why --------------------------------------------------------------------------------------------------------
def _reason(cause: _RankEnd) -> Reason:
    """Returns the reason that fits the end of the rank at fault."""
    ended, log = cause.exit, cause.log
    if ended.error:
        lasts = any(os.strerror(number) in ended.error for number in _LASTING)
        return Reason.BAD_COMMAND if lasts else Reason.RANK_COULD_NOT_START
    if cause.is_without_launcher:
        return Reason.RANK_KILLED
    if not ended.is_failure:
        return Reason.RANK_LEFT_EARLY
    if log.errors and log.errors[-1].line.startswith(_NEVER_RAN) and not cause.is_far:
        return Reason.BAD_COMMAND
    if (
        cause.abort_code is None
        and _signal(ended) is not None
        and not (log.is_shut_down and log.errors)
        and not _is_stopped_late(cause)
    ):
        return Reason.RANK_KILLED
    is_bad_command = bool(_BAD_COMMAND.search("\n".join(tracebacks.clean(ended.tail)[-6:])))
    if log.errors or not is_bad_command or ended.code not in (1, 2, *_OF_THE_SHELL):
        never_ran = log.line.startswith(_NEVER_RAN) and not cause.is_far
        return Reason.BAD_COMMAND if never_ran else Reason.RANK_FAILED
    return Reason.BAD_COMMAND


def _is_stopped_late(cause: _RankEnd) -> bool:
    """Whether the rank had logged its own error when it was stopped with the others."""
    return cause.exit.is_stopped and cause.has_own_error


def _signal(ended: RankExit) -> int | None:
    """Returns the signal that ended the rank, also from a shell's exit code (128 + n); None = none."""
    if ended.signal is None and _MPI_CODE.search(ended.tail):
        return None
    number = ended.signal if ended.signal is not None else (ended.code or 0) - 128
    return number if ended.signal is not None or number in set(signal.Signals) else None


def _place(cause: _RankEnd) -> str:
    """Returns file, line and kind of the error, the same for the same error at the same place on every node.

    "" when the place is unknown, or the error is transient.
    """
    errors = cause.log.errors
    if not errors or cause.is_far or cause.is_symptom or _PASSING.search(cause.root):
        return ""
    file, line = errors[0].frames[-1]
    return f"{file.rpartition(_CODE)[2]}:{line} {errors[0].kind}"


def _is_own(cause: _RankEnd, reason: Reason) -> bool:
    """Whether the program itself failed (`Verdict.is_own`)."""
    text = "\n".join([cause.root, *(error.line for error in cause.log.errors)])
    if cause.is_symptom or cause.has_lost_a_process or _PASSING.search(text) or _OUTSIDE.search(text):
        return False
    if reason is Reason.RANK_KILLED:
        return _signal(cause.exit) in _OF_CRASHES or bool(cause.exit.memory_limit_mib)
    return reason in (Reason.RANK_FAILED, Reason.RANK_LEFT_EARLY)


def _own_line(cause: _RankEnd) -> str:
    """`train.py:14`, the line of the job's own code at which the error was raised, or from which; "" = unknown."""
    frames = cause.log.errors[0].frames if cause.log.errors else []
    own = [f"{file.rpartition(_CODE)[2]}:{line}" for file, line in frames if _CODE in file or file[0] not in "/<"]
    return "" if cause.is_far or not own else own[-1]


# --- how --------------------------------------------------------------------------------------------------------
def _how(cause: _RankEnd, reason: Reason) -> str:
    of = " ".join(filter(None, (cause.log.process, f"on {cause.log.host}" if cause.log.host else "")))
    ended, error = cause.exit, _errors(cause) + (f" ({of})" if of else "")
    number = _signal(ended) if cause.abort_code is None else None
    by = tracebacks.signal_name(number or 0)
    if ended.error:
        return f"could not be started: {ended.error}"
    if cause.is_without_launcher:
        return f"was ended because its launcher is gone: {ended.launcher}"
    if reason is Reason.RANK_LEFT_EARLY:
        remark = f" (its log has {error})" if cause.has_own_error else ""
        left = f"ended its program well, then died by {by}," if ended.end_mark else "left with exit code 0"
        return f"{left} while the other ranks still needed it{remark}"
    if cause.log.is_shut_down and not cause.log.errors:
        return f"was ended by {by} while its program was shutting down: a C++ thread was still running"
    if reason is Reason.RANK_KILLED:
        at_limit = f" at the memory limit of {ended.memory_limit_mib} MiB" if ended.memory_limit_mib else ""
        return f"was ended by {by}{at_limit}" + (f" ({error})" if error else "")
    how = "stopped" if number else f"stopped with exit code {cause.abort_code or ended.code}"
    last = f"its last line is “{_short(cause.log.last)}”" if cause.log.last else ""
    details = f"{error}, further up in its log; {last}" if error and cause.is_far else error or last
    return how + (f": {details}" if details else "")


def _errors(cause: _RankEnd) -> str:
    """Returns the first error that was raised, then the one that it led to."""
    errors = cause.log.errors
    if cause.is_missing_a_worker:
        return f"{_short(cause.root)} (a worker process of its own is gone)"
    if len(errors) > 1 and cause.root != cause.log.line:
        return f"{_short(cause.root)}; then {_short(cause.log.line)}"
    return _short(cause.log.line)


def _short(line: str, length: int = 260, end: int = 60) -> str:
    """Returns the line, or its beginning and end: the end often has the error, after a long command or path."""
    return line if len(line) <= length else f"{line[: length - end - 1]}…{line[-end:]}"
