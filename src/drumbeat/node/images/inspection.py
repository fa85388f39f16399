"""What an image is: its digest, a hash of what is in it, and the Python that its containers find."""

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
"""What of an image's settings its processes see."""
_ASKS = (
    "import json, platform; from importlib.metadata import distributions as d; "
    "print(json.dumps([platform.python_version(), [[str(x.metadata['Name']), str(x.version)] for x in d()]]))"
)


@dataclass(frozen=True)
class Image:
    """digest: its registry's, else the engine's own id. layers: a hash of its content, the same wherever it came from.

    size: in bytes.
    """

    digest: str
    layers: str
    size: int


def look(engine: ContainerEngine, name: str) -> Image:
    """The image of that name, which is there. Raises RefusedError."""
    said = container_engine.ask(engine, "image", "inspect", name)
    try:
        return read(json.loads(said.stdout)[0], name)
    except (ValueError, LookupError, TypeError, AttributeError):
        what = f"{engine.kind} doesn't say what image {name} is"
        raise RefusedError(what, where="environment.image", fix=f"Try it: {engine.kind} image inspect {name}") from None


def read(told: dict[str, Any], name: str) -> Image:
    """From what an engine says of it."""
    settings: dict[str, Any] = told.get("Config") or {}
    content = [told["RootFS"]["Layers"], told.get("Architecture"), [settings.get(key) for key in _SETTINGS]]
    layers = hashlib.sha256(json.dumps(content).encode()).hexdigest()[:16]
    own = f"sha256:{str(told['Id']).removeprefix('sha256:')}"
    of_registry = _of_registry(told, name)
    return Image(of_registry or own, layers, int(told.get("Size") or 0))


def _of_registry(told: dict[str, Any], name: str) -> str:
    """What the registry calls it that it was pulled from by this name, "" = it wasn't."""
    if name.startswith("localhost/"):
        return ""
    digests = [str(one).rpartition("@")[2] for one in told.get("RepoDigests") or ()]
    return digests[0] if len(digests) == 1 else ""


def python_in(engine: ContainerEngine, name: str) -> Fingerprint | None:
    """Of the `python` that a container finds on its PATH, else `python3`; None = there is none."""
    for program in ("python", "python3"):
        said = container_engine.inside(engine, name, (program, "-c", _ASKS))
        try:
            version, found = json.loads(said.stdout)
        except ValueError:
            continue
        return fingerprint(version, {normal(title): number for title, number in found})
    return None
