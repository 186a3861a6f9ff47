"""The orders of the contraction, one class each; `ORDERS` is what a plan chooses from."""

from calm_pde.engine.orders.dense import Dense
from calm_pde.engine.orders.kernel import Kernel
from calm_pde.engine.orders.order import Chunk, Order, Sizes, Sums
from calm_pde.engine.orders.pool import Pool
from calm_pde.engine.orders.push import Push

KERNEL, POOL, PUSH, DENSE = Kernel(), Pool(), Push(), Dense()

ORDERS: tuple[Order, ...] = (KERNEL, POOL, PUSH, DENSE)

__all__ = ["DENSE", "KERNEL", "ORDERS", "POOL", "PUSH", "Chunk", "Order", "Sizes", "Sums"]
