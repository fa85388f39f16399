"""Gives ranks the packages of drumbeat that scripts call, because their Python may not have drumbeat installed."""

from __future__ import annotations

import os
import pkgutil

import drumbeat
from drumbeat.model import folder_layout
from drumbeat.model.errors import StorageError
from drumbeat.node.environments import program_end
from drumbeat.node.platform.files import write_whole

ROOMS = ("parallel", "rank", "scoring", "train")
"""The packages whose modules ranks get."""
BESIDE = (
    "_version.py", "model/__init__.py", "model/errors.py", "model/home_socket.py", "model/mesh.py",
    "model/model_view.py", "model/path_patterns.py", "model/programs.py", "model/scoring_tokens.py",
)  # fmt: skip
"""The other modules that those import."""

PACKAGE = '''\
"""Stands in for drumbeat in a Python that does not have it, which is preferred: `log`, `primary`, `train`."""

import importlib.util
import os
import sys

_own = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
_others = [folder for folder in sys.path if os.path.abspath(folder) != _own]
_specs = (finder.find_spec(__name__, _others) for finder in sys.meta_path if hasattr(finder, "find_spec"))
_spec = next((spec for spec in _specs if spec is not None), None)

if _spec is not None:
    sys.modules[__name__] = importlib.util.module_from_spec(_spec)
    _spec.loader.exec_module(sys.modules[__name__])
else:
    from drumbeat._version import __version__
    from drumbeat.rank.media import Histogram, Image, Table, Text
    from drumbeat.rank.metric_log import log
    from drumbeat.rank.parameters import primary

    __all__ = ["Histogram", "Image", "Table", "Text", "__version__", "log", "primary"]
'''


def files() -> list[str]:
    """Returns the modules to provide, below `drumbeat`; in a zip, too."""
    package = os.path.dirname(drumbeat.__file__)
    modules = [(room, each.name) for room in ROOMS for each in pkgutil.iter_modules([f"{package}/{room}"])]
    return [*BESIDE, *(f"{room}/__init__.py" for room in ROOMS), *(f"{room}/{name}.py" for room, name in modules)]


def provide(root: str) -> None:
    """Writes the modules to the attempt's folder, once. Raises StorageError."""
    package = f"{folder_layout.modules_folder(root)}/drumbeat"
    last = f"{package}/__init__.py"
    if os.path.exists(last):
        return
    try:
        for name in files():
            os.makedirs(os.path.dirname(f"{package}/{name}"), mode=0o755, exist_ok=True)
            write_whole(f"{package}/{name}", (pkgutil.get_data("drumbeat", name) or b"").decode(), 0o644)
        folder = folder_layout.modules_folder(root)
        watch = (pkgutil.get_data("drumbeat", "node/environments/program_end.py") or b"").decode()
        write_whole(f"{folder}/{program_end.MODULE}.py", watch, 0o644)
        write_whole(f"{folder}/sitecustomize.py", program_end.SITE, 0o644)
        write_whole(last, PACKAGE, 0o644)
    except OSError as error:
        what = f"drumbeat's modules for the ranks can't be written: {error.strerror}"
        raise StorageError(what, where=package, fix="Free space on that disk, or grant write permission.") from error
