"""An ideal gas in the plane: its variables, the flux of the Euler equations through a face, and the flux's derivative.

Arrays hold a component per row: conserved (density, momentum x, momentum y, energy), primitive (density, velocity x,
velocity y, pressure).
"""

from __future__ import annotations

import numpy as np

GAMMA = 1.4

_ACOUSTIC, _CONVECTIVE = 0.1, 0.05  # of the speed of sound: slower waves are smoothed as if they were about this fast


def conserved(primitive: np.ndarray) -> np.ndarray:
    density, u, v, pressure = primitive
    return np.stack([density, density * u, density * v, pressure / (GAMMA - 1) + 0.5 * density * (u * u + v * v)])


def primitive(state: np.ndarray) -> np.ndarray:
    density, u, v = state[0], state[1] / state[0], state[2] / state[0]
    return np.stack([density, u, v, (GAMMA - 1) * (state[3] - 0.5 * density * (u * u + v * v))])


def free_stream(mach: float, degrees: float = 0.0) -> np.ndarray:
    """(4,) primitive, in units of its own density and speed of sound."""
    angle = np.deg2rad(degrees)
    return np.array([1.0, mach * np.cos(angle), mach * np.sin(angle), 1 / GAMMA])


def mach_number(primitive: np.ndarray) -> np.ndarray:
    """|u|/√(γp/ρ)."""
    density, u, v, pressure = primitive
    return np.sqrt((u * u + v * v) * density / (GAMMA * pressure))


def entropy(primitive: np.ndarray) -> np.ndarray:
    """p/ρ^γ over that of `free_stream`."""
    return GAMMA * primitive[3] / primitive[0] ** GAMMA


def flux(primitive: np.ndarray, normal: np.ndarray) -> np.ndarray:
    """(4, face) F·n."""
    density, u, v, pressure = primitive
    through = u * normal[0] + v * normal[1]
    mass = density * through
    total = GAMMA / (GAMMA - 1) * pressure + 0.5 * density * (u * u + v * v)
    return np.stack([mass, mass * u + pressure * normal[0], mass * v + pressure * normal[1], total * through])


def roe_flux(left: np.ndarray, right: np.ndarray, normal: np.ndarray) -> np.ndarray:
    """(4, face) ½(F(left) + F(right))·n − ½|Â|(right − left), Â at Roe's mean; no wave's speed counts as less than a little.

    |λ| is replaced by (λ² + δ²)/2δ where below δ, for sonic points, and for points beside a wall, which nothing else damps.
    """
    length = np.sqrt(normal[0] ** 2 + normal[1] ** 2)
    nx, ny = normal / length
    root_left, root_right = np.sqrt(left[0]), np.sqrt(right[0])
    share = root_left / (root_left + root_right)
    u, v, enthalpy = (
        share * one + (1 - share) * other
        for one, other in zip((*left[1:3], _enthalpy(left)), (*right[1:3], _enthalpy(right)), strict=True)
    )
    density, kinetic = root_left * root_right, 0.5 * (u * u + v * v)
    sound2 = (GAMMA - 1) * (enthalpy - kinetic)
    sound, through = np.sqrt(sound2), u * nx + v * ny
    jump = right - left
    jump_through = jump[1] * nx + jump[2] * ny
    smallest = _ACOUSTIC * sound
    slow, fast = _speed(through - sound, smallest), _speed(through + sound, smallest)
    middle = _speed(through, _CONVECTIVE * sound)
    backward = slow * (jump[3] - density * sound * jump_through) / (2 * sound2)
    forward = fast * (jump[3] + density * sound * jump_through) / (2 * sound2)
    entropic = middle * (jump[0] - jump[3] / sound2)
    shear_u, shear_v = (middle * density * (jump[axis] - jump_through * side) for axis, side in ((1, nx), (2, ny)))
    both, apart = backward + forward, (forward - backward) * sound
    damping = np.stack(
        [
            both + entropic,
            both * u + apart * nx + entropic * u + shear_u,
            both * v + apart * ny + entropic * v + shear_v,
            both * enthalpy + apart * through + entropic * kinetic + u * shear_u + v * shear_v,
        ]
    )
    return 0.5 * (flux(left, normal) + flux(right, normal) - length * damping)


def rusanov_flux(left: np.ndarray, right: np.ndarray, normal: np.ndarray) -> np.ndarray:
    """(4, face) ½(F(left) + F(right))·n − ½ the fastest wave · (right − left): more damping, and no false expansions."""
    wave = np.maximum(fastest_wave(left, normal), fastest_wave(right, normal))
    return 0.5 * (flux(left, normal) + flux(right, normal) - wave * (conserved(right) - conserved(left)))


def flux_derivative(primitive: np.ndarray, normal: np.ndarray) -> np.ndarray:
    """(4, 4, face) ∂(F·n)/∂U."""
    _, u, v, _ = primitive
    nx, ny = normal
    through, kinetic = u * nx + v * ny, 0.5 * (GAMMA - 1) * (u * u + v * v)
    enthalpy = _enthalpy(primitive)
    zero, less = np.zeros_like(through), GAMMA - 1
    return np.array(
        [
            [zero, nx, ny, zero],
            [kinetic * nx - u * through, through + (2 - GAMMA) * u * nx, u * ny - less * v * nx, less * nx],
            [kinetic * ny - v * through, v * nx - less * u * ny, through + (2 - GAMMA) * v * ny, less * ny],
            [
                (kinetic - enthalpy) * through,
                enthalpy * nx - less * u * through,
                enthalpy * ny - less * v * through,
                GAMMA * through,
            ],
        ]
    )


def pressure_derivative(primitive: np.ndarray) -> np.ndarray:
    """(4, point) ∂p/∂U."""
    _, u, v, _ = primitive
    return (GAMMA - 1) * np.stack([0.5 * (u * u + v * v), -u, -v, np.ones_like(u)])


def fastest_wave(primitive: np.ndarray, normal: np.ndarray) -> np.ndarray:
    """(face,) (|u·n| + a|n|), n as long as the face."""
    density, u, v, pressure = primitive
    sound = np.sqrt(GAMMA * pressure / density)
    return np.abs(u * normal[0] + v * normal[1]) + sound * np.sqrt(normal[0] ** 2 + normal[1] ** 2)


def _enthalpy(primitive: np.ndarray) -> np.ndarray:
    density, u, v, pressure = primitive
    return GAMMA / (GAMMA - 1) * pressure / density + 0.5 * (u * u + v * v)


def _speed(eigenvalue: np.ndarray, smallest: np.ndarray) -> np.ndarray:
    size = np.abs(eigenvalue)
    return np.where(size < smallest, (size * size + smallest * smallest) / (2 * smallest), size)
