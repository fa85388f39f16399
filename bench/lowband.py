"""Updates over a slow link: bytes, throughput and loss of every way that drumbeat.train has, beside stock DDP.

    python -m bench.lowband --write docs/bench/lowband.md

Two nodes of a netlab with links of 200 Mbit/s train the same small GPT in each way, within one job: the same weights at
the start, the same samples, the same inner optimizer. Needs root, for the netlab.
"""

import argparse
import json
import shutil
import sys
import tempfile
from dataclasses import asdict, dataclass
from pathlib import Path

from bench.lowband_report import render
from bench.serving import serving
from bench.start import describe_machine
from bench.start_report import publish
from drumbeat.client import Client

ROOT = Path(__file__).parents[1]
CODE = ("bench/lowband_rank.py", "bench/lowband_text.py", "recipes/gpt/model.py")
WAYS = (
    "ddp", "bf16", "powersgd:4", "server", "local:8", "outer:20", "outer:60", "outer-bf16:60", "outer-bf16:100",
)  # fmt: skip


@dataclass(frozen=True)
class Settings:
    """What all ways have alike; `lowband_rank.Settings` reads it."""

    steps: int = 600
    rows: int = 2
    context: int = 16
    layers: int = 3
    channels: int = 192
    lr: float = 2e-3


def measure(settings: Settings, ways: tuple[str, ...], bandwidth: str, patience_s: float) -> list[dict[str, dict]]:
    """What each rank counted, by way."""
    with serving() as home, tempfile.TemporaryDirectory() as found:
        client = Client(home=home)
        client.create_compute({"name": "slow", "type": "netlab", "nodes": 2, "cpus": 1, "bandwidth": bandwidth})
        try:
            code = Path(found) / "code"
            code.mkdir()
            for file in CODE:
                shutil.copy(ROOT / file, code)
            words = f"{found} '{json.dumps(asdict(settings))}' {' '.join(ways)}"
            job = {
                "command": f"{sys.executable} lowband_rank.py {words}",
                "code": str(code),
                "compute": "slow",
                "distribution": {"type": "pytorch"},
                "resources": {"instance_count": 2},
                "environment_variables": {"OMP_NUM_THREADS": "1"},
                "drumbeat": {"max_retries": 0, "system_metrics": False},
            }
            name = client.submit(job).name
            ended = client.wait(name, patience_s)
            if ended is None or ended.state != "completed":
                sys.exit(f"the job has not ended well: {ended.sentence if ended else 'it takes too long'}")
            return [json.loads((Path(found) / f"{rank}.json").read_text()) for rank in range(2)]
        finally:
            client.delete_compute("slow")
            client.close()


def main() -> None:
    """The options, the run, the page."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--steps", type=int, default=Settings.steps)
    parser.add_argument("--ways", nargs="+", default=WAYS, help="ddp first; a number after a colon is its interval")
    parser.add_argument("--bandwidth", default="200mbit")
    parser.add_argument("--patience", type=float, default=3600, help="seconds for all ways together")
    parser.add_argument("--write", type=Path, help="where the report goes")
    options = parser.parse_args()
    settings = Settings(steps=options.steps)
    machine = describe_machine()
    found = measure(settings, tuple(options.ways), options.bandwidth, options.patience)
    publish(render(found, asdict(settings), options.bandwidth, machine), options.write)


if __name__ == "__main__":
    main()
