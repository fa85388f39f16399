"""`python -I -m drumbeat.node.agent ENROLMENT_FILE`: this node's part in one attempt of one job, and in those that take
the node over from it.
"""

from __future__ import annotations

import os
import signal
import sys
from dataclasses import replace

from drumbeat.launchers import with_ranks
from drumbeat.model import wire
from drumbeat.model.agent import Enrolment
from drumbeat.node.agent import takeover
from drumbeat.node.agent.agent import Agent
from drumbeat.node.host import processes
from drumbeat.node.supervisor import listener

EXIT_TAKEN, EXIT_NO_FOLDER = 75, 74
"""Exit codes: another agent holds the folder; the folder can't be created or locked."""


class AgentProcess:
    """The process of an agent, which works for one job after the other."""

    def __init__(self, file: str) -> None:
        self._file = file
        self._agent: Agent | None = None
        self._is_terminated = False
        with open(file, "rb") as enrolment:
            self._enrolment = wire.loads(Enrolment, enrolment.read())

    def terminate(self, *_: object) -> None:
        """Handles SIGTERM, by which the machine takes the node away."""
        self._is_terminated = True
        if self._agent is not None:
            self._agent.terminate()

    def run(self) -> int:
        """Works until no job is left for this node; returns the exit code, which agent.py has but for two."""
        while True:
            given, root = self._enrolment, self._enrolment.root
            try:
                os.makedirs(f"{root}/keeper", mode=0o700, exist_ok=True)
                lock = listener.hold_folder(root, name="agent", tries=100)
            except OSError as error:
                print(f"agent: the folder {root} can't be used: {error.strerror}", file=sys.stderr)  # noqa: T201
                return EXIT_NO_FOLDER
            if lock is None:
                print(f"agent: another agent is running in {root}", file=sys.stderr)  # noqa: T201
                return EXIT_TAKEN
            takeover.clear_earlier(root)
            code = self._work(replace(given, plan=with_ranks(given.plan)))
            wanted = self._agent.next if self._agent else None
            if wanted is None or code != 0:
                return code
            try:
                takeover.give_up(given, self._file, wanted)
            except OSError as error:
                print(f"agent: the node can't be handed over: {error}", file=sys.stderr)  # noqa: T201
                return code
            os.close(lock)
            self._enrolment = wanted

    def _work(self, enrolment: Enrolment) -> int:
        self._agent = Agent(enrolment)
        if self._is_terminated:
            self._agent.terminate()
        return self._agent.run()


def main() -> int:
    """Returns 0 when the agent left on the server's order; agent.py has the other codes."""
    process = AgentProcess(sys.argv[1])
    os.chdir("/")
    processes.adopt_orphans()
    signal.signal(signal.SIGTERM, process.terminate)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGHUP, signal.SIG_IGN)
    return process.run()


if __name__ == "__main__":
    sys.exit(main())
