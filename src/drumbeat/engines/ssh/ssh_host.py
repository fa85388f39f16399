"""One host by ssh: requests go to the host program, which is copied there as one file; and the
meaning of ssh's errors.
"""

from __future__ import annotations

import json
import os
import re
import shlex
import subprocess
import tempfile
import threading
import time
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field

from drumbeat.engines.agent_archive import agent_archive
from drumbeat.engines.remote_engine import understood
from drumbeat.engines.remote_host import Answer
from drumbeat.engines.ssh.login import Destination, Login
from drumbeat.model.errors import DrumbeatError, EngineError, UnreachableError

ASK_S = 20.0
DELIVER_S = 60.0
CONFIGURATION_S = 300.0
"""The maximum age of a host's ssh configuration."""
_SSH_FAILED, _NO_AGENT, _NO_PROGRAM = 255, 97, (126, 127)
_DISK_FAULTS = re.compile(b"Read-only file system|No space left on device|Disk quota exceeded|Input/output error")
"""Errors of the host's disk, rather than of the compute's folder there."""
_TROUBLES: tuple[tuple[str, str, str], ...] = (
    ("remote host identification has changed", "its host key differs from the known one",
     "Find out why it changed before you trust it; then: ssh-keygen -R {known}"),
    ("host key verification failed|no .* host key is known", "its host key is unknown to this machine",
     ("Log in once by hand, compare the fingerprint and accept it: {login}; or compare what `ssh-keyscan {scan}` "
      "prints and append it to ~/.ssh/known_hosts; or accept the first key of every host, in the compute: "
      "options: [StrictHostKeyChecking=accept-new]")),
    ("could not resolve|name or service not known", "its name can't be resolved", "Use its IP address."),
    ("connection refused", "no ssh server listens there", "Start one there, or set its `port`."),
    ("timed out|no route to host|network is unreachable|host is down|not responding", "it doesn't answer", ""),
    ("identity file .* not accessible|no such identity|load key |invalid format|unprotected private key",
     "the key can't be used", "Make sure that `identity_file` is a private key that only you can read."),
    ("permission denied|too many authentication failures", "it refuses this user's login",
     "Make sure that this logs in without a prompt: {login}"),
    ("bad configuration option|unsupported option|extra arguments", "ssh doesn't take these options",
     "Check the compute's `options`."),
)  # fmt: skip
"""ssh's messages (OpenSSH 7 to 10, English), their meaning, and the fix; the first match is reported.

A changed host key is reported as a failed verification, too. ssh continues without a key that it can't use: that is the
cause only if the host then refuses the login.
"""


@dataclass
class SshReach:
    """Reaches one host by ssh."""

    login: Login
    python: str
    """The interpreter on the host."""
    folder: str
    """The folder for the agent's file; may begin with `~/`."""
    _lock: threading.Lock = field(default_factory=threading.Lock)
    _destination: Destination | None = None
    _destination_at: float = 0.0

    def destination(self) -> Destination:
        """The host's destination by ssh's configuration, which is read again at times."""
        now = time.monotonic()
        if self._destination is None or now - self._destination_at > CONFIGURATION_S:
            self._destination, self._destination_at = self.login.destination(), now
        return self._destination

    def ask(self, verb: str, request: Mapping[str, object]) -> Answer:
        """See `engines.remote_host.Reach`."""
        place = _quoted(f"{self.folder}/agents/{agent_archive().name}")
        # After a power failure the file may be empty; Python would run it silently.
        has_agent = f"{{ test -f {place} && {_is_whole(place)}; }} || exit {_NO_AGENT}"
        asking = f"{has_agent}; exec {shlex.quote(self.python)} -I {place} drumbeat.node.host {verb}"
        text = json.dumps(request).encode()
        done = self._run(asking, text, ASK_S)
        if done.returncode == _NO_AGENT:
            self._deliver()
            done = self._run(asking, text, ASK_S)
        if done.returncode in _NO_PROGRAM:
            what = f"{self.login.address} has no executable program `{self.python}`"
            raise EngineError(what, fix="Install Python 3.11 or newer there, or set `python` in the compute.")
        if b"needs Python 3" in done.stderr:
            raise EngineError(_last_line(done.stderr), fix="Set a newer one in the compute: `python: python3.12`.")
        return understood(done.stdout, done.stderr)

    def _deliver(self) -> None:
        folder, name = _quoted(f"{self.folder}/agents"), agent_archive().name
        part = f"{folder}/{name}.$$"
        # `cat` can't distinguish a broken connection from the end.
        placed = f"cat > {part} && {_is_whole(part)} && mv -f {part} {folder}/{name}"
        # The writer of a partial file older than a day was killed.
        cleared = f"find {folder} -name 'agent-*.pyz.*' -mtime +0 -exec rm -f {{}} +"
        # English messages, from which the disk's errors are recognized.
        begun = f"umask 077; export LC_ALL=C; mkdir -p {folder}"
        command = f"{begun} && {{ {placed} || {{ rm -f {part}; exit 1; }}; }} && {{ {cleared} || :; }}"
        with self._lock:
            done = self._run(command, agent_archive().content, DELIVER_S)
        if done.returncode:
            what = f"the agent can't be put into {self.folder}: {_last_line(done.stderr)}"
            raise UnreachableError(what) if _DISK_FAULTS.search(done.stderr) else EngineError(what)

    def _run(self, command: str, text: bytes, timeout_s: float) -> subprocess.CompletedProcess[bytes]:
        environment = {**os.environ, "LC_ALL": "C"}
        try:
            line = [
                *self.login.command("-o", f"ControlPath={self.login.line}"),
                f"exec /bin/sh -c {shlex.quote(command)}",
            ]
            # A control connection may keep a pipe open, so stderr goes to a file.
            with tempfile.TemporaryFile() as stderr:
                done = subprocess.run(
                    line, input=text, stdout=subprocess.PIPE, stderr=stderr, timeout=timeout_s, env=environment,
                    cwd="/", check=False,
                )  # fmt: skip
                stderr.seek(0)
                done.stderr = stderr.read()
        except FileNotFoundError:
            raise EngineError(
                "this machine has no program `ssh`", fix="Install it: apt-get install openssh-client"
            ) from None
        except subprocess.TimeoutExpired:
            raise UnreachableError(f"{self.login.address} doesn't answer within {timeout_s:g} s") from None
        except OSError as error:
            raise UnreachableError(f"ssh can't be run: {error}", where=self.login.address) from error
        if done.returncode == _SSH_FAILED:
            raise self._trouble(done.stderr.decode(errors="replace"))
        return done

    def _trouble(self, output: str) -> DrumbeatError:
        last = _last_line(output.encode())
        for pattern, what, fix in _TROUBLES:
            if re.search(pattern, output, re.IGNORECASE):
                place = self.destination()
                scan = shlex.join([*([] if place.port == 22 else ["-p", str(place.port)]), place.host])
                todo = fix.format(login=self.login.by_hand(), known=shlex.quote(place.known_as()), scan=scan)
                return UnreachableError(f"{self.login.address}: {what}", where=last, fix=todo)
        return UnreachableError(f"{self.login.address}: ssh failed: {last or 'it output nothing'}")

    def hang_up(self) -> None:
        """Closes the control connection as soon as it is unused: other computes and servers may share it."""
        with suppress(DrumbeatError, OSError, subprocess.SubprocessError):
            line = self.login.command("-o", f"ControlPath={self.login.line}", "-O", "stop")
            subprocess.run(line, capture_output=True, timeout=ASK_S, check=False)


def _quoted(place: str) -> str:
    """Quotes a path for the host's shell; `~/` is its user's home."""
    return f'"$HOME"/{shlex.quote(place[2:])}' if place.startswith("~/") else shlex.quote(place)


def _is_whole(place: str) -> str:
    """The shell's test that the agent's file is complete."""
    return f'[ "$(wc -c < {place})" -eq {len(agent_archive().content)} ]'


def _last_line(output: bytes) -> str:
    lines = output.decode(errors="replace").strip().splitlines()
    return lines[-1].strip() if lines else ""
