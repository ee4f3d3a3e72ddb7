# SPDX-License-Identifier: BSD-3-Clause
"""JAX against NumPy: inside and outside jit, gradients, a training, errors."""

import numpy as np
import pytest

import equal
import regression
from programs import check_example
from ranks import Ranks

pytest.importorskip("jax")

N = 3


@pytest.fixture(scope="module")
def ranks():
    with Ranks(N) as them:
        yield them


# ---- run by each rank ----


def reduce_tree(job, op, jitted):
    """Arrays of several types and shapes, and what NumPy says of the same."""
    import jax
    import jax.numpy as jnp

    import switchml.jax as sj

    def make(rank):
        random = np.random.default_rng(rank)
        return {
            "scalar": np.float32(rank + 1),
            "small": random.integers(-9, 9, 5).astype(np.int32),
            "large": [random.integers(-99, 99, (300, 70)).astype(np.float32)],
            "halves": (
                random.integers(-9, 9, 33).astype(np.float16),
                random.integers(-9, 9, (4, 1, 3)).astype(jnp.bfloat16),
            ),
            "empty": np.zeros((0, 3), np.float32),
        }

    def call(tree):
        return sj.allreduce(tree, op=op, job=job)

    found = (jax.jit(call) if jitted else call)(jax.tree.map(jnp.asarray, make(job.rank)))
    numpys = {"sum": np.sum, "avg": np.mean, "max": np.max, "min": np.min}[op]
    everybodys = [make(rank) for rank in range(job.world_size)]

    def combine(*leaves):
        exact = numpys([np.asarray(leaf, np.float64) for leaf in leaves], axis=0)
        if leaves[0].dtype == np.int32:
            exact = np.trunc(exact)
        return exact.astype(leaves[0].dtype)

    expected = jax.tree.map(combine, *everybodys)
    same = jax.tree.map(
        lambda mine, right: (
            mine.dtype == right.dtype
            and mine.shape == right.shape
            and np.allclose(np.asarray(mine, np.float64), np.asarray(right, np.float64), rtol=1e-6)
        ),
        found,
        expected,
    )
    return [str(leaf) for leaf in jax.tree.leaves(same)], _bits(jax.tree.leaves(found))


def _bits(leaves):
    return b"".join(np.asarray(leaf).tobytes() for leaf in leaves)


def reduce_wide(job, op, jitted):
    """Numbers that 32 bits cannot hold. All sums are exact in float64."""
    import jax
    import jax.numpy as jnp

    import switchml.jax as sj

    def make(rank):
        random = np.random.default_rng(rank)
        return {
            "float64": random.integers(-(2**40), 2**40, 1000) / 1024,
            "int64": random.integers(-(2**60), 2**60, 1000),
            "uint8": random.integers(0, 80, 1000).astype(np.uint8),
        }

    def call(tree):
        return sj.allreduce(tree, op=op, job=job)

    jax.config.update("jax_enable_x64", True)
    try:
        mine = jax.tree.map(jnp.asarray, make(job.rank))
        found = jax.tree.map(np.asarray, (jax.jit(call) if jitted else call)(mine))
    finally:
        jax.config.update("jax_enable_x64", False)
    combine = {"sum": np.sum, "max": np.max, "min": np.min}[op]
    everybodys = [make(rank) for rank in range(job.world_size)]
    for name, its in found.items():
        assert its.dtype == np.dtype(name)
        leaves = [tree[name] for tree in everybodys]
        expected = combine(leaves, axis=0).astype(name)
        np.testing.assert_array_equal(its, expected)
    return _bits(found.values())


def many_in_order(job):
    """Calls that depend on nothing but their order, twice as many as make a mistake likely."""
    import jax
    import jax.numpy as jnp

    import switchml.jax as sj

    @jax.jit
    def call(x):
        return [sj.allreduce(jnp.full(i + 1, x * (i + 1)), job=job) for i in range(40)]

    results = [call(jnp.float32(step)) for step in range(5)]  # none waited for
    return [[float(array[0]) for array in step] for step in results]


def gradient_through(job):
    """The loss on rank r is (r + 1) * sum(y ** 2), of y = sum of all x."""
    import jax
    import jax.numpy as jnp

    import switchml.jax as sj

    def loss(x):
        return (job.rank + 1) * jnp.sum(sj.allreduce(x, job=job) ** 2)

    x = jnp.arange(4.0) + job.rank
    return np.asarray(jax.grad(loss)(x)), np.asarray(jax.jit(jax.grad(loss))(x))


def no_gradient(job):
    import jax
    import jax.numpy as jnp

    import switchml.jax as sj

    jax.grad(lambda x: jnp.sum(sj.allreduce(x, op="max", job=job)))(jnp.ones(3))


def broadcast(job, root):
    import jax.numpy as jnp

    import switchml.jax as sj

    tree = {"a": jnp.arange(5) * job.rank, "b": jnp.array([job.rank > 0, True])}
    found = sj.broadcast(tree, root, job=job)
    return np.asarray(found["a"]), np.asarray(found["b"])


def train(job):
    import jax
    import jax.numpy as jnp

    import switchml.jax as sj

    pixels, labels = regression.share(job.rank, job.world_size)

    def loss_of(parameters):
        odds = jax.nn.log_softmax(pixels @ parameters["weights"] + parameters["bias"])
        return -jnp.take_along_axis(odds, labels[:, None], axis=1).mean()

    @jax.jit
    def step(parameters):
        found = jax.value_and_grad(loss_of)(parameters)
        loss, gradients = sj.allreduce(found, op="avg", job=job)
        return loss, jax.tree.map(lambda p, g: p - regression.RATE * g, parameters, gradients)

    parameters = {"weights": jnp.zeros((64, 10)), "bias": jnp.zeros(10)}
    losses = []
    for _ in range(regression.STEPS):
        loss, parameters = step(parameters)
        losses.append(loss)
    return (np.array(losses), np.asarray(parameters["weights"]), np.asarray(parameters["bias"]))


def average_equal(job):
    import jax

    import switchml.jax as sj

    def average(array):
        return sj.allreduce(array, op="avg", job=job)

    def gradient(array):
        return jax.vjp(average, array)[1](array)[0]

    return equal.changed_by(jax.jit(average)), equal.changed_by(jax.jit(gradient))


def wrong_type(job):
    import jax

    import switchml.jax as sj

    jax.jit(lambda x: sj.allreduce(x, job=job))(np.ones(3, np.uint32))


def masked(job):
    import switchml.jax as switchml_jax

    array = np.ma.array(np.ones(4, np.float32), mask=[1, 0, 0, 0])
    for call in (switchml_jax.allreduce, switchml_jax.broadcast):
        with pytest.raises(TypeError, match="the mask"):
            call({"a": [np.ones(4, np.float32), array]}, job=job)
    return switchml_jax.allreduce(np.ones(2, np.float32), job=job).tolist()


def test_a_masked_array_is_refused(ranks):
    assert ranks.call(masked) == [[N] * 2] * N


def wrong_op(job):
    import switchml.jax as sj

    sj.allreduce(np.ones(3, np.float32), op="prod", job=job)


def mismatched(job):
    """Rank 1 has another shape."""
    import jax
    import jax.numpy as jnp

    import switchml.jax as sj

    call = jax.jit(lambda x: sj.allreduce(x, job=job))
    np.asarray(call(jnp.ones(3 + job.rank % 2)))


# ---- the tests ----


@pytest.mark.parametrize("jitted", [False, True], ids=["eager", "jit"])
@pytest.mark.parametrize("op", ["sum", "avg", "max", "min"])
def test_a_tree_is_reduced_as_numpy_does_it(ranks, op, jitted):
    found = ranks.call(reduce_tree, [op] * N, [jitted] * N, timeout=200)
    for same, bits in found:
        assert same == ["True"] * 6
        assert bits == found[0][1]


@pytest.mark.parametrize("jitted", [False, True], ids=["eager", "jit"])
@pytest.mark.parametrize("op", ["sum", "max", "min"])
def test_64_bits_stay_64_bits(ranks, op, jitted):
    found = ranks.call(reduce_wide, [op] * N, [jitted] * N, timeout=200)
    assert found == [found[0]] * N


def test_many_calls_keep_their_order(ranks):
    expected = [[float(N * step * (i + 1)) for i in range(40)] for step in range(5)]
    assert ranks.call(many_in_order, timeout=200) == [expected] * N


def test_a_sum_has_the_gradient_of_all_ranks_losses(ranks):
    y = N * np.arange(4.0) + sum(range(N))
    expected = 2 * y * sum(rank + 1 for rank in range(N))
    for eager, jitted in ranks.call(gradient_through, timeout=200):
        np.testing.assert_allclose(eager, expected, rtol=1e-6)
        np.testing.assert_allclose(jitted, expected, rtol=1e-6)


def test_a_maximum_has_no_gradient(ranks):
    ranks.start(no_gradient)
    for outcome in ranks.outcomes():
        assert "has no gradient" in str(outcome)


def test_root_s_arrays_are_everybody_s(ranks):
    for a, b in ranks.call(broadcast, [1] * N):
        np.testing.assert_array_equal(a, np.arange(5))
        np.testing.assert_array_equal(b, [True, True])


def test_a_training_is_that_of_one_rank(ranks):
    regression.check(ranks.call(train, timeout=200))


def test_equal_arrays_stay_as_they_are_where_switches_add_integers():
    with equal.ranks_in_kernel() as them:
        arrays, gradients = zip(*them.call(average_equal), strict=True)
    equal.check(list(arrays))
    equal.check(list(gradients), gradients=True)


def test_mistakes_are_told_at_once_and_change_nothing(ranks):
    ranks.start(wrong_type)
    for outcome in ranks.outcomes():
        assert outcome.kind == "TypeError"
        assert "uint32 cannot be combined" in str(outcome)
    ranks.start(wrong_op)
    for outcome in ranks.outcomes():
        assert outcome.kind == "ValueError"
    regression.check(ranks.call(train, timeout=200))


def test_a_failed_call_says_why():
    with Ranks(2) as them:
        them.start(mismatched)
        for outcome in them.outcomes():
            assert "rank 1" in str(outcome) and "rank 0" in str(outcome)


def test_the_example_trains():
    check_example("jax_digits.py", "--epochs", "8")
