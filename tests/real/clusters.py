"""A house whose compute `rack` is a lab's Kubernetes or Ray, for what must run on every engine."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from drumbeat.engines.netlab.lab import require_tools
from drumbeat.model.errors import EngineError
from tools.kubelab import binaries
from tools.kubelab.lab import USER, kube_lab
from tools.raylab import environment
from tools.raylab.lab import ray_lab

from .house import House, a_house


@contextlib.contextmanager
def kubernetes(folder: Path) -> Iterator[House]:
    """Two nodes of a lab's Kubernetes."""
    programs = binaries.built()
    if isinstance(programs, str):
        pytest.skip(programs)
    pytest.importorskip("lightkube", reason="needs lightkube: pip install 'drumbeat[kubernetes]'")
    kept = folder / "kept"
    kept.mkdir()
    with kube_lab(folder / "kube", "ko", 2, programs) as lab, a_house(folder) as house:
        house.client.create_compute({
            "name": "rack", "type": "kubernetes", "kubeconfig": str(lab.kubeconfig(USER)), "image": "none",
            "python": sys.executable, "programs": str(Path(sys.executable).parent), "server_address": "localhost",
            "cpus_per_node": 4, "folder": "/kept",
            "volumes": [{"name": "kept", "mount_path": "/kept", "source": {"hostPath": {"path": str(kept)}}}],
        })  # fmt: skip
        yield house


@contextlib.contextmanager
def ray(folder: Path) -> Iterator[House]:
    """Two workers of a real Ray cluster on the nodes of a lab."""
    try:
        require_tools()
    except EngineError as error:
        pytest.skip(str(error))
    if why := environment.made():
        pytest.skip(why)
    with ray_lab(folder / "ray", "ro", 3, environment.PYTHON, head_cpus=0) as lab, a_house(folder) as house:
        house.client.create_compute({
            "name": "rack", "type": "ray", "address": lab.dashboard, "token_file": str(lab.token_file),
            "folder": f"{lab.folder}/kept", "python": sys.executable, "programs": str(Path(sys.executable).parent),
        })  # fmt: skip
        yield house
