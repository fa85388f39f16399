"""Inspects an image: its digest, a hash of its content, and the Python in it."""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass
from typing import Any

from drumbeat.launchers.container_command import ContainerEngine
from drumbeat.model.errors import RefusedError
from drumbeat.model.python_fingerprint import Fingerprint
from drumbeat.node.environments.installed_packages import fingerprint, normal
from drumbeat.node.images import container_engine

_SETTINGS = ("Env", "User", "WorkingDir")
"""The settings of an image that affect its processes."""
_ASKS = (
    "import json, platform; from importlib.metadata import distributions as d; "
    "print(json.dumps([platform.python_version(), [[str(x.metadata['Name']), str(x.version)] for x in d()]]))"
)


@dataclass(frozen=True)
class Image:
    """An image. digest: its registry's, else the engine's own id. layers: a hash of its content, wherever it came from.
    size: in bytes.
    """

    digest: str
    layers: str
    size: int


def look(engine: ContainerEngine, name: str) -> Image:
    """The image of this name, which must exist. Raises RefusedError."""
    result = container_engine.ask(engine, "image", "inspect", name)
    try:
        return read(json.loads(result.stdout)[0], name)
    except (ValueError, LookupError, TypeError, AttributeError):
        what = f"{engine.kind} can't inspect image {name}"
        raise RefusedError(what, where="environment.image", fix=f"Try it: {engine.kind} image inspect {name}") from None


def read(inspected: dict[str, Any], name: str) -> Image:
    """The image in the output of the engine's `image inspect`."""
    settings: dict[str, Any] = inspected.get("Config") or {}
    content = [inspected["RootFS"]["Layers"], inspected.get("Architecture"), [settings.get(key) for key in _SETTINGS]]
    layers = hashlib.sha256(json.dumps(content).encode()).hexdigest()[:16]
    own = f"sha256:{str(inspected['Id']).removeprefix('sha256:')}"
    of_registry = _registry_digest(inspected, name)
    return Image(of_registry or own, layers, int(inspected.get("Size") or 0))


def _registry_digest(inspected: dict[str, Any], name: str) -> str:
    """The digest in the registry from which the image was pulled by this name, "" = none."""
    if name.startswith("localhost/"):
        return ""
    digests = [str(one).rpartition("@")[2] for one in inspected.get("RepoDigests") or ()]
    return digests[0] if len(digests) == 1 else ""


def python_in(engine: ContainerEngine, name: str) -> Fingerprint | None:
    """The fingerprint of the `python` on a container's PATH, else of `python3`; None = there is none."""
    for program in ("python", "python3"):
        result = container_engine.inside(engine, name, (program, "-c", _ASKS))
        try:
            version, packages = json.loads(result.stdout)
        except ValueError:
            continue
        return fingerprint(version, {normal(title): number for title, number in packages})
    return None
