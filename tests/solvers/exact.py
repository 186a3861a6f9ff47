"""Solutions in closed form, or as good as: Burgers by Cole–Hopf, the Riemann problem of a gas by Newton's method."""

from __future__ import annotations

import numpy as np


class SinesOfBurgers:
    """u(x, 0) = mean + Σ a sin(2πkx + φ) with diffusivity D: its initial values and its solution by Cole–Hopf."""

    mean = 0.3
    waves = ((0.6, 1, 0.4), (0.4, 2, 1.0))

    def __init__(self, diffusivity: float) -> None:
        self.diffusivity = diffusivity

    def initial(self, x: np.ndarray) -> np.ndarray:
        return np.asarray(self.mean + sum(a * np.sin(2 * np.pi * k * x + phase) for a, k, phase in self.waves))

    def __call__(self, x: np.ndarray, time: float, nodes: int = 4096) -> np.ndarray:
        """u = ū + ∫ (ξ − y)/t w dy / ∫ w dy, w = exp(−(ψ(y) + (ξ − y)²/2t)/2D), ξ = x − ūt, ψ = ∫(u₀ − ū)."""
        y = np.arange(-3 * nodes, 4 * nodes) / nodes
        potential = -sum(a / (2 * np.pi * k) * np.cos(2 * np.pi * k * y + phase) for a, k, phase in self.waves)
        away = ((x - self.mean * time) % 1.0)[:, None] - y
        exponent = -(potential + away**2 / (2 * time)) / (2 * self.diffusivity)
        weight = np.exp(exponent - exponent.max(axis=1, keepdims=True))
        return self.mean + (away / time * weight).sum(axis=1) / weight.sum(axis=1)


def riemann(left: tuple, right: tuple, gamma: float, speed: np.ndarray) -> np.ndarray:
    """(density, pressure, velocity) at x/t = speed, from two constant states of an ideal gas given alike."""

    def jump(pressure: float, side: tuple) -> float:
        """The change of velocity across the wave of one side, as a function of the pressure behind it."""
        density, ahead, _ = side
        sound = np.sqrt(gamma * ahead / density)
        if pressure > ahead:
            return (pressure - ahead) * np.sqrt(2 / density / ((gamma + 1) * pressure + (gamma - 1) * ahead))
        return 2 * sound / (gamma - 1) * ((pressure / ahead) ** ((gamma - 1) / (2 * gamma)) - 1)

    low, high = 1e-10, 10 * max(left[1], right[1])
    for _ in range(200):
        middle = 0.5 * (low + high)
        too_high = jump(middle, left) + jump(middle, right) + right[2] - left[2] > 0
        low, high = (low, middle) if too_high else (middle, high)
    pressure = 0.5 * (low + high)
    contact = 0.5 * (left[2] + right[2] + jump(pressure, right) - jump(pressure, left))

    def half(side: tuple, sign: float) -> np.ndarray:
        """The states on one side of the contact; sign −1 for the left."""
        density, ahead, velocity = side
        sound, ratio = np.sqrt(gamma * ahead / density), pressure / ahead
        if pressure > ahead:
            behind = density * ((gamma + 1) * ratio + gamma - 1) / ((gamma - 1) * ratio + gamma + 1)
            front = velocity + sign * sound * np.sqrt(((gamma + 1) * ratio + gamma - 1) / (2 * gamma))
            reached = (sign * (speed - front) < 0)[None]
            return np.where(reached, np.array([[behind], [pressure], [contact]]), np.array(side)[:, None])
        tail = contact + sign * sound * ratio ** ((gamma - 1) / (2 * gamma))
        fan_speed = np.clip(sign * speed, sign * tail, sign * velocity + sound) * sign
        fan_velocity = 2 / (gamma + 1) * (fan_speed - sign * sound + (gamma - 1) / 2 * velocity)
        fan_sound = sign * (fan_speed - fan_velocity)
        strength = np.maximum(fan_sound / sound, 0.0)
        return np.stack([density * strength ** (2 / (gamma - 1)), ahead * strength ** (2 * gamma / (gamma - 1)), fan_velocity])

    return np.where((speed < contact)[None], half(left, -1.0), half(right, 1.0))
