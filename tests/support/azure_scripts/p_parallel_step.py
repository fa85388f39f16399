"""A parallel step: a script over the mini-batches of a folder."""

import pathlib

from azure.ai.ml import Input, Output, dsl
from azure.ai.ml.parallel import RunFunction, parallel_run_function
from connection import connect

client = connect()
count = parallel_run_function(
    name="count",
    inputs={"data": Input(type="uri_folder"), "factor": Input(type="integer", default=1)},
    outputs={"rows": Output(type="uri_file")},
    input_data="${{inputs.data}}",
    instance_count=1,
    max_concurrency_per_instance=2,
    mini_batch_size="1",
    mini_batch_error_threshold=0,
    retry_settings={"max_retries": 1, "timeout": 60},
    logging_level="INFO",
    task=RunFunction(
        code="./scoring", entry_script="rows.py", environment="azureml:toy-env:1",
        program_arguments="--factor ${{inputs.factor}}", append_row_to="${{outputs.rows}}",
    ),
)  # fmt: skip


@dsl.pipeline(default_compute="cpu-cluster")
def counted(data):
    step = count(data=data, factor=3)
    return {"rows": step.outputs.rows}


job = counted(data=Input(type="uri_folder", path="./data"))
sent = client.jobs.create_or_update(job, experiment_name="scripts")
client.jobs.stream(sent.name)
assert client.jobs.get(sent.name).status == "Completed"
client.jobs.download(sent.name, download_path="./rows", output_name="rows")
rows = [path.read_text() for path in pathlib.Path("rows").rglob("*") if path.is_file()]
assert rows, "nothing was downloaded"
assert {"a.txt 12", "b.txt 12"} == {*"".join(rows).splitlines()}, rows
