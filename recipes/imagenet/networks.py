"""ResNet-50, -101, -152 and MobileNetV2 for PyTorch.

They are here because torchvision and timm, which have them, don't import beside the CPU build of torch. Layers and
numbers of parameters equal torchvision's: ResNet v1.5 (the stride is in the 3 × 3 convolution), MobileNetV2 at width 1.
"""

from collections.abc import Callable

from torch import Tensor, nn

RESNET_BLOCKS = {"resnet50": (3, 4, 6, 3), "resnet101": (3, 4, 23, 3), "resnet152": (3, 8, 36, 3)}
EXPANSION = 4
MOBILENET_STAGES = (
    # expansion, channels, blocks, stride (table 2 of Sandler et al. 2018, arXiv:1801.04381)
    (1, 16, 1, 1), (6, 24, 2, 2), (6, 32, 3, 2), (6, 64, 4, 2), (6, 96, 3, 1), (6, 160, 3, 2), (6, 320, 1, 1),
)  # fmt: skip
MODELS = (*RESNET_BLOCKS, "mobilenet_v2")


def make_network(name: str, classes: int) -> nn.Module:
    """Returns a network with new weights; images (batch, 3, height, width) in, logits (batch, classes) out."""
    return MobileNetV2(classes) if name == "mobilenet_v2" else ResNet(RESNET_BLOCKS[name], classes)


def convolution(inputs: int, outputs: int, size: int, stride: int = 1, groups: int = 1) -> list[nn.Module]:
    """A convolution without bias that keeps the borders, and its batch norm."""
    padding = size // 2
    layer = nn.Conv2d(inputs, outputs, size, stride, padding, groups=groups, bias=False)
    return [layer, nn.BatchNorm2d(outputs)]


class Bottleneck(nn.Module):
    """A residual block: 1 × 1, 3 × 3 and 1 × 1 convolutions beside the identity or a projection."""

    def __init__(self, inputs: int, width: int, stride: int) -> None:
        super().__init__()
        outputs = width * EXPANSION
        self.layers = nn.Sequential(
            *convolution(inputs, width, 1),
            nn.ReLU(inplace=True),
            *convolution(width, width, 3, stride),
            nn.ReLU(inplace=True),
            *convolution(width, outputs, 1),
        )
        # The block begins as the identity (Goyal et al. 2017, 5.1).
        nn.init.zeros_(self.layers[-1].weight)
        is_identity = stride == 1 and inputs == outputs
        self.shortcut = nn.Identity() if is_identity else nn.Sequential(*convolution(inputs, outputs, 1, stride))

    def forward(self, x_BCHW: Tensor) -> Tensor:
        """Features, with the height and width divided by the stride."""
        return nn.functional.relu(self.layers(x_BCHW) + self.shortcut(x_BCHW))


class ResNet(nn.Module):
    """A residual network of bottleneck blocks. blocks: of each of the four stages."""

    def __init__(self, blocks: tuple[int, ...], classes: int) -> None:
        super().__init__()
        layers: list[nn.Module] = [*convolution(3, 64, 7, 2), nn.ReLU(inplace=True), nn.MaxPool2d(3, 2, 1)]
        inputs = 64
        for stage, count in enumerate(blocks):
            for block in range(count):
                layers.append(Bottleneck(inputs, 64 << stage, 2 if stage and not block else 1))
                inputs = (64 << stage) * EXPANSION
        self.features = nn.Sequential(*layers)
        self.classifier = nn.Linear(inputs, classes)
        self.apply(init_convolutions)

    def forward(self, pixels_BCHW: Tensor) -> Tensor:
        """Logits (batch, classes)."""
        return self.classifier(self.features(pixels_BCHW).mean(dim=(2, 3)))


class InvertedResidual(nn.Module):
    """MobileNetV2's block: expand, filter each channel, project; beside the identity where the sizes are equal."""

    def __init__(self, inputs: int, outputs: int, expansion: int, stride: int) -> None:
        super().__init__()
        width = inputs * expansion
        wider = [*convolution(inputs, width, 1), nn.ReLU6(inplace=True)] if expansion > 1 else []
        filters = [*convolution(width, width, 3, stride, groups=width), nn.ReLU6(inplace=True)]
        self.layers = nn.Sequential(*wider, *filters, *convolution(width, outputs, 1))
        self.has_shortcut = stride == 1 and inputs == outputs

    def forward(self, x_BCHW: Tensor) -> Tensor:
        """Features, with the height and width divided by the stride."""
        y_BCHW = self.layers(x_BCHW)
        return x_BCHW + y_BCHW if self.has_shortcut else y_BCHW


class MobileNetV2(nn.Module):
    """MobileNetV2 at width 1."""

    def __init__(self, classes: int) -> None:
        super().__init__()
        layers: list[nn.Module] = [*convolution(3, 32, 3, 2), nn.ReLU6(inplace=True)]
        inputs = 32
        for expansion, outputs, blocks, stride in MOBILENET_STAGES:
            for block in range(blocks):
                layers.append(InvertedResidual(inputs, outputs, expansion, 1 if block else stride))
                inputs = outputs
        layers += [*convolution(inputs, 1280, 1), nn.ReLU6(inplace=True)]
        self.features = nn.Sequential(*layers)
        self.classifier = nn.Sequential(nn.Dropout(0.2), nn.Linear(1280, classes))
        self.apply(init_convolutions)

    def forward(self, pixels_BCHW: Tensor) -> Tensor:
        """Logits (batch, classes)."""
        return self.classifier(self.features(pixels_BCHW).mean(dim=(2, 3)))


def init_convolutions(layer: nn.Module) -> None:
    """Gives a convolution new weights (He et al. 2015, by the number of outputs)."""
    init: Callable[..., Tensor] = nn.init.kaiming_normal_
    if isinstance(layer, nn.Conv2d):
        init(layer.weight, mode="fan_out", nonlinearity="relu")
