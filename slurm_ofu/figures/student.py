"""Student's t: the quantile that turns one sigma into the half-width of a 95 % interval.

A distribution library would be a large dependency for one number, so it is computed here: by the
expansion around the normal quantile where that is exact enough (Abramowitz & Stegun 26.7.5), else
by Newton's method on the incomplete beta function.
"""

import math

NORMAL_QUANTILE = 1.959963984540054  # of 0.975
_TWO_SIDED = 0.05
_EXPANSION_FROM_DEGREES = 30.0  # from here on the expansion is off by less than 1e-6


def t_quantile(degrees: float) -> float:
    """t(0.975, degrees). Fewer than one degree of freedom counts as one; infinitely many are fine."""
    if degrees >= _EXPANSION_FROM_DEGREES:
        return _expansion(degrees)
    return _newton(max(1.0, degrees))


def upper_tail(t: float, degrees: float) -> float:
    """The probability of a value above ``t`` (at least 0), with that many degrees of freedom."""
    return _both_tails(t, degrees) / 2


def _expansion(degrees: float) -> float:
    x = NORMAL_QUANTILE
    terms = (
        (x**3 + x) / 4,
        (5 * x**5 + 16 * x**3 + 3 * x) / 96,
        (3 * x**7 + 19 * x**5 + 17 * x**3 - 15 * x) / 384,
        (79 * x**9 + 776 * x**7 + 1482 * x**5 - 1920 * x**3 - 945 * x) / 92160,
    )
    per_degree = 1 / degrees
    return x + sum(term * per_degree**power for power, term in enumerate(terms, start=1))


def _newton(degrees: float) -> float:
    """From below, where the distribution function is concave: every step comes nearer, none goes past."""
    t = NORMAL_QUANTILE
    for _ in range(60):
        step = (_both_tails(t, degrees) - _TWO_SIDED) / (2 * _density(t, degrees))
        t += step
        if abs(step) < 1e-12 * t:
            break
    return t


def _density(t: float, degrees: float) -> float:
    log_scale = math.lgamma((degrees + 1) / 2) - math.lgamma(degrees / 2) - math.log(degrees * math.pi) / 2
    return math.exp(log_scale - (degrees + 1) / 2 * math.log1p(t * t / degrees))


def _both_tails(t: float, degrees: float) -> float:
    """The probability of lying farther out than ``t`` on either side."""
    return _incomplete_beta(degrees / 2, 0.5, degrees / (degrees + t * t))


def _incomplete_beta(a: float, b: float, x: float) -> float:
    """The regularised incomplete beta function I_x(a, b) for 0 < x < 1."""
    log_front = (
        math.lgamma(a + b)
        - math.lgamma(a)
        - math.lgamma(b)
        + a * math.log(x)
        + b * math.log1p(-x)
    )  # fmt: skip
    front = math.exp(log_front)
    if x < (a + 1) / (a + b + 2):
        return front * _beta_fraction(a, b, x) / a
    return 1 - front * _beta_fraction(b, a, 1 - x) / b


def _beta_fraction(a: float, b: float, x: float) -> float:
    """The continued fraction of the incomplete beta function, by Lentz's method."""
    tiny = 1e-300
    c, d = 1.0, 1 / (1 - (a + b) * x / (a + 1) or tiny)
    value = d
    for m in range(1, 300):
        even = m * (b - m) * x / ((a + 2 * m - 1) * (a + 2 * m))
        odd = -(a + m) * (a + b + m) * x / ((a + 2 * m) * (a + 2 * m + 1))
        for term in (even, odd):
            d = 1 / (1 + term * d or tiny)
            c = 1 + term / c or tiny
            value *= c * d
        if abs(c * d - 1) < 1e-15:
            break
    return value
