"""Files of other kinds, given where a job belongs: each is named, with the command that takes it."""

import pytest

from drumbeat.jobfile import loads
from drumbeat.model.errors import SpecError

SCHEMA = "$schema: https://azuremlschemas.azureedge.net/latest/{}.schema.json\n"


@pytest.mark.feature("J1")
@pytest.mark.parametrize(
    ("text", "noun", "advice"),
    [
        (SCHEMA.format("commandComponent") + "name: c\ncommand: x\n", "a component", "component create -f my.yml"),
        ("name: c\ncommand: x\nis_deterministic: true\n", "a component", "(`component: ./my.yml`)"),
        ("name: e\nimage: ubuntu\n", "an environment", "environment create -f my.yml"),
        (SCHEMA.format("environment") + "name: e\n", "an environment", "`environment: file:my.yml`"),
        ("name: m\ntype: mlflow_model\npath: ./m\n", "a model", "data create -f my.yml"),
        ("name: d\ntype: uri_folder\npath: ./m\n", "data", "data create -f my.yml"),
        ("name: e\nauth_mode: key\n", "an endpoint", "online-endpoint create -f my.yml"),
        (SCHEMA.format("managedOnlineDeployment") + "name: e\n", "a deployment", "online-deployment create -f my.yml"),
        (SCHEMA.format("batchEndpoint") + "name: e\n", "a batch endpoint", "batch-endpoint create -f my.yml"),
        (
            SCHEMA.format("modelBatchDeployment") + "name: e\n",
            "a batch deployment",
            "batch-deployment create -f my.yml",
        ),
        ("name: s\ntrigger: {type: cron}\ncreate_job: ./j.yml\n", "a schedule", "drumbeat schedule create"),
        ("name: c\ntype: amlcompute\n", "a compute", "compute create -f my.yml"),
        ("name: d\ntype: azure_blob\n", "a datastore", "datastore create -f my.yml"),
    ],
)
def test_file_of_another_kind_is_refused_with_the_command_that_takes_it(text: str, noun: str, advice: str) -> None:
    with pytest.raises(SpecError) as caught:
        loads(text, "my.yml")
    (problem,) = caught.value.fields
    assert problem.what == f"this file describes {noun}, not a job"
    assert advice in problem.fix


@pytest.mark.parametrize("key", ["image: x", "path: ./x", "flavors: {}"])
def test_job_with_a_key_of_another_file_is_told_of_the_key(key: str) -> None:
    with pytest.raises(SpecError, match=f"unknown key `{key.split(':', maxsplit=1)[0]}`"):
        loads(f"command: x\n{key}\n")


@pytest.mark.feature("J1")
def test_mistyped_key_is_one_problem_and_older_names_lead_to_todays() -> None:
    with pytest.raises(SpecError) as caught:
        loads("comand: x\nresources: {instances: 2}\n")
    assert [one.what for one in caught.value.fields] == [
        "unknown key `comand`",
        "unknown key `instances` in `resources`",
    ]
    assert [one.fix.split("?")[0] for one in caught.value.fields] == [
        "Did you mean `command`",
        "Did you mean `instance_count`",
    ]


def test_key_that_is_missing_beside_another_unknown_one_is_said() -> None:
    with pytest.raises(SpecError) as caught:
        loads("zebra: x\n")
    assert [one.what for one in caught.value.fields] == ["the job needs the key `command`", "unknown key `zebra`"]
