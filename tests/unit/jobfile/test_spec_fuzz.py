"""Whatever the text or the object: a job, or a SpecError that a user can read. And what was written comes back."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from drumbeat.jobfile import CommandJob, dumps, from_dict, loads, render, to_dict
from drumbeat.jobfile.reading.yaml_tree import scalar
from drumbeat.model.errors import SpecError
from tests.unit.jobfile.documents import COMMAND_JOB, NONSENSE, YAML_BITS


@contextmanager
def only_sentences() -> Iterator[None]:
    """Lets a `SpecError` pass that a user can read, and nothing else."""
    refused = ""
    try:
        yield
    except SpecError as error:
        refused = str(error) or "\0"
    assert "\0" not in refused
    assert "function-" not in refused
    assert all(len(line) < 2500 for line in refused.splitlines())


@pytest.mark.feature("J1")
@given(text=st.text(max_size=200) | YAML_BITS)
def test_any_text_is_a_job_or_a_sentence(text: str) -> None:
    with only_sentences():
        loads(text)


@pytest.mark.feature("J1")
@given(document=NONSENSE)
def test_any_document_is_a_job_or_a_sentence(document: dict[str, Any]) -> None:
    with only_sentences():
        json.dumps(to_dict(from_dict(document)), allow_nan=False)


@pytest.mark.feature("J1")
@given(override=st.text(max_size=20) | YAML_BITS)
@example(override="\x00=")
def test_any_override_is_taken_or_refused_with_a_sentence(override: str) -> None:
    with only_sentences():
        loads("command: a\nenvironment: b\ninputs: {x: 1, y: {path: z}}\nresources: {locations: [a]}", "j", [override])


@pytest.mark.feature("J2")
@given(document=COMMAND_JOB)
@example(document={"command": "a: b", "environment": "0:0", "tags": {"a: b": "c:d"}})
def test_a_job_written_out_reads_back_equal(document: dict[str, Any]) -> None:
    job = from_dict(document)
    text = dumps(job)
    again = loads(text)
    assert again == job
    assert to_dict(again) == to_dict(job)
    assert dumps(again) == text
    json.dumps(to_dict(job), allow_nan=False)


@given(text=st.text(max_size=60) | YAML_BITS)
def test_any_command_is_filled_or_refused(text: str) -> None:
    with only_sentences():
        render(text, lambda reference: None if reference.optional else reference.name)


@given(text=st.text(max_size=12) | st.floats().map(repr) | st.integers().map(str))
def test_a_plain_word_has_one_meaning(text: str) -> None:
    value = scalar(text)
    assert isinstance(value, str | int | float | None)
    if isinstance(value, str):
        assert value == text


@given(document=COMMAND_JOB)
def test_the_set_keys_of_a_job_are_known(document: dict[str, Any]) -> None:
    job = from_dict(document)
    assert isinstance(job, CommandJob)
    assert job.model_fields_set - {"type"} == document.keys() - {"type"}
    assert job.world_size >= 1
