"""The names of `drumbeat.ml`, with their parameters and defaults, against the table of Azure's SDK."""

from __future__ import annotations

import ast
import importlib
import inspect
import json
from pathlib import Path
from typing import Any

import pytest

from drumbeat.ml import MLClient
from drumbeat.ml.calls.operation import Operations
from drumbeat.ml.public_names import FAMILIES, OPERATIONS_REFUSED, PLACES, REFUSED, WHOLE

pytestmark = pytest.mark.feature("J8")

TABLE: dict[str, dict[str, dict[str, Any]]] = json.loads(Path(__file__).with_name("azure_names.json").read_text())
"""`tools/azure_names.py` writes it."""
SCRIPTS = Path(__file__).parents[2] / "support" / "azure_scripts"
OF_PYTHON = {"Enum", "Optional", "Union", "logging", "module_logger"}
NOT_TAKEN = {
    "Command": {"component"},
    "Component": {*TABLE["entities"]["Component"]["parameters"]},
    "KubernetesCompute": {"identity", "properties"},
    "Pipeline": {"component", "outputs"},  # Ours has steps in its place.
    "Sweep": {"inputs", "outputs", "resources"},
}
"""Parameters that ours lack: scripts make these by functions, and only compare classes."""


def found(module: str, name: str) -> Any:
    return getattr(importlib.import_module(f"drumbeat.ml.{module}" if module else "drumbeat.ml"), name)


def parameters(function: Any) -> tuple[dict[str, Any], bool]:
    """Its named parameters with their defaults, and whether it takes any others."""
    fields = getattr(function, "model_fields", None)
    if fields is not None:
        return dict.fromkeys((*fields, *getattr(function, "dropped", ()))), False
    listed = inspect.signature(function).parameters.values()
    takes_any = any(one.kind is one.VAR_KEYWORD for one in listed)
    return {one.name: one.default for one in listed}, takes_any


def test_each_name_of_azures_sdk_is_here_or_refused_by_its_family():
    for module, names in TABLE.items():
        known = {*PLACES.get(module, {}), *REFUSED.get(module, {})}
        assert module in WHOLE or {*names} - OF_PYTHON == known, module


PLACED = [(module, name) for module, names in PLACES.items() for name in names]


@pytest.mark.parametrize(("module", "name"), PLACED)
def test_name_can_be_imported(module: str, name: str):
    assert found(module, name) is not None


@pytest.mark.parametrize(
    ("module", "name"), [(module, name) for module, name in PLACED if "parameters" in TABLE[module][name]]
)
def test_parameters_are_azures(module: str, name: str):
    ours, takes_any = parameters(found(module, name))
    missing = {*TABLE[module][name]["parameters"]} - {*ours} - NOT_TAKEN.get(name, set())
    assert takes_any or not missing


@pytest.mark.parametrize("name", [*PLACES["operations"]])
def test_operations_have_azures_methods_and_parameters(name: str):
    cls = found("operations", name)
    for method, wanted in TABLE["operations"][name]["methods"].items():
        if method in OPERATIONS_ONLY_OF_AZURE:
            continue
        ours, takes_any = parameters(getattr(cls, method))
        assert takes_any or {*wanted} <= {*ours}, f"{name}.{method}"
        for parameter, default in wanted.items():
            if default == "(required)" or parameter not in ours:
                continue
            assert str(ours[parameter]) == str(default), f"{name}.{method}({parameter})"


OPERATIONS_ONLY_OF_AZURE = {
    "begin_diagnose", "begin_provision_network", "begin_sync_keys", "list_materialization_status", "package",
    "prepare_for_sign", "share",
}  # fmt: skip


NOT_CALLED = {
    "ComponentOperations": {"download", "prepare_for_sign"},
    "ComputeOperations": {"enable_sso"},
    "DataOperations": {"import_data", "list_materialization_status", "mount", "share"},
    "DatastoreOperations": {"mount"},
    "EnvironmentOperations": {"share"},
    "ModelOperations": {"package", "share"},
    "WorkspaceOperations": {
        "begin_create", "begin_delete", "begin_diagnose", "begin_provision_network", "begin_sync_keys", "begin_update",
    },
}  # fmt: skip
"""Operations without a script: those of registries and clouds, and mounts and downloads that never reach a server."""


def test_each_operation_is_called_by_a_script_for_azures_sdk():
    client = MLClient(object(), "s", "g", "w")
    called = [
        ast.unparse(node)
        for path in SCRIPTS.glob("*.py")
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.Attribute)
    ]
    missing = {
        f"client.{attribute}.{method}"
        for attribute, operations in vars(client).items()
        if isinstance(operations, Operations)
        for method in {*TABLE["operations"][type(operations).__name__]["methods"]}
        - NOT_CALLED.get(type(operations).__name__, set())
    }
    assert missing - {*called} == set()


@pytest.mark.parametrize("name", [*PLACES["constants"]])
def test_constants_have_azures_words(name: str):
    cls = found("constants", name)
    words = {key: str(value) for key, value in TABLE["constants"][name]["words"].items() if isinstance(value, str)}
    assert {key: str(getattr(cls, key)) for key in words} == words


@pytest.mark.parametrize(("module", "name"), [(module, name) for module, names in REFUSED.items() for name in names])
def test_refused_name_says_what_to_do_instead(module: str, name: str):
    with pytest.raises(ImportError, match=rf"drumbeat\.ml[a-z_.]* has no {name}: \S"):
        found(module, name)


@pytest.mark.parametrize("module", WHOLE)
def test_module_that_drumbeat_has_nothing_of_refuses_each_name(module: str):
    with pytest.raises(ImportError, match=FAMILIES[module].split(".")[0]):
        exec(f"from drumbeat.ml.{module} import anything", {})  # As a script writes it.


def test_unknown_names_are_attribute_errors():
    with pytest.raises(ImportError, match="cannot import name 'Nonsense'"):
        exec("from drumbeat.ml.entities import Nonsense", {})
    assert not hasattr(importlib.import_module("drumbeat.ml"), "Nonsense")


def test_operations_that_drumbeat_lacks_say_why():
    client = MLClient(object(), "s", "g", "w")
    for name in OPERATIONS_REFUSED:
        with pytest.raises(AttributeError, match=rf"MLClient\.{name}: \S"):
            getattr(client, name)
