"""What `make` runs is there and can be loaded: most of it is run seldom, and nobody would notice for long."""

import importlib
import json
import re
from pathlib import Path

import pytest

from drumbeat.model.errors import UnreachableError, every_error
from tools.make_reference_docs import errors_page

MAKEFILE = Path(__file__).parents[2] / "Makefile"
MODULES = sorted(set(re.findall(r"\$\(PYTHON\) -m ((?:bench|tools)\.\w+)", MAKEFILE.read_text())))


def test_make_runs_tools_and_benchmarks():
    assert {"bench.staging", "tools.faults"} <= set(MODULES)


@pytest.mark.parametrize("name", MODULES)
def test_what_make_runs_can_be_loaded(name: str):
    loaded = importlib.import_module(name)
    if loaded.__spec__ and loaded.__spec__.submodule_search_locations:
        loaded = importlib.import_module(f"{name}.__main__")
    assert callable(loaded.main)


def test_the_page_of_errors_has_every_code_that_may_come_over_http():
    page = errors_page()
    assert [code for code in every_error() if f"## `{code}`" not in page] == []
    assert "## `error`\n\nAn internal error in drumbeat. The traceback is in `server.log`" in page


def test_the_page_of_errors_has_no_kinds_of_a_single_process():
    before = errors_page()

    class OwnError(UnreachableError):
        """Of this test."""

        def __init__(self, *, needs: int) -> None:
            super().__init__(f"{needs}")

    assert errors_page() == before
    assert OwnError in UnreachableError.__subclasses__()


def test_the_lock_of_the_page_has_what_its_package_names():
    """Else `npm ci` refuses to install anything."""
    package, lock = (
        json.loads((MAKEFILE.parent / "page" / name).read_text()) for name in ("package.json", "package-lock.json")
    )
    for kind in ("dependencies", "devDependencies"):
        assert package[kind] == lock["packages"][""][kind]
