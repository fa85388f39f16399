"""What is installed for a Python, read from its folders without asking it."""

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
"""Those whose versions matter to nodes that train together."""


def site_folders(prefix: str) -> list[str]:
    """Where an environment made at `prefix` has its packages."""
    return sorted({os.path.realpath(one) for one in glob.glob(f"{glob.escape(prefix)}/lib*/python3*/site-packages")})


def installed(folders: Iterable[str]) -> dict[str, str]:
    """Name to version of all that lies in these folders; the first folder counts."""
    found: dict[str, str] = {}
    for folder in folders:
        with contextlib.suppress(OSError):
            for entry in os.listdir(folder):
                if match := _INSTALLED.fullmatch(entry):
                    found.setdefault(normal(match[1]), match[2])
    return found


def normal(name: str) -> str:
    """A project's name as all spellings of it agree (PEP 503)."""
    return re.sub(r"[-_.]+", "-", name).lower()


def fingerprint(python: str, found: dict[str, str], first: Iterable[str] = ()) -> Fingerprint:
    """Of this Python with these distributions. first: names that are told with their versions before others."""
    text = "\n".join(f"{name}=={version}" for name, version in sorted(found.items()))
    told = [name for name in dict.fromkeys([*first, *_LOUD, *sorted(found)]) if name in found][:FEW]
    digest = hashlib.sha256(f"{python}\n{text}".encode()).hexdigest()[:16]
    return Fingerprint(python, digest, {name: found[name] for name in told}, has_more=len(told) < len(found))
