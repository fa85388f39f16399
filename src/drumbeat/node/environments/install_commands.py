"""The tools of an environment, and their commands: pip, uv, or a conda for all of it."""

from __future__ import annotations

import hashlib
import json
import os
import platform
import shutil
import sysconfig
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from drumbeat.launchers.environment_variables import SCRUBBED
from drumbeat.model.errors import RefusedError
from drumbeat.model.plan import PythonEnvironment
from drumbeat.model.process import is_scrubbed
from drumbeat.node.environments.interpreters import Interpreter
from drumbeat.node.environments.tool_configuration import own_places, sets_index_strategy

CONDAS = ("micromamba", "mamba", "conda")
UV_KNOWS = (
    "--index-url",
    "--extra-index-url",
    "--find-links",
    "--no-index",
    "--no-binary",
    "--only-binary",
    "--constraint",
)
"""pip's options in a requirements file that uv understands, too."""
_NOT_FOR_TOOLS = (
    *(name for name in SCRUBBED if name != "DRUMBEAT_*"),
    "VIRTUAL_ENV", "PYTHONPATH", "PYTHONHOME", "CONDA_PREFIX", "CONDA_DEFAULT_ENV",
    "PIP_USER", "PIP_TARGET", "PIP_PREFIX", "PIP_ROOT", "PIP_REQUIRE_VIRTUALENV", "PIP_REQUIREMENT", "PIP_PYTHON",
    "PIP_DRY_RUN", "PIP_QUIET", "PIP_REPORT",
)  # fmt: skip
"""Variables that would redirect or silence a tool. Those that mark processes as this gang's stay."""


@dataclass(frozen=True)
class InstallCommand:
    """A command that installs something into an environment."""

    tool: str
    """The tool whose output it prints."""
    argv: tuple[str, ...]
    variables: Mapping[str, str] = field(default_factory=dict[str, str])
    """Variables in addition to those of every tool."""


@dataclass(frozen=True)
class Builder:
    """The tool that builds an environment. tool: `pip`, `uv`, or one of CONDAS. why: the reason of the choice, for the
    log. python: None = conda installs it.
    """

    tool: str
    program: str
    why: str
    python: Interpreter | None

    def key(self, wanted: PythonEnvironment) -> str:
        """The key of the result: it depends on content, Python, platform and tool."""
        python = (
            [self.python.version, self.python.path, *map(os.path.basename, self.python.wheels)] if self.python else []
        )
        parts = [wanted.key, python, sysconfig.get_platform(), *platform.libc_ver(), self.tool]
        return f"{_plain(wanted.key)}-{hashlib.sha256(json.dumps(parts).encode()).hexdigest()[:16]}"

    def steps(self, wanted: PythonEnvironment, folder: str, requirements: str) -> list[InstallCommand]:
        """The commands that build the environment in `folder`, in order. requirements: the file with pip's part."""
        first = self._empty(self.python, folder) if self.python else [self._conda_command(wanted, folder)]
        has_packages = any(not line.startswith("-") for line in wanted.requirements)
        return [*first, self.install(folder, requirements)] if has_packages else first

    def tools(self, environment: str, folder: str, requirements: str) -> list[InstallCommand]:
        """The commands that build a second environment in `folder`, with the same Python, for a build's own tools."""
        first = self._empty(self.python, folder) if self.python else _venv(f"{environment}/bin/python", (), folder)
        return [*first, self.install(folder, requirements)]

    def _conda_command(self, wanted: PythonEnvironment, folder: str) -> InstallCommand:
        channels = [word for one in wanted.channels for word in ("--channel", one)]
        only = ["--override-channels"] if channels else []
        version = f"python={wanted.python}" if wanted.python else "python"
        words = ("create", "--yes", "--prefix", folder, *only, *channels, version, "pip", *wanted.conda)
        return InstallCommand(self.tool, (self.program, *words))

    def _empty(self, python: Interpreter, folder: str) -> list[InstallCommand]:
        if self.tool != "uv":
            return _venv(python.path, python.wheels, folder)
        first = InstallCommand("uv", (self.program, "venv", "--python", python.path, folder))
        if not python.wheels:
            return [first]
        # pip, for jobs that call it themselves; from Python's own wheels, so that no index is needed.
        options = ("--no-index", "--no-deps", "--python", f"{folder}/bin/python")
        return [first, InstallCommand("uv", (self.program, "pip", "install", *options, *python.wheels))]

    def install(self, folder: str, requirements: str) -> InstallCommand:
        """The command that installs the packages of a file into the environment in `folder`."""
        python = f"{folder}/bin/python"
        if self.tool == "uv":
            return InstallCommand(
                "uv", (self.program, "pip", "install", "--python", python, "--requirement", requirements)
            )
        options = ("--no-input", "--disable-pip-version-check", "--progress-bar", "off")
        return InstallCommand(
            "pip", (python, "-I", "-u", "-m", "pip", "install", *options, "--requirement", requirements)
        )


def _venv(python: str, wheels: Sequence[str], folder: str) -> list[InstallCommand]:
    """The commands that do what `python -m venv` does, without compiling all of pip, which takes half of its time.
    wheels: () = as it does.
    """
    first = (python, "-I", "-m", "venv")
    if not wheels:
        return [InstallCommand("venv", (*first, folder))]
    pip = (f"{folder}/bin/python", "-I", f"{wheels[0]}/pip", "install")
    options = ("--isolated", "--no-index", "--no-deps", "--no-compile", "--disable-pip-version-check", "--quiet")
    alone = {"PIP_CONFIG_FILE": os.devnull}  # Like ensurepip, it ignores this node's configuration.
    return [
        InstallCommand("venv", (*first, "--without-pip", folder)),
        InstallCommand("venv", (*pip, *options, *wheels), alone),
    ]


def choose(wanted: PythonEnvironment, python: Interpreter | None, environ: Mapping[str, str] = os.environ) -> Builder:
    """The builder for this environment on this node. python: None = it has conda packages.

    Raises RefusedError where no tool fits.
    """
    path = environ.get("PATH", os.defpath)
    if python is None:
        return _conda(wanted, path)
    uv, places = shutil.which("uv", path=path), own_places(environ)
    options = {line.split()[0].partition("=")[0] for line in wanted.requirements if line.startswith("-")}
    if uv and not places and options <= set(UV_KNOWS):
        return Builder("uv", uv, "uv is on PATH", python)
    if not python.has_pip:
        fix = f"Debian and Ubuntu: apt-get install python{'.'.join(python.version.split('.')[:2])}-venv; or install uv."
        raise RefusedError(
            f"environment {wanted.name}: {python.path} can't create environments (no ensurepip)", fix=fix
        )
    why = "no uv on PATH" if not uv else f"pip is set up on this node: {', '.join(places)}" if places else ""
    return Builder(
        "pip", python.path, why or f"uv doesn't support {', '.join(sorted(options - set(UV_KNOWS)))}", python
    )


def _conda(wanted: PythonEnvironment, path: str) -> Builder:
    for tool in CONDAS:
        if program := shutil.which(tool, path=path):
            return Builder(tool, program, f"{tool} is on PATH", None)
    packages = ", ".join(wanted.conda)
    what = f"environment {wanted.name} has conda packages ({packages}), and this node has no {_either(CONDAS)}"
    fix = "Move them below `pip:` in the conda file, under their PyPI names; or install micromamba."
    raise RefusedError(what, where=wanted.source, fix=fix)


def tool_environment(environ: Mapping[str, str] = os.environ) -> dict[str, str]:
    """The variables of a tool: the node's own, without those that would mislead it."""
    kept = {name: value for name, value in environ.items() if not is_scrubbed(name, _NOT_FOR_TOOLS)}
    plain = {"PYTHONUNBUFFERED": "1", "PIP_ROOT_USER_ACTION": "ignore", "PIP_NO_COLOR": "1", "NO_COLOR": "1"}
    # uv would use only the first index that has a package; pip takes the best version of all indexes.
    strategy = {} if sets_index_strategy(environ) else {"UV_INDEX_STRATEGY": "unsafe-best-match"}
    return {**kept, **plain, **strategy, "UV_NO_PROGRESS": "1"}


def _plain(key: str) -> str:
    """The start of a key, made safe for a file name."""
    return "".join(letter for letter in key[:12] if letter.isascii() and letter.isalnum()) or "environment"


def _either(names: tuple[str, ...]) -> str:
    return f"{', '.join(names[:-1])} or {names[-1]}"
