"""Floating-point results and averages for NumPy users: as from NumPy, or else as horing.h defines them."""

import numpy as np
import pytest

from horing import Op

SIZES = [2, 3, 4]
COUNTS = [1, 1000, 100_000]


def reduced(on_ranks, arrays, op=Op.SUM):
    """What an all-reduce of the arrays, one for each rank, leaves on each rank."""
    results = [None] * len(arrays)

    def call(comm):
        results[comm.rank] = arrays[comm.rank].copy()
        comm.all_reduce(results[comm.rank], op=op)

    on_ranks(len(arrays), call)
    for result in results[1:]:
        assert result.tobytes() == results[0].tobytes()
    return results[0]


def everywhere(value, dtype, size, count):
    return [np.full(count, value, dtype) for _ in range(size)]


@pytest.mark.parametrize("count", COUNTS)
@pytest.mark.parametrize("dtype", ["f2", "f4", "f8"])
def test_infinities_and_nan_are_those_of_numpy(on_ranks, dtype, count):
    largest = np.finfo(dtype).max
    with np.errstate(all="ignore"):
        for values in ([largest, largest], [np.inf, 1], [-np.inf, largest], [np.inf, -np.inf], [np.nan, 1]):
            arrays = [np.full(count, value, dtype) for value in values]
            np.testing.assert_array_equal(reduced(on_ranks, arrays), arrays[0] + arrays[1])


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("dtype", ["f2", "f4", "f8"])
def test_the_smallest_numbers_are_kept(on_ranks, dtype, size):
    smallest = np.finfo(dtype).smallest_subnormal
    np.testing.assert_array_equal(reduced(on_ranks, everywhere(smallest, dtype, size, 10)), size * smallest)


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("dtype", ["f4", "f8"])
def test_sums_are_as_good_as_those_of_numpy(on_ranks, dtype, size):
    arrays = [np.random.default_rng(rank).standard_normal(10_000).astype(dtype) for rank in range(size)]
    exact = np.sum([array.astype("f8") for array in arrays], axis=0)
    bound = size * np.finfo(dtype).eps * np.sum(np.abs(arrays), axis=0)
    assert (np.abs(reduced(on_ranks, arrays) - exact) <= bound).all()


@pytest.mark.parametrize("count", COUNTS)
def test_averages_of_floats_are_scaled_first(on_ranks, count):
    """np.mean adds first: of the largest numbers it makes infinity, and of the smallest it keeps what may be lost here."""
    largest, smallest = np.finfo("f4").max, np.finfo("f2").smallest_subnormal
    assert (reduced(on_ranks, everywhere(largest, "f4", 2, count), Op.AVG) == largest).all()
    assert (reduced(on_ranks, everywhere(smallest, "f2", 2, count), Op.AVG) <= smallest).all()


@pytest.mark.parametrize("count", COUNTS)
def test_averages_of_integers_wrap(on_ranks, count):
    arrays = everywhere(200, "u1", 2, count)
    assert (reduced(on_ranks, arrays, Op.AVG) == 72).all()
    np.testing.assert_array_equal(reduced(on_ranks, arrays, Op.AVG), (arrays[0] + arrays[1]) // 2)  # which wraps, too


def test_integers_wrap_as_those_of_numpy(on_ranks):
    for dtype in ("i1", "u1", "i4", "i8", "u8"):
        arrays = everywhere(np.iinfo(dtype).max, dtype, 3, 5)
        np.testing.assert_array_equal(reduced(on_ranks, arrays), np.add.reduce(arrays, dtype=dtype))
