"""Find the weights of bot/surface.py: a Gaussian process by its marginal likelihood, with torch. Not a benchmark itself.

The kernel is a sum of what each axis does alone and what all do together, so that one-at-a-time trainings teach about mixtures.
Its constants maximise the marginal likelihood times weak priors (Rasmussen and Williams 2006, chapter 5). The error is that of
leaving out each point in turn with all its repeats, in closed form: the constants of the kernel have seen it, its value has not.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

STEPS, RATE = 400, 0.03  # of Adam
SCALE, SPREAD = 0.5, 1.0  # prior of 1 / length: median, and standard deviation of its logarithm
SHARE = 0.05  # prior of what an axis does alone, as a part of the variance of all scores
JITTER = 1e-6


@dataclass(frozen=True, kw_only=True)
class Fit:
    """A process in the terms of surface.Process, the noise that it found, and how far it is off."""

    mean: float
    scales: Mapping[str, float]
    main: Mapping[str, float]
    joint: float
    weights: Sequence[float]
    sigma: float
    left_out: Sequence[float]  # prediction of each value when its point was left out


def fit(points: Sequence[Mapping[str, float]], values: Sequence[float], groups: Sequence[object], *, steps: int = STEPS) -> Fit:
    """`points` by axis, as surface.coordinates has them; equal `groups` are repeats of one point."""
    axes = sorted({axis for point in points for axis in point})
    x = torch.tensor([[point.get(axis, 0.0) for axis in axes] for point in points], dtype=torch.float64)
    moving = [i for i in range(len(axes)) if bool((x[:, i] != x[0, i]).any())]
    axes, x = [axes[i] for i in moving], x[:, moving]
    y = torch.tensor(values, dtype=torch.float64)
    level, spread = float(y.mean()), float(y.std())
    z = (y - level) / spread
    squares = (x[:, None, :] - x[None, :, :]).square()
    found = _searched(squares, z, steps)
    scales, main, joint, noise = (part.exp() for part in _parts(found, len(axes)))
    inverse = torch.linalg.inv(_kernel(squares, scales, main, joint) + (noise.square() + JITTER) * torch.eye(len(y)))
    centre = (inverse @ z).sum() / inverse.sum()
    weights = inverse @ (z - centre)
    return Fit(
        mean=level + spread * float(centre),
        scales=dict(zip(axes, scales.tolist(), strict=True)),
        main=dict(zip(axes, main.tolist(), strict=True)),
        joint=float(joint),
        weights=(weights * spread).tolist(),
        sigma=float(noise) * spread,
        left_out=(level + spread * _left_out(inverse, weights, z, groups)).tolist(),
    )


def _parts(found: Tensor, n: int) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Logarithms of scales and main effects by axis, of the joint effect, and of the noise."""
    return found[:n], found[n : 2 * n], found[2 * n], found[2 * n + 1]


def _kernel(squares: Tensor, scales: Tensor, main: Tensor, joint: Tensor) -> Tensor:
    scaled = squares * scales.square()
    return (torch.exp(-scaled / 2) * main).sum(-1) + joint * torch.exp(-scaled.sum(-1) / 2)


def _searched(squares: Tensor, z: Tensor, steps: int) -> Tensor:
    """What makes the values most likely, in logarithms."""
    n = squares.shape[-1]
    start = torch.cat((torch.full((n,), SCALE), torch.full((n,), SHARE), torch.tensor([0.5, 0.1]))).double().log()
    found = start.clone().requires_grad_()
    search = torch.optim.Adam([found], lr=RATE)
    for _ in range(steps):
        search.zero_grad()
        scales, main, joint, noise = (part.exp() for part in _parts(found, n))
        covariance = _kernel(squares, scales, main, joint) + (noise.square() + JITTER) * torch.eye(len(z))
        normal = torch.distributions.MultivariateNormal(torch.zeros_like(z), covariance_matrix=covariance, validate_args=False)
        unlikely = ((found - start) / SPREAD).square()[: 2 * n].sum() / 2
        loss: Tensor = unlikely - normal.log_prob(z)  # type: ignore[no-untyped-call]
        loss.backward()  # type: ignore[no-untyped-call]
        search.step()
    return found.detach()


def _left_out(inverse: Tensor, weights: Tensor, z: Tensor, groups: Sequence[object]) -> Tensor:
    """Sundararajan and Keerthi 2001, for whole groups: the residuals are the weights divided by the block of the inverse."""
    guesses = z.clone()
    for group in dict.fromkeys(groups):
        mine = [i for i, other in enumerate(groups) if other == group]
        guesses[mine] = z[mine] - torch.linalg.solve(inverse[mine][:, mine], weights[mine])
    return guesses
