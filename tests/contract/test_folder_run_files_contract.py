import pytest

from drumbeat.server.home_folder import FolderArtifacts
from tests.support.run_files_contract import RunFilesContract

pytestmark = [pytest.mark.contract, pytest.mark.feature("M2", "X5")]


class TestFolderRunFiles(RunFilesContract):
    @pytest.fixture
    def open_artifacts(self, tmp_path):
        return lambda: FolderArtifacts(tmp_path / "files")


def test_an_artifact_does_not_leave_its_folder_through_a_link(tmp_path):
    files = FolderArtifacts(tmp_path / "files").of_runs
    files.put("j", "run/a", [b"1"])
    (tmp_path / "files/jobs/j/outputs/mlflow-artifacts/run/link").symlink_to(tmp_path)
    with pytest.raises(Exception, match="leaves its folder through a symbolic link"):
        files.put("j", "run/link/x", [b"2"])
    assert not (tmp_path / "x").exists()
