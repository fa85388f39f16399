"""The autoscaler of a cluster: how it starts and ends machines.

The dashboard doesn't show these settings. A Ray job of a few seconds reads the configuration file with which the
autoscaler on the head was started (Ray's cluster YAML format); drumbeat shows them and changes none.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from drumbeat.engines.ray import render
from drumbeat.engines.ray.dashboard import Dashboard, package
from drumbeat.engines.ray.states import STARTING_JOB
from drumbeat.model.api.computes import Scale

SURVEY = ".survey"
"""The suffix of the job that reads the settings."""
DEFAULT_IDLE_MINUTES = 5
"""Ray's default of `idle_timeout_minutes`."""

DEFAULT_MAX_WORKERS = {"aws": 2, "azure": 2, "gcp": 2, "aliyun": 2, "vsphere": 5, "spark": 8}
"""Ray's defaults of the cluster's `max_workers` by type of provider, from its `defaults.yaml`."""


@dataclass(frozen=True)
class Autoscaler:
    """The settings of a cluster's autoscaler. Counts exclude the head."""

    min_workers: int
    max_workers: int
    idle_s: float


def read_survey(log: str) -> Autoscaler | None:
    """The settings in the job's log; None = the cluster has no autoscaler on its head."""
    for line in log.splitlines():
        if not line.startswith('{"event": "autoscaler"'):
            continue
        config: Mapping[str, Any] | None = json.loads(line)["config"]
        return _numbers(config) if config is not None else None
    return None


def _numbers(config: Mapping[str, Any]) -> Autoscaler:
    types: Mapping[str, Mapping[str, Any]] = config.get("available_node_types") or {}
    head = config.get("head_node_type")
    workers = [one for name, one in types.items() if name != head]
    limit = _limit(config, workers)
    most = sum(int(one.get("max_workers", limit)) for one in workers)  # As in Ray's fill_node_type_min_max_workers.
    idle = float(config.get("idle_timeout_minutes", DEFAULT_IDLE_MINUTES))
    return Autoscaler(sum(int(one.get("min_workers", 0)) for one in workers), min(most, limit), idle * 60)


def _limit(config: Mapping[str, Any], workers: Sequence[Mapping[str, Any]]) -> int:
    """Returns the machine limit of the whole cluster, as Ray's `prepare_config` fills it in."""
    if "max_workers" in config:
        return int(config["max_workers"])
    default = DEFAULT_MAX_WORKERS.get(config.get("provider", ""))
    if default is not None:
        return default
    # Ray has no default for other providers, so the limits of the types are all there is.
    own = [int(one["max_workers"]) for one in workers if "max_workers" in one]
    return sum(own) if own else DEFAULT_MAX_WORKERS["aws"]


def scale(autoscaler: Autoscaler, heads: int, usual_start_s: float | None) -> Scale:
    """The scaling limits of a compute. heads: machines that always run, beside the autoscaler's."""
    return Scale(
        autoscaler.min_workers + heads,
        autoscaler.max_workers + heads,
        autoscaler.idle_s,
        None,
        usual_start_s,
        set_by={
            "min_instances": "min_workers of Ray's autoscaler",
            "max_instances": "max_workers of Ray's autoscaler",
            "idle_time_before_scale_down": "idle_timeout_minutes of Ray's autoscaler",
        },
    )


class Survey:
    """Reads the settings once, by a job that is deleted afterwards. name: the prefix of the compute's jobs in Ray."""

    def __init__(self, dashboard: Dashboard, name: str) -> None:
        self._dashboard, self._job = dashboard, name.rstrip("-") + SURVEY
        self._is_submitted = False
        self.is_over = False
        self.autoscaler: Autoscaler | None = None

    def step(self) -> None:
        """Submits the job, or checks whether it is over. Raises DrumbeatError."""
        job = self._dashboard.job(self._job)
        if job and job["status"] in STARTING_JOB:
            return
        if job and self._is_submitted:
            self.autoscaler, self.is_over = read_survey(self._dashboard.log(self._job)), True
        if job:
            self._dashboard.delete_job(self._job)
        if not self.is_over:
            uri = self._dashboard.upload(package(render.survey_files()))
            self._dashboard.submit(render.survey_job(self._job, uri))
            self._is_submitted = True
