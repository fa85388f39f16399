"""Clients that send requests to a router without a pause, and what they saw, by phase."""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from dataclasses import dataclass, field

CLIENT_TIMEOUT_S = 20.0


@dataclass
class Load:
    """Requests so far. latencies: seconds, by phase. failures: phase and what was seen instead of 200."""

    phase: str = "start"
    latencies: dict[str, list[float]] = field(default_factory=dict[str, list[float]])
    failures: list[tuple[str, str]] = field(default_factory=list[tuple[str, str]])
    deployments: Counter[str] = field(default_factory=Counter[str])
    is_ending: bool = False

    @property
    def count(self) -> int:
        """How many requests were answered by 200."""
        return sum(map(len, self.latencies.values()))

    def report(self) -> str:
        """A line for each phase: requests, p50, p99 and the longest, in milliseconds."""
        lines: list[str] = []
        for phase, taken in self.latencies.items():
            taken.sort()
            points = (taken[len(taken) // 2], taken[int(len(taken) * 0.99)], taken[-1])
            numbers = " / ".join(f"{one * 1e3:.1f}" for one in points)
            lines.append(f"{phase:45} {len(taken):6} requests, p50 / p99 / max {numbers} ms")
        return "\n".join(lines)


async def _client(port: int, request: bytes, load: Load) -> None:
    reader: asyncio.StreamReader | None = None
    writer: asyncio.StreamWriter | None = None
    while not load.is_ending:
        begin = time.perf_counter()
        try:
            if reader is None or writer is None:
                reader, writer = await asyncio.open_connection("127.0.0.1", port)
            writer.write(request)
            head = await asyncio.wait_for(reader.readuntil(b"\r\n\r\n"), CLIENT_TIMEOUT_S)
            fields = (line.lower().partition(b": ") for line in head.split(b"\r\n")[1:])
            headers = {name: value for name, _, value in fields}
            body = await reader.readexactly(int(headers[b"content-length"]))
            status = head.split(b" ", 2)[1]
            if status == b"200":
                load.latencies.setdefault(load.phase, []).append(time.perf_counter() - begin)
                load.deployments[headers[b"azureml-model-deployment"].decode()] += 1
            else:
                load.failures.append((load.phase, f"{status.decode()} {body[:100]!r}"))
            if headers.get(b"connection") == b"close":
                writer.close()
                reader = writer = None
        except (TimeoutError, OSError, asyncio.IncompleteReadError, KeyError) as error:
            load.failures.append((load.phase, repr(error)))
            if writer is not None:
                writer.close()
            reader = writer = None
            await asyncio.sleep(0.05)
    if writer is not None:
        writer.close()


async def run_clients(port: int, request: bytes, count: int, load: Load) -> None:
    """Sends requests by `count` connections until `load.is_ending`."""
    await asyncio.gather(*(_client(port, request, load) for _ in range(count)))
