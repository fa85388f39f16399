"""What rare and small updates refuse: nothing is sent before."""

from __future__ import annotations

from typing import Any

import pytest

from drumbeat.model.errors import RefusedError
from drumbeat.train import OuterSteps, compress, local_sgd

pytestmark = pytest.mark.feature("T4")
NOT_READ: Any = None


def test_an_unknown_compression_is_refused_with_those_there_are():
    with pytest.raises(RefusedError, match="can't be compressed as 'int8'; available: fp16, bf16, powersgd"):
        compress(NOT_READ, "int8")


def test_an_interval_without_steps_is_refused():
    with pytest.raises(RefusedError, match="can't be synchronized every 0 steps"):
        OuterSteps(NOT_READ, 0)
    with pytest.raises(RefusedError, match="can't be synchronized every -1 steps"):
        local_sgd(NOT_READ, -1)
