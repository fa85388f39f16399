"""Files that are replaced at once, and what a write that fails leaves."""

from __future__ import annotations

from pathlib import Path

import pytest

from drumbeat.node.platform.files import write_whole


@pytest.mark.feature("F10")
def test_write_that_fails_leaves_nothing_beside_the_file(tmp_path: Path):
    (tmp_path / "state.json" / "in the way").mkdir(parents=True)
    with pytest.raises(OSError, match=r"state\.json"):
        write_whole(str(tmp_path / "state.json"), "{}")
    assert [path.name for path in tmp_path.iterdir()] == ["state.json"]
