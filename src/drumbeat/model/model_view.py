"""The folder in which a script written for Azure looks for its model."""

from __future__ import annotations

from pathlib import Path


def model_view(model: str, name: str, folder: str) -> None:
    """Fills a folder so that a model has a name in it, as in Azure's AZUREML_MODEL_DIR, and its files stand beside it.

    Scripts written for Azure find the model at `$AZUREML_MODEL_DIR/NAME`, others right below AZUREML_MODEL_DIR. Raises
    OSError.
    """
    place = Path(model).absolute()
    inside = sorted(place.iterdir()) if place.is_dir() else []
    for entry in inside:
        Path(folder, entry.name).symlink_to(entry)
    if not any(entry.name == name for entry in inside):
        Path(folder, name).symlink_to(place)
