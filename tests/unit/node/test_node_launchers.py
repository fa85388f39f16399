"""The launchers' part on a node: the table and its default."""

from drumbeat.launchers.launcher_table import LAUNCHERS
from drumbeat.node.launchers.launcher import NodeLauncher
from drumbeat.node.launchers.node_launchers import NODE_LAUNCHERS, node_launcher


def test_every_part_on_a_node_belongs_to_a_launcher():
    assert NODE_LAUNCHERS.keys() <= LAUNCHERS.keys()


def test_launcher_without_a_part_on_the_node_does_nothing():
    assert "tensorflow" not in NODE_LAUNCHERS
    assert node_launcher("tensorflow") == NodeLauncher()
    assert NodeLauncher().wrap(None, []) == []  # pyright: ignore[reportArgumentType]
