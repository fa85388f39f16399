"""The layout of an attempt's folder on a node, and of a job's folder on the server."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable
from posixpath import join
from urllib.parse import unquote, urlsplit

from drumbeat.model.plan import InputPlan, OutputPlan

CODE = "code"
"""The working folder of the ranks."""

DEFAULT_OUTPUT = "default"
"""The output that every job has: what a script writes to `./outputs`."""

ARTIFACTS = "artifacts"
"""Azure's name for that output."""

RUN_ARTIFACTS = "mlflow-artifacts"
"""The output in which artifacts of MLflow's runs lie, each run's in a folder of its own."""

LAST_GOOD = ".last-good"
"""The folder, in that of the checkpoints, of copies from which saves that were cut off are put back."""

STEP_FOLDER = re.compile(r"step-(\d{12,})")
"""The name of a checkpoint of `drumbeat.train.Checkpoints`, with its step."""

MANIFEST = ".drumbeat-manifest.json"
"""Written beside the files of an output or an upload in a datastore: it says whether all of them are in place. Listings
leave it out.
"""

UPLOADS = "LocalUpload"
"""The folder of a datastore with what was uploaded for a name or a job; each content has its own below."""

_UPLOAD = re.compile(rf"azureml://datastores/[^/]+/paths/{UPLOADS}/([0-9a-f]{{64}})(?:/[^/]+)?")


def upload_key(uri: str) -> str:
    """Returns the key of an upload's content in its address, "" = it is no upload. The content never changes."""
    match = _UPLOAD.fullmatch(uri)
    return match[1] if match else ""


def content_key(files: Iterable[tuple[str, int, str]]) -> str:
    """Returns a key for the content of files, each by its path, size and SHA-256; any change changes it."""
    digest = hashlib.sha256()
    for path, size, sha256 in sorted(files):
        digest.update(f"{sha256} {size} {path}\0".encode())
    return digest.hexdigest()


def code_folder(root: str) -> str:
    """Returns the folder of the job's code, in which its ranks start."""
    return join(root, CODE)


def modules_folder(root: str) -> str:
    """Returns the folder of the modules of drumbeat that a rank's script may import."""
    return join(root, "modules")


def layer_folder(root: str) -> str:
    """Returns the folder of the packages that a job installs into its environment."""
    return join(root, "python")


def input_path(root: str, planned: InputPlan) -> str:
    """Returns where the ranks of a node find an input: in place, staged in the attempt's folder, or at its address."""
    if planned.uri.startswith("file:") and planned.mode in ("ro_mount", "direct"):
        return file_path(planned.uri)
    if planned.mode == "direct" and not planned.uri.startswith("snapshot:"):
        return planned.uri
    is_here = planned.uri.startswith("file:")
    name = file_path(planned.uri).rstrip("/").rsplit("/", 1)[-1] if is_here else planned.file
    staged = join(root, "inputs", planned.name)
    return join(staged, name) if planned.type == "uri_file" and name else staged


def working_output(outputs: Iterable[OutputPlan]) -> str:
    """The name of the output that `./outputs` of the ranks is: `artifacts` where the plan has it in place of the
    default one.
    """
    names = {one.name for one in outputs}
    return ARTIFACTS if ARTIFACTS in names and DEFAULT_OUTPUT not in names else DEFAULT_OUTPUT


def output_path(root: str, name: str) -> str:
    """Returns where the ranks of a node write an output."""
    return join(root, "outputs", name)


def input_seen(root: str, planned: InputPlan) -> str:
    """Returns the path of an input as the ranks see it."""
    return planned.appears or input_path(root, planned)


def output_seen(root: str, planned: OutputPlan) -> str:
    """Returns the path of an output as the ranks see it; with mode `direct` its address."""
    if planned.mode == "direct":
        return planned.uri
    return planned.appears or output_path(root, planned.name)


def file_path(uri: str) -> str:
    """The path in a `file:` URI."""
    return unquote(urlsplit(uri).path)
