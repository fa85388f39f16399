"""A Ray cluster whose machines come and go: Ray's own autoscaler has nodes of the lab switched on and off."""

from __future__ import annotations

import contextlib
import json
import shutil
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from drumbeat.engines.netlab.lab import Lab
from tools.raylab.lab import GCS_PORT, UP_S, RayLab, answers, until

PROVIDER = Path(__file__).with_name("lab_provider.py")
HEAD, WORKER = "head", "worker"
"""The autoscaler's types of machines."""


@dataclass
class ElasticRay(RayLab):
    """The cluster, whose head runs no nodes. idle_minutes: after so long Ray ends a machine."""

    idle_minutes: float = 0.25
    head_cpus: int = 0
    _is_over: threading.Event = field(default_factory=threading.Event)

    @property
    def _requests(self) -> Path:
        return self.folder / "requests"

    def up(self, nodes: list[str] | None = None) -> None:
        """Starts the head and its autoscaler; all other machines are off."""
        del nodes
        self._lay_out()
        for name in list(self.nodes)[1:]:
            self.lab.switch_off(name)
        self.start(self.head, f"--autoscaling-config={self.folder}/autoscaler.json")
        until(lambda: answers(self.nodes[self.head], GCS_PORT), "the head listens", UP_S)
        until(lambda: self.alive() == [self.head], "the dashboard answers", UP_S)
        threading.Thread(target=self._provide, name="provider", daemon=True).start()

    def _lay_out(self) -> None:
        self.prepare()
        self._requests.mkdir()
        code = self.folder / "provider"
        code.mkdir()
        shutil.copy(PROVIDER, code)
        self.variables["PYTHONPATH"] = str(code)
        # The head is there already, as the provider sees it.
        tags = {
            "ray-node-type": "head",
            "ray-node-name": "head",
            "ray-user-node-type": HEAD,
            "ray-node-status": "up-to-date",
        }
        (self._requests / f"{self.head}.up").write_text(json.dumps(tags))
        (self.folder / "autoscaler.json").write_text(json.dumps(self._config()))

    def _config(self) -> dict[str, object]:
        provider = {
            "type": "external",
            "module": "lab_provider.LabProvider",
            "folder": str(self._requests),
            "addresses": self.nodes,
            "head": self.head,
            "disable_node_updaters": True,
            "disable_launch_config_check": True,
        }
        count = len(self.nodes) - 1
        nothing = ("initialization_commands", "setup_commands", "cluster_synced_files", "head_setup_commands",
                   "worker_setup_commands", "head_start_ray_commands", "worker_start_ray_commands")  # fmt: skip
        return {
            "cluster_name": self.lab.name,
            "max_workers": count,
            "idle_timeout_minutes": self.idle_minutes,
            "upscaling_speed": 1.0,
            "provider": provider,
            "head_node_type": HEAD,
            "available_node_types": {
                HEAD: {"resources": {"CPU": 0}, "node_config": {}, "max_workers": 0},
                WORKER: {"resources": {"CPU": self.cpus}, "node_config": {}, "min_workers": 0, "max_workers": count},
            },
            "auth": {},
            "docker": {},
            "file_mounts": {},
            "file_mounts_sync_continuously": False,
            **{key: list[str]() for key in nothing},
        }

    def _provide(self) -> None:
        on = set[str]()
        while not self._is_over.wait(0.3):
            for name in list(self.nodes)[1:]:
                is_wanted = (self._requests / f"{name}.up").exists()
                if is_wanted and name not in on:
                    self.lab.switch_on(name)
                    on.add(name)
                    with contextlib.suppress(AssertionError):  # The lab may be ending.
                        until(lambda name=name: self._is_over.is_set() or self.lab.pid_of(name), "the node is on")
                        if not self._is_over.is_set():
                            self.start(name)
                elif not is_wanted and name in on:
                    self.lab.switch_off(name)
                    on.discard(name)

    def down(self) -> None:
        """Ends the thread that switches machines."""
        self._is_over.set()

    def are_off(self) -> bool:
        """Whether every machine but the head is switched off."""
        return not any(map(self.lab.pid_of, list(self.nodes)[1:]))


@contextlib.contextmanager
def elastic_ray(folder: Path, name: str, nodes: int, python: Path, *, version: int = 1) -> Iterator[ElasticRay]:
    """A cluster that may have so many machines, all of them off. version: of Ray's autoscaler."""
    folder.mkdir(parents=True, exist_ok=True)
    lab = Lab(folder / "lab", name, nodes + 1)
    cluster = ElasticRay(lab, folder, python, variables={"RAY_enable_autoscaler_v2": str(version - 1)})
    try:
        lab.up()
        cluster.up()
        yield cluster
    finally:
        cluster.down()
        nodes = list(cluster.nodes)
        lab.close()
        cluster.reap(*nodes)
