"""Models: registered from a file, brought back."""

import pathlib

from azure.ai.ml.constants import AssetTypes, ListViewType
from azure.ai.ml.entities import Model
from connection import connect

client = connect()
model = client.models.create_or_update(
    Model(name="net", path="./data/b.txt", type=AssetTypes.CUSTOM_MODEL, tags={"kind": "toy"})
)
assert (model.name, model.version, model.type) == ("net", "1", "custom_model")
assert client.models.get("net", version="1").tags["kind"] == "toy"
assert "net" in [one.name for one in client.models.list()]
client.models.download("net", version="1", download_path="./models")
assert [path.read_text() for path in pathlib.Path("models").rglob("b.txt")] == ["two\n"]
client.models.archive(name="net", version="1")
assert "1" not in [one.version for one in client.models.list(name="net")]
assert "1" in [one.version for one in client.models.list(name="net", list_view_type=ListViewType.ARCHIVED_ONLY)]
client.models.restore(name="net", version="1")
assert "1" in [one.version for one in client.models.list(name="net")]
