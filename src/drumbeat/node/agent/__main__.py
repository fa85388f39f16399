"""`python -I -m drumbeat.node.agent ENROLMENT_FILE`: this node's part in one attempt of one job."""

from __future__ import annotations

import os
import signal
import sys
from dataclasses import replace

from drumbeat.launchers import with_ranks
from drumbeat.model import wire
from drumbeat.model.agent import Enrolment
from drumbeat.node.agent.agent import Agent
from drumbeat.node.host import processes
from drumbeat.node.supervisor import listener

EXIT_TAKEN, EXIT_NO_FOLDER = 75, 74
"""Exit codes: another agent holds the folder; the folder can't be created or locked."""


def main() -> int:
    """Returns 0 when the agent left on the server's order; agent.py has the other codes."""
    with open(sys.argv[1], "rb") as file:
        enrolment = wire.loads(Enrolment, file.read())
    enrolment = replace(enrolment, plan=with_ranks(enrolment.plan))
    os.chdir("/")
    try:
        os.makedirs(f"{enrolment.root}/keeper", mode=0o700, exist_ok=True)
        lock = listener.hold_folder(enrolment.root, name="agent", tries=100)
    except OSError as error:
        print(f"agent: the folder {enrolment.root} can't be used: {error.strerror}", file=sys.stderr)  # noqa: T201
        return EXIT_NO_FOLDER
    if lock is None:
        print(f"agent: another agent is running in {enrolment.root}", file=sys.stderr)  # noqa: T201
        return EXIT_TAKEN
    processes.adopt_orphans()
    agent = Agent(enrolment)
    signal.signal(signal.SIGTERM, agent.terminate)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGHUP, signal.SIG_IGN)
    return agent.run()


if __name__ == "__main__":
    sys.exit(main())
