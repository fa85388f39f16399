"""Aliases as they are kept."""

from __future__ import annotations

import pytest

from drumbeat.model.errors import NotFoundError
from drumbeat.server.resources.aliases import read_aliases, remove_alias, set_alias
from tests.support.memory_store import MemoryStore

pytestmark = pytest.mark.feature("J1")


def test_aliases_of_compute_and_environment_of_one_name_are_apart():
    store = MemoryStore()
    set_alias(store, "environment", "azureml://registries/a/b:1", "current")
    set_alias(store, "compute", "gpu-cluster", "local")
    set_alias(store, "environment", "gpu-cluster", "current")
    set_alias(store, "compute", "gpu-cluster", "box")
    assert list(read_aliases(store).items()) == [
        (("compute", "gpu-cluster"), "box"),
        (("environment", "azureml://registries/a/b:1"), "current"),
        (("environment", "gpu-cluster"), "current"),
    ]
    remove_alias(store, "compute", "gpu-cluster")
    assert ("compute", "gpu-cluster") not in read_aliases(store)


def test_removing_a_missing_alias_names_the_nearest_one_of_its_kind():
    store = MemoryStore()
    set_alias(store, "environment", "gpu-cluster", "current")
    with pytest.raises(NotFoundError, match="there is no compute alias gpu-cluster"):
        remove_alias(store, "compute", "gpu-cluster")
    with pytest.raises(NotFoundError, match=r"alias gpu-clster\. Did you mean `gpu-cluster`"):
        remove_alias(store, "environment", "gpu-clster")
