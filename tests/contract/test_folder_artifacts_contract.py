import pytest

from drumbeat.stores.folder import FolderArtifacts
from drumbeat.testing.artifacts_contract import ArtifactsContract

pytestmark = [pytest.mark.contract, pytest.mark.feature("X5", "M1")]


class TestFolderArtifacts(ArtifactsContract):
    @pytest.fixture
    def open_artifacts(self, tmp_path):
        return lambda: FolderArtifacts(tmp_path / "files")
