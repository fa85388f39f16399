"""JSON that jobs send: read as the standard library reads it, repaired, and bounded."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from drumbeat.model.errors import RefusedError
from drumbeat.server import json_bodies
from drumbeat.server.json_bodies import SHORT, PieceReader, json_object

pytestmark = pytest.mark.feature("X1")

VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(st.characters(codec="utf-8")),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(st.characters(codec="utf-8")), inner),
    max_leaves=12,
)


@given(st.dictionaries(st.text(st.characters(codec="utf-8")), VALUES), st.booleans())
def test_long_text_is_read_as_the_standard_library_reads_it(value: dict[str, object], is_ascii: bool) -> None:
    text = json.dumps(value, ensure_ascii=is_ascii)
    assert PieceReader().decode(text) == json.loads(text)


@pytest.mark.parametrize(
    "text", ['{"a": {},}', '{"a": {}, "b": {},}', '{"a": {}', '{"a": {}, }', '{"a": [}', "{,}", ""]
)
def test_long_text_that_is_no_json_is_refused(text: str) -> None:
    with pytest.raises(RefusedError, match="the body isn't JSON"):
        json_object((text + " " * SHORT).encode())


def test_long_list_of_files_is_read_whole() -> None:
    files = {f"outputs/{i}": {"size": i, "sha256": "ab" * 32} for i in range(2000)}
    assert json_object(json.dumps({"files": files}).encode()) == {"files": files}


@pytest.mark.parametrize("mark", ["\\ud800", "\\uDC00", "\\uD83d"])
def test_half_of_a_surrogate_pair_becomes_a_question_mark_in_keys_and_values(mark: str) -> None:
    read = json_object(f'{{"a{mark}": ["{mark}b", "\\ud83d\\ude00"], "\\\\ud800": {{"{mark}": 1}}}}'.encode())
    assert read == {"a?": ["?b", "😀"], "\\ud800": {"?": 1}}


@pytest.mark.parametrize("body", [b"[]", b"\xff", b'{"a": "\xed\xa0\x80"}', b"[" * 100_000, b'{"a":' * 100_000])
def test_body_that_is_no_json_object_is_refused(body: bytes) -> None:
    with pytest.raises(RefusedError, match=r"the body isn.t (JSON|a JSON object)"):
        json_object(body)


def test_body_of_very_many_lists_or_objects_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(json_bodies, "MAX_CONTAINERS", 100)
    for member in ("[]", '{"b": 1}', '{"b": {}}'):
        body = f'{{"a": [{", ".join([member] * 101)}], "s": "\\ud800"}}'.encode()
        with pytest.raises(RefusedError, match="the body isn't JSON"):
            json_object(body)
