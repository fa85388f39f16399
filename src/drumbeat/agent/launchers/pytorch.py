"""PyTorch's part on a node: a host file, and stand-ins for ssh and pdsh."""

from __future__ import annotations

from drumbeat.agent.launchers.launcher import NodeLauncher
from drumbeat.agent.launchers.remote import node_addresses

LAUNCHER = NodeLauncher(
    prepare=lambda round_: node_addresses.make(round_.plan, round_.roster, round_.node, round_.secret)
)
