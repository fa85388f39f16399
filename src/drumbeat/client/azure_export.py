"""Rewrites a job file so that Azure ML's own loader takes it, and says what is lost.

What drumbeat adds to the dialect is left out, and environments become Azure's forms. Paths count from the folder of
the new file.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, cast

from drumbeat.client.component_files import FileOrigin, inline_trial, read_component
from drumbeat.client.environment_files import with_environments
from drumbeat.jobfile.data.paths import local_path
from drumbeat.jobfile.environments import requirements
from drumbeat.jobfile.environments.curated import curated, folded
from drumbeat.jobfile.environments.included_files import beside, is_requirements
from drumbeat.jobfile.environments.references import parse_reference
from drumbeat.jobfile.job.extensions import Extensions
from drumbeat.jobfile.job_file import load_file
from drumbeat.jobfile.pipelines.absolute_paths import with_absolute_paths, with_changed_paths
from drumbeat.jobfile.pipelines.component_file import component_path, registered_name
from drumbeat.jobfile.pipelines.step_types import is_other
from drumbeat.jobfile.reading.error_messages import fold
from drumbeat.jobfile.reading.loader import read_text
from drumbeat.jobfile.reading.model import Model
from drumbeat.jobfile.reading.writer import dumps_document, to_dict
from drumbeat.jobfile.sweeping.early_termination import SweepExtensions
from drumbeat.jobfile.sweeping.sweep import SweepJobLimits
from drumbeat.model.api.requests import EnvironmentFiles
from drumbeat.model.errors import SpecError

Table = dict[str, Any]

BASE_IMAGE = "mcr.microsoft.com/azureml/openmpi4.1.0-ubuntu22.04:latest"
"""Azure's image in which it builds conda environments."""
SERVERLESS = "serverless"
DEFAULT_DATASTORE = "azureml://datastores/default/"
AZURES_DATASTORE = "azureml://datastores/workspaceblobstore/"
UNREADABLE = ("s3://", "gs://", "sftp://")
"""Addresses that Azure's loader takes and its machines can't read."""
AZURES_OWN = ("azureml-", "acpt-", "acft-")
"""Beginnings of the names of environments that Azure has itself."""


@dataclass(frozen=True)
class ExportOptions:
    """What a user chose. image: for jobs without an environment, and below packages. compute: for every job."""

    image: str = ""
    compute: str = ""


@dataclass(frozen=True)
class ExportedJob:
    """A job in Azure's form. losses: a sentence for each thing that is left out or to be looked after."""

    document: Table
    losses: tuple[str, ...]
    source: str

    @property
    def text(self) -> str:
        """The file: what is lost as comments, then the job."""
        head = [f"# Written by `drumbeat export --to azureml` from {self.source}."]
        if self.losses:
            head += ["# Not the same as there:", *(f"# - {loss}" for loss in self.losses)]
        return "\n".join(head) + "\n" + dumps_document(self.document)


def export_to_azure(
    path: str | Path, folder: Path, options: ExportOptions = ExportOptions(), sets: Sequence[str] = ()
) -> ExportedJob:
    """Returns the job in a file as Azure's loader takes it. folder: where the new file will stand. Raises SpecError."""
    loaded = load_file(path, overrides=sets)
    origin = FileOrigin(loaded.base, loaded.source, loaded.text)
    document, inside = to_dict(loaded.job), origin
    if document.get("type") == "sweep":
        document, inside = inline_trial(document, origin)
    document = with_environments(with_absolute_paths(document, inside.base), inside.base)
    writer = _AzureWriter(options, origin)
    made = writer.job(document)
    return ExportedJob(with_changed_paths(made, partial(_relative, folder=folder)), tuple(writer.losses), loaded.source)


def _relative(path: str, folder: Path) -> str:
    """Returns a local path as it is written in a file of the folder; everything else unchanged."""
    local = None if "${{" in path else local_path(path)
    if local is None or not Path(local).is_absolute():
        return path
    written = Path(os.path.relpath(local, folder.resolve())).as_posix()
    return written if written.startswith(".") else f"./{written}"


@dataclass
class _AzureWriter:
    """Rewrites the tables of one job, and collects what is lost."""

    options: ExportOptions
    origin: FileOrigin
    losses: list[str] = field(default_factory=list[str])

    def lose(self, key: str, sentence: str) -> None:
        self.losses.append(f"{key}: {sentence}")

    # --- jobs and steps -------------------------------------------------------------------------------------
    def job(self, document: Table) -> Table:
        kind = document.get("type", "command")
        made = self.common(document, "", SweepExtensions if kind == "sweep" else Extensions)
        if kind == "sweep":
            return self.sweep(made, "")
        if kind == "pipeline":
            return self.pipeline(made, "", is_whole=True)
        return self.command(made, "")

    def common(self, table: Table, key: str, extensions: type[Model]) -> Table:
        """Rewrites what every job and step has."""
        made = dict(table)
        self._extensions(cast("Table", made.pop("drumbeat", None) or {}), f"{key}drumbeat", extensions)
        if self.options.compute and made.get("compute"):
            made["compute"] = self.options.compute
        elif str(made.get("compute", SERVERLESS)) != SERVERLESS and "${{" not in made["compute"]:
            self.lose(f"{key}compute", f"a compute {made['compute']} must be there in Azure, or give --compute")
        if isinstance(made.get("inputs"), dict):
            made["inputs"] = {name: self.data(one, f"{key}inputs.{name}") for name, one in made["inputs"].items()}
        if isinstance(made.get("outputs"), dict):
            made["outputs"] = {name: self.data(one, f"{key}outputs.{name}") for name, one in made["outputs"].items()}
        return made

    def command(self, table: Table, key: str, *, has_own_environment: bool = True) -> Table:
        """Rewrites what starts ranks."""
        made = dict(table)
        if has_own_environment or "environment" in made:
            made["environment"] = self.environment(made.get("environment"), f"{key}environment")
        return self.sized(made, key)

    def parallel(self, table: Table, key: str) -> Table:
        """Rewrites what scores mini-batches: its environment is that of its task."""
        made = dict(table)
        if isinstance(made.get("task"), dict):
            made["task"] = self.command(cast("Table", made["task"]), f"{key}task.")
        return self.sized(made, key)

    def sized(self, table: Table, key: str) -> Table:
        """Rewrites what a step needs of machines."""
        made = dict(table)
        resources = cast("Table", made.get("resources") or {})
        kind = str(resources.get("instance_type", ""))
        if fold(kind.partition(":")[0]) in ("cpu", "gpu"):
            made["resources"] = {name: value for name, value in resources.items() if name != "instance_type"}
            self.lose(f"{key}resources.instance_type", f"{kind} is drumbeat's word; Azure names sizes of machines")
        return made

    def sweep(self, table: Table, key: str) -> Table:
        made = dict(table)
        trial = made.get("trial")
        if isinstance(trial, dict):
            made["trial"] = self.component(cast("Table", trial), f"{key}trial.")
        elif isinstance(trial, str):
            made["trial"] = self.named_component(trial, f"{key}trial")
        limits = cast("Table", made.get("limits") or {})
        if "max_total_trials" not in limits:
            made["limits"] = {**limits, "max_total_trials": SweepJobLimits().max_total_trials}
        policy = cast("Table", made.get("early_termination") or {})
        if "exclude_finished_jobs" in policy:
            made["early_termination"] = {name: one for name, one in policy.items() if name != "exclude_finished_jobs"}
            self.lose(f"{key}early_termination.exclude_finished_jobs", "Azure's loader has no such key")
        return made

    def pipeline(self, table: Table, key: str, *, is_whole: bool) -> Table:
        made = dict(table)
        settings = dict(cast("Table", made.get("settings") or {}))
        if is_whole and (self.options.compute or not _has_compute(made)):
            settings["default_compute"] = self.options.compute or SERVERLESS
        if settings:
            made["settings"] = settings
        if isinstance(made.get("component"), str):
            made["component"] = self.named_component(made["component"], f"{key}component")
        elif isinstance(made.get("component"), dict):
            made["component"] = self.component(made["component"], f"{key}component.")
        if isinstance(made.get("jobs"), dict):
            steps = cast("dict[str, Table]", made["jobs"])
            made["jobs"] = {name: self.step(step, f"{key}jobs.{name}.") for name, step in steps.items()}
        return made

    def step(self, step: Table, key: str) -> Table:
        kind = str(step.get("type", "command"))
        if is_other(kind):
            return step
        made = self.common(step, key, SweepExtensions if kind == "sweep" else Extensions)
        if kind == "sweep":
            return self.sweep(made, key)
        if kind == "pipeline":
            return self.pipeline(made, key, is_whole=False)
        if isinstance(made.get("component"), str):
            made["component"] = self.named_component(made["component"], f"{key}component")
        elif isinstance(made.get("component"), dict):
            made["component"] = self.component(made["component"], f"{key}component.")
        if kind == "parallel":
            return self.parallel(made, key)
        return self.command(made, key, has_own_environment="command" in made)

    # --- components -----------------------------------------------------------------------------------------
    def component(self, table: Table, key: str) -> Table:
        if table.get("type") == "pipeline":
            return self.pipeline(self.common(table, key, Extensions), key, is_whole=False)
        if table.get("type") == "parallel":
            return self.parallel(self.common(table, key, Extensions), key)
        made = self.command(self.common(table, key, Extensions), key)
        return {**made, "type": "command"} if key.endswith("component.") else made

    def named_component(self, text: str, key: str) -> Any:
        """Returns a component's file, or what is in it where that had to be changed."""
        if registered_name(text) is not None:
            if not text.startswith("azureml://registries/"):
                self.lose(key, f"{text} must be registered in Azure")
            return text
        table, inside = read_component(component_path(text, self.origin.base), self.origin, (key,))
        before = with_absolute_paths(table, inside.base)
        made = self.component(before, f"{key}.")
        return text if made == before else made

    # --- environments ---------------------------------------------------------------------------------------
    def environment(self, given: Any, key: str) -> Any:
        if given is None:
            if not self.options.image:
                fix = "Choose an image in which the command finds Python and its packages: --image IMAGE"
                raise SpecError("the job names no environment, and Azure needs one", where=key, fix=fix)
            return {"image": self.options.image}
        if isinstance(given, Mapping):
            return self.written_environment(dict(cast("Table", given)), key)
        return self.named_environment(str(given), key)

    def written_environment(self, made: Table, key: str) -> Table:
        if made.pop("drumbeat", None):
            self.lose(f"{key}.drumbeat", "packages that nodes build from source are installed as they are")
        conda = made.get("conda_file")
        if isinstance(conda, str) and is_requirements(conda):
            made["conda_file"] = conda_of(Path(conda))
        if conda is not None and not made.get("image"):
            made["image"] = self.base_image(key)
        return made

    def base_image(self, key: str) -> str:
        if not self.options.image:
            self.lose(f"{key}.image", f"the packages are installed in {BASE_IMAGE}; choose another with --image")
        return self.options.image or BASE_IMAGE

    def named_environment(self, text: str, key: str) -> Any:
        """Returns what a text that names an environment is for Azure."""
        if text.startswith("image:"):
            return {"image": text.removeprefix("image:")}
        if "://" in text or text.startswith("/subscriptions/"):
            return text
        place = self.origin.base / text
        if not text.startswith("azureml:") and place.is_dir():
            return {"build": {"path": str(place.resolve())}}
        if not text.startswith("azureml:") and place.is_file():
            return self.written_environment({"conda_file": str(place.resolve())}, key)
        return self.registered_environment(text, key)

    def registered_environment(self, text: str, key: str) -> Any:
        name = parse_reference(text)
        version = f":{name.version}" if name.version else f"@{name.label or 'latest'}"
        definition = None if name.version or text.startswith("azureml:") else curated(name.name)
        if definition is not None and not name.name.casefold().startswith(AZURES_OWN):
            packages = definition.requirements.split("\n")
            return {"image": self.base_image(key), "conda_file": conda_from([one for one in packages if one.strip()])}
        if not folded(name.name) or not name.name.casefold().startswith(AZURES_OWN):
            self.lose(key, f"{name.name}{version} must be registered in Azure")
        return f"azureml:{name.name}{version}"

    # --- the rest -------------------------------------------------------------------------------------------
    def data(self, given: Any, key: str) -> Any:
        """Rewrites an input or an output."""
        if not isinstance(given, dict):
            return given
        made = dict(cast("Table", given))
        path = str(made.get("path") or "")
        if "path_on_compute" in made and made.get("type", "uri_folder") == "uri_folder":
            fix = "Give it a path that Azure has, such as azureml://datastores/NAME/paths/FOLDER."
            raise SpecError("Azure's loader looks for path_on_compute on this machine", where=key, fix=fix)
        if path.startswith(UNREADABLE):
            self.lose(f"{key}.path", f"Azure can't read {path.partition(':')[0]} addresses")
        if path.startswith(DEFAULT_DATASTORE):
            made["path"] = AZURES_DATASTORE + path.removeprefix(DEFAULT_DATASTORE)
        return made

    def _extensions(self, table: Table, key: str, extensions: type[Model]) -> None:
        for name in table:
            described = extensions.model_fields[name].description if name in extensions.model_fields else ""
            self.lose(f"{key}.{name}", f"left out. {_first_sentence(described or '')}".strip())


def conda_of(path: Path) -> Table:
    """Returns the conda file of a requirements file, with what it includes. Raises SpecError."""
    files = {path.name: read_text(path)}
    names = [path.name]
    while names:
        name = names.pop()
        for other in requirements.included(files[name]):
            found_at = beside(name, other)
            if found_at not in files:
                files[found_at] = read_text(path.parent / found_at)
                names.append(found_at)
    return conda_from([line.text for line in requirements.read(EnvironmentFiles(path.name, files), path.name)])


def conda_from(packages: Sequence[str]) -> Table:
    """Returns the conda file that installs packages with pip."""
    python = f"python={sys.version_info.major}.{sys.version_info.minor}"
    return {"channels": ["conda-forge"], "dependencies": [python, "pip", {"pip": [*packages]}]}


def _has_compute(pipeline: Table) -> bool:
    settings = cast("Table", pipeline.get("settings") or {})
    steps = cast("dict[str, Table]", pipeline.get("jobs") or {})
    return bool(settings.get("default_compute") or pipeline.get("compute")) or (
        bool(steps) and all(step.get("compute") for step in steps.values())
    )


def _first_sentence(text: str) -> str:
    first = text.partition(". ")[0]
    return first if first.endswith(".") else f"{first}." if first else ""
