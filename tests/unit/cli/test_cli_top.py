"""What `drumbeat top` asks the server for."""

import pytest

from drumbeat.cli.commands import top
from tests.unit.cli.fake_server import FakeServer
from tests.unit.cli.samples import NOON, a_job, after


@pytest.mark.feature("M4")
def test_long_queue_takes_at_most_one_request_a_row():
    jobs = [a_job(name=f"old-{n}", state="queued", submitted_at=NOON) for n in range(1000)]
    jobs += [a_job(name=f"new-{n}", state="completed", submitted_at=after(60)) for n in range(top.MOST - 2)]
    jobs += [a_job(name=f"late-{n}", state="queued", submitted_at=after(90)) for n in range(2)]
    server = FakeServer({job.name: job for job in jobs})
    rows = top.take_sample(server, None, 0.0).rows
    assert [row.job.name for row in rows] == ["late-0", "late-1", *(f"old-{n}" for n in range(top.MOST - 2))]
    assert sum(call[0] == "get" for call in server.calls) == top.MOST - 2
