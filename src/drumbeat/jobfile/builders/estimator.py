"""`Estimator(...)`: the options of the retired estimator style, as a command job."""

from __future__ import annotations

import re
import shlex
from collections.abc import Mapping, Sequence
from typing import Any

from drumbeat.jobfile.builders.command import Command, command
from drumbeat.jobfile.data.inputs_outputs import Input
from drumbeat.jobfile.environments.environment_keys import Environment
from drumbeat.jobfile.reading.error_messages import fold, nearest, words
from drumbeat.model.errors import SpecError

CPU_IMAGE = "mcr.microsoft.com/azureml/openmpi4.1.0-ubuntu22.04"
GPU_IMAGE = "mcr.microsoft.com/azureml/openmpi4.1.0-cuda11.8-cudnn8-ubuntu22.04"
BACKENDS = ("mpi", "nccl", "gloo", "ps")


def Estimator(  # noqa: N802, PLR0913 - the retired class's own name and options
    *,
    source_directory: str,
    entry_script: str,
    script_params: Mapping[str, Any] | None = None,
    pip_packages: Sequence[str] = (),
    conda_packages: Sequence[str] = (),
    node_count: int = 1,
    process_count_per_node: int = 1,
    use_gpu: bool = False,
    distributed_backend: str | None = None,
    worker_count: int | None = None,
    parameter_server_count: int = 0,
    custom_docker_image: str | None = None,
    environment_definition: Any = None,
    compute_target: str | None = None,
    **keys: Any,
) -> Command:
    """A command job that runs `entry_script` with `script_params`, as the retired estimators did.

    `keys` go to `command(...)`. `use_gpu` picks the image, as ever; GPUs are given to ranks wherever there are some.
    """
    line, inputs = script_line(entry_script, script_params or {})
    environment = environment_definition or Environment(
        image=custom_docker_image or (GPU_IMAGE if use_gpu else CPU_IMAGE),
        conda_file=conda_file(pip_packages, conda_packages),
    )
    draft = command(
        command=line,
        code=source_directory,
        environment=environment,
        inputs=inputs,
        instance_count=node_count,
        compute=compute_target,
        **keys,
    )
    if distributed_backend is None and node_count * process_count_per_node > 1:
        distributed_backend = "mpi"
    if distributed_backend is not None:
        draft.distribution = distribution(distributed_backend, process_count_per_node)
    if draft.distribution and draft.distribution["type"] == "tensorflow":
        draft.distribution |= {"worker_count": worker_count, "parameter_server_count": parameter_server_count}
    elif worker_count or parameter_server_count:
        raise SpecError("`worker_count` and `parameter_server_count` need `distributed_backend='ps'`")
    return draft


def distribution(backend: str, processes: int) -> dict[str, Any]:
    """The distribution that a backend's name stood for."""
    kinds = {"mpi": "mpi", "nccl": "pytorch", "gloo": "pytorch", "ps": "tensorflow"}
    if fold(backend) not in kinds:
        what = f"distributed_backend can be {words(BACKENDS, 'or')}, not `{backend}`"
        raise SpecError(what, fix=nearest(backend, BACKENDS))
    kind = kinds[fold(backend)]
    if kind == "tensorflow":
        return {"type": kind}
    return {"type": kind, "process_count_per_instance": processes}


def conda_file(pip_packages: Sequence[str], conda_packages: Sequence[str]) -> dict[str, Any] | None:
    """The conda file with these packages; None without any."""
    if not pip_packages and not conda_packages:
        return None
    packages: list[Any] = [*conda_packages]
    packages += ["pip", {"pip": [*pip_packages]}] if pip_packages else []
    return {"channels": ["conda-forge"], "dependencies": packages}


def script_line(entry_script: str, params: Mapping[str, Any]) -> tuple[str, dict[str, Any]]:
    """The command, and the inputs that it names: data and numbers become inputs, other texts stand as they are."""
    inputs: dict[str, Any] = {}
    parts = ["python", shlex.quote(entry_script)]
    for option, value in params.items():
        parts.append(option)
        name = re.sub(r"[^A-Za-z0-9_]", "_", option.lstrip("-"))
        if value is None or value == "":
            continue
        if isinstance(value, Input | int | float) and re.fullmatch(r"[A-Za-z_]\w*", name, re.ASCII):
            inputs[name] = value
            parts.append(f"${{{{inputs.{name}}}}}")
        else:
            parts.append(shlex.quote(str(value)))
    return " ".join(parts), inputs
