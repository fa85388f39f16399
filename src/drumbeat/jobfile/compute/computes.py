"""Compute files: the types that there are, and the functions that read one from a file or a mapping.

The keys of each type stand in the file of its name. How engines make nodes of a compute lives in `engines/`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, TypeAlias, cast

from drumbeat.jobfile.compute.kubernetes import KubernetesCompute
from drumbeat.jobfile.compute.netlab import NetlabCompute
from drumbeat.jobfile.compute.ray import RayCompute
from drumbeat.jobfile.compute.slurm import SlurmCompute
from drumbeat.jobfile.compute.ssh import SshCompute
from drumbeat.jobfile.reading.error_messages import fold, nearest, shown, words
from drumbeat.jobfile.reading.loader import DocumentKind, Places, load_model, model_from
from drumbeat.jobfile.reading.model import Model
from drumbeat.model.errors import Problem, SpecError

Compute: TypeAlias = NetlabCompute | SshCompute | SlurmCompute | KubernetesCompute | RayCompute
CLASSES: dict[str, type[Compute]] = {
    "netlab": NetlabCompute,
    "ssh": SshCompute,
    "slurm": SlurmCompute,
    "kubernetes": KubernetesCompute,
    "ray": RayCompute,
}


def load_compute(path: str | Path, overrides: Sequence[str] = ()) -> Compute:
    """The compute in a file; raises `SpecError` with every problem at its line."""
    compute = cast("Compute", load_model(path, COMPUTE, overrides))
    return _anchored(compute, Path(path).absolute().parent)


def compute_from(document: Mapping[str, Any], name: str = "compute") -> Compute:
    """The compute in a mapping as YAML would give it; places in messages are `name.key`."""
    return cast("Compute", model_from(document, COMPUTE, name))


def _anchored(compute: Compute, base: Path) -> Compute:
    """Makes the paths of keys absolute: they are relative to the compute file, whose folder the server can't see."""
    anchored: dict[str, str] = {}
    for key in ("identity_file", "kubeconfig", "token_file", "ca_file"):
        path = getattr(compute, key, None)
        if path is not None and not path.startswith(("/", "~")):
            anchored[key] = str(base / path)
    return compute.model_copy(update=anchored) if anchored else compute


def _choose_model(document: Mapping[str, Any], places: Places) -> type[Model]:
    kind = document.get("type")
    model = CLASSES.get(fold(kind)) if isinstance(kind, str) else None
    if model is not None:
        return model
    if kind is None:
        raise SpecError.from_problems(
            [Problem("the compute needs the key `type`", places((), "missing", ""), f"It is {words(CLASSES, 'or')}.")]
        )
    from drumbeat.jobfile.compute.amlcompute import cloud_refusal

    if refusal := cloud_refusal(kind, document.get("name")):
        raise SpecError.from_problems([Problem(refusal[0], places(("type",), "value", ""), refusal[1])])
    what = f"`type`: a compute is {words(CLASSES, 'or')}, not {shown(kind)}"
    raise SpecError.from_problems([Problem(what, places(("type",), "value", ""), nearest(kind, CLASSES))])


COMPUTE = DocumentKind("a compute", _choose_model, "`name:` and `type:`")
