"""Student's t: probabilities agree with integrated densities, quantiles with tables."""

from __future__ import annotations

import math

import numpy as np
import pytest

from workbench.analysis.comparison import student

NODES, WEIGHTS = np.polynomial.legendre.leggauss(60)


def integrated(t: float, freedom: float) -> float:
    """Return the cumulative probability by integrating the density, after Gauss."""
    x = (NODES + 1) / 2 * t
    scale = math.lgamma((freedom + 1) / 2) - math.lgamma(freedom / 2)
    scale -= math.log(freedom * math.pi) / 2
    density = np.exp(scale - (freedom + 1) / 2 * np.log1p(x * x / freedom))
    return 0.5 + float((WEIGHTS / 2 * t) @ density)


@pytest.mark.parametrize("freedom", [0.3, 1, 2.5, 5, 30, 1_000, 1e6])
def test_probabilities_agree_with_the_integral_of_the_density(freedom: float) -> None:
    for t in (0.1, 1, 2, 4):
        expected = integrated(t, freedom)
        assert student.cumulative(t, freedom) == pytest.approx(expected, abs=1e-9)
        assert student.cumulative(-t, freedom) == pytest.approx(1 - expected, abs=1e-9)
        two_sided = 2 * (1 - expected)
        assert student.two_sided(t, freedom) == pytest.approx(two_sided, abs=1e-8)


@pytest.mark.parametrize(
    ("freedom", "expected"),
    [(1, 12.706), (2, 4.303), (5, 2.571), (10, 2.228), (30, 2.042), (1e6, 1.960)],
)
def test_quantiles_are_those_of_the_printed_tables(
    freedom: float, expected: float
) -> None:
    assert student.quantile(0.975, freedom) == pytest.approx(expected, abs=6e-4)
    assert student.quantile(0.025, freedom) == -student.quantile(0.975, freedom)


def test_a_quantile_is_undone_by_its_probability() -> None:
    for freedom in (1.3, 7, 250):
        for probability in (0.01, 0.4, 0.5, 0.8, 0.999):
            value = student.quantile(probability, freedom)
            back = student.cumulative(value, freedom)
            assert back == pytest.approx(probability, abs=1e-12)


def test_tails_keep_their_size_and_end_at_zero() -> None:
    # for two degrees of freedom the tail has a closed form: 1 / t^2 far out
    assert student.two_sided(1e6, 2) == pytest.approx(1e-12, rel=1e-6)
    assert student.two_sided(math.inf, 3) == 0
    assert student.cumulative(-math.inf, 3) == 0
    assert student.cumulative(math.inf, 3) == 1
