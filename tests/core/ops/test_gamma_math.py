"""The gamma, zeta and error functions in every range of their formulas, beside each border and at the ends."""

from __future__ import annotations

import math

import numpy as np
import pytest

import core

S = core.special
INF, NAN = math.inf, math.nan
# By mpmath with 40 digits.
KNOWN = {
    "gammaln": {0.25: 1.2880225246980774, 0.001: 6.907178885383853, 0.75: 0.20328095143129538,
        1.25: -0.09827183642181316, 1.75: -0.08440112102048555, 2.5: 0.2846828704729192, 2.75: 0.47521466691493713,
        5.3: 3.6396360690666856, 9.5: 11.689333420797269, 9.99: 12.779315214350193, 10.5: 13.940625219403763,
        33.0: 81.55795945611504, -2.3: 0.36956666345500805, -7.6: -8.56298627582828, -12.25: -19.129891966572256},
    "digamma": {0.001: -1000.5755719318103, 0.3: -3.502524222200133, 3.7: 1.1671535393615113,
        9.5: 2.1977378764029494, 10.5: 2.3030010342976865, 40.0: 3.676327374034843, -0.25: 2.9141391202135276,
        -3.6: 0.39267528447471195, -11.3: 4.750899068803326},
    "erfinv": {1e-09: 8.86226925452758e-10, 0.1: 0.08885599049425769, 0.49: 0.46586860023505733,
        0.51: 0.4881220505159588, -0.8: -0.9061938024368233, 0.999: 2.3267537655135246,
        0.9999999999990905: 5.05125408524939},
    "ndtri": {1e-10: -6.361340902404057, 0.01: -2.326347874040841, 0.2: -0.8416212335729142,
        0.3: -0.5244005127080408, 0.6: 0.2533471031357997, 0.76: 0.7063025628400875, 0.999: 3.090232306167813},
    "erfcx": {0.0: 1.0, 0.3: 0.7345993345676551, 0.99: 0.4303312130641483, 1.01: 0.4248668143112,
        2.5: 0.2108063640611436, 30.0: 0.01879588886141675, -0.5: 1.952360489182557, -3.0: 16205.988853999586},
    "log_ndtr": {-40.0: -804.6084420137538, -2.5: -5.08164827727869, -1.01: -1.8563130623431785,
        -0.99: -1.8258103178428124, 0.0: -0.6931471805599453, 0.7: -0.2770239422771313, 3.0: -0.0013508099647481938,
        9.0: -1.1285884059538405e-19},
}  # fmt: skip
KNOWN_OF_TWO = {
    "zeta": {(1.5, 0.3): 8.237761671459724, (3.2, 2.5): 0.09258784531532412, (2.0, 10.5): 0.09991695605912673,
        (7.0, 25.0): 7.684022905359088e-10, (1.1, 1.0): 10.584448464950801, (30.0, 1.5): 5.215096203815732e-06},
    "gammainc": {(0.3, 0.2): 0.6575067242697218, (0.5, 3.0): 0.9856941215645704, (3.5, 2.0): 0.22022259152428408,
        (3.5, 4.4): 0.7326639799826219, (3.5, 4.6): 0.7613858984871401, (9.5, 12.0): 0.8038476427925046,
        (12.0, 9.0): 0.19699161747065785, (60.0, 75.0): 0.9669265190886953, (2.0, 30.0): 0.9999999999970991},
    "gammaincc": {(0.3, 0.2): 0.34249327573027827, (0.5, 3.0): 0.01430587843542964, (3.5, 2.0): 0.779777408475716,
        (9.5, 12.0): 0.1961523572074954, (12.0, 9.0): 0.8030083825293421, (60.0, 75.0): 0.033073480911304666,
        (2.0, 30.0): 2.900863120340454e-12},
}  # fmt: skip
# What a limit is, or NaN where there is none.
ENDS = {
    "gammaln": {0.0: INF, -1.0: INF, -2.0: INF, INF: INF, -INF: INF, NAN: NAN, 1.0: 0.0, 2.0: 0.0},
    "digamma": {0.0: -INF, -1.0: NAN, -7.0: NAN, INF: INF, -INF: NAN, NAN: NAN},
    "erfinv": {0.0: 0.0, 1.0: INF, -1.0: -INF, 1.5: NAN, -1.5: NAN, NAN: NAN},
    "ndtri": {0.0: -INF, 0.5: 0.0, 1.0: INF, -0.1: NAN, 1.1: NAN},
    "erfcx": {INF: 0.0, -INF: INF, NAN: NAN},
    "log_ndtr": {INF: 0.0, -INF: -INF, NAN: NAN},
}  # fmt: skip
ENDS_OF_TWO = {
    "zeta": {(1.0, 2.0): INF, (0.5, 2.0): NAN, (2.0, 0.0): INF, (2.0, -3.0): INF, (2.5, -0.5): NAN, (2.0, INF): 0.0,
             (INF, 2.0): 0.0, (INF, 1.0): 1.0, (NAN, 2.0): NAN, (2.0, NAN): NAN},
    "gammainc": {(0.0, 0.0): NAN, (2.0, 0.0): 0.0, (0.0, 2.0): 1.0, (INF, 2.0): 0.0, (INF, INF): NAN, (2.0, INF): 1.0,
                 (-1.0, 2.0): NAN, (2.0, -1.0): NAN, (NAN, 2.0): NAN, (2.0, NAN): NAN},
    "gammaincc": {(0.0, 0.0): NAN, (2.0, 0.0): 1.0, (0.0, 2.0): 0.0, (INF, 2.0): 1.0, (INF, INF): NAN, (2.0, INF): 0.0,
                  (-1.0, 2.0): NAN, (2.0, -1.0): NAN, (NAN, 2.0): NAN, (2.0, NAN): NAN},
}  # fmt: skip


@pytest.mark.parametrize("name", KNOWN)
def test_in_every_range(name: str) -> None:
    points = KNOWN[name]
    got = getattr(S, name)(core.tensor(list(points), dtype=core.float64))
    np.testing.assert_allclose(got.numpy(), list(points.values()), rtol=1e-14)


@pytest.mark.parametrize("name", KNOWN_OF_TWO)
def test_of_two_in_every_range(name: str) -> None:
    points = KNOWN_OF_TWO[name]
    first, second = core.tensor(list(points), dtype=core.float64).unbind(1)
    np.testing.assert_allclose(getattr(S, name)(first, second).numpy(), list(points.values()), rtol=1e-14)


@pytest.mark.parametrize("name", ENDS)
def test_at_the_ends(name: str) -> None:
    points = ENDS[name]
    got = getattr(S, name)(core.tensor(list(points), dtype=core.float64))
    np.testing.assert_allclose(got.numpy(), list(points.values()), atol=1e-15)


@pytest.mark.parametrize("name", ENDS_OF_TWO)
def test_of_two_at_the_ends(name: str) -> None:
    points = ENDS_OF_TWO[name]
    first, second = core.tensor(list(points), dtype=core.float64).unbind(1)
    np.testing.assert_array_equal(getattr(S, name)(first, second).numpy(), list(points.values()))
