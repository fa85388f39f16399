"""Words that both sides have in another spelling: keys, enums, durations, states."""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import datetime
from typing import Any, cast

from drumbeat.model.azure_statuses import azure_status
from drumbeat.model.errors import RefusedError
from drumbeat.model.states import Reason, State

_DURATION = re.compile(
    r"P(?:(?P<days>[\d.]+)D)?(?:T(?:(?P<hours>[\d.]+)H)?(?:(?P<minutes>[\d.]+)M)?(?:(?P<seconds>[\d.]+)S)?)?", re.ASCII
)
_HUMP = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")
INPUT_MODES = {
    "readonlymount": "ro_mount", "romount": "ro_mount", "download": "download", "direct": "direct",
    "evalmount": "eval_mount", "evaldownload": "eval_download",
}  # fmt: skip
OUTPUT_MODES = {
    "readwritemount": "rw_mount",
    "rwmount": "rw_mount",
    "mount": "mount",
    "upload": "upload",
    "direct": "direct",
}
AZURE_INPUT_MODES = {
    "ro_mount": "ReadOnlyMount", "download": "Download", "direct": "Direct", "eval_mount": "EvalMount",
    "eval_download": "EvalDownload",
}  # fmt: skip
AZURE_OUTPUT_MODES = {"rw_mount": "ReadWriteMount", "mount": "ReadWriteMount", "upload": "Upload", "direct": "Direct"}
DATA_TYPES = {
    "urifile": "uri_file", "urifolder": "uri_folder", "mltable": "mltable", "custommodel": "custom_model",
    "mlflowmodel": "mlflow_model", "tritonmodel": "triton_model",
}  # fmt: skip
SERVICES = {
    "sshservice": "ssh",
    "ssh": "ssh",
    "jupyterlab": "jupyter_lab",
    "tensorboard": "tensor_board",
    "vscode": "vs_code",
}
DISTRIBUTIONS = {"pytorch": "PyTorch", "mpi": "Mpi", "tensorflow": "TensorFlow", "ray": "Ray"}
PRIORITIES = {1: "low", 2: "medium", 3: "high"}


def status(state: State, reason: Reason, *, is_over: bool = True) -> str:
    """Returns Azure's word for a state. is_over: whether the outputs of an ended job are in their places."""
    if state.is_terminal and not is_over:
        return "Finalizing"
    return azure_status(state, reason)


def folded(word: object) -> str:
    """Returns an enum's word without its case and separators."""
    return re.sub(r"[-_ ]", "", str(word)).lower()


def snake(key: str) -> str:
    """Returns a camel-case key as job files write it."""
    return _HUMP.sub("_", key).lower()


def camel(key: str) -> str:
    """Returns a key of a job file as Azure's API writes it."""
    first, *others = key.split("_")
    return first + "".join(one[:1].upper() + one[1:] for one in others)


def mapping(value: object) -> dict[str, Any]:
    """Returns a table, {} for any other value."""
    if not is_mapping(value):
        return {}
    return {str(key): one for key, one in cast("Mapping[object, Any]", value).items()}


def is_mapping(value: object) -> bool:
    """Whether a value is a table."""
    return isinstance(value, Mapping)


def snake_keys(table: object) -> dict[str, Any]:
    """Returns a table with the keys of job files, one level deep, without nulls."""
    return {snake(key): value for key, value in mapping(table).items() if value is not None}


def camel_keys(table: dict[str, Any]) -> dict[str, Any]:
    """Returns a table with the keys of Azure's API, one level deep."""
    return {camel(key): value for key, value in table.items()}


def seconds(duration: object, where: str) -> float | None:
    """Returns the seconds of an ISO 8601 duration; None for none. Raises RefusedError."""
    if duration is None:
        return None
    if isinstance(duration, int | float) and not isinstance(duration, bool):
        return duration
    match = _DURATION.fullmatch(duration) if isinstance(duration, str) else None
    if match is None or not any(match.groupdict().values()):
        raise RefusedError(f"{str(duration)[:80]!a} isn't a duration", where=where, fix="Write it like `PT5M`.")
    try:
        parts = {key: float(value) for key, value in match.groupdict().items() if value}
    except ValueError:
        raise RefusedError(f"{str(duration)[:80]!a} isn't a duration", where=where) from None
    total = (
        parts.get("days", 0) * 86_400
        + parts.get("hours", 0) * 3_600
        + parts.get("minutes", 0) * 60
        + parts.get("seconds", 0)
    )
    return int(total) if total == int(total) else total


def duration(value: float | None) -> str | None:
    """Returns an ISO 8601 duration."""
    return None if value is None else f"PT{value:g}S" if value < 1e6 else f"PT{int(value)}S"


def moment(at: datetime | None) -> str | None:
    """Returns a time as Azure's API writes it."""
    return at.isoformat().replace("+00:00", "Z") if at else None
