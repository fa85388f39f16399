"""The packages of a Python, read from its folders without running it."""

from __future__ import annotations

import contextlib
import glob
import hashlib
import os
import re
from collections.abc import Iterable

from drumbeat.model.python_fingerprint import Fingerprint

FEW = 40
_INSTALLED = re.compile(r"(.+?)-(\d[^-]*)(?:-py3\.\d+)?\.(?:dist-info|egg-info|egg)")
_LOUD = (
    "torch", "torchvision", "torchaudio", "numpy", "tensorflow", "tensorflow-cpu", "keras", "jax", "horovod",
    "deepspeed", "mpi4py", "nvidia-nccl-cu12", "transformers", "accelerate", "lightning", "fastai", "ray", "mlflow",
    "scikit-learn",
)  # fmt: skip
"""Packages whose versions should be equal on nodes that train together."""


def site_folders(prefix: str) -> list[str]:
    """The package folders of an environment at `prefix`."""
    return sorted({os.path.realpath(one) for one in glob.glob(f"{glob.escape(prefix)}/lib*/python3*/site-packages")})


def installed(folders: Iterable[str]) -> dict[str, str]:
    """Versions of all packages in these folders, by name; the first folder wins."""
    versions: dict[str, str] = {}
    for folder in folders:
        with contextlib.suppress(OSError):
            for entry in os.listdir(folder):
                if match := _INSTALLED.fullmatch(entry):
                    versions.setdefault(normal(match[1]), match[2])
    return versions


def normal(name: str) -> str:
    """The normalized name of a project (PEP 503)."""
    return re.sub(r"[-_.]+", "-", name).lower()


def fingerprint(python: str, versions: dict[str, str], first: Iterable[str] = ()) -> Fingerprint:
    """The fingerprint of a Python with these distributions. first: names that are listed before others."""
    text = "\n".join(f"{name}=={version}" for name, version in sorted(versions.items()))
    listed = [name for name in dict.fromkeys([*first, *_LOUD, *sorted(versions)]) if name in versions][:FEW]
    digest = hashlib.sha256(f"{python}\n{text}".encode()).hexdigest()[:16]
    return Fingerprint(python, digest, {name: versions[name] for name in listed}, has_more=len(listed) < len(versions))
