"""A store's connections are kept for the next question, and aren't closed under those who use them."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import cast

import pytest

from drumbeat.jobfile.data.datastores import HttpDatastore
from drumbeat.server.data.stores import StoreAccess, store_access
from drumbeat.server.data.stores.backend_contract import Backend
from drumbeat.server.data.stores.kept_backends import KeptBackends


class Closing:
    """A backend, as far as it is kept."""

    closed = 0

    def close(self) -> None:
        self.closed += 1


def test_backend_that_gives_way_is_closed_by_its_last_user():
    kept, old, new = KeptBackends(1), Closing(), Closing()
    with kept.use("old", lambda: cast("Backend", old)):
        with kept.use("old", lambda: cast("Backend", Closing())) as again:
            assert again is cast("object", old)
            with kept.use("new", lambda: cast("Backend", new)):
                pass
        assert old.closed == 0
    assert (old.closed, new.closed) == (1, 0)
    kept.close()
    assert (old.closed, new.closed) == (1, 1)


def test_unused_backend_is_closed_when_evicted():
    kept, old, new = KeptBackends(1), Closing(), Closing()
    for key, backend in (("old", old), ("new", new)):
        with kept.use(key, lambda backend=backend: cast("Backend", backend)):
            pass
    assert (old.closed, new.closed) == (1, 0)


SIZE = 4 << 20


@pytest.fixture
def web() -> Iterator[tuple[str, threading.Event]]:
    """The address of a web server, and what lets it send the second half of `big`."""
    goes_on = threading.Event()

    class Handler(BaseHTTPRequestHandler):
        def do_HEAD(self) -> None:
            self.send_response(200)
            for name, value in {"Content-Length": str(SIZE), "ETag": '"x"', "Content-Type": "a/b"}.items():
                self.send_header(name, value)
            self.end_headers()

        def do_GET(self) -> None:
            self.do_HEAD()
            self.wfile.write(bytes(SIZE // 2))
            goes_on.wait(20)
            self.wfile.write(bytes(SIZE // 2))

        def log_message(self, *_: object) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever, args=[0.01])
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}", goes_on
        server.shutdown()
        thread.join()


def test_read_continues_while_other_stores_are_used(web: tuple[str, threading.Event], monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(store_access, "MAX_BACKENDS", 2)
    address, goes_on = web
    access = StoreAccess(lambda: {"named": HttpDatastore(name="named", url=f"{address}/named")})
    (file,) = access.listing(f"{address}/big", is_file=True).files
    pieces = access.read(f"{address}/big", file)
    size = len(next(pieces))
    for number in range(3):
        assert access.listing(f"{address}/other{number}", is_file=True).files
    goes_on.set()
    assert size + sum(map(len, pieces)) == SIZE
    access.close()
