"""Credentials at rest."""

import pytest

from drumbeat.model.errors import StorageError
from drumbeat.server.resources.sealing import Seal

pytestmark = pytest.mark.feature("D1", "X4")

SECRET = {"account_key": "s3cr3t-of-the-account"}


def test_what_was_sealed_is_opened_again_and_shows_nothing_of_itself():
    seal = Seal(b"k" * 32)
    sealed = seal.close("blobs", SECRET)
    assert b"s3cr3t" not in sealed
    assert b"account_key" not in sealed
    assert seal.open("blobs", sealed) == SECRET
    assert Seal(b"k" * 32).open("blobs", sealed) == SECRET


def test_the_same_credentials_sealed_twice_differ():
    seal = Seal(b"k" * 32)
    assert seal.close("blobs", SECRET) != seal.close("blobs", SECRET)


def test_nothing_is_sealed_as_nothing():
    assert Seal(b"k").close("blobs", {}) == b""
    assert Seal(b"k").open("blobs", b"") == {}


@pytest.mark.parametrize(("key", "name"), [(b"j" * 32, "blobs"), (b"k" * 32, "other")])
def test_another_key_and_another_datastore_dont_open_it(key: bytes, name: str):
    sealed = Seal(b"k" * 32).close("blobs", SECRET)
    with pytest.raises(StorageError, match="encrypted with another key") as refused:
        Seal(key).open(name, sealed)
    assert "s3cr3t" not in str(refused.value)


def test_a_byte_that_changed_is_noticed():
    sealed = bytearray(Seal(b"k" * 32).close("blobs", SECRET))
    sealed[40] ^= 1
    with pytest.raises(StorageError):
        Seal(b"k" * 32).open("blobs", bytes(sealed))


def test_the_key_isnt_shown():
    assert "kkk" not in repr(Seal(b"k" * 32))
