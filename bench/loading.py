"""Loading JPEG files: images per second of one core, by the recipe's readers and by their peers.

Each round takes every way in turn, in a process of its own; ratios are taken within a round. CPU seconds are counted,
so that other programs on the machine matter little:

    python -m bench.loading --rounds 5 --write docs/bench/loading.md

The libraries are installed in an environment of their own the first time.
"""

import argparse
import subprocess
import sys
import tempfile
from pathlib import Path

from bench.spread import ratios, say, spread
from bench.start import describe_machine
from bench.start_report import publish
from bench.start_runs import HERE
from tools.kept_folder import KEPT

READER = HERE / "loading_reader.py"
PACKAGES = (
    "torch==2.13.0", "torchvision==0.28.0", "numpy", "pillow", "simplejpeg==1.9.0", "litdata==0.2.76",
    "webdataset==1.0.2", )  # fmt: skip
WAYS = {
    "pillow": "Pillow, all of each file",
    "draft": "Pillow, at the scale that is needed (the recipe)",
    "simplejpeg": "simplejpeg, at the scale that is needed",
    "torchvision": "Pillow and torchvision's transforms",
    "litdata": "litdata's chunks, Pillow and torchvision's transforms",
    "webdataset": "webdataset's shards, Pillow and torchvision's transforms",
}
HEAD = """\
# Loading images

<!-- Written by `python -m bench.loading`. -->

192 JPEG files of 500 × 375 pixels and {kib:.0f} KiB each, read by one process on one core to random crops of 224 × 224
pixels (bytes, not normalized). Each figure is the median, in brackets the inner half and the ends of {rounds} rounds;
each round takes every way in turn, and ratios are taken within a round. CPU seconds of the process are counted, all
threads together.

Machine: {machine}.

| way | images per CPU second | ratio to Pillow |
|---|---|---|
"""
ENDING = """
Decoding is the limit: formats of files that hold many images save little where the disk is not slow. torchvision's own
JPEG decoder isn't measured, since the wheel of torchvision 0.28 is linked to CUDA and its operators don't load beside
the CPU build of torch; its transforms do, once two operators are declared. litdata and webdataset give the bytes of
each file, and any decoder can follow.
"""


def make_python() -> Path:
    """Returns the Python of the environment with all libraries, which is made if it is missing."""
    folder = KEPT / "bench-tools" / "loading-1"
    if not (folder / "whole").exists():
        subprocess.run([sys.executable, "-m", "venv", "--clear", folder], check=True)
        subprocess.run([folder / "bin" / "python", "-m", "pip", "install", "-q", *PACKAGES], check=True)
        (folder / "whole").touch()
    return folder / "bin" / "python"


def measure(rounds: int, folder: Path) -> dict[str, list[float | None]]:
    """Returns images per CPU second of every way, round by round."""
    python = make_python()
    subprocess.run([python, READER, "write", folder], check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    found: dict[str, list[float | None]] = {way: [] for way in WAYS}
    for number in range(1, rounds + 1):
        for way, speeds in found.items():
            done = subprocess.run([python, READER, way, folder], check=False, capture_output=True, text=True)
            if done.returncode:
                print(done.stderr[-2000:], file=sys.stderr)
            speeds.append(float(done.stdout.split()[-1]) if done.returncode == 0 else None)
            print(f"round {number}/{rounds}  {way:11}  {speeds[-1] or 0:.0f} images per CPU second", flush=True)
    return found


def render(found: dict[str, list[float | None]], machine: str, kib: float) -> str:
    """Returns the page."""
    shares = {way: spread(ratios(speeds, found["pillow"])) for way, speeds in found.items()}
    rows = [
        f"| {words} | {say(spread(found[way]), 'failed', 0)} | {say(shares[way], 'failed')} |"
        for way, words in WAYS.items()
    ]
    head = HEAD.format(kib=kib, rounds=len(found["pillow"]), machine=machine)
    return head + "\n".join(rows) + "\n" + ENDING


def main() -> None:
    """Measures, prints the report, writes it if asked."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--write", type=Path, metavar="FILE", help="also write the report to FILE")
    options = parser.parse_args()
    machine = describe_machine()
    with tempfile.TemporaryDirectory(prefix="drumbeat-bench-") as folder:
        found = measure(options.rounds, Path(folder))
        sizes = [path.stat().st_size for path in Path(folder, "images").rglob("*.JPEG")]
    publish(render(found, machine, sum(sizes) / len(sizes) / 1024), options.write)


if __name__ == "__main__":
    main()
