"""A container of an own account is made a datastore; a job reads what is uploaded there, and writes there."""

import json
from pathlib import Path

from azure.ai.ml import Input, MLClient, Output, command
from azure.ai.ml.entities import AccountKeyConfiguration, AzureBlobDatastore, Data
from azure.identity import DefaultAzureCredential

client = MLClient.from_config(DefaultAzureCredential())
place = json.loads(Path("store.json").read_text())
store = AzureBlobDatastore(
    name="own",
    account_name=place["account"],
    container_name=place["container"],
    endpoint=place["endpoint"],
    protocol="http",
    credentials=AccountKeyConfiguration(account_key=place["key"]),
)
client.datastores.create_or_update(store)
data = client.data.create_or_update(Data(name="own-words", path="words", type="uri_folder", datastore="own"))
assert "/datastores/own/paths/" in data.path, data.path
job = client.jobs.create_or_update(
    command(
        command="cat ${{inputs.words}}/*.txt > ${{outputs.all}}/all.txt",
        inputs={"words": Input(type="uri_folder", path=data.path)},
        outputs={"all": Output(type="uri_folder", path="azureml://datastores/own/paths/joined")},
        compute="cpu-cluster",
        environment="azureml:AzureML-pytorch-for-tests@latest",
    )
)
client.jobs.stream(job.name)
client.jobs.download(job.name, download_path="out", output_name="all")
assert [path.read_text() for path in Path("out").rglob("all.txt")] == ["one two\n"]
client.datastores.delete("own")
assert "own" not in [one.name for one in client.datastores.list()]
