"""The table of MLflow's routes. docs/mlflow.md lists those that are refused."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import NamedTuple

from drumbeat.model import mlflow_writes
from drumbeat.model.metrics import JsonObject
from drumbeat.model.mlflow_calls import DISABLED, NO_ROUTE, SERVER_INFO, MlflowRefusal
from drumbeat.server.metrics.mlflow import (
    artifacts,
    experiments,
    logged_models,
    metrics,
    model_versions,
    registry,
    runs,
)
from drumbeat.server.metrics.mlflow.request import Call

Handler = Callable[[Call], JsonObject]


@dataclass(frozen=True)
class MlflowRoute:
    """A method and a path with variable parts, such as `logged-models/{model_id}`."""

    method: str
    path: str
    handler: Handler

    @property
    def pattern(self) -> re.Pattern[str]:
        """Matches the path of a request."""
        return re.compile(re.sub(r"\{(\w+)\}", r"(?P<\1>[^/]+)", self.path))


class MlflowMatch(NamedTuple):
    """The route of a request, and the variable parts of its path."""

    handler: Handler
    parts: dict[str, str]


def _table(group: str, methods: Mapping[str, Handler], method: str = "POST") -> Iterator[MlflowRoute]:
    for path, handler in methods.items():
        yield MlflowRoute(method, f"api/2.0/mlflow/{group}{path}", handler)


ROUTES: tuple[MlflowRoute, ...] = (
    *_table("experiments/", {
        "create": experiments.create, "search": experiments.search, "delete": experiments.delete,
        "restore": experiments.restore, "update": experiments.update, "set-experiment-tag": experiments.set_tag,
        "delete-experiment-tag": experiments.delete_tag,
    }),
    *_table("experiments/", {
        "get": experiments.get, "get-by-name": experiments.get_by_name, "search": experiments.search,
    }, "GET"),
    *_table("runs/", {
        "create": runs.create, "update": runs.update, "delete": runs.delete, "restore": runs.restore,
        "search": runs.search, "delete-tag": runs.delete_tag, "set-tag": runs.writer(mlflow_writes.set_tag),
        "log-metric": runs.writer(mlflow_writes.log_metric), "log-batch": runs.writer(mlflow_writes.log_batch),
        "log-parameter": runs.writer(mlflow_writes.log_parameter), "log-model": runs.writer(mlflow_writes.log_model),
        "log-inputs": runs.writer(mlflow_writes.log_inputs), "outputs": runs.writer(mlflow_writes.log_outputs),
    }),
    *_table("runs/", {"get": runs.get}, "GET"),
    *_table("metrics/", {
        "get-history": metrics.get_history, "get-history-bulk": metrics.get_history_bulk,
        "get-history-bulk-interval": metrics.get_history_bulk_interval,
    }, "GET"),
    *_table("artifacts/", {"list": artifacts.list_of_run}, "GET"),
    *_table("registered-models/", {
        "create": registry.create, "rename": registry.rename, "get-latest-versions": registry.latest_versions,
        "set-tag": registry.set_tag, "alias": registry.set_alias,
    }),
    *_table("registered-models/", {"update": registry.update}, "PATCH"),
    *_table("registered-models/", {
        "get": registry.get, "search": registry.search, "get-latest-versions": registry.latest_versions,
        "alias": registry.get_by_alias,
    }, "GET"),
    *_table("registered-models/", {
        "delete": registry.delete, "delete-tag": registry.delete_tag, "alias": registry.delete_alias,
    }, "DELETE"),
    *_table("model-versions/", {
        "create": model_versions.create, "transition-stage": model_versions.transition_stage,
        "set-tag": model_versions.set_tag,
    }),
    *_table("model-versions/", {"update": model_versions.update}, "PATCH"),
    *_table("model-versions/", {
        "get": model_versions.get, "search": model_versions.search, "get-download-uri": model_versions.download_uri,
    }, "GET"),
    *_table("model-versions/", {"delete": model_versions.delete, "delete-tag": model_versions.delete_tag}, "DELETE"),
    *_table("logged-models", {
        "": logged_models.create, "/search": logged_models.search, "/{model_id}/params": logged_models.log_params,
        "/metrics": logged_models.keep_metrics,
    }),
    *_table("logged-models/", {
        "{model_id}": logged_models.get, "{model_id}/artifacts/directories": artifacts.list_of_model,
    }, "GET"),
    *_table("logged-models/", {
        "{model_id}": logged_models.finalize, "{model_id}/tags": logged_models.set_tags,
    }, "PATCH"),
    *_table("logged-models/", {
        "{model_id}": logged_models.delete, "{model_id}/tags/{tag_key}": logged_models.delete_tag,
    }, "DELETE"),
    MlflowRoute("GET", "api/2.0/mlflow-artifacts/artifacts", artifacts.list_folder),
    *(
        MlflowRoute("POST", f"api/2.0/mlflow-artifacts/mpu/{step}(?:/.*)?", artifacts.refuse_multipart)
        for step in ("create", "complete", "abort")
    ),
    MlflowRoute("GET", "api/3.0/mlflow/server-info", lambda _: SERVER_INFO),
)  # fmt: skip

_COMPILED = [(route, route.pattern) for route in ROUTES]

REFUSED: tuple[tuple[re.Pattern[str], str], ...] = tuple(
    (re.compile(rf"api/[234]\.0/mlflow/(?:{paths})(?:/.*)?|{other}"), f"drumbeat doesn't support {what}. {fix}")
    for paths, other, what, fix in (
        ("traces|assessments|trace-.*", r"v1/traces", "traces", "Use an MLflow server of your own for them."),
        (
            "gateway|gateway-proxy|endpoints",
            r"gateway/.*|api/2\.0/endpoints/.*",
            "the AI gateway",
            "Call the provider of the model.",
        ),
        ("webhooks", r"api/2\.0/mlflow/webhooks.*", "webhooks", "Use an MLflow server of your own for them."),
        (
            "datasets|scorers|issues|review-queues|label-schemas|labeling.*|prompt-.*|mcp-.*|workspaces|guardrails|jobs",
            r"api/[23]\.0/genai/.*",
            "evaluation datasets, scorers, reviews and workspaces",
            "Use an MLflow server of your own for them.",
        ),
    )
)
"""Unsupported routes with the message for each."""


def find(method: str, path: str) -> MlflowMatch:
    """Returns the route of a request. Raises MlflowRefusal."""
    for route, pattern in _COMPILED:
        if route.method == method and (match := pattern.fullmatch(path)):
            return MlflowMatch(route.handler, match.groupdict())
    for refused, sentence in REFUSED:
        if refused.fullmatch(path):
            raise MlflowRefusal(DISABLED, sentence)
    raise MlflowRefusal(NO_ROUTE, f"drumbeat has no route {method} /{path[:200]} of MLflow's protocol.")
