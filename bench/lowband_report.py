"""The report of the low-bandwidth benchmark, as Markdown."""

import os
from typing import Any

HEAD = """\
# Updates over a slow link

<!-- Written by `python -m bench.lowband`. -->

Two nodes with links of {bandwidth}, in network namespaces of one machine, train a GPT of {parameters:,} weights
({mb:.1f} MB of gradients in float32) for {steps} steps of {rows} × {context} letters on each rank, with one thread and
AdamW. All ways run one after the other in one job, begin with the same weights, and draw the same samples. A rank
computes for some {compute:.0f} ms in a step, and DDP then waits for its gradients: a slow processor and a small batch
stand for a fast one and a large batch.

The text is generated: each letter is followed by one of four others, by fixed chances, so a perfect model has a loss
of {floor:.4f}. The loss is that of the final weights on {held_out} letters that were not trained on; the gap is its
distance from DDP's after as many samples. Bytes are those that left a node's network interface, with all that belongs
to them, as the mean of both nodes.

Machine: {machine}; load {load:.1f} after the last.

| way | sent by a rank in a step | samples/s | × DDP | loss | gap to DDP |
|---|---|---|---|---|---|
"""
WORDS = {
    "ddp": "stock DDP",
    "bf16": "DDP, gradients in bf16",
    "powersgd": "DDP, PowerSGD of rank {}",
    "server": "asynchronous parameter server (on rank 0)",
    "local": "local SGD, every {} steps",
    "outer": "DiLoCo's outer steps, every {}",
    "outer-bf16": "DiLoCo's outer steps, every {}, in bf16",
}
GOAL, MAX_GAP = 10.0, 0.01


def render(found: list[dict[str, dict[str, Any]]], settings: dict[str, Any], bandwidth: str, machine: str) -> str:
    """The whole page."""
    first = found[0]["ddp"]
    head = HEAD.format(
        **settings,
        bandwidth=bandwidth.replace("mbit", " Mbit/s"),
        parameters=first["parameters"],
        mb=first["parameters"] * 4 / 1e6,
        compute=min(one["computed"] for one in found[0].values()) / settings["steps"] * 1000,
        floor=first["floor"],
        held_out="20,000",
        machine=machine,
        load=os.getloadavg()[0],
    )
    rows = [_row(name, [each[name] for each in found], settings["steps"], first) for name in found[0]]
    return head + "\n".join(rows) + "\n" + _ending(found[0])


def _row(name: str, ranks: list[dict[str, Any]], steps: int, first: dict[str, Any]) -> str:
    kind, _, value = name.partition(":")
    own = ranks[0]
    sent = sum(one["sent"] for one in ranks) / len(ranks) / steps
    return (
        f"| {WORDS[kind].format(value)} | {_size(sent)} | {own['samples'] / own['seconds']:.1f} "
        f"| {speed_up(own, first):.1f} | {own['loss']:.4f} | {gap(own, first):+.2%} |"
    )


def speed_up(own: dict[str, Any], first: dict[str, Any]) -> float:
    """Throughput against DDP's."""
    return (own["samples"] / own["seconds"]) / (first["samples"] / first["seconds"])


def gap(own: dict[str, Any], first: dict[str, Any]) -> float:
    """How much higher the loss is than DDP's; negative where it is lower."""
    return own["loss"] / first["loss"] - 1


def _ending(found: dict[str, dict[str, Any]]) -> str:
    first = found["ddp"]
    good = {name: one for name, one in found.items() if gap(one, first) <= MAX_GAP}
    best = max(good, key=lambda name: speed_up(good[name], first))
    reached = speed_up(good[best], first)
    kind, _, value = best.partition(":")
    verdict = "The goal is reached" if reached >= GOAL else f"The goal is missed by a factor of {GOAL / reached:.1f}"
    server = found.get("server")
    stale = ""
    if server:
        stale = (
            f" The parameter server sends whole gradients and whole weights, so it saves no bytes: what it saves is "
            f"waiting for others. A gradient had missed {server['staleness']:.1f} updates of others, as a mean."
        )
    return (
        f"\nThe goal is 10 times stock DDP's throughput at a gap of at most 1 %. {verdict}: the fastest way within the "
        f"gap is {WORDS[kind].format(value)}, with {reached:.1f} times.{stale}\n"
    )


def _size(count: float) -> str:
    return f"{count / 1e6:.2f} MB" if count >= 1e6 else f"{count / 1e3:.1f} kB"
