"""Trains a small GPT whose model is divided among ranks, on text that it makes: sums in words.

    drumbeat run job.yml                                               # 2 pipeline stages × 2 data shards
    drumbeat run job.yml --set drumbeat.mesh='{fsdp: 2, tp: 2}'
    python train.py                                                    # one process, the same losses

`--rows` is the batch of all ranks together, drawn alike for every mesh, so the mesh changes where the work is done and
not what is learned.
"""

import argparse
import json
import math
import os
import sys
import time
from pathlib import Path

import sums
import torch
from model import GPT, Size, loss_of
from parallel import VIRTUAL, Divided, divide, gather, mean_loss, read_mesh
from torch import distributed as dist

SENTENCES, HELD_OUT = 40_000, 4_000


def parse_options() -> argparse.Namespace:
    """The options of the command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--steps", type=int, default=1000)
    parser.add_argument("--rows", type=int, default=32, help="of all ranks together")
    parser.add_argument("--layers", type=int, default=4)
    parser.add_argument("--channels", type=int, default=64)
    parser.add_argument("--context", type=int, default=32)
    parser.add_argument("--lr", type=float, default=3e-3, help="highest learning rate")
    parser.add_argument("--schedule", choices=sorted(VIRTUAL), default="1f1b", help="of the pipeline")
    parser.add_argument("--microbatches", type=int, default=4, help="of a pipeline's batch")
    parser.add_argument("--precision", choices=("fp32", "bf16"), default="fp32", help="of the computation, for GPUs")
    parser.add_argument("--compile", action="store_true", help="compile the network, for GPUs")
    parser.add_argument("--seed", type=int, default=42)
    parser.add_argument("--model-dir", type=Path, default=Path("model"), help="where rank 0 saves the model")
    options = parser.parse_args()
    if options.steps < 1:
        parser.error(f"--steps {options.steps}: at least 1 is needed")
    return options


def join_ranks() -> torch.device:
    """The device of this rank, once all ranks have found each other; without a launcher this is the only one."""
    if "RANK" not in os.environ:
        alone = {"RANK": "0", "LOCAL_RANK": "0", "WORLD_SIZE": "1", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": "0"}
        os.environ.update(alone)
    if torch.cuda.is_available():
        device = torch.device("cuda", int(os.environ["LOCAL_RANK"]) % torch.cuda.device_count())
        torch.cuda.set_device(device)
        dist.init_process_group("nccl", device_id=device)
        return device
    dist.init_process_group("gloo")
    return torch.device("cpu")


def check_batch(options: argparse.Namespace, sizes: dict[str, int]) -> None:
    """Ends in one sentence where the batch can't be divided as the mesh needs it."""
    parts = sizes.get("dp", 1) * sizes.get("fsdp", 1) * (options.microbatches if "pp" in sizes else 1)
    if options.rows % parts:
        raise SystemExit(f"--rows {options.rows} doesn't divide into {parts} equal parts: take a multiple of {parts}")

    if "pp" in sizes and (options.compile or options.precision != "fp32"):
        raise SystemExit("--compile and --precision bf16 are for a mesh without pp: the stages' tensors are float32")


def prepare(part: GPT, options: argparse.Namespace, device: torch.device) -> None:
    """Has a model compute in bfloat16, compiled, where that was asked for. Its weights stay in float32."""
    if options.precision == "bf16":
        forward = part.forward

        def in_bf16(x: torch.Tensor) -> torch.Tensor:
            with torch.autocast(device.type, torch.bfloat16):
                return forward(x)

        part.forward = in_bf16
    if options.compile:
        part.compile()


def share_of_rate(step: int, steps: int) -> float:
    """The learning rate as a share of the highest: up for a tenth of the steps, then half a cosine down."""
    rising = max(1, steps // 10)
    return min(1.0, (step + 1) / rising) * (1 + math.cos(math.pi * step / steps)) / 2


def train(options: argparse.Namespace, sizes: dict[str, int], device: torch.device) -> tuple[Divided, list[float]]:
    """The trained model, divided as it is, and the loss of each step's global batch."""
    torch.manual_seed(options.seed)
    size = Size(len(sums.WORDS), options.context, options.layers, channels=options.channels)
    divided = divide(size, sizes, device, options.schedule, options.microbatches)
    for part in divided.parts:
        prepare(part, options, device)
    # With foreach, torch refuses weights of which some are shards and some are whole.
    optimizer = torch.optim.AdamW(divided.parameters(), lr=options.lr, weight_decay=0.01, foreach="tp" not in sizes)
    schedule = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda step: share_of_rate(step, options.steps))
    batches = sums.Batches(sums.write(SENTENCES, options.seed), options.rows, options.context, options.seed)
    losses, began = [], time.perf_counter()
    for step in range(options.steps):
        inputs_BT, targets_BT = (part.to(device) for part in batches.take(step, divided.shard, divided.shards))
        optimizer.zero_grad()
        losses.append(mean_loss(divided, divided.step(inputs_BT, targets_BT)))
        optimizer.step()
        schedule.step()
        if dist.get_rank() == 0 and (step % 50 == 49 or step + 1 == options.steps):
            speed = (step + 1) * options.rows * options.context / (time.perf_counter() - began)
            print(f"step {step + 1}/{options.steps}: loss={losses[-1]:.4f} words_per_s={speed:.0f}", flush=True)
    return divided, losses


@torch.no_grad()
def judge(model: GPT, seed: int) -> dict[str, float]:
    """The loss on text that wasn't trained on, and the share of all sums that the model gets right."""
    text = sums.write(HELD_OUT, seed + 1)
    inputs_BT, targets_BT = sums.Batches(text, 256, model.size.context, seed).take(0)
    held_out = loss_of(model(inputs_BT), targets_BT).item()
    pairs = [(a, b) for a in range(sums.LARGEST + 1) for b in range(sums.LARGEST + 1)]
    # As in the text, a sentence comes before `three and nine make`.
    begun = torch.stack([sums.encode(sums.sentence(b, a) + sums.sentence(a, b)[:4]) for a, b in pairs])
    answers = model(begun)[:, -1].argmax(dim=1)
    right = (answers == torch.tensor([a + b for a, b in pairs])).float().mean().item()
    return {"loss": held_out, "right": right}


def finish(options: argparse.Namespace, sizes: dict[str, int], divided: Divided, losses: list[float]) -> None:
    """Puts the parts together, tests the whole model and saves it."""
    weights = gather(divided)
    if dist.get_rank():
        return
    model = GPT(Size(len(sums.WORDS), options.context, options.layers, channels=options.channels))
    model.load_state_dict(weights)
    scores = judge(model.eval(), options.seed)
    options.model_dir.mkdir(parents=True, exist_ok=True)
    torch.save(weights, options.model_dir / "model.pt")
    facts = {"mesh": sizes, "steps": options.steps, "held_out": scores, "floor": sums.floor(), "losses": losses}
    (options.model_dir / "metrics.json").write_text(json.dumps(facts, indent=1), encoding="utf-8")
    print(
        f"test: loss={scores['loss']:.4f} (a perfect model has {sums.floor():.2f} and a little), "
        f"{scores['right']:.0%} of all sums right; mesh {json.dumps(sizes)}"
    )
    print(f"saved {options.model_dir.name}/model.pt")


def main() -> None:
    """Joins the other ranks, trains, leaves."""
    options = parse_options()
    sizes = read_mesh(int(os.environ.get("WORLD_SIZE", "1")))
    check_batch(options, sizes)
    device = join_ranks()
    finish(options, sizes, *train(options, sizes, device))
    dist.destroy_process_group()
    # Python's own shutdown can abort a rank whose gloo threads are still at work (see recipes/fashion_mnist/train.py).
    sys.stdout.flush()
    os._exit(0)


if __name__ == "__main__":
    main()
