"""A node provider for Ray's own autoscaler, which imports it on the head. Its requests are files that the lab reads.

`NODE.up` in the folder: the machine is wanted; the file has its tags as JSON. It runs with the lab's Ray alone.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from ray.autoscaler.node_provider import NodeProvider  # pyright: ignore[reportMissingImports]


class LabProvider(NodeProvider):  # pyright: ignore[reportUntypedBaseClass]
    """The machines of a lab."""

    def __init__(self, provider_config: dict[str, Any], cluster_name: str) -> None:
        super().__init__(provider_config, cluster_name)
        self._folder = Path(provider_config["folder"])
        self._addresses: dict[str, str] = provider_config["addresses"]
        self._head: str = provider_config["head"]

    def _tags(self, node: str) -> dict[str, str] | None:
        try:
            return json.loads((self._folder / f"{node}.up").read_text())
        except (OSError, ValueError):
            return None

    def _write(self, node: str, tags: dict[str, str]) -> None:
        part = self._folder / f"{node}.part"
        part.write_text(json.dumps(tags))
        part.replace(self._folder / f"{node}.up")

    def non_terminated_nodes(self, tag_filters: dict[str, str]) -> list[str]:
        known = {node: tags for node in self._addresses if (tags := self._tags(node)) is not None}
        return [node for node, tags in known.items() if tag_filters.items() <= tags.items()]

    def is_running(self, node_id: str) -> bool:
        return self._tags(node_id) is not None

    def is_terminated(self, node_id: str) -> bool:
        return not self.is_running(node_id)

    def node_tags(self, node_id: str) -> dict[str, str]:
        return self._tags(node_id) or {}

    def internal_ip(self, node_id: str) -> str:
        return self._addresses[node_id]

    external_ip = internal_ip

    def create_node(self, node_config: dict[str, Any], tags: dict[str, str], count: int) -> dict[str, Any]:
        del node_config
        free = [node for node in self._addresses if node != self._head and self._tags(node) is None][:count]
        for node in free:
            self._write(node, tags)
        if len(free) < count:
            raise RuntimeError(f"the lab has {len(free)} of {count} more machines")
        return {node: {} for node in free}

    def set_node_tags(self, node_id: str, tags: dict[str, str]) -> None:
        self._write(node_id, {**self.node_tags(node_id), **tags})

    def terminate_node(self, node_id: str) -> dict[str, Any]:
        (self._folder / f"{node_id}.up").unlink(missing_ok=True)
        return {node_id: {}}
