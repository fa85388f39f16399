"""Data: uploaded, numbered, listed, found."""

from azure.ai.ml.constants import AssetTypes
from azure.ai.ml.entities import Data
from connection import connect

client = connect()
folder = client.data.create_or_update(
    Data(name="letters", version="1", path="./data", type=AssetTypes.URI_FOLDER, description="two files")
)
assert (folder.name, folder.version, folder.type) == ("letters", "1", "uri_folder")
single = client.data.create_or_update(Data(name="one-letter", path="./data/a.txt", type=AssetTypes.URI_FILE))
assert single.version == "1"
assert client.data.get("letters", version="1").description == "two files"
assert client.data.get("letters", label="latest").version == "1"
assert {"letters", "one-letter"} <= {one.name for one in client.data.list()}
assert [one.version for one in client.data.list(name="letters")] == ["1"]
