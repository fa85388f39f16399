"""Recognizes files that aren't jobs, and names the command that takes them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from drumbeat.jobfile.reading.error_messages import fold


@dataclass(frozen=True)
class OtherDocument:
    """A kind of file that isn't a job's.

    schemas: the ends of its `$schema`, folded. types: what its `type` says. keys: those that only it has.
    """

    noun: str
    advice: str
    schemas: tuple[str, ...] = ()
    types: tuple[str, ...] = ()
    keys: tuple[str, ...] = ()


DOCUMENTS = (
    OtherDocument(
        "a component",
        "Use it in a pipeline or a sweep (`component: ./{name}`), or register it: drumbeat component create -f {file}",
        ("component",),
        keys=("is_deterministic", "additional_includes"),
    ),
    OtherDocument("a batch deployment", "Create it: drumbeat batch-deployment create -f {file}", ("batchdeployment",)),
    OtherDocument("a batch endpoint", "Create it: drumbeat batch-endpoint create -f {file}", ("batchendpoint",)),
    OtherDocument(
        "an environment",
        "Name it in a job (`environment: file:{name}`), or register it: drumbeat environment create -f {file}",
        ("environment",),
        keys=("image", "conda_file", "build", "os_type", "inference_config"),
    ),
    OtherDocument(
        "a model",
        "Register it: drumbeat data create -f {file}",
        ("model",),
        ("custom_model", "mlflow_model", "triton_model"),
        ("flavors", "stage"),
    ),
    OtherDocument(
        "data", "Register it: drumbeat data create -f {file}", ("data",), ("uri_file", "uri_folder", "mltable")
    ),
    OtherDocument(
        "a deployment",
        "Put the model behind its endpoint: drumbeat online-deployment create -f {file}",
        ("deployment",),
        keys=("endpoint_name", "code_configuration", "scale_settings", "request_settings"),
    ),
    OtherDocument(
        "an endpoint",
        "Create it: drumbeat online-endpoint create -f {file}",
        ("endpoint",),
        keys=("auth_mode", "traffic", "mirror_traffic"),
    ),
    OtherDocument(
        "a schedule",
        "Create it: drumbeat schedule create -f {file}",
        ("schedule",),
        keys=("trigger", "create_job"),
    ),
    OtherDocument(
        "a compute",
        "Create it: drumbeat compute create -f {file}",
        ("compute", "computeinstance"),
        (
            "amlcompute",
            "computeinstance",
            "virtualmachine",
            "synapsespark",
            "kubernetes",
            "ssh",
            "slurm",
            "ray",
            "netlab",
        ),
        ("min_instances", "max_instances", "idle_time_before_scale_down"),
    ),
    OtherDocument(
        "a datastore",
        "Create it: drumbeat datastore create -f {file}",
        ("datastore", "azureblob", "azurefile", "azuredatalakegen1", "azuredatalakegen2"),
        ("azure_blob", "azure_file", "azure_data_lake_gen1", "azure_data_lake_gen2", "one_lake", "s3", "gcs", "sftp"),
        ("account_name", "container_name", "credentials"),
    ),
)
"""The most specific first."""
_OF_JOBS = ("command", "trial", "jobs")
"""Keys that jobs have; of the others, only components have them, too."""


def other_document(document: Mapping[str, Any]) -> tuple[OtherDocument, str] | None:
    """Returns what a document describes that isn't a job, and the key that says so; None where it may be a job."""
    schema = fold(str(document.get("$schema", ""))).rpartition("/")[2].removesuffix(".json").removesuffix(".schema")
    kind = fold(str(document.get("type")))
    for one in DOCUMENTS:
        if schema.endswith(one.schemas) and not schema.endswith("job") and one.schemas:
            return one, "$schema"
    for one in DOCUMENTS:
        if kind in map(fold, one.types):
            return one, "type"
    has_job = any(key in document for key in _OF_JOBS)
    for one in DOCUMENTS[:1] if has_job else DOCUMENTS:
        if key := next((key for key in document if key in one.keys), ""):
            return one, key
    return None
