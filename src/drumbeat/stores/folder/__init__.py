"""The `Artifacts` port on a folder of a local disk."""

from drumbeat.stores.folder.artifacts import FolderArtifacts

__all__ = ["FolderArtifacts"]
