import os

import pytest

from drumbeat.server.home_folder import FolderArtifacts
from tests.support.artifacts_contract import ArtifactsContract

pytestmark = [pytest.mark.contract, pytest.mark.feature("X5", "M1")]


class TestFolderArtifacts(ArtifactsContract):
    @pytest.fixture
    def open_artifacts(self, tmp_path):
        return lambda: FolderArtifacts(tmp_path / "files")

    def test_files_whose_name_is_not_utf8_are_left_out_of_the_list(self, open_artifacts, tmp_path):
        artifacts = open_artifacts()
        artifacts.write_text("j", "checkpoints/whole.pt", "1")
        folder = tmp_path / "files" / "jobs" / "j" / "checkpoints"
        (folder / os.fsdecode(b"caf\xe9")).mkdir()
        for name in (b"caf\xe9.pt", b"caf\xe9/inner.pt"):
            (folder / os.fsdecode(name)).write_text("2")
        assert [one.path for one in artifacts.files("j")] == ["checkpoints/whole.pt"]
