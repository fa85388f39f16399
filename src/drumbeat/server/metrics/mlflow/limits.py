"""Checks of names and values against MLflow's limits, with MLflow's messages, beyond those that nodes make."""

from __future__ import annotations

import posixpath
import re
from collections.abc import Mapping

from drumbeat.model.metric_lines import MAX_NAME
from drumbeat.model.mlflow_calls import invalid
from drumbeat.server.models.alias_names import trouble_with_alias

MAX_EXPERIMENT_TAG_VALUE = 20_000
MAX_REGISTRY_TAG_VALUE = 100_000
MAX_EXPERIMENT_NAME = 500

_NAME = re.compile(r"[/\w.\- :]*")


def check_name(kind: str, name: str) -> None:
    """Refuses the name of a metric, parameter or tag that MLflow doesn't accept."""
    if not name:
        raise invalid(f"Invalid value for {kind} name: a name must not be empty.")
    if len(name) > MAX_NAME:
        raise invalid(f"'{kind}' exceeds the maximum length of {MAX_NAME} characters")
    if not _NAME.fullmatch(name):
        raise invalid(
            f"Invalid value {name!r} for {kind} name: Names may only contain alphanumerics, underscores (_), "
            "dashes (-), periods (.), spaces ( ), colon(:) and slashes (/)."
        )
    if _is_ambiguous_path(name):
        raise invalid(f"Invalid value {name!r} for {kind} name: Names may be treated as files in certain cases.")


def _is_ambiguous_path(name: str) -> bool:
    plain = posixpath.normpath(name)
    return plain != name or plain == "." or plain.startswith(("..", "/"))


def check_pairs(kind: str, table: Mapping[str, str], max_value: int) -> None:
    """Refuses parameters or tags that MLflow doesn't accept."""
    for key, value in table.items():
        check_name(kind, key)
        if len(value) > max_value:
            raise invalid(f"'{kind} value' exceeds the maximum length of {max_value} characters")


def check_experiment_name(name: str) -> None:
    """Refuses the name of an experiment that MLflow doesn't accept."""
    if not name.strip():
        raise invalid(f"Invalid experiment name: '{name}'")
    if len(name) > MAX_EXPERIMENT_NAME:
        raise invalid(f"'name' exceeds the maximum length of {MAX_EXPERIMENT_NAME} characters")


def check_model_name(name: str) -> None:
    """Refuses the name of a registered model that MLflow doesn't accept."""
    if not name.strip():
        raise invalid("Missing value for required parameter 'name'.")
    if "/" in name or ":" in name or _is_ambiguous_path(name):
        raise invalid(f"Invalid model name '{name}'. Names cannot contain '/' or ':'.")


def check_alias(alias: str) -> None:
    """Refuses an alias that MLflow doesn't accept."""
    if trouble := trouble_with_alias(alias):
        raise invalid(trouble)
