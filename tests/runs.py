"""What kind of run of the suite this is."""

import os
from pathlib import Path

import pytest


def is_everything(config: pytest.Config) -> bool:
    """Whether it is that of `make test` or `make thorough`, which name no folder below tests."""
    return [Path(one).name for one in config.args] == ["tests"]


def is_quick(config: pytest.Config) -> bool:
    """Whether it is that of `make test`, which leaves `thorough` tests out."""
    return is_everything(config) and not is_thorough()


def is_thorough() -> bool:
    """Whether it is that of `make thorough`."""
    return bool(os.environ.get("TESTS_THOROUGH"))
