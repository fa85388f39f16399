"""A file of 70 MB and a folder of 126 files with difficult names: uploaded as data, brought back as a model."""

import filecmp
from pathlib import Path

from azure.ai.ml import MLClient
from azure.ai.ml.entities import Data, Model
from azure.identity import DefaultAzureCredential

client = MLClient.from_config(DefaultAzureCredential())
for name in ("one", "many"):
    data = client.data.create_or_update(Data(name=f"{name}-data", path=name, type="uri_folder"))
    again = client.data.create_or_update(Data(name=f"{name}-again", path=name, type="uri_folder"))
    assert data.path == again.path  # The content is known by its hash, and isn't sent a second time.
    client.models.create_or_update(Model(name=name, path=name, type="custom_model"))
    client.models.download(name, version="1", download_path="back")
    place = Path("back", name, name)
    assert sorted(path.name for path in place.iterdir()) == sorted(path.name for path in Path(name).iterdir())
    for path in Path(name).iterdir():
        assert filecmp.cmp(path, place / path.name, shallow=False), path
