"""The command that builds an image from a job's `build:`.

What its Dockerfile names is read in `dockerfile_reader.py`.
"""

from __future__ import annotations

from drumbeat.launch.container_command import Engine
from drumbeat.protocol.plan import ImageBuild


def build_line(engine: Engine, image: str, context: str, build: ImageBuild) -> list[str]:
    """What builds an image of a folder that lies on the node. The images that it is made from are there already."""
    words = [engine.program, "build", "--tag", image, "--file", f"{context}/{build.dockerfile}", "--network", "host"]
    if engine.kind == "podman":
        words += ["--layers", "--pull=missing", "--ulimit", f"nofile={engine.files}:{engine.files}"]
        words += ["--ulimit", f"nproc={engine.processes}:{engine.processes}"]
    return [*words, context]
