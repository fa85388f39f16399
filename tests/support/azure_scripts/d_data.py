"""Data: uploaded, numbered, listed, found, archived and restored."""

from azure.ai.ml.constants import AssetTypes, ListViewType
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

client.data.create_or_update(Data(name="letters", version="2", path="./data/a.txt", type=AssetTypes.URI_FILE))
client.data.archive("letters", version="2")
assert [one.version for one in client.data.list(name="letters")] == ["1"]
everything = client.data.list(name="letters", list_view_type=ListViewType.ALL)
assert [one.version for one in everything] == ["2", "1"]
assert client.data.get("letters", version="2").type == "uri_file"
assert client.data.get("letters", label="latest").version == "1"
client.data.archive("one-letter")
assert "one-letter" not in [one.name for one in client.data.list()]
assert "one-letter" in [one.name for one in client.data.list(list_view_type=ListViewType.ARCHIVED_ONLY)]
client.data.restore("one-letter")
client.data.restore("letters", version="2")
assert {"letters", "one-letter"} <= {one.name for one in client.data.list()}
assert client.data.get("letters", label="latest").version == "2"
client.data.archive("letters", version="2")
