"""The files of jobs and the snapshots of code and data, in a folder on a local disk."""

from drumbeat.server.home_folder.artifacts import FolderArtifacts
from drumbeat.server.home_folder.run_files import FolderRunFiles

__all__ = ["FolderArtifacts", "FolderRunFiles"]
