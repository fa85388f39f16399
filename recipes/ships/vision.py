"""fast.ai's vision part, made importable on all builds of torch first (`torchvision_ops`)."""

import torchvision_ops

torchvision_ops.make_importable()

from fastai.vision.all import *  # noqa: E402, F403 (it needs torchvision; scripts name what they take)
