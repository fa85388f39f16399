"""How far the tool that makes an environment is, from what it prints and from the packages that are there. Pure."""

from __future__ import annotations

import re
from collections.abc import Collection

from drumbeat.model.plurals import counted
from drumbeat.node.environments.installed_packages import normal

_PIP_FOUND = re.compile(r"^\s*Collecting ([A-Za-z0-9][\w.-]*)", re.MULTILINE)
_PIP_INSTALLS = re.compile(r"^Installing collected packages: (.+)$", re.MULTILINE)
_UV_RESOLVED = re.compile(r"^Resolved (\d+) packages? in ", re.MULTILINE)
_UV_PREPARED = re.compile(r"^Prepared (\d+) packages? in ", re.MULTILINE)


def describe(tool: str, output: str, present: Collection[str], before: Collection[str] = ()) -> str:
    """`64 of 101 packages`; while the tool still looks for them, `37 packages found`; "" = nothing is known.

    present: the normalized names of the packages that are installed; before: those that were when the tool began.
    """
    if tool == "uv":
        return _of_uv(output, len(set(present).difference(before)))
    if installs := list(_PIP_INSTALLS.finditer(output)):
        wanted = {normal(name.strip()) for name in installs[-1][1].split(",")}
        return f"{len(wanted.intersection(present))} of {counted(len(wanted), 'package')}"
    collected = {normal(name) for name in _PIP_FOUND.findall(output)}
    return f"{counted(len(collected), 'package')} found" if collected else ""


def _of_uv(output: str, installed: int) -> str:
    resolved = _UV_RESOLVED.search(output)
    if resolved is None:
        return ""
    total = int(resolved[1])
    if installed or _UV_PREPARED.search(output):
        return f"{min(installed, total)} of {counted(total, 'package')}"
    return f"{counted(total, 'package')} found"
