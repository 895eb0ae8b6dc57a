"""Training a real network on the photos: small enough for two cores, good enough to show what a pipeline costs.

The recipe, on 48×48 pixels: ResNet-8 of 78,714 weights (He et al., 2016, with batch norm of momentum 0.9), stochastic
gradient descent with Nesterov momentum 0.9 and weight decay 5e-4, batches of 32, a learning rate that rises to 0.1 in
the first 30 % of 525 steps and falls with a cosine; photos are mirrored and shifted at random.
"""

from labkit.common import lazy_names

_FILES = {
    "network": ("resnet",),
    "recipe": (
        "FAST_STEPS", "RATE", "Score", "Trained", "augmented", "batches", "moved", "normalised", "one_cycle",
        "parts_alone", "score", "train",
    ),
    "train_step_times": ("StepTimes", "step_times"),
}  # fmt: skip
__getattr__, __dir__, __all__ = lazy_names.of(__name__, {one: file for file, names in _FILES.items() for one in names})
