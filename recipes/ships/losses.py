"""The loss of the segmentation: focal loss, and minus the logarithm of dice."""

from torch import Tensor, nn

NEAREST = 1e-7
"""How close to 0 and 1 the probabilities come from which logits are made."""


class MixedLoss(nn.Module):
    """alpha · focal loss − ln(dice), of the probability of class 1 ("ship").

    The focal loss is the mean over pixels of −(1 − p)^gamma · ln p, p being the probability of the true class (Lin et
    al. 2017). Dice is (2 · Σ p·t + 1) / (Σ p + Σ t + 1) over the whole batch, t being 1 on ships.
    """

    def __init__(self, alpha: float = 10.0, gamma: float = 2.0) -> None:
        super().__init__()
        self.alpha, self.gamma = alpha, gamma

    def forward(self, logits_BCHW: Tensor, targets_BHW: Tensor) -> Tensor:
        """The loss of a batch, from the logits of two classes."""
        ship_BHW = logits_BCHW.softmax(dim=1)[:, 1]
        targets = targets_BHW.reshape(ship_BHW.shape).to(ship_BHW.dtype)
        return self.alpha * focal_loss(ship_BHW, targets, self.gamma) - dice(ship_BHW, targets).log()

    # What fast.ai makes of logits where it shows or exports predictions.
    def activation(self, logits_BCHW: Tensor) -> Tensor:
        """Probabilities."""
        return logits_BCHW.softmax(dim=1)

    def decodes(self, logits_BCHW: Tensor) -> Tensor:
        """Masks."""
        return logits_BCHW.argmax(dim=1)


def focal_loss(probability: Tensor, targets: Tensor, gamma: float) -> Tensor:
    """The mean of −(1 − p)^gamma · ln p over all pixels."""
    logits = probability.clamp(NEAREST, 1 - NEAREST).logit()
    sign = 2 * targets - 1
    log_right, log_wrong = nn.functional.logsigmoid(logits * sign), nn.functional.logsigmoid(-logits * sign)
    return -((gamma * log_wrong).exp() * log_right).mean()


def dice(probability: Tensor, targets: Tensor) -> Tensor:
    """The soft dice coefficient of the whole batch, smoothed by 1."""
    return (2 * (probability * targets).sum() + 1) / (probability.sum() + targets.sum() + 1)


def constant_dice(ship_fraction: float) -> float:
    """The dice that a constant mask reaches: all ship has 2f / (f + 1), all sea has 0."""
    return 2 * ship_fraction / (1 + ship_fraction)


def hard_dice(masks: Tensor, targets: Tensor) -> float:
    """The dice coefficient of two sets of masks of 0 and 1; 1 where both are empty."""
    both, total = (masks * targets).sum().item(), (masks + targets).sum().item()
    return 2 * both / total if total else 1.0
