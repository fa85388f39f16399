"""In which order a node is set up for its ranks."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from drumbeat.launchers import ranks
from drumbeat.model import folder_layout
from drumbeat.model.agent import Enrolment
from drumbeat.model.errors import RefusedError
from drumbeat.model.plan import Plan
from drumbeat.model.roster import Member
from drumbeat.node.agent.node_setup import NodeSetup, Reports
from drumbeat.node.agent.round_process_specs import RoundProcesses
from drumbeat.node.supervisor.node_tasks import TaskCommand

INSTALL = r"""
/bin/mkdir -p {bin}
printf '#!/bin/sh\necho "mpirun (Open MPI) 4.1.4"\n' > {bin}/mpirun
/bin/chmod 755 {bin}/mpirun
"""


class Log:
    """As much of a NodeLog as is needed; it keeps nothing."""

    path, round = "/dev/null", 1

    def size(self) -> int:
        return 0

    def last_line(self, offset: int = 0) -> str:
        return ""

    def say(self, sentence: str) -> None: ...

    def finish(self, within_s: float) -> None: ...


class NodeTasks:
    """Runs node tasks without a process of their own."""

    def run(self, name: str, command: TaskCommand) -> int:
        return subprocess.run(command.argv, cwd=command.cwd, env=command.env, check=False).returncode


class Node:
    """A node with nothing on its PATH but a folder that isn't there yet."""

    def __init__(self, folder: Path, prepare: str) -> None:
        variables = {"PATH": f"{folder}/bin"}
        plan = Plan(
            "j", "e", "mpi", 1, 1, "x", ranks("mpi", 1, 1), variables, prepare=prepare.format(bin=f"{folder}/bin")
        )
        self.root = f"{folder}/root"
        enrolment = Enrolment("j", 1, 0, ("unix:/none/server.sock",), "s", self.root, f"{folder}/c", plan)
        self.processes = RoundProcesses(enrolment)
        self.member = Member(0, "here", "127.0.0.1", self.root, f"{folder}/c")
        reports = Reports(lambda _: None, lambda: None, lambda: None)
        self.setup = NodeSetup(enrolment, self.processes, NodeTasks(), Log(), reports)  # pyright: ignore[reportArgumentType]

    def stage(self, _: object) -> None:
        Path(folder_layout.code_folder(self.root)).mkdir(parents=True)

    def set_up(self) -> Member:
        self.setup.run(self.member, self.stage)
        return self.processes.member(self.member)


@pytest.mark.feature("L3", "L12")
def test_mpi_that_the_preparation_brings_is_found(tmp_path: Path):
    assert Node(tmp_path, INSTALL).set_up().mpi == "Open MPI 4.1.4"


@pytest.mark.feature("L12", "L4")
def test_missing_mpi_is_reported_after_the_preparation(tmp_path: Path):
    node = Node(tmp_path, "echo > done")
    with pytest.raises(RefusedError, match="this node has no mpirun on its PATH"):
        node.set_up()
    assert Path(folder_layout.code_folder(node.root), "done").exists()


@pytest.mark.feature("L4")
def test_missing_mpi_is_reported_at_once_without_a_preparation(tmp_path: Path):
    with pytest.raises(RefusedError, match="this node has no mpirun on its PATH"):
        Node(tmp_path, "").set_up()
