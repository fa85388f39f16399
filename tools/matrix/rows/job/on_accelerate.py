"""The recipe's network, trained by accelerate: `accelerate launch on_accelerate.py --data … --model-dir …`."""

import json

import torch
from accelerate import Accelerator
from torch import nn
from torch.utils.data import DataLoader
from train import Classifier, leave, load_data, parse_options

options = parse_options()
data = load_data(options)
torch.manual_seed(options.seed)
accelerator = Accelerator(cpu=not torch.cuda.is_available())
size = options.batch_size // accelerator.num_processes
pixels = data.training.tensors[0].float()
network = Classifier(data.classes, pixels.mean().item(), pixels.std().item())
optimizer = torch.optim.SGD(network.parameters(), lr=options.lr, momentum=0.9)
loader = DataLoader(data.training, batch_size=size, shuffle=True, drop_last=True)
testing = DataLoader(data.testing, batch_size=size)
network, optimizer, loader, testing = accelerator.prepare(network, optimizer, loader, testing)

for _ in range(options.epochs):
    for images, labels in loader:
        optimizer.zero_grad()
        accelerator.backward(nn.functional.cross_entropy(network(images), labels))
        optimizer.step()

network.eval()
right = total = 0
with torch.no_grad():
    for images, labels in testing:
        answers, known = accelerator.gather_for_metrics((network(images).argmax(dim=1), labels))
        right, total = right + int((answers == known).sum()), total + len(known)
if accelerator.is_main_process:
    options.model_dir.mkdir(parents=True, exist_ok=True)
    facts = {"test": {"accuracy": right / total, "images": total}, "ranks": accelerator.num_processes}
    (options.model_dir / "metrics.json").write_text(json.dumps(facts))
    print(f"test: accuracy={right / total:.4f} images={total}, {accelerator.num_processes} ranks")
accelerator.wait_for_everyone()
leave()
