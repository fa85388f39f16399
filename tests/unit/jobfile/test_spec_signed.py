"""Addresses with a key of their own: told apart from others, and refused without being shown."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from drumbeat.jobfile.data.assets import data_from
from drumbeat.jobfile.data.paths import reference_to
from drumbeat.jobfile.data.signed_urls import trouble_with
from drumbeat.jobfile.job_file import load_file
from drumbeat.model.errors import SpecError

pytestmark = pytest.mark.feature("D1")

SECRET = "S3CRETs3cret"


@pytest.mark.parametrize(
    "text",
    [
        "https://h/a.csv?x=1&page=2",
        "https://h/a.csv?versionId=3",
        "https://h/a?monkey=1&keyword=b",
        "wasbs://train@acme.blob.core.windows.net/a",
        "sftp://me@h/a",
        "s3://bucket/a",
        "./a?sig=1",
        "azureml:digits:1",
        "a text: https is a scheme",
        "",
    ],
)
def test_other_addresses_are_taken(text: str):
    assert trouble_with(text) is None


@pytest.mark.parametrize(
    ("text", "says", "does"),
    [
        (f"https://acme.blob.core.windows.net/c/a?sv=2024&sp=rl&sig={SECRET}", "`sig=…`", "sas_token: 'env:NAME'"),
        (f"https://b.s3.amazonaws.com/a?X-Amz-Date=1&X-Amz-Signature={SECRET}", "`X-Amz-Signature=…`", "query: 'env:"),
        (f"https://h/a?AWSAccessKeyId=A&Signature={SECRET}", "`Signature=…`", "query: 'env:NAME'"),
        (f"HTTPS://h?accessToken={SECRET}", "`accessToken=…`", "type: http"),
        (f"https://h/a?x=1;api_key={SECRET}#f", "`api_key=…`", "type: http"),
        (f"https://h/a?%73ig={SECRET}", "`sig=…`", "type: http"),
        (f"https://me:{SECRET}@h/a", "a user or a password", "user and password under `credentials`"),
        (f"https://{SECRET}@h/a", "a user or a password", "user and password under `credentials`"),
        (f"sftp://me:{SECRET}@h/a", "a user or a password", "user and password under `credentials`"),
        (f"nope://me:{SECRET}@h/a", "a user or a password", "user and password under `credentials`"),
    ],
)
@pytest.mark.parametrize("way", [
    lambda text, _: reference_to(text, "uri"),
    lambda text, _: data_from({"name": "digits", "path": text}),
    lambda text, folder: load_file(job_with(folder, f"inputs: {{data: {{path: '{text}'}}}}")),
    lambda text, folder: load_file(job_with(folder, f"outputs: {{model: {{path: '{text}'}}}}")),
])  # fmt: skip
def test_an_address_with_a_key_of_its_own_is_refused_without_being_shown(
    text: str, says: str, does: str, way: Callable[[str, Path], object], tmp_path: Path
):
    with pytest.raises(SpecError) as refused:
        way(text, tmp_path)
    said = str(refused.value)
    assert says in said
    assert "URLs are stored and shown" in said
    assert does in said
    assert SECRET not in said + repr(refused.value) + repr(refused.value.__cause__)


def job_with(folder: Path, line: str) -> Path:
    file = folder / "job.yml"
    file.write_text(f"command: echo\n{line}\n")
    return file


def test_a_job_file_is_told_the_line(tmp_path: Path):
    with pytest.raises(SpecError) as refused:
        load_file(job_with(tmp_path, f"inputs:\n  data:\n    path: https://h/a?sig={SECRET}"))
    assert "job.yml:4" in str(refused.value)


@given(st.text())
def test_any_text_is_looked_at(text: str):
    trouble_with(text)
    trouble_with(f"https://{text}")
    trouble_with(f"https://h/a?{text}")
