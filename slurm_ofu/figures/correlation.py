"""How well two figures of the same things go together."""

import math
from collections.abc import Sequence


def pearson(pairs: Sequence[tuple[float, float]]) -> float | None:
    """Pearson's r; ``None`` below three pairs, or where one of the figures is the same for all."""
    if len(pairs) < 3:
        return None
    mean_x, mean_y = (math.fsum(column) / len(pairs) for column in zip(*pairs, strict=True))
    squares_x = math.fsum((x - mean_x) ** 2 for x, _ in pairs)
    squares_y = math.fsum((y - mean_y) ** 2 for _, y in pairs)
    spread = math.sqrt(squares_x) * math.sqrt(squares_y)
    if spread <= 0:
        return None
    product = math.fsum((x - mean_x) * (y - mean_y) for x, y in pairs)
    return max(-1.0, min(1.0, product / spread))
