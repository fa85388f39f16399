"""Components: from a file, from a command, from a pipeline function; archived and restored."""

from azure.ai.ml import Input, Output, command, load_component
from azure.ai.ml.constants import ListViewType
from azure.ai.ml.dsl import pipeline
from azure.ai.ml.entities import CommandComponent
from connection import connect

client = connect()
assert client.components.validate(load_component(source="./component.yml")).passed
loaded = client.components.create_or_update(load_component(source="./component.yml"))
assert (loaded.name, loaded.version) == ("train_component", "1")
assert client.components.get("train_component", version="1").display_name == "Train"
assert load_component(client=client, name="train_component", version="1").name == "train_component"

prepare = command(
    name="prepare", version="1", display_name="Prepare", environment="azureml:toy-env:1",
    command="cp -r ${{inputs.data}}/. ${{outputs.ready}}",
    inputs={"data": Input(type="uri_folder")}, outputs={"ready": Output(type="uri_folder", mode="rw_mount")},
)  # fmt: skip
assert client.create_or_update(prepare.component).name == "prepare"

made = CommandComponent(
    name="count", version="1", command="ls ${{inputs.data}} > ${{outputs.out}}/list.txt",
    environment="azureml:toy-env:1", inputs={"data": Input(type="uri_folder")}, outputs={"out": Output()},
)  # fmt: skip
assert client.components.create_or_update(made).name == "count"


@pipeline(name="two_steps", version="1")
def two_steps(data: Input(type="uri_folder"), lr: float = 0.2):
    ready = prepare(data=data)
    fit = loaded(data=ready.outputs.ready, lr=lr)
    return {"model": fit.outputs.model}


assert client.components.create_or_update(two_steps).name == "two_steps"
assert {"train_component", "prepare", "count", "two_steps"} <= {one.name for one in client.components.list()}

client.components.archive("count", version="1")
assert [one.version for one in client.components.list(name="count")] == []
archived = client.components.list(name="count", list_view_type=ListViewType.ARCHIVED_ONLY)
assert [one.version for one in archived] == ["1"]
assert client.components.get("count", version="1").name == "count"
client.components.restore("count", version="1")
assert [one.version for one in client.components.list(name="count")] == ["1"]
