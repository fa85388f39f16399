"""What kind of run of the suite this is."""

from pathlib import Path

import pytest


def is_everything(config: pytest.Config) -> bool:
    """Whether it is that of `make test`, which names no folder below tests."""
    return [Path(one).name for one in config.args] == ["tests"]
