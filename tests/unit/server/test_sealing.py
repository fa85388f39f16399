"""Credentials at rest."""

import pytest

from drumbeat.model.errors import StorageError
from drumbeat.server.resources.sealing import Seal

pytestmark = pytest.mark.feature("D1", "X4")

SECRET = {"account_key": "s3cr3t-of-the-account"}


def test_sealed_credentials_open_and_reveal_nothing():
    seal = Seal(b"k" * 32)
    sealed = seal.close("blobs", SECRET)
    assert b"s3cr3t" not in sealed
    assert b"account_key" not in sealed
    assert seal.open("blobs", sealed) == SECRET
    assert Seal(b"k" * 32).open("blobs", sealed) == SECRET


def test_the_same_credentials_sealed_twice_differ():
    seal = Seal(b"k" * 32)
    assert seal.close("blobs", SECRET) != seal.close("blobs", SECRET)


def test_empty_credentials_are_sealed_as_empty():
    assert Seal(b"k").close("blobs", {}) == b""
    assert Seal(b"k").open("blobs", b"") == {}


@pytest.mark.parametrize(("key", "name"), [(b"j" * 32, "blobs"), (b"k" * 32, "other")])
def test_sealed_credentials_do_not_open_for_another_key_or_datastore(key: bytes, name: str):
    sealed = Seal(b"k" * 32).close("blobs", SECRET)
    with pytest.raises(StorageError, match="encrypted with another key") as refused:
        Seal(key).open(name, sealed)
    assert "s3cr3t" not in str(refused.value)


def test_a_byte_that_changed_is_noticed():
    sealed = bytearray(Seal(b"k" * 32).close("blobs", SECRET))
    sealed[40] ^= 1
    with pytest.raises(StorageError):
        Seal(b"k" * 32).open("blobs", bytes(sealed))


def test_key_is_not_in_its_repr():
    assert "kkk" not in repr(Seal(b"k" * 32))
