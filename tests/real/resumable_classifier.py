"""Trains the demo's model on the demo's data, with checkpoints, and logs each step's loss of each rank."""

import argparse
from pathlib import Path

import torch
from torch import nn
from train import Classifier, load_data

import drumbeat
from drumbeat import train


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--data", type=Path)
    parser.add_argument("--epochs", type=int)
    parser.add_argument("--model-dir", type=Path)
    parser.add_argument("--batch-size", type=int, default=64)
    parser.add_argument("--seed", type=int, default=42)
    options = parser.parse_args()
    world = train.init()
    torch.manual_seed(options.seed)
    data = load_data(options)
    first = data.training.tensors[0].float()
    network = Classifier(data.classes, first.mean().item(), first.std().item())
    model = nn.parallel.DistributedDataParallel(network)
    loader = train.ResumableLoader(data.training, batch=options.batch_size, seed=options.seed)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    steps = options.epochs * len(loader)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, 0.1, total_steps=steps)
    checkpoints = train.Checkpoints(model, optimizer, loader=loader, schedule=schedule, every=5)
    step = checkpoints.resume()
    while loader.epoch < options.epochs:
        for pixels, labels in loader:
            loss = nn.functional.cross_entropy(model(pixels), labels)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            schedule.step()
            step += 1
            drumbeat.log(loss=loss.item(), rate=schedule.get_last_lr()[0], step=step)
            checkpoints.step(step)
    checkpoints.close()
    if world.is_first:
        options.model_dir.mkdir(parents=True, exist_ok=True)
        torch.save(network.state_dict(), options.model_dir / "model.pt")
    train.leave()


main()
