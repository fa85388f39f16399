"""Every form in which a job, an asset or a command names data."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from drumbeat.jobfile.data.paths import (
    Address,
    AssetReference,
    JobOutputReference,
    Local,
    Reference,
    StoreReference,
    file_name,
    local_path,
    reference_to,
)
from drumbeat.model.errors import SpecError

pytestmark = pytest.mark.feature("D2")

WORKSPACE = "subscriptions/s-1/resourcegroups/g/workspaces/w"
ARM = "/subscriptions/s-1/resourceGroups/g/providers/Microsoft.MachineLearningServices/workspaces/w"


@pytest.mark.parametrize(
    ("text", "means"),
    [
        ("data", Local("data")),
        ("./data", Local("./data")),
        ("../a b/ü", Local("../a b/ü")),
        ("/data/x", Local("/data/x")),
        ("~/data", Local("~/data")),
        ("file:///data/a%20b", Local("/data/a b")),
        ("file://localhost/data", Local("/data")),
        ("file:./data", Local("./data")),
        ("file:data", Local("data")),
        ("FILE:/data", Local("/data")),
        ("https://host/a/b.csv?x=1", Address("https://host/a/b.csv?x=1")),
        ("wasbs://c@a.blob.core.windows.net/p", Address("wasbs://c@a.blob.core.windows.net/p")),
        ("abfss://f@a.dfs.core.windows.net/p", Address("abfss://f@a.dfs.core.windows.net/p")),
        ("s3://bucket/p", Address("s3://bucket/p")),
        ("gs://bucket/p", Address("gs://bucket/p")),
        ("sftp://host/p", Address("sftp://host/p")),
        ("azureml:digits:3", AssetReference("digits", "3")),
        ("azureml:my_digits:2026-11.1", AssetReference("my_digits", "2026-11.1")),
        ("azureml:digits@latest", AssetReference("digits")),
        ("digits:3", AssetReference("digits", "3")),
        ("my_digits:3", AssetReference("my_digits", "3")),
        ("my_digits@latest", AssetReference("my_digits")),
        ("azureml://datastores/blobs/paths/a/b/", StoreReference("blobs", "a/b")),
        ("azureml://datastores/blobs/paths/", StoreReference("blobs")),
        ("azureml://datastores/blobs/paths", StoreReference("blobs")),
        ("azureml://datastores/blobs", StoreReference("blobs")),
        ("azureml://datastores/blobs/", StoreReference("blobs")),
        (
            "azureml://datastores/blobs/paths/locations/eu/workspaces/w/a",
            StoreReference("blobs", "locations/eu/workspaces/w/a"),
        ),
        (f"azureml://{WORKSPACE}/datastores/blobs/paths/a", StoreReference("blobs", "a")),
        (f"azureml:/{ARM}/datastores/blobs/paths/a", StoreReference("blobs", "a")),
        (f"{ARM}/data/digits/versions/4", AssetReference("digits", "4")),
        (f"azureml:{ARM}/data/digits/versions/4", AssetReference("digits", "4")),
        ("azureml://locations/eu/workspaces/w-1/data/digits/versions/4", AssetReference("digits", "4")),
        (f"azureml:/{ARM}/data/digits/labels/latest", AssetReference("digits")),
        ("azureml://jobs/train-1/outputs/model/paths/a/b.pt", JobOutputReference("train-1", "model", "a/b.pt")),
        ("azureml://jobs/train-1/outputs/model", JobOutputReference("train-1", "model")),
        ("azureml://jobs/train-1/outputs/model/paths/", JobOutputReference("train-1", "model")),
        (f"azureml://{WORKSPACE}/jobs/train-1/outputs/model/paths/a", JobOutputReference("train-1", "model", "a")),
    ],
)
def test_each_form_means_one_thing(text: str, means: Reference):
    assert reference_to(text) == means


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("azureml:digits", "azureml:digits@latest"),
        ("azureml://datastores/blobs/paths/a/../../b", "`..`"),
        ("azureml://jobs/a/outputs/b/paths/../c", "`..`"),
        ("azureml://datastore/blobs/paths/a", "azureml://datastores/NAME/paths/PATH"),
        ("azureml://registries/azureml/data/x/versions/1", "drumbeat data create"),
        ("azureml:", "isn't a reference to data"),
        ("s4://bucket/x", "Did you mean `s3`?"),
        ("ftp://host/x", "It can be"),
    ],
)
def test_what_cant_be_read_is_refused_with_what_can(text: str, says: str):
    with pytest.raises(SpecError) as refused:
        reference_to(text, "inputs.data.path")
    assert says in str(refused.value)
    assert refused.value.where == "inputs.data.path"


@pytest.mark.parametrize(
    "reference",
    [
        StoreReference("blobs", "a b/c"),
        StoreReference("blobs"),
        JobOutputReference("j", "o", "a"),
        JobOutputReference("j", "o"),
    ],
)
def test_what_is_written_is_read_again(reference: StoreReference | JobOutputReference):
    assert reference_to(reference.uri) == reference


@given(st.text())
def test_any_text_is_read_or_refused(text: str):
    for tried in (text, f"azureml:{text}", f"azureml://datastores/{text}", f"file:{text}"):
        try:
            found = reference_to(tried)
        except SpecError:
            continue
        if isinstance(found, StoreReference | JobOutputReference):
            assert ".." not in found.path.split("/")


def test_the_name_of_a_file_is_the_last_part_of_its_address():
    assert file_name("https://host/a/b%20c.csv?sig=x/y") == "b c.csv"
    assert file_name("azureml://datastores/d/paths/x/y.bin") == "y.bin"
    assert file_name("https://host/") == ""


@pytest.mark.parametrize("name", ["run#1.csv", "what?.csv", "50%25.csv"])
@pytest.mark.parametrize(
    "folder", ["azureml://datastores/d/paths/x/", "wasbs://c@a.blob.core.windows.net/", "./x/", ""]
)
def test_the_name_of_a_file_in_a_store_is_taken_as_it_is(folder: str, name: str):
    assert file_name(f"{folder}{name}") == name


@pytest.mark.parametrize(
    ("text", "path"),
    [
        ("./data", "./data"), ("my data", "my data"), ("/abs", "/abs"), ("~/data", "~/data"), ("./a@b:c", "./a@b:c"),
        ("file:src", "src"), ("file:///my%20set", "/my set"), ("FILE://localhost/abs", "/abs"), ("file://a/b", "a/b"),
        ("azureml:data:1", None), ("https://x/y", None), ("s3://x/y", None), ("hdfs://x/y", None),
        ("git+ssh://x", None), ("ssh://git@host/x.git", None), ("git@host:x.git", None),
    ],
)  # fmt: skip
def test_a_local_path_is_known_from_an_address(text: str, path: str | None):
    assert local_path(text) == path
