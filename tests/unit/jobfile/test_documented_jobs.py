"""The examples in docs/ and in the READMEs: files are read by what reads them, and programs compile."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

from drumbeat.cli.commands.computes import SCALE_EXAMPLE
from drumbeat.client.resource_files import resolved
from drumbeat.jobfile import compute_from, environment_from, from_dict
from drumbeat.jobfile.batch.deployments import BATCH_DEPLOYMENT
from drumbeat.jobfile.batch.endpoints import BATCH_ENDPOINT
from drumbeat.jobfile.compute.computes import CLASSES as COMPUTES
from drumbeat.jobfile.data.assets import data_from
from drumbeat.jobfile.data.datastores import CLASSES as DATASTORES
from drumbeat.jobfile.data.datastores import datastore_from
from drumbeat.jobfile.endpoints.deployment_keys import deployment_from
from drumbeat.jobfile.pipelines.step_types import CommandNode, SweepNode
from drumbeat.jobfile.reading.loader import model_from
from drumbeat.jobfile.reading.yaml_tree import parse, plain
from drumbeat.jobfile.schedules.schedule import schedule_from
from drumbeat.resources.notice_target import NOTICE_TARGET
from drumbeat.resources.registry import REGISTRY

ROOT = Path(__file__).parents[3]
PAGES = [ROOT / "README.md", *sorted(ROOT.glob("docs/**/*.md")), *sorted(ROOT.glob("recipes/**/README.md"))]
BLOCK = re.compile(r"^```(\w+)\n(.*?)^```$", re.DOTALL | re.MULTILINE)

KUBERNETES = {"name": "k", "type": "kubernetes", "image": "i"}
OTHERS: tuple[tuple[set[str], Callable[[dict[str, Any]], object]], ...] = (
    ({"container_registry"}, REGISTRY.read),
    ({"webhook", "mail"}, lambda document: NOTICE_TARGET.read({**document, **resolved(document, ROOT)})),
    ({"uri_file", "uri_folder", "mltable"}, data_from),
    ({*DATASTORES}, datastore_from),
    ({*COMPUTES}, compute_from),
)
"""What reads a file with a name, by its type."""


def chart_values(document: dict[str, Any]) -> list[object]:
    """The computes among values of the Helm chart, whose keys the chart has."""
    text = (ROOT / "deploy/helm/drumbeat/values.yaml").read_text(encoding="utf-8")
    defaults = plain(parse(text, "values.yaml", ""), "values.yaml")
    assert isinstance(defaults, dict)
    for key, value in document.items():
        assert key == "computes" or value.keys() <= defaults[key].keys()
    return [compute_from({"name": name, **compute}) for name, compute in document["computes"].items()]


BY_KEYS: tuple[tuple[set[str], Callable[[dict[str, Any]], object]], ...] = (
    ({"computes"}, chart_values),
    ({"auth_mode"}, lambda document: model_from(document, BATCH_ENDPOINT, "endpoint")),
    ({"endpoint_name", "settings"}, lambda document: model_from(document, BATCH_DEPLOYMENT, "deployment")),
    ({"endpoint_name"}, deployment_from),
    ({"trigger"}, lambda document: schedule_from({"name": "nightly", "create_job": "./job.yml", **document})),
)
"""What reads a file that has these keys."""
FOREIGN = {"scrape_configs": "Prometheus", "paths": "an MLTable"}
"""Files of others, by a key of each."""


def blocks(language: str) -> list[Any]:
    """The examples in a language, as parameters that are named by their page and line."""
    found: list[Any] = []
    for page in PAGES:
        text = page.read_text(encoding="utf-8")
        for block in BLOCK.finditer(text):
            if block[1] == language:
                where = f"{page.relative_to(ROOT)}:{text.count(chr(10), 0, block.start()) + 2}"
                found.append(pytest.param(block[2], where, id=where))
    return found


def read(document: dict[str, Any]) -> object:
    """What drumbeat reads from an example, which may be a part of a job's, a pipeline's or a compute's file."""
    for keys, reader in BY_KEYS:
        if keys <= document.keys():
            return reader(document)
    if "name" in document and "command" not in document:
        for types, reader in OTHERS:
            if document.get("type") in types:
                return reader(document)
        return environment_from(document)
    if document.keys() <= {"tolerations", "pod"}:
        return compute_from({**KUBERNETES, **document})
    if document.get("type") in ("sweep", "pipeline"):
        return from_dict(document)
    steps = [value for value in document.values() if isinstance(value, Mapping) and {"component", "trial"} & {*value}]
    if steps:
        return [SweepNode.made(step) if "trial" in step else CommandNode.made(step) for step in steps]
    if "parent." in str(document) or "default_datastore" in str(document):
        return from_dict({"type": "pipeline", "jobs": {"step": {"command": "true"}}, **document})
    return from_dict({"command": "true", **document})


@pytest.mark.parametrize(("text", "where"), blocks("yaml"))
def test_yaml_example_is_read(text: str, where: str, monkeypatch: pytest.MonkeyPatch):
    for name in re.findall(r"env:([A-Z_]+)", text):
        monkeypatch.setenv(name, "https://host/secret")
    document = plain(parse(text, where, ""), where)
    assert isinstance(document, dict)
    assert FOREIGN.keys() & document.keys() or read(document)


@pytest.mark.parametrize(("text", "where"), blocks("python"))
def test_python_example_compiles(text: str, where: str):
    assert compile(text, where, "exec")


@pytest.mark.parametrize(("text", "where"), blocks("toml"))
def test_toml_example_is_read(text: str, where: str):
    assert tomllib.loads(text), where


def test_scaling_of_the_documented_compute_fits_it():
    page = (ROOT / "docs/computes.md").read_text(encoding="utf-8")
    (command,) = re.findall(r"`drumbeat (compute scale lab .*?)`", page)
    assert f"drumbeat {command}" == SCALE_EXAMPLE
    words = dict(re.findall(r"--(\S+) (\S+)", command))
    scale = {"min_instances": words.pop("min"), "max_instances": words.pop("max")}
    scale["idle_time_before_scale_down"] = words.pop("idle-time")
    assert not words
    lab = plain(parse(BLOCK.findall(page)[0][1], "lab.yml", ""), "lab.yml")
    assert lab["name"] == "lab"
    assert compute_from({**lab, **{key: int(value) for key, value in scale.items()}})


def test_every_example_is_found():
    fences = sum(len(re.findall(r"^ *```\w", page.read_text(encoding="utf-8"), re.MULTILINE)) for page in PAGES)
    tested = [one for language in ("yaml", "python", "bash", "toml") for one in blocks(language)]
    assert len(tested) == fences > 80
