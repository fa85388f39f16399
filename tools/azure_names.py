"""Writes the names, parameters and defaults of Azure's SDK that `drumbeat.ml` is compared with.

`python -m tools.azure_names` runs each release that tests keep, and writes `tests/unit/ml/azure_names.json`. The table
is committed, so that no test needs Azure's package.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

from drumbeat.ml.public_names import PLACES
from tools.kept_programs import AZURE_ML

ROOT = Path(__file__).parents[1]
TABLE = ROOT / "tests" / "unit" / "ml" / "azure_names.json"
TIMEOUT_S = 300
LISTING = """
import importlib, inspect, json, sys, warnings
warnings.simplefilter("ignore")
MODULES = ("", "automl", "constants", "data_transfer", "dsl", "entities", "exceptions", "finetuning", "identity",
           "operations", "parallel", "sweep")
PLAIN = (str, int, float, bool, type(None))

def parameters(function):
    try:
        found = inspect.signature(function).parameters.values()
    except (TypeError, ValueError):
        return None
    named = [one for one in found if one.kind not in (one.VAR_POSITIONAL, one.VAR_KEYWORD) and one.name != "self"]
    return {one.name: default(one.default) for one in named}

def default(value):
    if value is inspect.Parameter.empty:
        return "(required)"
    return value if type(value) in PLAIN else getattr(value, "value", None) or repr(value)

def described(value):
    if not inspect.isclass(value):
        return {"parameters": parameters(value)} if callable(value) else {}
    methods = {name: parameters(one) for name, one in inspect.getmembers(value, callable) if not name.startswith("_")}
    words = {name: one if type(one) in PLAIN else getattr(one, "value", None) for name, one in vars(value).items()
             if name.isupper() and not callable(one)}
    return {"parameters": parameters(value), "methods": methods, "words": words}

table = {}
for name in MODULES:
    module = importlib.import_module("azure.ai.ml" + (name and "." + name))
    names = getattr(module, "__all__", None) or [one for one in dir(module) if not one.startswith("_")]
    table[name] = {one: described(getattr(module, one, None)) for one in sorted(names)}
json.dump(table, sys.stdout)
"""


def names_in(version: str) -> dict[str, dict[str, dict[str, Any]]]:
    """Returns the public names of one release, by module. Raises NotFetchedError."""
    folder = AZURE_ML[version].fetch().parents[3]
    return json.loads(azure_python(folder, "-c", LISTING))


def azure_python(folder: Path, *arguments: str) -> str:
    """Runs the interpreter below the virtual environment with Azure's packages; returns its output."""
    variables = {**os.environ, "PYTHONPATH": str(folder), "PYTHONNOUSERSITE": "1"}
    command = [str(getattr(sys, "_base_executable", sys.executable)), *arguments]
    done = subprocess.run(command, env=variables, capture_output=True, text=True, check=True, timeout=TIMEOUT_S)
    return done.stdout


COMPARED = ("", "dsl", "entities", "sweep", "constants")
"""Modules of which the table has parameters; of all others it has the names, and of operations their methods."""


def main() -> None:
    """Writes the table: what the newest release has, and in which releases each name is, where not in all."""
    releases = {version: names_in(version) for version in AZURE_ML}
    newest = releases[max(releases)]
    for module, names in newest.items():
        for name, entry in names.items():
            with_methods = module == "operations" or name == "MLClient"
            is_here = name in PLACES.get(module, {})
            kept = {
                "parameters": entry.get("parameters") if module in COMPARED and is_here else None,
                "methods": entry.get("methods") if with_methods and is_here else None,
                "words": entry.get("words") if module == "constants" else None,
                "releases": [version for version in releases if name in releases[version].get(module, {})],
            }
            names[name] = {key: value for key, value in kept.items() if value not in (None, [*releases])}
    TABLE.parent.mkdir(parents=True, exist_ok=True)
    lines = [
        f"{json.dumps(module)}: {{\n"
        + ",\n".join(f"{json.dumps(name)}: {json.dumps(names[name])}" for name in sorted(names))
        + "\n}"
        for module, names in sorted(newest.items())
    ]
    TABLE.write_text("{\n" + ",\n".join(lines) + "\n}\n")


if __name__ == "__main__":
    main()
