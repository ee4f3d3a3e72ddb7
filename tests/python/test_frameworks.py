# SPDX-License-Identifier: BSD-3-Clause
"""What JAX and TensorFlow both promise, against NumPy: eagerly and compiled.

test_keras.py has what TensorFlow promises alone.
"""

import importlib.util

import numpy as np
import pytest

import equal
import regression
from frameworks import FRAMEWORKS
from programs import check_example
from ranks import Ranks, each_rank_of

N = 3
REDUCE = {"sum": np.sum, "avg": np.mean, "max": np.max, "min": np.min}


@pytest.fixture(scope="module", params=FRAMEWORKS)
def name(request):
    if importlib.util.find_spec(request.param) is None:
        pytest.skip(f"there is no {request.param}")
    return request.param


@pytest.fixture(scope="module")
def ranks(name):
    """Others for each framework."""
    with Ranks(N) as them:
        yield them


def call(ranks, function, *same):
    return ranks.call(function, *([argument] * ranks.n for argument in same), timeout=200)


both_forms = pytest.mark.parametrize("compiled", [False, True], ids=["eager", "compiled"])


# ---- run by each rank ----


def form(framework, compiled):
    return framework.compiled if compiled else lambda function: function


def reduce_structure(job, name, op, compiled):
    """Arrays of several types and shapes, and what NumPy says of the same."""
    import ml_dtypes

    def make(rank):
        random = np.random.default_rng(rank)
        return {
            "scalar": np.float32(rank + 1),
            "small": random.integers(-9, 9, 5).astype(np.int32),
            "large": [random.integers(-99, 99, (300, 70)).astype(np.float32)],
            "halves": (
                random.integers(-9, 9, 33).astype(np.float16),
                random.integers(-9, 9, (4, 1, 3)).astype(ml_dtypes.bfloat16),
            ),
            "empty": np.zeros((0, 3), np.float32),
        }

    def combine(*leaves):
        exact = REDUCE[op]([np.asarray(leaf, np.float64) for leaf in leaves], axis=0)
        if leaves[0].dtype == np.int32:
            exact = np.trunc(exact)
        return exact.astype(leaves[0].dtype)

    def check(its, right):
        its = np.asarray(its)
        assert its.dtype == right.dtype and its.shape == right.shape
        right = right.astype(np.float64)
        np.testing.assert_allclose(its.astype(np.float64), right, rtol=1e-6)
        return its.tobytes()

    framework = FRAMEWORKS[name](job)
    reduce = form(framework, compiled)(lambda tree: framework.allreduce(tree, op=op))
    found = reduce(framework.constants(make(job.rank)))
    expected = framework.map(combine, *map(make, range(job.world_size)))
    # It raises if the structures differ.
    return b"".join(framework.flatten(framework.map(check, found, expected)))


def reduce_wide(job, name, op, compiled):
    """Numbers that 32 bits cannot hold. All sums are exact in float64."""

    def make(rank):
        random = np.random.default_rng(rank)
        return {
            "float64": random.integers(-(2**40), 2**40, 1000) / 1024,
            "int64": random.integers(-(2**60), 2**60, 1000),
            "uint8": random.integers(0, 80, 1000).astype(np.uint8),
        }

    framework = FRAMEWORKS[name](job)
    with framework.wide():
        reduce = form(framework, compiled)(lambda tree: framework.allreduce(tree, op=op))
        found = reduce(framework.constants(make(job.rank)))
        found = {type_name: np.asarray(its) for type_name, its in found.items()}
    everybodys = [make(rank) for rank in range(job.world_size)]
    for type_name, its in found.items():
        assert its.dtype == np.dtype(type_name)
        expected = REDUCE[op]([tree[type_name] for tree in everybodys], axis=0).astype(type_name)
        np.testing.assert_array_equal(its, expected)
    return b"".join(its.tobytes() for its in found.values())


@each_rank_of("ranks")
def test_a_maximum_has_no_gradient(job, name):
    framework = FRAMEWORKS[name](job)
    x = framework.constants(np.ones(3, np.float32))
    with pytest.raises(Exception, match="has no gradient"):
        framework.gradient(lambda x: framework.sum(framework.allreduce(x, op="max")), x)


@each_rank_of("ranks")
def test_root_s_arrays_are_everybody_s(job, name):
    arrays = {
        "a": np.arange(5, dtype=np.float32) * job.rank,
        "b": np.array([job.rank > 0, True]),
        "c": np.array([[job.rank]], np.int64),
        "d": np.float64(job.rank),
    }
    framework = FRAMEWORKS[name](job)
    found = framework.broadcast(arrays, 1)

    def check(its, given):
        assert its.dtype == given.dtype and its.shape == given.shape
        return np.asarray(its)

    checked = framework.map(check, found, framework.constants(arrays))
    expected = {"a": [0.0, 1.0, 2.0, 3.0, 4.0], "b": [True, True], "c": [[1]], "d": 1.0}
    assert {its: array.tolist() for its, array in checked.items()} == expected


def train(job, name, compiled):
    framework = FRAMEWORKS[name](job)
    return framework.train(form(framework, compiled))


def average_equal(job, name):
    return [equal.changed_by(function) for function in FRAMEWORKS[name](job).averages()]


def sum_with_residual(job, name, compiled):
    framework = FRAMEWORKS[name](job)
    residual = np.zeros(9001, np.float32)
    reduce = form(framework, compiled)(
        lambda x: framework.allreduce([x], wire="int16", residuals=[residual])[0]
    )

    def allreduce(array, kept):
        residual[:] = kept
        found = np.asarray(reduce(framework.constants(array)))
        kept[:] = residual
        return found

    return regression.feed_back(allreduce, job.rank)


def mistakes(job, name):
    framework = FRAMEWORKS[name](job)
    for type_name in ("uint32", "complex64"):
        array = framework.constants(np.ones(3, type_name))
        for reduce in (framework.allreduce, framework.compiled(framework.allreduce)):
            with pytest.raises(TypeError, match=f"{type_name} cannot be combined"):
                reduce(array)
    with pytest.raises(ValueError, match="prod"):
        framework.allreduce(np.ones(3, np.float32), op="prod")


def mismatched(job, name, compiled):
    """Rank 1 has another shape."""
    framework = FRAMEWORKS[name](job)
    array = framework.constants(np.ones(3 + job.rank % 2, np.float32))
    np.asarray(form(framework, compiled)(framework.allreduce)(array))


# ---- the tests ----


@both_forms
@pytest.mark.parametrize("op", ["sum", "avg", "max", "min"])
def test_a_structure_is_reduced_as_numpy_does_it(ranks, name, op, compiled):
    found = call(ranks, reduce_structure, name, op, compiled)
    assert found == [found[0]] * N


@both_forms
@pytest.mark.parametrize("op", ["sum", "max", "min"])
def test_64_bits_stay_64_bits(ranks, name, op, compiled):
    found = call(ranks, reduce_wide, name, op, compiled)
    assert found == [found[0]] * N


@each_rank_of("ranks")
def test_many_calls_keep_their_order(job, name):
    """Calls that depend on nothing but their order, twice as many as make a mistake likely."""
    framework = FRAMEWORKS[name](job)
    many = framework.compiled(
        lambda x: [framework.allreduce(framework.full(i + 1, x * (i + 1))) for i in range(40)]
    )
    results = [many(framework.constants(np.float32(step))) for step in range(5)]  # none waited for
    expected = [[float(N * step * (i + 1)) for i in range(40)] for step in range(5)]
    assert [[float(array[0]) for array in step] for step in results] == expected


@each_rank_of("ranks")
def test_a_sum_has_the_gradient_of_all_ranks_losses(job, name):
    """The loss on rank r is (r + 1) * sum(y ** 2), of y = sum of all x."""
    framework = FRAMEWORKS[name](job)

    def gradient(x):
        def loss(x):
            return (job.rank + 1.0) * framework.sum(framework.allreduce(x) ** 2)

        return framework.gradient(loss, x)

    x = framework.constants(np.arange(4, dtype=np.float32) + job.rank)
    forms = np.asarray(gradient(x)), np.asarray(framework.compiled(gradient)(x))
    y = N * np.arange(4.0) + sum(range(N))
    expected = 2 * y * sum(rank + 1 for rank in range(N))
    for found in forms:
        np.testing.assert_allclose(found, expected, rtol=1e-6)


@both_forms
def test_a_training_is_that_of_one_rank(ranks, name, compiled):
    regression.check(call(ranks, train, name, compiled))


def test_equal_arrays_stay_as_they_are_where_switches_add_integers(name):
    with equal.ranks_in_kernel() as them:
        arrays, *gradients = zip(*call(them, average_equal, name), strict=True)
    equal.check(list(arrays))
    for their in gradients:
        equal.check(list(their), gradients=True)


@each_rank_of("ranks")
def test_a_masked_array_is_refused(job, name):
    framework = FRAMEWORKS[name](job)
    array = np.ma.array(np.ones(4, np.float32), mask=[1, 0, 0, 0])
    in_tree = {"a": [np.ones(4, np.float32), array]}
    for taker, argument in (
        (framework.allreduce, array),
        (framework.allreduce, in_tree),
        *((taker, array) for taker in framework.other_takers()),
    ):
        with pytest.raises(TypeError, match="the mask"):
            taker(argument)
    assert np.asarray(framework.allreduce(np.ones(2, np.float32))).tolist() == [N] * 2


@both_forms
def test_what_is_rounded_away_is_fed_back(ranks, name, compiled):
    regression.check_that_nothing_is_lost(call(ranks, sum_with_residual, name, compiled))


@each_rank_of("ranks")
@both_forms
def test_wrong_residuals_leave_nothing_under_way(job, name, compiled):
    """The mistakes are in the last array: nothing of the others is under way then."""
    framework = FRAMEWORKS[name](job)

    def reduce(last, residuals):
        call = form(framework, compiled)(
            lambda first, last: framework.allreduce([first, last], residuals=residuals)
        )
        call(*framework.constants([np.ones(2, np.float32), last]))

    floats, good = np.ones(3, np.float32), np.zeros(2, np.float32)
    for last, residuals, text in (
        (floats, [good, np.zeros(2, np.float32)], "must have 3 float32, but has 2 float32"),
        (floats, [good, np.zeros(3)], "must have 3 float32, but has 3 float64"),
        (np.ones(3, np.int32), [good, np.zeros(3, np.float32)], "only for SUM and AVG of float32"),
        (np.ones(2, np.float32), [good, good], "two residuals overlap"),
        (floats, [good], "structure|arity"),
        (floats, [good, [good]], "structure|not an array"),
    ):
        with pytest.raises(Exception, match=text):
            reduce(last, residuals)
        assert not job._pending
    assert np.asarray(framework.allreduce(framework.constants(floats))).tolist() == [N] * 3


def test_mistakes_are_told_at_once_and_change_nothing(ranks, name):
    call(ranks, mistakes, name)
    regression.check(call(ranks, train, name, True))


@both_forms
def test_a_failed_call_says_why(name, compiled):
    with Ranks(2) as them:
        them.start(mismatched, [name] * 2, [compiled] * 2)
        for outcome in them.outcomes():
            assert "rank 1" in str(outcome) and "rank 0" in str(outcome)


def test_the_example_trains(name):
    check_example(f"{name}_digits.py", "--epochs", "8")
