"""Inputs and outputs at the paths of `path_on_compute`: links, made only where nothing is, and taken away at the end.

A link leads to `<root>/appears/<host>/…` and from there to the files, so that it shows whose it is. Nodes of one gang
on one machine share it: their files are the same, or are kept as those of one output. The folders that one of them made
above it are taken away by the last that has something in them. A link of another machine, which shares the file system
that it is on, is left alone.
"""

from __future__ import annotations

import contextlib
import glob
import json
import os

from drumbeat.model import folder_layout
from drumbeat.model.errors import RefusedError
from drumbeat.model.plan import Plan
from drumbeat.node.inputs.mounting.in_place_record import as_seen

_MADE = "appears.json"
_OURS = "appears"


def appear(plan: Plan, root: str) -> None:
    """Makes the links that are missing. Raises RefusedError where something else is, or the node's user may not."""
    seen = as_seen(plan, root)
    wanted = [
        (f"inputs.{one.name}", one.appears, folder_layout.input_path(root, one)) for one in seen.inputs if one.appears
    ]
    wanted += [
        (f"outputs.{one.name}", one.appears, folder_layout.output_path(root, one.name))
        for one in seen.outputs
        if one.appears
    ]
    for name, path, place in wanted:
        try:
            _make(root, name, path, place)
        except OSError as error:
            why = f"{path} can't be made on this node: {error.strerror or error}"
            fix = f"Let user {os.geteuid()} write there, or choose another path."
            raise RefusedError(why, where=f"{name}.path_on_compute", fix=fix) from error


def _make(root: str, name: str, path: str, place: str) -> None:
    own = f"{root}/{_ours()}/{name}"
    os.makedirs(os.path.dirname(own), exist_ok=True)
    if not os.path.islink(own):
        os.symlink(place, own)
    target = _target(path)
    if target and _is_ours(target) and _is_gone(target):
        os.unlink(path)  # Its attempt is gone, with its machine.
    is_there = os.path.lexists(path)
    if _is_shared(path, root, name):  # Another node on this machine may have just made it.
        return
    if is_there:
        what = f"there is something at {path} on this node already"
        fix = "Take it away, or choose a path where nothing is."
        raise RefusedError(what, where=f"{name}.path_on_compute", fix=fix)
    folders = _missing_above(path)
    _note(root, [path, *_above(path, {*folders, *_made_by_gang(root)})])
    for folder in folders:
        with contextlib.suppress(FileExistsError):
            os.mkdir(folder)
    try:
        os.symlink(own, path)
    except FileExistsError:
        if not _is_shared(path, root, name):
            raise


def vanish(root: str) -> None:
    """Takes away the links that this node made, and the folders above them that it made and that are empty."""
    for path in _noted(root):
        with contextlib.suppress(OSError):
            if _target(path).startswith(f"{root}/{_OURS}/"):
                os.unlink(path)
            elif os.path.isdir(path) and not os.path.islink(path):
                os.rmdir(path)
    with contextlib.suppress(OSError):
        os.unlink(f"{root}/{_MADE}")


def _ours() -> str:
    return f"{_OURS}/{os.uname().nodename}"


def _is_ours(target: str) -> bool:
    """Whether drumbeat made it on this machine."""
    return os.path.dirname(target).endswith(f"/root/{_ours()}")


def _is_gone(link: str) -> bool:
    """Whether the attempt of a link is certainly gone: another user's folder can't be inspected."""
    try:
        os.lstat(link)
    except (FileNotFoundError, NotADirectoryError):
        return True
    except OSError:
        return False
    return False


def _target(path: str) -> str:
    """Returns the target of a link, "" = it is no link."""
    with contextlib.suppress(OSError):
        return os.readlink(path)
    return ""


def _is_shared(path: str, root: str, name: str) -> bool:
    """Whether a node of this gang here, this one or another, has made the link."""
    target = _target(path)
    return _is_of_gang(target, root, name) and os.path.islink(target)


def _is_of_gang(target: str, root: str, name: str) -> bool:
    """Whether a link is that of another node of this gang here: `<gang>/<node>/root/appears/<host>/<name>`."""
    gang = os.path.dirname(os.path.dirname(root))
    return target.startswith(f"{gang}/") and target.endswith(f"/root/{_ours()}/{name}")


def _missing_above(path: str) -> list[str]:
    """Returns the missing folders above a path, the outermost first."""
    missing: list[str] = []
    above = os.path.dirname(path)
    while not os.path.lexists(above):
        missing.append(above)
        above = os.path.dirname(above)
    return missing[::-1]


def _above(path: str, wanted: set[str]) -> list[str]:
    """Returns those of the folders that contain the path, the innermost first."""
    folders: list[str] = []
    while (above := os.path.dirname(path)) != path:
        folders += [above] if above in wanted else []
        path = above
    return folders


def _made_by_gang(root: str) -> set[str]:
    """Returns the paths that nodes of this gang on this machine have recorded."""
    others = glob.glob(f"{glob.escape(os.path.dirname(os.path.dirname(root)))}/*/root/{_ours()}")
    return {path for own in others for path in _noted(os.path.dirname(os.path.dirname(own)))}


def _noted(root: str) -> list[str]:
    with contextlib.suppress(OSError, ValueError), open(f"{root}/{_MADE}", encoding="utf-8") as file:
        return json.load(file)
    return []


def _note(root: str, paths: list[str]) -> None:
    """Records the paths before they are made, so that a later process knows what to remove."""
    noted = _noted(root)
    part = f"{root}/{_MADE}.part"
    with open(part, "w", encoding="utf-8") as file:
        json.dump([*(path for path in paths if path not in noted), *noted], file)
    os.rename(part, f"{root}/{_MADE}")
