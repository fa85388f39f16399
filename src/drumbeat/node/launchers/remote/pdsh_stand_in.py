"""Replaces pdsh: `python -I -m drumbeat.node.launchers.remote.pdsh_stand_in FOLDER [options] -w HOSTS COMMAND…`.

It runs one shell for each host, and prefixes each line of output with the host, as pdsh does.
"""

from __future__ import annotations

import contextlib
import os
import queue
import signal
import subprocess
import sys
import threading
import time
from dataclasses import dataclass
from typing import IO

from drumbeat.model.programs import SHELL
from drumbeat.node.host.own_programs import program

_WITH_VALUE = frozenset("wxlRftu")
"""Options of pdsh with a value (pdsh(1)); only -w and -x have an effect here."""
_FLAGS = frozenset("SNbkqd")
_PASSED_ON = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)
_OF_ONE_JOB = "deepspeed.launcher.launch"
"""The module that DeepSpeed starts on every host: if one fails, the others wait for it until torch gives up."""
_PIECE = 1 << 16
"""The maximum bytes of a line that are passed on at once."""
_OTHERS_TIMEOUT_S = 30.0
"""How long the other hosts have to notice the failure and report it themselves."""


class UnknownOptionError(Exception):
    """Raised for an option that this replacement of pdsh doesn't support."""


@dataclass
class PdshCommandLine:
    """A command line of pdsh."""

    hosts: list[str]
    command: str
    is_strict: bool = False
    """Whether the exit code is the largest of the commands' (-S)."""
    is_bare: bool = False
    """Whether output lines have no host prefix (-N)."""
    is_hasty: bool = False
    """Whether the other commands are ended when one fails (-k)."""

    @property
    def others_timeout_s(self) -> float | None:
        """How long the other commands may continue after one has failed; None = no limit."""
        if self.is_hasty:
            return 0.0
        return _OTHERS_TIMEOUT_S if _OF_ONE_JOB in self.command else None


def main() -> int:
    """Returns 0; with -S the largest exit code of the commands; the failing one's if the others were ended for it."""
    folder, *words = sys.argv[1:]
    try:
        line = parse(words)
    except UnknownOptionError as error:
        print(f"drumbeat: {error}", file=sys.stderr)  # noqa: T201
        return 1
    shells = [_start(folder, line, number, host) for number, host in enumerate(line.hosts)]
    for number in _PASSED_ON:
        signal.signal(number, lambda number, _: [shell.send_signal(number) for shell in shells] and None)
    pumps = [pump for shell, host in zip(shells, line.hosts, strict=True) for pump in _pumps(shell, line, host)]
    code = _wait(shells, line)
    for pump in pumps:
        pump.join()
    return code if line.is_strict else 0


def parse(words: list[str]) -> PdshCommandLine:
    """Reads the arguments of pdsh. Raises UnknownOptionError."""
    rest, options = list(words), dict[str, str]()
    while rest and rest[0].startswith("-"):
        letters = rest.pop(0)[1:]
        while letters:
            letter, letters = letters[0], letters[1:]
            if letter in _WITH_VALUE:
                options[letter], letters = letters or (rest.pop(0) if rest else ""), ""
            elif letter in _FLAGS:
                options[letter] = ""
            else:
                raise UnknownOptionError(f"pdsh -{letter}: drumbeat's replacement of pdsh has no such option")
    left_out = set(options.get("x", "").split(","))
    hosts = [host for host in options.get("w", "").split(",") if host and host not in left_out]
    if not hosts or not rest:
        raise UnknownOptionError("pdsh: hosts (-w a,b) and a command are required")
    return PdshCommandLine(hosts, " ".join(rest), "S" in options, "N" in options, "k" in options)


def filled(command: str, number: int, host: str) -> str:
    """The command for one host: `%h` is its name, `%n` its index in the list."""
    meant = {"%h": host, "%n": str(number), "%%": "%"}
    parts = [command[at : at + 2] for at in range(len(command))]
    text, at = "", 0
    while at < len(parts):
        text += meant.get(parts[at], parts[at][:1])
        at += 2 if parts[at] in meant else 1
    return text


def _start(folder: str, line: PdshCommandLine, number: int, host: str) -> subprocess.Popen[bytes]:
    words = [*program(SHELL), folder, host, filled(line.command, number, host)]
    return subprocess.Popen(words, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE)


def _wait(shells: list[subprocess.Popen[bytes]], line: PdshCommandLine) -> int:
    """Waits for all shells to end, and returns the exit code."""
    ended = queue.SimpleQueue[int]()

    def follow(number: int) -> None:
        shells[number].wait()
        ended.put(number)

    for number in range(len(shells)):
        threading.Thread(target=follow, args=(number,)).start()
    codes, deadline = dict[int, int](), None
    while len(codes) < len(shells):
        try:
            number = ended.get(timeout=None if deadline is None else max(0.0, deadline - time.monotonic()))
        except queue.Empty:
            return _end_others(shells, line, codes)
        code = shells[number].returncode
        codes[number] = code if code >= 0 else 128 - code
        if codes[number] and line.others_timeout_s is not None and deadline is None:
            deadline = time.monotonic() + line.others_timeout_s
    return max(codes.values())


def _end_others(shells: list[subprocess.Popen[bytes]], line: PdshCommandLine, codes: dict[int, int]) -> int:
    """Ends the remaining shells by SIGTERM; returns the exit code of the failed one."""
    number, code = next((number, code) for number, code in codes.items() if code)
    others = [other for other in range(len(shells)) if other not in codes]
    names = ", ".join(line.hosts[other] for other in others)
    print(f"drumbeat: pdsh: {line.hosts[number]} ended with exit code {code}; ending {names}", file=sys.stderr)  # noqa: T201
    for other in others:
        with contextlib.suppress(ProcessLookupError):
            shells[other].terminate()
    for other in others:
        shells[other].wait()
    return code


def _pumps(shell: subprocess.Popen[bytes], line: PdshCommandLine, host: str) -> list[threading.Thread]:
    front = b"" if line.is_bare else f"{host}: ".encode()
    threads = [
        threading.Thread(target=_pump, args=(file, number, front))
        for file, number in ((shell.stdout, 1), (shell.stderr, 2))
    ]
    for each in threads:
        each.start()
    return threads


def _pump(file: IO[bytes] | None, number: int, front: bytes) -> None:
    """Passes lines on, each with its host. Lines that can't be written are dropped: a full pipe
    would block the rank.
    """
    is_new = True
    while file is not None and (text := file.readline(_PIECE)):
        _write(number, (front if is_new else b"") + text)
        is_new = text.endswith(b"\n")
    if not is_new:
        _write(number, b"\n")


def _write(number: int, data: bytes) -> None:
    with contextlib.suppress(OSError):
        while data:
            data = data[os.write(number, data) :]


if __name__ == "__main__":
    sys.exit(main())
