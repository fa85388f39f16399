"""Signed statements of models: what is accepted, and what is named."""

from __future__ import annotations

import base64
import json

import pytest

from drumbeat.core.models import statement as statements
from drumbeat.model.errors import RefusedError, SpecError

pytestmark = pytest.mark.feature("R1")

FILES = {"MLmodel": "a" * 64, "data/model.bin": "b" * 64}
KEY = statements.new_key()
PUBLIC = statements.public_key(KEY)


def bundle() -> dict[str, object]:
    return statements.sign(statements.payload("digits:3", FILES, {"job": {"name": "train"}}), KEY)


def test_statement_is_read_with_its_files_and_its_origin():
    stated = statements.verify(bundle(), PUBLIC)
    assert (stated.name, stated.files, stated.lineage) == ("digits:3", FILES, {"job": {"name": "train"}})


def test_statement_of_another_key_is_refused():
    with pytest.raises(RefusedError, match="made with another key, or the statement was changed"):
        statements.verify(bundle(), statements.public_key(statements.new_key()))


def test_statement_of_which_any_byte_was_changed_is_refused():
    signed = json.loads(json.dumps(bundle()))
    payload = bytearray(base64.b64decode(signed["dsseEnvelope"]["payload"]))
    for place in range(0, len(payload), 97):
        changed = bytearray(payload)
        changed[place] ^= 1
        signed["dsseEnvelope"]["payload"] = base64.b64encode(bytes(changed)).decode()
        with pytest.raises(RefusedError):
            statements.verify(signed, PUBLIC)


@pytest.mark.parametrize("text", [{}, {"dsseEnvelope": {}}, {"dsseEnvelope": {"payload": "!", "signatures": []}}])
def test_what_is_no_bundle_is_refused_with_a_sentence(text: dict[str, object]):
    with pytest.raises(SpecError, match="isn't a model's signature"):
        statements.verify(text, PUBLIC)


def test_each_file_that_differs_is_named_once():
    actual = {"MLmodel": "c" * 64, "new": "d" * 64, ".gitignore": "e" * 64}
    assert statements.differences(FILES, actual) == [
        "MLmodel has changed",
        "data/model.bin is missing",
        "new was added",
    ]
    assert statements.differences(FILES, FILES) == []
