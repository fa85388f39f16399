"""`path_on_compute`: the path where an input or output is to appear on each node, as a user may write it."""

from __future__ import annotations

from collections.abc import Sequence
from posixpath import normpath

from drumbeat.jobfile.data.inputs_outputs import Input, Output
from drumbeat.jobfile.data.paths import Local, reference_to
from drumbeat.model.errors import RefusedError, SpecError
from drumbeat.model.plan import InputPlan, OutputPlan

KERNELS_OWN = ("/proc", "/sys", "/dev")


def appears_at(value: Input | Output, where: str) -> str:
    """Returns the absolute path, "" = none is set. Raises SpecError, RefusedError."""
    if value.path_on_compute is None:
        return ""
    where = f"{where}.path_on_compute"
    if value.mode == "direct":
        what = "with mode `direct` there are no files that could appear on a node"
        raise RefusedError(what, where=where, fix="Leave `path_on_compute` out, or use another mode.")
    written = value.path_on_compute
    place = reference_to(written, where)
    path = place.path if isinstance(place, Local) else ""
    if not path.startswith("/") or "\0" in path or ".." in path.split("/") or normpath(path).lstrip("/") == "":
        what = f"{written} is no place on a node"
        raise SpecError(what, where=where, fix="Write an absolute path below the root: file:/data/digits")
    path = "/" + normpath(path).lstrip("/")
    if any(path == own or path.startswith(f"{own}/") for own in KERNELS_OWN):
        raise RefusedError(f"{path} belongs to the system", where=where, fix="Use another path, such as /data/digits.")
    return path


def check_apart(inputs: Sequence[InputPlan], outputs: Sequence[OutputPlan]) -> None:
    """Raises RefusedError where one of them would appear at, or inside, another's path."""
    named = [(f"inputs.{one.name}", one.appears) for one in inputs if one.appears]
    named += [(f"outputs.{one.name}", one.appears) for one in outputs if one.appears]
    for name, path in named:
        for other, above in named:
            if name != other and f"{path}/".startswith(f"{above}/"):
                what = f"{name} is to appear at {path}, which is {other}'s" + ("" if path == above else f" ({above})")
                raise RefusedError(what, where=f"{name}.path_on_compute", fix="Give each a path apart from the others.")
