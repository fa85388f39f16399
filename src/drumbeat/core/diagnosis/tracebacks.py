"""Reads errors from the end of a rank's log: Python's tracebacks, C++ aborts, torchrun's table.

The end of a log may be cut anywhere, with other output in between: lines of unknown form are skipped.
"""

from __future__ import annotations

import re
import signal
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from drumbeat.model.shared_logs import by_process, first_to_raise, lines_without_prefix, split

_ANSI = re.compile(r"\x1b\[[0-9;?]*[ -/]*[@-~]")
_GROUP_PREFIX = re.compile(r"^ *[|+] ?")
"""The prefix of each line of a group of exceptions (docs.python.org, ExceptionGroup)."""

_HEADER = re.compile(r"(Original |Exception Group )?Traceback \(most recent call last\):$")
_STACK = re.compile(r"\bStack \(most recent call last\):$")
"""The header of logging's stack_info, which isn't of an error."""
_FRAME = re.compile(r'^\s+File "([^"]+)", line (\d+)(, in .+)?$')
"""A frame of a traceback; faulthandler's frames, `line 3 in f`, are of no error."""
_RAISED = re.compile(r"^([A-Za-z_][\w.]*)(?:: ?(.*))?$")
_RAISED_HEADLESS = re.compile(
    r"(?:\w+\.)+(?:[A-Z]\w*|\w*(?:error|timeout))(?:$|:)"
    r"|(?:[A-Z]\w*(?:Error|Exception|Exit|Interrupt|Group)|Stop(?:Async)?Iteration)(?:$|:)"
)
"""An error that ends a traceback without a header, whatever raised it; `Epoch: 3` is no error."""
_RAISES = re.compile(r"\braise\b")
_PRINTS_STACK = re.compile(r"\b(?:print|format)_stack\(|\bstack_info\s*=")
"""The statement whose frames, without an error, traceback.print_stack or logging has printed."""
_RAISED_UNCOMPILED = re.compile(r"(?:Syntax|Indentation|Tab)Error\b")
_FOLLOWS = re.compile(r"^(?:The above exception was the direct cause|During handling of the above exception)")
_INSIDE = re.compile(r"^-- Process \d+ terminated with the following error")
_IGNORED = re.compile(r"^Exception ignored in")
_ASIDE = re.compile(r"^(?:Exception in thread|Process \S+:)")
_WAITED = re.compile(r"^(?:[\w.]+\.)?(?:Empty|Full|TimeoutError|Broken(?:Barrier|Thread|Process)\w+)\b")
"""Errors that only mean that another thread or process hasn't done its part."""

_WHAT = re.compile(r"^\s*what\(\):\s*(.+)$")
_THROWN = re.compile(r"^(?:libc\+\+abi: )?terminat(?:e called|ing).*(?:instance of|of type) '?([\w:]+)'?")
_FATAL = re.compile(r"^Fatal Python error: .+$")
_ABORTED = re.compile(
    r"^(?:\S+: )?\S+:\d+: .*Assertion .* failed\.?$|^\*\*\* .+ \*\*\*: terminated$"
    r"|^(?:free|malloc|realloc|munmap_chunk)\(\): .+$|^double free or corruption.*$|^corrupted .+$"
)
"""The C library's messages before it ends the program: assert(3), mallopt(3)."""
_CHILD = re.compile(r"^\s+rank\s+: (\d+) \(local_rank: \d+\)$")
_CHILD_CODE = re.compile(r"^\s+exitcode\s+: (-?\d+) \(pid: \d+\)")
_HOROVODRUN = "Horovod detected that one or more processes exited with non-zero status"
_HOROVODRUNS = re.compile(r"^Process name: (\d+)$")
_HOROVODRUNS_CODE = re.compile(r"^Exit code: (\d+)$")
_DEEPSPEED_CODE = re.compile(r"^(?:(\S+): )?\[[^]]+\] \[ERROR\] \[launch\.py:.* exits with return code = (-?\d+)$")
"""DeepSpeed's line on the first process of a node that it finds ended."""
_OFTEN_FOR_ANOTHER = (signal.SIGABRT, signal.SIGTERM)
"""Signals that end a process because another one has gone, or that stop it for that."""
_ERROR_LINE = re.compile(r"^(?:[\w.]+\.)?[A-Z]\w*(?:Error|Exception|Exit|Interrupt|Warning|Timeout|NotFound)\b:?.*$")
_NCCL = re.compile(
    r"(?P<kind>[\w.]+): NCCL error in: .*\n(?P<error>nccl\w+): (?P<meaning>.*)(?:\nLast error:\n(?P<last>.*))?"
)
"""torch's four lines on an error of NCCL: where in torch, its name and usual meaning, and its message this time."""
_CUDA_MEMORY = re.compile(r"(.*CUDA out of memory\..* is free\..*) Of the allocated memory ")
"""torch's text before the figures of its allocator: the memory wanted and free, and the processes on that GPU."""
_ABOVE = "check log messages above"
"""Horovod's error says only this; its C++ code has logged the reason before."""
_HOROVOD_SAYS = re.compile(r"^\[[^]]+: [EF] \S+:\d+\] \[\d+\]: (.+)$")
_MPI_ABORT = re.compile(r"^Abort\(-?\d+\) on node \d+ .*: application called MPI_Abort\(.+$")
"""MPICH's message in a rank that calls MPI_Abort."""
_MPI_LOST = re.compile(
    r"^.*\bPMIU_\w+ error\b.*$|^.*\bPMI_\w+ returned -1$"
    r"|^\[\S+\] \*\*\* An error occurred in Socket closed$"
)
"""MPICH's message in the other ranks, and Open MPI's in a rank whose peer is gone."""
_MPI_INVOKED = re.compile(
    r"^MPI_ABORT was invoked on rank (\d+) in communicator MPI_COMM_WORLD\s+"
    r"(?:Proc: \S+\s+Errorcode: |with errorcode )(-?\d+)",
    re.MULTILINE,
)
"""The message of Open MPI's mpirun (5, and 4) on MPI_Abort, in the log of rank 0."""
_RAY_PART = re.compile(r" -- (?:----- (?:BEGIN|END) )?(\w+)(?:\.\w+ tail)? [\[(]exit code(?:\(s\))?=(-?\d+)")
"""The line of `ray start` on a process of its own before it ends the others: its exit, or the end of its log."""
_PROGRAM_ENDED = re.compile(r"^\S+ \S+ E (.+ ended with -?\d+ before it was ready\.)$")
"""The scoring server's line on a program with routes of its own (`scoring/program_behind.py`)."""
SHUT_DOWN = "terminate called without an active exception"
"""The message of C++ when a thread outlives the program that should have waited for it."""


@dataclass
class RaisedError:
    """One exception of a traceback."""

    line: str = ""
    """`ValueError: loss is nan`."""
    frames: list[tuple[str, int]] = field(default_factory=list[tuple[str, int]])
    source: str = ""
    """The statement that raised it."""

    @property
    def kind(self) -> str:
        """The name of the class in the traceback."""
        return self.line.split(":")[0]

    def format(self) -> str:
        """Returns the line, with the statement where it has no message of its own."""
        bare = self.line.rstrip(": ")
        return f"{bare} at `{self.source}`" if self.source and bare == self.kind else self.line


@dataclass(frozen=True)
class LogSummary:
    """What the end of a log says about a failure."""

    errors: tuple[RaisedError, ...] = ()
    """The errors of one failure, in the order in which they were raised; () = the log has no traceback."""
    line: str = ""
    """The line that describes the error best, "" = none."""
    last: str = ""
    """The last line with text."""
    is_shut_down: bool = False
    """Whether a C++ thread outlived the program."""
    host: str = ""
    """The node that the error comes from, where a launcher prefixes lines with nodes; "" = unknown."""
    process: str = ""
    """The launcher's name for the process that failed, "" = the rank itself, or unknown."""


def read(tail: str) -> LogSummary:
    """Summarizes the end of a log."""
    plain = _plain(tail)
    lines, speaker = by_process(plain)
    errors = _chain(lines)
    last = _last(lines)
    is_shut_down = any(line.startswith(SHUT_DOWN) for line in lines)
    launcher, child, code = _torchrun(lines, plain) or _horovodrun(plain) or ("", "", 0)
    if launcher and all(_is_of_launcher(error) for error in _chain(lines_without_prefix(plain))):
        process = f"{launcher}'s rank {child}"
        if code > 0 and (own := _errors_of_child(plain, child)):
            return LogSummary(own, own[-1].format(), last, process=process)
        return LogSummary(line=f"{process} {_how_ended(code)}", last=last)
    killed, where = _deepspeed(plain)
    if killed:
        return LogSummary(line=killed, last=last, host=where)
    line = errors[-1].format() if errors else _native(lines)
    host, process = (speaker.host, speaker.process) if errors else ("", "")
    return LogSummary(errors, line, last, is_shut_down, host, process)


def mpi_aborts(tail: str) -> dict[int, int]:
    """Returns the ranks that called MPI_Abort, with their error codes, as Open MPI reports them."""
    return {int(match[1]): int(match[2]) for match in _MPI_INVOKED.finditer(tail)}


def clean(tail: str) -> list[str]:
    """Returns the lines without colours, overwritten progress bars, and the prefixes of ranks and hosts."""
    return by_process(_plain(tail))[0]


def _last(lines: Sequence[str]) -> str:
    """Returns the last line with text; where a program behind the scoring server has ended, its own one, too."""
    texts = (line.strip() for line in reversed(lines) if any(c.isalnum() for c in line))
    last, before = next(texts, ""), next(texts, "")
    ended = _PROGRAM_ENDED.match(last)
    if ended is None:
        return last
    return f"{before}”, then “{ended[1]}" if before else ended[1]


def _plain(tail: str) -> list[str]:
    return [line.rstrip().rpartition("\r")[2] for line in _ANSI.sub("", tail).split("\n")]


# --- tracebacks -------------------------------------------------------------------------------------------------
@dataclass
class _Block(RaisedError):
    """One traceback in the text."""

    follows: bool = False
    """The traceback before it was raised earlier, in the same chain."""
    is_inside: bool = False
    """The traceback before it wraps this one."""
    is_ignored: bool = False
    """Python ignored the exception."""
    is_aside: bool = False
    """Another thread or a child process raised it."""
    ends_in: re.Pattern[str] | None = None
    """Which error must stand right below a traceback without a header; None = it has a header."""
    is_interrupted: bool = False
    """Other output stands below the last of its frames."""

    @property
    def is_printed(self) -> bool:
        """Whether it is the stack of a statement that prints stacks."""
        return self.ends_in is not None and _PRINTS_STACK.search(self.source) is not None

    def is_ended_by(self, line: str) -> bool:
        """Whether a line that isn't indented is its error."""
        raised = _RAISED.match(line)
        if raised is None or not self.frames or self.is_interrupted or self.is_printed:
            return False
        if self.ends_in is None or self.ends_in.match(line):
            return True
        is_class = raised[1][0].isupper() or raised[1] in self.source
        return self.ends_in is _RAISED_HEADLESS and is_class and _RAISES.search(self.source) is not None


def _chain(lines: Sequence[str]) -> tuple[RaisedError, ...]:
    """Returns the errors of the last failure in the order in which they were raised.

    An error of a thread or a child process counts only where the log has no other, or where the main thread then failed
    because it was waiting for that thread or process.
    """
    chains = _chains(lines)
    asides = [any(block.is_aside for block in chain) for chain in chains]
    if all(asides):
        return tuple(chains[-1]) if chains else ()
    own = len(asides) - 1 - asides[::-1].index(False)
    before = [chain for chain, is_aside in zip(chains[:own], asides[:own], strict=True) if is_aside]
    waited_for = before[-1] if before and _WAITED.match(chains[own][0].line) else []
    return (*waited_for, *chains[own])


def _chains(lines: Sequence[str]) -> list[list[_Block]]:
    """Returns the errors of each failure."""
    chains: list[list[_Block]] = []
    for block in _blocks(lines):
        if chains and (block.follows or block.is_inside):
            chains[-1].insert(-1 if block.is_inside else len(chains[-1]), block)
        elif not block.is_ignored:
            chains.append([block])
    return chains


def _blocks(lines: Sequence[str]) -> Iterator[_Block]:
    """Yields every traceback that ends in an error.

    Programs print stacks without any error, too: a frame without a header above it counts only where the header was cut
    off, at the top or right below an error that an excerpt put there, or as that of a file that couldn't be compiled,
    which has none. Its error must stand right below the last frame, and be one by its name or by the statement above.
    """
    block, before, is_top = None, "", True
    for number, whole in enumerate(lines):
        line = _GROUP_PREFIX.sub("", whole)
        frame = _FRAME.match(line)
        block = _begun(line, frame, block, before, is_top=is_top)
        is_top = is_top and (line.startswith(" ") or (number == 0 and not _STACK.search(line)))
        if block is None:
            before = line or before
            continue
        if frame:
            block.frames.append((frame[1], int(frame[2])))
            block.source, block.is_interrupted = "", False
        elif line.startswith(" "):
            block.source = block.source or line.strip()
        elif block.is_ended_by(line):
            block.line = _with_message(line, lines[number + 1 : number + 5])
            if _ABOVE in line and (reason := _reason_above(lines[:number])):
                block.line = f"{block.kind}: {reason}"
            yield block
            block, before, is_top = None, line, True
        elif block.ends_in:
            block, before = _interrupted(block, line), line or before


def _begun(line: str, frame: re.Match[str] | None, block: _Block | None, before: str, *, is_top: bool) -> _Block | None:
    """Returns the traceback that begins in a line, else the one that is being read."""
    if header := _HEADER.search(line):
        return _begin(before, is_nested=header[1] == "Original ")
    if frame and block is None and is_top:
        return _begin(before, ends_in=_RAISED_HEADLESS)
    if frame and not frame[3] and (block is None or block.is_interrupted):
        return _begin(before, ends_in=_RAISED_UNCOMPILED)
    return block


def _interrupted(block: _Block, line: str) -> _Block | None:
    """Returns a traceback without a header below which other output stands; None = no more frames of it can follow."""
    if block.is_printed or block.ends_in is _RAISED_UNCOMPILED or _STACK.search(line):
        return None
    block.is_interrupted = True
    return block


def _begin(before: str, *, is_nested: bool = False, ends_in: re.Pattern[str] | None = None) -> _Block:
    return _Block(
        ends_in=ends_in,
        follows=bool(_FOLLOWS.match(before)),
        is_inside=is_nested or bool(_INSIDE.match(before)),
        is_ignored=bool(_IGNORED.match(before)),
        is_aside=bool(_ASIDE.match(before)),
    )


def _with_message(line: str, following: Sequence[str]) -> str:
    """Returns an error with the following line where its first only announces it, and without appended advice."""
    if nccl := _NCCL.match("\n".join([line, *following])):
        return f"{nccl['kind']}: {nccl['error']}: {nccl['last'] or nccl['meaning']}".strip()
    if memory := _CUDA_MEMORY.match(line):
        return memory[1]
    more = following[0].strip() if following else ""
    return f"{line} {more}" if line.endswith(":") and more and not _INSIDE.match(more) else line.strip()


def _reason_above(lines: Sequence[str]) -> str:
    return next((match[1] for line in reversed(lines) if (match := _HOROVOD_SAYS.match(line))), "")


# --- others -----------------------------------------------------------------------------------------------------
def _native(lines: Sequence[str]) -> str:
    """Returns the last message of C++ or the interpreter before the process ended; else the last line like an error."""
    thrown = next((match[1] for line in lines if (match := _THROWN.match(line))), "")
    what = next((match[1] for line in lines if (match := _WHAT.match(line))), "")
    if thrown or what:
        return ": ".join(part for part in (thrown, what) if part)
    if part := next((match for line in lines if (match := _RAY_PART.search(line))), None):
        return f"Ray's {part[1]} {_how_ended(int(part[2]))}"
    for pattern in (_FATAL, _ABORTED, _ERROR_LINE, _MPI_ABORT, _MPI_LOST):
        if matching := [line for line in lines if pattern.match(line)]:
            return matching[-1].strip()
    return ""


def _is_of_launcher(error: RaisedError) -> bool:
    return error.kind.endswith("ChildFailedError") or _HOROVODRUN in error.line


def _torchrun(lines: Sequence[str], plain: Sequence[str]) -> tuple[str, str, int] | None:
    """Returns the rank that torchrun's closing table says failed first, and its exit code.

    torchrun finds the ranks of the table failed in one poll, and calls the first in its own list the root cause: their
    messages, and how they ended, are better evidence.
    """
    begin = next((n for n, line in enumerate(lines) if line.startswith("Root Cause (first observed failure)")), None)
    if begin is None:
        return None
    codes = _children(lines)
    rank, code = next(iter(_children(lines[begin:]).items()), ("?", 0))
    ends = [(rank, code), *codes.items()]
    killed = next((one for one in ends if one[1] < 0 and -one[1] not in _OFTEN_FOR_ANOTHER), None)
    if killed:
        rank, code = killed
    elif code == 1 and codes.get(first := first_to_raise(plain)) == 1:
        rank = first
    return "torchrun", rank, code


def _children(lines: Sequence[str]) -> dict[str, int]:
    """Returns the exit codes by rank in torchrun's table."""
    codes, rank = dict[str, int](), ""
    for line in lines:
        if child := _CHILD.match(line):
            rank = child[1]
        elif rank and (code := _CHILD_CODE.match(line)):
            codes[rank], rank = int(code[1]), ""
    return codes


def _horovodrun(lines: Sequence[str]) -> tuple[str, str, int] | None:
    """Returns the process that horovodrun says failed first, with its code. It reports signal 9 as 247 or 137."""
    begin = next((n for n, line in enumerate(lines) if _HOROVODRUN in line), None)
    if begin is None:
        return None
    rank = next((match[1] for line in lines[begin:] if (match := _HOROVODRUNS.match(line))), "?")
    code = next((int(match[1]) for line in lines[begin:] if (match := _HOROVODRUNS_CODE.match(line))), 0)
    if code == 1:  # Of ranks that fail together, the one whose exit horovodrun sees first isn't always the cause.
        rank = first_to_raise(lines) or rank
    by = 256 - code if code > 256 - signal.NSIG else code - 128
    return "horovodrun", rank, -by if by > 0 else code


def _errors_of_child(lines: Sequence[str], rank: str) -> tuple[RaisedError, ...]:
    """Returns what a rank of a launcher raised: in lines with its number; where none has a number, the only failure."""
    pairs = [split(line) for line in lines]
    if any(speaker.rank for speaker, _ in pairs):
        return _chain([words for speaker, words in pairs if speaker.rank == rank])
    others = [chain for chain in _chains(lines) if not all(_is_of_launcher(error) for error in chain)]
    return tuple(others[0]) if len(others) == 1 else ()


def _how_ended(code: int) -> str:
    return f"was ended by {signal_name(-code)}" if code < 0 else f"ended with exit code {code}"


def _deepspeed(lines: Sequence[str]) -> tuple[str, str]:
    """Returns DeepSpeed's report of a process that a signal has ended, and its node."""
    by_signal = [match for line in lines if (match := _DEEPSPEED_CODE.match(line)) and int(match[2]) < 0]
    first = next((match for match in by_signal if -int(match[2]) not in _OFTEN_FOR_ANOTHER), None)
    first = first or next(iter(by_signal), None)
    if first is None:
        return "", ""
    return f"a process of deepspeed's was ended by {signal_name(-int(first[2]))}", first[1] or ""


def signal_name(number: int) -> str:
    """`SIGKILL`; a number that has no name as `signal 77`."""
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"
