"""Lets torchvision be imported where torch's CPU build meets a torchvision that was built for CUDA.

There the import stops at `operator torchvision::nms does not exist`. This recipe needs no operators of torchvision, so
the two that the import asks for are declared, without doing anything. It is a workaround for this recipe: detection
models need a torchvision that fits the torch, which is what a plain `pip install torch torchvision` brings.
"""

import importlib
import sys

import torch

DECLARED = (
    "nms(Tensor dets, Tensor scores, float iou_threshold) -> Tensor",
    "qnms(Tensor dets, Tensor scores, float iou_threshold) -> Tensor",
)
_libraries: list[torch.library.Library] = []


def make_importable() -> None:
    """Imports torchvision, with its missing operators declared if it can't be imported otherwise."""
    try:
        importlib.import_module("torchvision")
    except RuntimeError as error:
        if "torchvision::nms" not in str(error):
            raise
        for name in [name for name in sys.modules if name.partition(".")[0] == "torchvision"]:
            del sys.modules[name]
        library = torch.library.Library("torchvision", "DEF")
        for operator in DECLARED:
            library.define(operator)
        _libraries.append(library)  # It forgets the operators when it is collected.
        importlib.import_module("torchvision")
        print("torchvision doesn't fit this torch: its operators are declared, which is enough for this recipe")
