"""What every script of this recipe prints and writes, whatever the framework. Standard library and drumbeat only."""

import json
import math
from dataclasses import dataclass, field
from pathlib import Path

from settings import Settings

import drumbeat


@dataclass
class Report:
    """The log of a training: rank 0 prints, and writes `metrics.json` in the end."""

    settings: Settings
    rank: int
    size: int
    is_gpu: bool = False
    history: list[dict[str, float]] = field(default_factory=list)

    @property
    def ranks(self) -> str:
        """The number of ranks in words."""
        return "1 rank" if self.size == 1 else f"{self.size} ranks"

    def say(self, line: str) -> None:
        """Prints on rank 0, at once."""
        if self.rank == 0:
            print(line, flush=True)

    def epoch(self, number: int, images: int, seconds: float, **values: float) -> None:
        """Prints and logs an epoch. images: over all ranks."""
        values = {**values, "images_per_s": images / seconds}
        known = {name: float(value) for name, value in values.items() if not math.isnan(value)}
        self.history.append(known)
        parts = " ".join(f"{name}={value:.4f}" for name, value in known.items() if name != "images_per_s")
        self.say(f"epoch {number}/{self.settings.epochs}: {parts} images_per_s={values['images_per_s']:.1f}")
        if self.rank == 0:
            drumbeat.log(step=number, **known)

    def throughput(self, images: int, seconds: float) -> None:
        """Prints the summary that the reference's scripts end with."""
        each, unit = self.settings.batch_size, "GPU" if self.is_gpu else "CPU rank"
        self.say(f"Data length:      {images}")
        self.say(f"Total duration:   {seconds:.3f}")
        self.say(f"Total images/sec: {images / seconds:.3f}")
        self.say(f"Batch size:       (Per {unit} {each}: Total {each * self.size})")
        self.say(f"Distributed:      {self.settings.distributed != 'none'}")
        self.say(f"Num {unit}s:{'':{max(1, 9 - len(unit))}}{self.size}")
        self.say(f"Dataset:          {self.settings.dataset}")

    def save(self, framework: str, model: Path, **facts: object) -> None:
        """Writes `metrics.json` beside the model, and prints where both are."""
        if self.rank:
            return
        last = self.history[-1] if self.history else {}
        whole = {"framework": framework, "model": self.settings.model, "ranks": self.size, **last, **facts}
        whole["epochs"] = self.history
        (model.parent / "metrics.json").write_text(json.dumps(whole, indent=1), encoding="utf-8")
        if "accuracy" in last:
            self.say(f"test: accuracy={last['accuracy']:.4f}")
        self.say(f"saved {model.parent.name}/{model.name}")
