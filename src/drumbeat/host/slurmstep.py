"""`python -I FILE drumbeat.host.slurmstep FOLDER`: srun starts it on each node of a gang, and it lives as long.

FOLDER, which all nodes see, has an enrolment file for each of them. What the node works with lies on its own disk
(TMPDIR). When the agent has left, or won't stay, everything of the gang on this node ends, and the step with it. What a
step left that was killed is cleared by the next one on its node.
"""

from __future__ import annotations

import contextlib
import os
import signal
import sys
import tempfile
from dataclasses import replace
from pathlib import Path

from drumbeat.host import processes
from drumbeat.host.claims import claimed
from drumbeat.host.gangs import Gangs, StuckError, living_agent
from drumbeat.host.machine import is_private
from drumbeat.protocol import wire
from drumbeat.protocol.agent import Enrolment

LEFT = 0
"""Exit code of an agent that the server dismissed; it isn't started again."""
STALE = 3
"""Exit code of an agent that was replaced by another one."""
TERMINATED = 143
"""Exit code of an agent that ended by SIGTERM."""
_WONT_STAY = 1
_LOOK_S = 1.0


def main() -> int:
    """0 = the server has no use for the node any more; 143 = the node was told to stop; 1 = its agent won't stay."""
    if os.environ.get("SLURM_RESTART_COUNT", "0") not in ("", "0"):
        print("drumbeat: this Slurm job was requeued, which ended its attempt; another attempt follows", flush=True)  # noqa: T201
        return LEFT
    given, node, own = Path(sys.argv[1]), int(os.environ["SLURM_PROCID"]), _own_folder()
    own.mkdir(0o700, parents=True, exist_ok=True)
    if not is_private(own):
        print(f"drumbeat: node {node}: {own} isn't private: remove it, or `chmod 700` it if it's yours", flush=True)  # noqa: T201
        return _WONT_STAY
    gangs = Gangs(own, leave_s=1.0, killed_s=3.0)
    enrolment = (given / str(node) / "enrolment.json").read_bytes()
    with claimed(gangs, given.name):
        return _Step(gangs, given.name, node).hold(enrolment)


class _Step:
    """Holds a node of a gang until it is over. name: of the gang's folder."""

    def __init__(self, gangs: Gangs, name: str, node: int) -> None:
        self._gangs, self._name, self._node = gangs, name, node
        self._folder = gangs.folder / name / str(node)
        self._is_terminated = False

    def hold(self, given: bytes) -> int:
        # Gangs without a claim have been ended by now.
        if living_agent(self._folder) is not None:
            print(f"drumbeat: node {self._node}: another Slurm job holds this node's part of the gang", flush=True)  # noqa: T201
            return LEFT
        processes.adopt_orphans()
        signal.signal(signal.SIGTERM, self._hand_on)
        try:
            self._gangs.start(self._name, {self._node: self._enrolment(given)})
            return self._until_over()
        finally:
            with contextlib.suppress(StuckError):  # Slurm finds it out itself, and takes the node out of use.
                self._gangs.stop(self._name)

    def _until_over(self) -> int:
        while True:
            code = self._gangs.ended(self._name, self._node, _LOOK_S)
            if code is None and self._gangs.has_started(self._name, self._node):
                # It lives. Looking after it now might find it just ended, and start another.
                if self._is_terminated:  # Perhaps while the agent was starting; a second signal does no harm.
                    self._hand_on()
                continue
            if code is not None and (self._is_terminated or code == TERMINATED):
                return TERMINATED
            if code in (LEFT, STALE):
                return LEFT
            for why in self._gangs.look(self._name, [self._node]).values():
                print(f"drumbeat: node {self._node}: {why}", flush=True)  # noqa: T201 (Slurm keeps it)
                return _WONT_STAY

    def _enrolment(self, given: bytes) -> str:
        enrolment = wire.loads(Enrolment, given)
        return wire.dumps(replace(enrolment, root=str(self._folder / "root"), gpus=_own_gpus(enrolment.gpus)))

    def _hand_on(self, *_: object) -> None:
        """Passes SIGTERM on. Slurm signals most of the node's processes itself; a second signal does no harm."""
        self._is_terminated = True
        if (agent := living_agent(self._folder)) is not None:
            processes.signal_all([agent], signal.SIGTERM)


def _own_folder() -> Path:
    """The folder of this node. It has the node's name in it, because `TMPDIR` may be a disk that nodes share."""
    return Path(tempfile.gettempdir(), f"drumbeat-{os.getuid()}-{os.uname().nodename}")


def _own_gpus(wanted: tuple[str, ...]) -> tuple[str, ...]:
    """As many of the GPUs that Slurm granted as the node wants."""
    given = [one for one in os.environ.get("CUDA_VISIBLE_DEVICES", "").split(",") if one]
    return tuple(given[: len(wanted)]) if given else wanted


if __name__ == "__main__":
    sys.exit(main())
