"""What inputs and outputs of a job mean, given what is known."""

from dataclasses import replace
from typing import Literal

import pytest

from drumbeat.core.lifecycle.output_publication import outputs_left
from drumbeat.core.planning.inputs import (
    DataFacts,
    DataVersion,
    JobOutputs,
    PlannedInputs,
    UsedData,
    check_output,
    describe_staged,
    plan_inputs,
    resolve_output,
)
from drumbeat.core.planning.outputs import is_published, is_registered, output_notes, plan_outputs
from drumbeat.core.planning.path_on_compute import check_apart
from drumbeat.jobfile.data.inputs_outputs import Input, Output
from drumbeat.jobfile.data.paths import JobOutputReference
from drumbeat.model import folder_layout
from drumbeat.model.errors import DrumbeatError, RefusedError, SpecError, UnknownNameError
from drumbeat.model.plan import InputPlan, OutputPlan
from drumbeat.model.states import State
from tests.support.messages import Messages
from tests.support.sample_jobs import submission

FACTS = DataFacts(
    {
        "digits": (
            DataVersion("3", "uri_folder", "azureml://datastores/blobs/paths/digits/c"),
            DataVersion("1", "uri_file", "https://host/digits.csv"),
        ),
        "mod": (DataVersion("1", "uri_folder", "azureml://datastores/blobs/paths/mod", model_type="mlflow_model"),),
    },
    ["blobs", "web", "workspaceblobstore"],
    {
        "train-1": JobOutputs({"model": "uri_folder", "default": "uri_folder"}),
        "train-2": JobOutputs({"model": "uri_folder"}, is_completed=False),
        "train-3": JobOutputs({"model": "uri_folder"}, has_ended=False, is_completed=False),
    },
    {"default": "workspaceblobstore"},
    read_only={"web": "what a web server gives can only be read"},
)


def inputs(facts: DataFacts = FACTS, brought: dict[str, str] | None = None, **keys: object) -> PlannedInputs:
    return plan_inputs({"data": Input.model_validate(keys)}, brought or {}, facts)


@pytest.mark.feature("D2")
@pytest.mark.parametrize(
    ("path", "uri"),
    [
        ("https://host/a", "https://host/a"),
        ("s3://bucket/a", "s3://bucket/a"),
        ("azureml://datastores/blobs/paths/a/", "azureml://datastores/blobs/paths/a"),
        ("azureml://subscriptions/s/resourcegroups/g/workspaces/w/datastores/blobs/paths/a",
         "azureml://datastores/blobs/paths/a"),
        ("azureml://datastores/default/paths/a", "azureml://datastores/workspaceblobstore/paths/a"),
        ("azureml://jobs/train-1/outputs/model", "azureml://jobs/train-1/outputs/model/paths/"),
        ("digits:3", "azureml://datastores/blobs/paths/digits/c"),
        ("azureml:digits@latest", "azureml://datastores/blobs/paths/digits/c"),
    ],
)  # fmt: skip
def test_every_path_becomes_an_address(path: str, uri: str):
    is_kept = uri.startswith("azureml://jobs/")  # In a folder of the server's, which nodes on its machine see.
    assert inputs(path=path).inputs == (InputPlan("data", "uri_folder", uri, "ro_mount", in_folder=is_kept),)


@pytest.mark.feature("D2")
def test_output_of_a_pipeline_is_that_of_its_step():
    jobs = {"whole": JobOutputs({"final": "uri_folder"}, sources={"final": ("whole_train", "model")})}
    planned = inputs(DataFacts(jobs=jobs), path="azureml://jobs/whole/outputs/final/paths/a").inputs
    assert planned[0].uri == "azureml://jobs/whole_train/outputs/model/paths/a"


@pytest.mark.feature("D4", "D2")
def test_name_becomes_an_exact_version_whose_use_is_recorded(messages: Messages):
    latest = inputs(path="azureml:digits@latest")
    assert latest.used == (UsedData("digits", "3", "inputs.data"),)
    messages.check(*latest.notes)
    assert inputs(path="azureml:digits:3").notes == ()
    assert inputs(path="s3://bucket/a").used == ()


def _two_versions(uri: str, newer: DataVersion | None = None) -> DataFacts:
    older = DataVersion("1", "uri_folder", uri, digest="first")
    return DataFacts({"digits": (newer or DataVersion("2", "uri_folder", uri, digest="second"), older)}, ["blobs"])


BLOBS = "azureml://datastores/blobs/paths"


@pytest.mark.feature("D4", "D2")
def test_version_overwritten_by_a_newer_one_is_refused(messages: Messages):
    facts = _two_versions(f"{BLOBS}/digits")
    for path in ("digits:2", "azureml:digits@latest"):
        assert inputs(facts, path=path).used == (UsedData("digits", "2", "inputs.data"),)
    with pytest.raises(RefusedError) as refused:
        inputs(facts, path="azureml:digits:1")
    messages.check(refused.value.what)
    messages.check(refused.value.fix)


@pytest.mark.feature("D4", "D2")
@pytest.mark.parametrize(
    "facts",
    [
        _two_versions(f"{BLOBS}/LocalUpload/{'0' * 64}/digits"),
        _two_versions(f"{BLOBS}/a", DataVersion("2", "uri_folder", f"{BLOBS}/b", digest="second")),
        _two_versions(f"{BLOBS}/a", DataVersion("2", "mltable", f"{BLOBS}/a", digest="second")),
        _two_versions(f"{BLOBS}/a", DataVersion("2", "uri_folder", f"{BLOBS}/a", digest="first")),
    ],
    ids=["named by content", "another place", "read as another type", "the same content"],
)
def test_version_in_a_place_of_its_own_is_used_beside_a_newer_one(facts: DataFacts):
    assert inputs(facts, path="digits:1").used == (UsedData("digits", "1", "inputs.data"),)


@pytest.mark.feature("D4", "D2")
def test_version_whose_content_was_restored_is_used():
    place = f"{BLOBS}/digits"
    contents = {"3": "first", "2": "second", "1": "first"}
    versions = tuple(DataVersion(one, "uri_folder", place, digest=digest) for one, digest in contents.items())
    facts = DataFacts({"digits": versions}, ["blobs"])
    assert inputs(facts, path="digits:1").used == (UsedData("digits", "1", "inputs.data"),)
    with pytest.raises(RefusedError, match="registered as version 3"):
        inputs(facts, path="digits:2")


@pytest.mark.feature("D3", "D4")
def test_output_that_the_next_job_would_overwrite_is_noted(messages: Messages):
    outputs = {
        "a": Output.model_validate({"name": "model", "path": f"{BLOBS}/model"}),
        "b": Output.model_validate({"name": "model", "path": f"{BLOBS}/${{{{name}}}}/model"}),
        "c": Output.model_validate({"path": f"{BLOBS}/model"}),
        "d": Output.model_validate({"name": "model"}),
    }
    (note,) = output_notes(outputs)
    messages.check(note)


@pytest.mark.feature("D2")
def test_type_of_an_asset_is_used_where_the_job_has_none():
    assert inputs(path="digits:1").inputs == (
        InputPlan("data", "uri_file", "https://host/digits.csv", "ro_mount", "digits.csv"),
    )


@pytest.mark.parametrize("declared", ["uri_folder", "mltable"])
def test_asset_of_another_type_is_used_with_a_note(declared, messages: Messages):
    planned = inputs(path="digits:1", type=declared)
    assert [(one.type, one.file) for one in planned.inputs] == [("uri_file", "digits.csv")]
    messages.check(*planned.notes)


def test_asset_that_is_no_table_is_refused_where_its_table_is_to_be_evaluated():
    with pytest.raises(RefusedError, match="is to be mltable, and data digits:1 is uri_file"):
        inputs(path="digits:1", type="mltable", mode="eval_mount")


@pytest.mark.feature("D2")
@pytest.mark.parametrize(
    ("brought", "planned"),
    [
        ("file:///data/x", InputPlan("data", "uri_file", "file:///data/x", "download")),
        ("snapshot:ab", InputPlan("data", "uri_file", "snapshot:ab", "download", "x.csv")),
        ("azureml://datastores/blobs/paths/L/x.csv",
         InputPlan("data", "uri_file", "azureml://datastores/blobs/paths/L/x.csv", "download", "x.csv")),
    ],
)  # fmt: skip
def test_uploaded_data_precedes_the_path(brought: str, planned: InputPlan):
    found = inputs(brought={"data": brought}, path="a/x.csv", type="uri_file", mode="download")
    assert found.inputs == (planned,)


@pytest.mark.feature("D2")
def test_literals_and_absent_ones_are_no_files():
    given = {"epochs": 3, "rate": Input(type="number", default=0.1), "more": Input(optional=True)}
    assert plan_inputs(given, {}, FACTS) == PlannedInputs(())


@pytest.mark.feature("D2")
@pytest.mark.parametrize(
    ("keys", "error", "says"),
    [
        ({"path": "azureml:digit:3"}, UnknownNameError, "there is no data digit. Did you mean `digits`?"),
        ({"path": "azureml:digits:latest"}, UnknownNameError, "there is 3, 1. Write digits@latest for the newest."),
        ({"path": "azureml:digits:2"}, UnknownNameError, "data digits has no version 2; there is 3, 1"),
        ({"path": "azureml://datastores/blob/paths/a"}, UnknownNameError, "Did you mean `blobs`?"),
        ({"path": "azureml://jobs/none/outputs/model"}, UnknownNameError, "there is no job 'none'"),
        ({"path": "azureml://jobs/train-1/outputs/modl"}, UnknownNameError, "Did you mean `model`?"),
        ({"path": "azureml://jobs/train-3/outputs/model"}, RefusedError, "hasn't ended"),
        ({"path": "data"}, RefusedError, "the client hasn't sent"),
        ({"path": "ftp://host/a"}, SpecError, "unsupported URL scheme"),
        ({"path": "s3://a/b", "datastore": "blobs"}, RefusedError, "this path isn't local"),
    ],
)
def test_missing_data_is_refused_with_the_nearest_name(keys: dict[str, object], error: type[DrumbeatError], says: str):
    with pytest.raises(error) as refused:
        inputs(**keys)
    assert says in str(refused.value)
    assert refused.value.where.startswith("inputs.data.")


@pytest.mark.feature("D2")
def test_output_of_a_failed_job_can_be_read_with_a_note(messages: Messages):
    found = inputs(path="azureml://jobs/train-2/outputs/model/paths/a")
    messages.check(*found.notes)


def outputs(**keys: object) -> OutputPlan:
    return plan_outputs({"model": Output.model_validate(keys)}, {"": "train-9", "epochs": "3"}, FACTS)[0]


@pytest.mark.feature("D2")
@pytest.mark.parametrize(("asked", "has"), [("artifacts", "default"), ("default", "artifacts"), ("default", "default")])
def test_folder_outputs_is_read_by_azures_name_and_by_drumbeats(asked: str, has: str):
    facts = replace(FACTS, jobs={"j": JobOutputs({has: "uri_folder"})})
    place = JobOutputReference("j", asked, "m")
    assert check_output(place, facts, "inputs.x.path") == ""
    assert resolve_output(place, facts) == JobOutputReference("j", has, "m")


@pytest.mark.feature("D3")
@pytest.mark.parametrize(
    ("type_", "texts", "names"),
    [
        ("uri_folder", ["python a.py"], ["artifacts"]),
        ("uri_folder", ["python a.py", "serve ${{outputs.artifacts}}"], ["artifacts", "default"]),
        ("uri_file", ["python a.py"], ["artifacts", "default"]),
    ],
)
def test_output_named_artifacts_is_the_folder_outputs_unless_referenced_or_a_file(
    type_: Literal["uri_folder", "uri_file"], texts: list[str], names: list[str]
):
    planned = plan_outputs({"artifacts": Output(type=type_)}, {"": "j"}, FACTS, texts)
    assert [one.name for one in planned] == names
    assert folder_layout.working_output(planned) == names[-1]


@pytest.mark.feature("D3")
def test_output_is_planned_with_its_path_mode_name_and_version():
    assert outputs() == OutputPlan("model", "uri_folder", "rw_mount")
    assert outputs(
        path="azureml://datastores/blobs/paths/${{name}}/m", mode="upload", name="best", version=4
    ) == OutputPlan("model", "uri_folder", "upload", "azureml://datastores/blobs/paths/train-9/m", "best", "4")
    facts = replace(FACTS, datastores=["workspaceblobstore"])
    azure = Output(path="azureml://datastores/${{default_datastore}}/paths/${{name}}/${{output_name}}")
    (planned, _) = plan_outputs({"model": azure}, {"": "train-9"}, facts)
    assert planned.uri == "azureml://datastores/workspaceblobstore/paths/train-9/model"


@pytest.mark.feature("D3")
@pytest.mark.parametrize(
    ("keys", "says"),
    [
        ({"path": "azureml://datastores/blob/paths/a"}, "Did you mean `blobs`?"),
        ({"path": "azureml:digits:3"}, "can't be written to azureml:digits:3"),
        ({"path": "azureml://jobs/train-1/outputs/model"}, "can't be written to"),
        ({"path": "https://host/a"}, "can't be written to https://host/a"),
        ({"path": "here"}, "can't be written to here"),
        ({"path": "azureml://datastores/blobs/paths/${{inputs.x}}"}, "a path knows ${{name}} and values of inputs"),
        ({"path": "azureml://datastores/blobs/paths/${{nam"}, "is never closed"),
        ({"name": "a b"}, "'a b' can't be the name of data"),
        ({"path": "azureml://datastores/web/paths/a"}, "datastore web: what a web server gives can only be read"),
        ({"name": "digits", "version": "3"}, "is to become azureml:digits:3, and that is there already"),
    ],
)
def test_output_with_an_unwritable_path_is_refused(keys: dict[str, object], says: str):
    with pytest.raises(DrumbeatError) as refused:
        outputs(**keys)
    assert says in str(refused.value)
    assert refused.value.where.startswith("outputs.model.")


@pytest.mark.feature("D2")
@pytest.mark.parametrize("type_", ["mlflow_model", "uri_folder", None])
def test_registered_model_is_an_input_of_its_type_and_a_folder(type_):
    keys = {"type": type_} if type_ else {}
    (planned,) = inputs(path="azureml:mod@latest", **keys).inputs
    assert (planned.type, planned.uri) == ("uri_folder", "azureml://datastores/blobs/paths/mod")


@pytest.mark.feature("D2")
@pytest.mark.parametrize(
    ("path", "says", "fix"),
    [
        ("azureml:mod:1", "is to be custom_model, and data mod:1 is mlflow_model", "Write `type: mlflow_model`"),
        ("azureml:digits:3", "is to be custom_model, and data digits:3 is uri_folder", "Write `type: uri_folder`"),
    ],
)
def test_data_that_is_no_model_of_the_type_is_refused_with_its_own_type(path, says, fix):
    with pytest.raises(RefusedError, match=says) as refused:
        inputs(path=path, type="custom_model")
    assert fix in refused.value.fix


@pytest.mark.feature("D3", "D4")
def test_new_version_of_a_name_can_be_requested():
    assert outputs(name="digits", version="4").version == "4"
    assert outputs(name="new", version="1").asset == "new"


@pytest.mark.feature("D3", "D2")
def test_path_of_an_output_can_contain_values_of_inputs():
    planned = outputs(path="azureml://datastores/blobs/paths/e${{inputs.epochs}}/${{ name }}")
    assert planned.uri == "azureml://datastores/blobs/paths/e3/train-9"


@pytest.mark.feature("D3")
def test_two_outputs_dont_go_to_one_place():
    place = {"path": "azureml://datastores/blobs/paths/a"}
    both = {name: Output.model_validate(place) for name in ("a", "b")}
    with pytest.raises(RefusedError, match="outputs a and b go to the same place"):
        plan_outputs(both, {"": "train-9"}, FACTS)


@pytest.mark.feature("D3")
@pytest.mark.parametrize(
    ("output", "state", "published", "registered"),
    [
        (OutputPlan("m", "uri_folder", "upload", "s3://b/p", "best"), State.COMPLETED, True, True),
        (OutputPlan("m", "uri_folder", "upload", "s3://b/p", "best"), State.FAILED, False, False),
        (OutputPlan("m", "uri_folder", "rw_mount", "s3://b/p", "best"), State.CANCELED, True, False),
        (OutputPlan("m", "uri_folder", "rw_mount", "", "best"), State.COMPLETED, False, True),
        (OutputPlan("m", "uri_folder", "rw_mount"), State.COMPLETED, False, False),
    ],
)
def test_publishing_and_registration_of_an_output_depend_on_the_final_state(
    output: OutputPlan, state: State, published: bool, registered: bool
):
    assert (is_published(output, state), is_registered(output, state)) == (published, registered)
    ended = replace(submission("j").job, state=state, attempt=1)
    ended = replace(ended, plan=replace(ended.plan, outputs=(output,)))
    assert outputs_left(ended) == ([output] if published or registered else [])


# --- mounts, places, paths ---------------------------------------------------------------------------------------
PLACE = "azureml://datastores/blobs/paths/a"


@pytest.mark.feature("D2")
@pytest.mark.parametrize(
    ("keys", "mode", "is_mount"),
    [
        ({}, "ro_mount", False),
        ({"mode": "ro_mount"}, "ro_mount", True),
        ({"mode": "download"}, "download", False),
        ({"mode": "direct"}, "direct", False),
        ({"mode": "eval_mount", "type": "mltable"}, "ro_mount", True),
        ({"mode": "eval_download", "type": "mltable"}, "download", False),
    ],
)
def test_input_is_mounted_only_where_the_job_says_so(keys: dict[str, str], mode: str, is_mount: bool):
    found = inputs(path=PLACE, **keys)
    (planned,) = found.inputs
    assert (planned.mode, planned.mount) == (mode, is_mount)
    assert planned.evaluated is ("eval" in keys.get("mode", ""))
    assert any("of a mount each read goes to the store" in note for note in found.notes) is is_mount


@pytest.mark.feature("D2")
def test_local_or_uploaded_input_is_not_mounted():
    for brought in ("file:///data/x", "snapshot:ab"):
        found = inputs(brought={"data": brought}, path="x", mode="ro_mount")
        assert not found.inputs[0].mount
        assert found.notes == ()


@pytest.mark.feature("D2")
def test_local_table_cannot_be_evaluated_and_has_a_note():
    with pytest.raises(RefusedError, match="an mltable on your own machine"):
        inputs(brought={"data": "snapshot:ab"}, path="./t", type="mltable", mode="eval_mount")


@pytest.mark.feature("D1", "D2")
def test_plan_lists_the_ways_to_an_input_in_their_order(messages: Messages):
    facts = replace(FACTS, folders=["blobs"])
    said = describe_staged(inputs(facts, path=PLACE, mode="ro_mount").inputs[0])
    messages.check(said)
    assert "in place" not in describe_staged(inputs(facts, path=PLACE, mode="download").inputs[0])
    assert "in place" not in describe_staged(inputs(path=PLACE).inputs[0])


@pytest.mark.feature("D2")
@pytest.mark.parametrize(
    ("written", "path"), [("file:/data/x", "/data/x"), ("/data//x/", "/data/x"), ("file:///data/ü%20x", "/data/ü x")]
)
def test_path_on_compute_is_planned(written: str, path: str):
    assert inputs(path=PLACE, path_on_compute=written).inputs[0].appears == path
    assert outputs(path_on_compute=written).appears == path


@pytest.mark.feature("D2")
@pytest.mark.parametrize(
    "written", ["file:/", "//", "x/y", "file:/a/../../b", "/proc/1", "/dev", "s3://b/x", "azureml:d:1"]
)
def test_a_path_that_no_node_can_have_is_refused(written: str):
    with pytest.raises((SpecError, RefusedError)) as caught:
        inputs(path=PLACE, path_on_compute=written)
    assert "inputs.data.path_on_compute" in caught.value.where


@pytest.mark.feature("D2")
def test_two_things_never_appear_at_one_path_or_one_inside_the_other():
    one = replace(inputs(path=PLACE).inputs[0], appears="/data")
    for path in ("/data", "/data/in"):
        with pytest.raises(RefusedError, match=r"is to appear at"):
            check_apart([one], [OutputPlan("o", "uri_folder", "rw_mount", appears=path)])
    check_apart([one], [OutputPlan("o", "uri_folder", "rw_mount", appears="/data-out")])


@pytest.mark.feature("D3")
@pytest.mark.parametrize("mode", ["upload", "direct"])
@pytest.mark.parametrize("path", ["azureml://datastores/blobs/paths", "s3://bucket", "gs://bucket/models/"])
def test_file_output_has_a_path_with_a_file_name(path: str, mode: str):
    with pytest.raises(RefusedError, match=r"is a file, and .* names none"):
        outputs(type="uri_file", path=path, mode=mode)
    assert outputs(type="uri_file", path=f"{path.rstrip('/')}/best.pt", mode=mode).uri.endswith("/best.pt")
    assert outputs(path=path).uri


@pytest.mark.feature("D3")
@pytest.mark.parametrize(
    ("keys", "says"),
    [
        ({}, "names no place in a store"),
        ({"path": PLACE}, "stores sign links for one file at a time"),
        ({"path": PLACE, "type": "uri_file", "path_on_compute": "/x"}, "no files that could appear"),
    ],
)
def test_a_direct_output_is_a_file_in_a_store(keys: dict[str, str], says: str):
    with pytest.raises(RefusedError, match=says):
        outputs(mode="direct", **keys)
    assert not is_published(outputs(mode="direct", type="uri_file", path=PLACE), State.COMPLETED)
