"""The files of jobs and the snapshots of code and data, in a folder of a local disk."""

from drumbeat.stores.folder.artifacts import FolderArtifacts
from drumbeat.stores.folder.run_files import FolderRunFiles

__all__ = ["FolderArtifacts", "FolderRunFiles"]
