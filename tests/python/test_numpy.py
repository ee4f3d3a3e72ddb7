# SPDX-License-Identifier: BSD-3-Clause
"""Collectives on arrays of all kinds, against NumPy."""

import array
import math
from fractions import Fraction
from functools import partial

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import equal
import regression
import switchml
from ranks import each_rank_of

N = 3
TYPES = [np.float32, np.float16, np.int32]
try:
    import ml_dtypes

    TYPES.append(ml_dtypes.bfloat16)
except ImportError:  # NumPy alone has no bfloat16
    pass
TYPES += [np.float64, np.int64, np.int16, np.int8, np.uint8]
MANTISSA = {"float64": 53, "float32": 24, "float16": 11, "bfloat16": 8}
REDUCE = {"sum": np.sum, "avg": np.mean, "max": np.max, "min": np.min}


def allreduce(job, x, op, wire):
    given = x.copy()
    in_place = x.copy()
    out = job.allreduce(x, op=op, wire=wire)
    job.allreduce(in_place, in_place, op=op, wire=wire)
    assert x.tobytes() == given.tobytes(), "the input was changed"
    assert out.tobytes() == in_place.tobytes()
    return out


def inputs_of(seed, shape, dtype):
    rng = np.random.default_rng(seed)
    if np.issubdtype(dtype, np.integer):
        least, most = np.iinfo(dtype).min, np.iinfo(dtype).max
        return [rng.integers(least, most, shape, dtype, endpoint=True) for _ in range(N)]
    if dtype is np.float64:
        return [np.array(rng.standard_normal(shape)) for _ in range(N)]
    scale = np.exp2(rng.integers(-8, 8)).astype(np.float32)
    return [np.array(rng.standard_normal(shape, np.float32) * scale, dtype) for _ in range(N)]


def expected(inputs, op):
    """In more precision than ours; integers as C has them."""
    dtype = inputs[0].dtype
    if not np.issubdtype(dtype, np.integer):
        wide = np.longdouble if dtype == np.float64 else np.float64
        return REDUCE[op](np.stack(inputs).astype(wide), axis=0)
    if op in ("max", "min"):
        return REDUCE[op](np.stack(inputs), axis=0)
    total = np.sum(np.stack(inputs), axis=0, dtype=np.int64)
    if dtype == np.int32:  # wrapped before it is divided
        total = total.astype(np.int32)
    if op == "avg":
        total = np.array(
            np.vectorize(lambda x: abs(int(x)) // N * (1 if x >= 0 else -1), otypes=[object])(total)
        )
    return total.astype(dtype)


def bound(inputs, op, wire):
    """docs/internals/numbers.md: n units of the block, here of the array, and one rounding."""
    x = np.stack(inputs).astype(np.float64)
    largest = float(np.max(np.abs(x), initial=0))
    if inputs[0].dtype == np.float64 and wire is None:
        # Rounded once; small arrays are added one by one.
        return N * N * largest * 2.0**-53
    bits = (15 if wire == "int16" else 31) - math.ceil(math.log2(N))
    exponent = math.frexp(largest)[1]
    unit = 2.0 ** (exponent - bits)
    rounding = N * largest * 2.0 ** -MANTISSA[inputs[0].dtype.name] + 2.0**-24
    return (N * unit + rounding) / (N if op == "avg" else 1)


shapes = st.one_of(
    st.just(()),
    st.tuples(st.sampled_from([0, 1, 2, 117, 118, 351, 352, 353, 704, 705, 1408, 70001])),
    st.lists(st.integers(0, 13), min_size=2, max_size=4).map(tuple),
)


@settings(
    max_examples=120, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(
    seed=st.integers(0, 2**32),
    shape=shapes,
    dtype=st.sampled_from(TYPES),
    op=st.sampled_from(["sum", "avg", "max", "min"]),
    wire=st.sampled_from([None, "int32", "int16"]),
)
def test_allreduce_is_numpys_within_the_bound(ranks, seed, shape, dtype, op, wire):
    inputs = inputs_of(seed, shape, dtype)
    results = ranks.call(allreduce, inputs, [op] * N, [wire] * N)
    for result in results:
        assert result.shape == shape and result.dtype == inputs[0].dtype
        assert result.tobytes() == results[0].tobytes(), "ranks differ"
    exact = expected(inputs, op)
    if np.issubdtype(dtype, np.integer) or op in ("max", "min"):
        assert np.array_equal(results[0].astype(exact.dtype), exact)
    elif exact.size:
        error = np.max(np.abs(results[0].astype(exact.dtype) - exact))
        assert error <= bound(inputs, op, wire)


@pytest.mark.parametrize("op", ["sum", "avg"])
@pytest.mark.parametrize("dtype", [np.float32, np.float16])
def test_int8_is_within_its_bound(ranks, op, dtype):
    """docs/internals/numbers.md: n units of the ranks, 2^s of the switch, and the type's."""
    inputs = inputs_of(8, (70001,), dtype)
    results = ranks.call(allreduce, inputs, [op] * N, ["int8"] * N)
    largest = float(np.max(np.abs(np.stack(inputs).astype(np.float64))))
    unit = 2.0 ** (math.frexp(largest)[1] - 7)
    most = N * unit + 2 ** math.ceil(math.log2(N)) * unit + N * largest * 2.0**-11
    error = np.max(np.abs(results[0].astype(np.float64) - expected(inputs, op)))
    assert 0 < error <= most / (N if op == "avg" else 1)
    assert all(result.tobytes() == results[0].tobytes() for result in results)


def for_all(job, x, residual):
    return job.allreduce(x, wire="int16", residual=residual)


def for_one(job, x, residual):
    """What one rank gets, on all."""
    out = job.reduce(x, 1, wire="int16", residual=residual)
    return job.broadcast(np.empty_like(x) if out is None else out, 1)


def in_parts(job, x, residual):
    """The parts of all ranks; the last one is filled up."""
    more = (0, -len(x) % N)
    x, longer = np.pad(x, more), np.pad(residual, more)
    part = job.reduce_scatter(x, wire="int16", residual=longer)
    residual[:] = longer[: len(residual)]
    return job.allgather(part).ravel()[: len(residual)]


def sum_with_residual(job, function):
    return regression.feed_back(partial(function, job), job.rank)


@pytest.mark.parametrize("function", [for_all, for_one, in_parts])
def test_what_is_rounded_away_is_fed_back(ranks, function):
    regression.check_that_nothing_is_lost(ranks.call(sum_with_residual, [function] * N))


@each_rank_of("ranks")
def test_wrong_residuals_leave_nothing_under_way(job):
    floats, integers = np.ones(N, np.float32), np.ones(N, np.int32)
    short, long = np.zeros(N - 1, np.float32), np.zeros(N)
    for call in (job.allreduce, job.reduce, job.reduce_scatter):
        for elements, op, residual, text in (
            (floats, "sum", short, f"must have {N} float32, but has {N - 1} float32"),
            (floats, "avg", long, f"must have {N} float32, but has {N} float64"),
            (integers, "sum", floats.copy(), "a residual is only for SUM and AVG of float32"),
            (floats, "max", floats.copy(), "a residual is only for SUM and AVG of float32"),
            (floats, "sum", np.broadcast_to(np.float32(0), N), "contiguous|read-only"),
        ):
            with pytest.raises(ValueError, match=text):
                call(elements, op=op, residual=residual)
        assert not job._pending
    assert job.allreduce(floats).tolist() == [N] * N


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_the_exact_wire_keeps_small_numbers_beside_large_ones(ranks, dtype):
    count = 8192 // np.dtype(dtype).itemsize
    rng = np.random.default_rng(7)
    inputs = [rng.standard_normal(count).astype(dtype) for _ in range(N)]
    for i in range(0, count, 5):
        inputs[0][i], inputs[-1][i] = 1e30, -1e30
    for op in ("sum", "avg"):
        exact = [sum(Fraction(float(x[i])) for x in inputs) for i in range(count)]
        divisor = N if op == "avg" else 1
        for result in ranks.call(allreduce, inputs, [op] * N, ["exact"] * N):
            # Rounded once: no other number of the type is nearer.
            for got, sum_ in zip(result, exact, strict=True):
                error = abs(Fraction(float(got)) - sum_ / divisor)
                assert error <= Fraction(float(np.spacing(abs(got)))) / 2


def average_equal(job, wire):
    return equal.changed_by(lambda array: job.allreduce(array, op="avg", wire=wire))


def test_equal_arrays_stay_as_they_are_where_switches_add_integers():
    with equal.ranks_in_kernel() as ranks:
        equal.check(ranks.call(average_equal, [None] * equal.N))
        equal.check(ranks.call(average_equal, ["gradient"] * equal.N), gradients=True)


def test_truth_values_are_ored_and_anded(ranks):
    inputs = [np.array([r == 0, True, False, r > 0]) for r in range(N)]
    for op, right in [("sum", np.any), ("max", np.any), ("min", np.all)]:
        for result in ranks.call(allreduce, inputs, [op] * N, [None] * N):
            assert result.dtype == bool
            assert np.array_equal(result, right(np.stack(inputs), axis=0))


def moved(job, x, root):
    everything = job.allgather(x)
    return everything, job.broadcast(x.copy(), root)


@settings(
    max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(
    seed=st.integers(0, 2**32),
    shape=shapes,
    dtype=st.sampled_from([*TYPES, np.bool_, np.complex64]),
    root=st.integers(0, N - 1),
)
def test_moved_elements_arrive_whole(ranks, seed, shape, dtype, root):
    rng = np.random.default_rng(seed)
    inputs = [np.array(rng.integers(0, 2, shape), dtype) for _ in range(N)]
    for everything, from_root in ranks.call(moved, inputs, [root] * N):
        assert everything.shape == (N, *shape)
        assert everything.tobytes() == np.stack(inputs).tobytes()
        assert from_root.tobytes() == inputs[root].tobytes()


def reduce(job, x, root, op, in_place):
    given = x.copy()
    out = job.reduce(given, root, out=given if in_place else None, op=op)
    return out, in_place or np.array_equal(given, x)


@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize("in_place", [False, True])
def test_reduce_is_an_allreduce_for_one_rank(ranks, dtype, in_place):
    rng = np.random.default_rng(1)
    inputs = [rng.integers(0, 9, (3, 1000)).astype(dtype) for _ in range(N)]
    for root in range(N):
        for op in ("sum", "max"):
            results = ranks.call(reduce, inputs, [root] * N, [op] * N, [in_place] * N)
            everywhere = ranks.call(allreduced, inputs, [op] * N)
            for rank, (out, is_kept) in enumerate(results):
                assert is_kept
                if rank != root:
                    assert out is None
                else:
                    assert out.shape == (3, 1000)
                    assert out.tobytes() == everywhere[rank].tobytes()


def allreduced(job, x, op):
    return job.allreduce(x, op=op)


def reduce_scatter(job, x, op):
    return job.reduce_scatter(x, op=op)


@pytest.mark.parametrize("rows", [0, 1, 5, 400])
@pytest.mark.parametrize("op", ["sum", "max"])
def test_reduce_scatter_keeps_each_ranks_part(ranks, rows, op):
    inputs = [np.arange(rows * N * 7, dtype=np.int32).reshape(-1, 7) * (r + 1) for r in range(N)]
    parts = ranks.call(reduce_scatter, inputs, [op] * N)
    assert np.array_equal(np.concatenate(parts), expected(inputs, op).reshape(-1, 7))


@each_rank_of("ranks")
def test_many_requests_end_in_any_order(job):
    arrays = [np.full(1000 + i, job.rank + i, np.float32) for i in range(50)]
    requests = [job.allreduce_async(x, x) for x in arrays]
    barrier = job.barrier_async()
    assert barrier.wait() is None and barrier.test()
    for request in reversed(requests):
        request.wait()
    assert [float(x[-1]) for x in arrays] == [sum(r + i for r in range(N)) for i in range(50)]
    assert len(job._pending) == 0 and job.counters().tensors > 50


@each_rank_of("ranks")
def test_buffer_protocol_is_written_in_place(job):
    data = array.array("f", [job.rank] * 10)
    job.allreduce(data, data)
    raw = bytearray([job.rank] * 5)
    job.broadcast(raw, root=2)
    assert list(data) == [sum(range(N))] * 10 and raw == bytes([2] * 5)
    assert float(job.allreduce(np.float32(job.rank))) == sum(range(N))


@each_rank_of("ranks")
def test_bad_arguments_raise_and_harm_nothing(job):
    read_only = np.zeros(4, np.float32)
    read_only.flags.writeable = False
    bad = [
        (TypeError, lambda: job.allreduce(np.zeros(3, np.uint32))),
        (TypeError, lambda: job.allreduce("text")),
        (TypeError, lambda: job.allreduce(np.zeros(3, ">f4"))),
        (TypeError, lambda: job.allgather(np.array([None]))),
        (ValueError, lambda: job.allreduce(np.zeros((4, 4), np.float32).T)),
        (ValueError, lambda: job.allreduce(np.zeros(4, np.float32), read_only)),
        (ValueError, lambda: job.allreduce(np.zeros(4, np.float32), np.zeros(3, np.float32))),
        (ValueError, lambda: job.allreduce(np.zeros(4, np.float32), op="product")),
        (ValueError, lambda: job.allreduce(np.zeros(4, np.float32), wire="int4")),
        (ValueError, lambda: job.broadcast(np.zeros(4, np.float32), root=N)),
        (TypeError, lambda: job.reduce(np.zeros(3, np.uint32))),
        (ValueError, lambda: job.reduce(np.zeros(4, np.float32), root=-1)),
        (ValueError, lambda: job.reduce(np.zeros(4, np.float32), op="product")),
        (ValueError, lambda: job.reduce(np.zeros(4), job.rank, out=np.zeros(3))),
        (ValueError, lambda: job.reduce_scatter(np.zeros(N + 1, np.float32))),
    ]
    for kind, call in bad:
        with pytest.raises(kind) as caught:
            call()
        assert str(caught.value)
    assert float(job.allreduce(np.ones(1, np.float32))[0]) == N


class WithUnit(np.ndarray):
    """What astropy's and unyt's arrays are like: a unit beside the elements."""


class WithSlot(np.ndarray):
    __slots__ = ("scale",)


def with_unit():
    made = np.ones(N, np.float32).view(WithUnit)
    made.unit = "m"
    return made


class Kept(np.ndarray):
    """A subclass that adds nothing to its elements."""


@each_rank_of("ranks")
def test_arrays_that_hold_more_than_elements_are_refused_in_words(job):
    """Each call with arrays that hold more than their memory shows, and then a call without."""
    plain = np.ones(N, np.float32)
    for odd in (
        np.ma.array(plain, mask=[True] + [False] * (N - 1)),
        np.ma.array(plain),
        with_unit(),
        plain.view(WithSlot),
    ):
        for call, arguments in (
            (job.allreduce, [odd]),
            (job.allreduce_async, [odd]),
            (job.allreduce, [plain, odd]),
            (job.reduce, [odd]),
            (partial(job.reduce, out=odd), [plain, job.rank]),
            (job.broadcast, [odd]),
            (job.allgather, [odd]),
            (job.allgather, [plain[:1], odd]),
            (job.reduce_scatter, [odd]),
            (job.reduce_scatter, [plain, odd]),
        ):
            with pytest.raises(TypeError, match="would be lost: pass"):
                call(*arguments)
    kept = (plain, np.matrix(plain), plain.view(Kept))
    assert [float(job.allreduce(array).sum()) for array in kept] == [N * N] * 3


def test_without_a_job_every_call_says_so():
    for call in (switchml.rank, switchml.barrier, switchml.counters):
        with pytest.raises(switchml.ClosedError, match="init"):
            call()
    switchml.finalize()
