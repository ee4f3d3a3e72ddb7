# SPDX-License-Identifier: BSD-3-Clause
"""TensorFlow against NumPy: eagerly and in tf.functions, gradients, trainings, errors."""

import importlib.util
import os

import numpy as np
import pytest

import equal
import regression
from programs import check_example
from ranks import Ranks

if importlib.util.find_spec("tensorflow") is None:
    pytest.skip("there is no TensorFlow", allow_module_level=True)

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")  # of the ranks; this process imports none

N = 3


@pytest.fixture(scope="module")
def ranks():
    with Ranks(N) as them:
        yield them


# ---- run by each rank ----


def reduce_structure(job, op, graph):
    """Tensors of several types and shapes, and what NumPy says of the same."""
    import ml_dtypes
    import tensorflow as tf

    import switchml.tensorflow as st

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

    def call(structure):
        return st.allreduce(structure, op=op, job=job)

    mine = tf.nest.map_structure(tf.constant, make(job.rank))
    found = tf.nest.flatten((tf.function(call) if graph else call)(mine))
    numpys = {"sum": np.sum, "avg": np.mean, "max": np.max, "min": np.min}[op]
    everybodys = [tf.nest.flatten(make(rank)) for rank in range(job.world_size)]
    for its, leaves in zip(found, zip(*everybodys, strict=True), strict=True):
        exact = numpys([np.asarray(leaf, np.float64) for leaf in leaves], axis=0)
        if leaves[0].dtype == np.int32:
            exact = np.trunc(exact)
        assert its.numpy().dtype == leaves[0].dtype and its.shape == leaves[0].shape
        right = exact.astype(leaves[0].dtype).astype(np.float64)
        np.testing.assert_allclose(its.numpy().astype(np.float64), right, rtol=1e-6)
    return b"".join(its.numpy().tobytes() for its in found)


def reduce_wide(job, op, graph):
    """Numbers that 32 bits cannot hold. All sums are exact in float64."""
    import tensorflow as tf

    import switchml.tensorflow as st

    def make(rank):
        random = np.random.default_rng(rank)
        return {
            "float64": random.integers(-(2**40), 2**40, 1000) / 1024,
            "int64": random.integers(-(2**60), 2**60, 1000),
            "uint8": random.integers(0, 80, 1000).astype(np.uint8),
        }

    def call(structure):
        return st.allreduce(structure, op=op, job=job)

    mine = tf.nest.map_structure(tf.constant, make(job.rank))
    found = (tf.function(call) if graph else call)(mine)
    combine = {"sum": np.sum, "max": np.max, "min": np.min}[op]
    everybodys = [make(rank) for rank in range(job.world_size)]
    for name, its in found.items():
        assert its.dtype.as_numpy_dtype == np.dtype(name)
        expected = combine([tree[name] for tree in everybodys], axis=0).astype(name)
        np.testing.assert_array_equal(its.numpy(), expected)
    return b"".join(its.numpy().tobytes() for its in found.values())


def many_in_order(job):
    """Calls that depend on nothing but their order in the program."""
    import tensorflow as tf

    import switchml.tensorflow as st

    @tf.function
    def call(x):
        return [st.allreduce(tf.fill([i + 1], x * (i + 1)), job=job) for i in range(40)]

    return [[float(tensor[0]) for tensor in call(tf.constant(float(step)))] for step in range(5)]


def gradient_through(job):
    """The loss on rank r is (r + 1) * sum(y ** 2), of y = sum of all x."""
    import tensorflow as tf

    import switchml.tensorflow as st

    def gradient():
        x = tf.range(4.0) + float(job.rank)
        with tf.GradientTape() as tape:
            tape.watch(x)
            loss = (job.rank + 1.0) * tf.reduce_sum(st.allreduce(x, job=job) ** 2)
        return tape.gradient(loss, x)

    return gradient().numpy(), tf.function(gradient)().numpy()


def odd_gradients(job):
    """A variable that the loss does not know, a sparse gradient, a structure of sources."""
    import tensorflow as tf

    import switchml.tensorflow as st

    rank = job.rank
    table = tf.Variable(tf.zeros((6, 2)))
    unused, used = tf.Variable(1.0), tf.Variable(2.0)
    with st.DistributedGradientTape(tf.GradientTape(), op="sum", job=job) as tape:
        loss = tf.reduce_sum(tf.gather(table, [rank, rank + 1])) + used * float(rank)
    found = tape.gradient(loss, {"table": table, "others": [unused, used]})
    assert tape.watched_variables()  # else it is the tape
    return found["table"].numpy(), found["others"][0], found["others"][1].numpy()


def average_equal(job):
    import tensorflow as tf

    import switchml.tensorflow as st

    def gradient(array):
        """By the tape, of what has the array as its gradient."""
        variable = tf.Variable(tf.zeros_like(array))
        with st.DistributedGradientTape(tf.GradientTape(), job=job) as tape:
            loss = tf.reduce_sum(variable * array)
        return tape.gradient(loss, variable)

    def applied(array):
        """By the optimizer, which subtracts it from zeros."""
        variable = tf.Variable(tf.zeros_like(array))
        optimizer = st.DistributedOptimizer(tf.keras.optimizers.SGD(1.0), job=job)
        optimizer.apply([tf.convert_to_tensor(array)], [variable])
        return -variable.numpy()

    def average(array):
        return st.allreduce(array, op="avg", job=job)

    return [equal.changed_by(function) for function in (average, gradient, applied)]


def train(job, graph):
    import tensorflow as tf

    import switchml.tensorflow as st

    pixels, labels = regression.share(job.rank, job.world_size)
    weights, bias = tf.Variable(tf.zeros((64, 10))), tf.Variable(tf.zeros(10))

    def step():
        with st.DistributedGradientTape(tf.GradientTape(), job=job) as tape:
            logits = pixels @ weights + bias
            loss = tf.reduce_mean(
                tf.nn.sparse_softmax_cross_entropy_with_logits(labels=labels, logits=logits)
            )
        for variable, gradient in zip(
            (weights, bias), tape.gradient(loss, (weights, bias)), strict=True
        ):
            variable.assign_sub(regression.RATE * gradient)
        return st.allreduce(loss, op="avg", job=job)

    if graph:
        step = tf.function(step)
    losses = [step().numpy() for _ in range(regression.STEPS)]
    return np.array(losses), weights.numpy(), bias.numpy()


def train_with_keras(job):
    """The same by model.fit(), all of a rank's images in one batch."""
    import tensorflow as tf

    import switchml.tensorflow as st

    pixels, labels = regression.share(job.rank, job.world_size)
    model = tf.keras.Sequential(
        [tf.keras.layers.Input((64,)), tf.keras.layers.Dense(10, kernel_initializer="zeros")]
    )
    optimizer = tf.keras.optimizers.SGD(regression.RATE)
    same = st.DistributedOptimizer(optimizer, job=job)
    assert same is optimizer and isinstance(same, tf.keras.optimizers.SGD)
    losses = []

    class Losses(tf.keras.callbacks.Callback):
        def on_train_batch_end(self, batch, logs=None):
            losses.append(st.allreduce(np.float32(logs["loss"]), op="avg", job=job).numpy())

    model.compile(same, tf.keras.losses.SparseCategoricalCrossentropy(from_logits=True))
    model.fit(
        pixels,
        labels,
        batch_size=len(labels),
        epochs=regression.STEPS,
        shuffle=False,
        verbose=0,
        callbacks=[Losses()],
    )
    saved = tf.keras.optimizers.deserialize(tf.keras.optimizers.serialize(same))
    assert type(saved) is tf.keras.optimizers.SGD
    return np.array(losses), *model.get_weights()


def broadcast(job, root):
    import tensorflow as tf

    import switchml.tensorflow as st

    variables = [
        tf.Variable(tf.range(5.0) * job.rank),
        tf.Variable([[job.rank]], dtype=tf.int64),
        tf.Variable(job.rank > 0),
        tf.Variable(tf.cast(job.rank, tf.float64)),
    ]
    st.broadcast_variables(variables, root, job=job)
    return [variable.numpy().tolist() for variable in variables]


def wrong_type(job, graph):
    import tensorflow as tf

    import switchml.tensorflow as st

    def call():
        return st.allreduce(tf.ones(3, tf.complex64), job=job)

    (tf.function(call) if graph else call)()


def masked(job):
    import switchml.tensorflow as switchml_tf

    array = np.ma.array(np.ones(4, np.float32), mask=[1, 0, 0, 0])
    for call in (
        lambda: switchml_tf.allreduce(array, job=job),
        lambda: switchml_tf.allreduce({"a": [np.ones(4), array]}, job=job),
        lambda: switchml_tf._reduce_gradients([array], "avg", None, job),
    ):
        with pytest.raises(TypeError, match="the mask"):
            call()
    return switchml_tf.allreduce(np.ones(2, np.float32), job=job).numpy().tolist()


def test_a_masked_array_is_refused(ranks):
    assert ranks.call(masked) == [[N] * 2] * N


def wrong_op(job):
    import tensorflow as tf

    import switchml.tensorflow as st

    st.DistributedGradientTape(tf.GradientTape(), op="prod", job=job)


def mismatched(job, graph):
    """Rank 1 has another shape."""
    import tensorflow as tf

    import switchml.tensorflow as st

    def call():
        return st.allreduce(tf.ones(3 + job.rank % 2), job=job)

    (tf.function(call) if graph else call)()


# ---- the tests ----


@pytest.mark.parametrize("graph", [False, True], ids=["eager", "graph"])
@pytest.mark.parametrize("op", ["sum", "avg", "max", "min"])
def test_a_structure_is_reduced_as_numpy_does_it(ranks, op, graph):
    found = ranks.call(reduce_structure, [op] * N, [graph] * N, timeout=200)
    assert found == [found[0]] * N


@pytest.mark.parametrize("graph", [False, True], ids=["eager", "graph"])
@pytest.mark.parametrize("op", ["sum", "max", "min"])
def test_64_bits_stay_64_bits(ranks, op, graph):
    found = ranks.call(reduce_wide, [op] * N, [graph] * N, timeout=200)
    assert found == [found[0]] * N


def test_many_calls_keep_their_order(ranks):
    expected = [[float(N * step * (i + 1)) for i in range(40)] for step in range(5)]
    assert ranks.call(many_in_order, timeout=200) == [expected] * N


def test_a_sum_has_the_gradient_of_all_ranks_losses(ranks):
    y = N * np.arange(4.0) + sum(range(N))
    expected = 2 * y * sum(rank + 1 for rank in range(N))
    for eager, graph in ranks.call(gradient_through, timeout=200):
        np.testing.assert_allclose(eager, expected, rtol=1e-6)
        np.testing.assert_allclose(graph, expected, rtol=1e-6)


def test_a_tape_takes_what_a_tape_takes(ranks):
    rows = np.zeros((6, 2))
    for rank in range(N):
        rows[rank : rank + 2] += 1
    for table, unused, used in ranks.call(odd_gradients, timeout=200):
        np.testing.assert_array_equal(table, rows)
        assert unused is None
        assert used == sum(range(N))


@pytest.mark.parametrize("graph", [False, True], ids=["eager", "graph"])
def test_a_training_is_that_of_one_rank(ranks, graph):
    regression.check(ranks.call(train, [graph] * N, timeout=200))


def test_a_training_by_keras_is_that_of_one_rank(ranks):
    regression.check(ranks.call(train_with_keras, timeout=200))


def test_variables_become_root_s(ranks):
    expected = [[0.0, 1.0, 2.0, 3.0, 4.0], [[1]], True, 1.0]
    assert ranks.call(broadcast, [1] * N) == [expected] * N


def test_mistakes_are_told_at_once_and_change_nothing(ranks):
    for graph in (False, True):
        ranks.start(wrong_type, [graph] * N)
        for outcome in ranks.outcomes():
            assert outcome.kind == "TypeError"
            assert "complex64 cannot be combined" in str(outcome)
    ranks.start(wrong_op)
    for outcome in ranks.outcomes():
        assert outcome.kind == "ValueError"
    regression.check(ranks.call(train, [True] * N, timeout=200))


def test_equal_arrays_stay_as_they_are_where_switches_add_integers():
    with equal.ranks_in_kernel() as them:
        arrays, *gradients = zip(*them.call(average_equal), strict=True)
    equal.check(list(arrays))
    for their in gradients:
        equal.check(list(their), gradients=True)


@pytest.mark.parametrize("graph", [False, True], ids=["eager", "graph"])
def test_a_failed_call_says_why(graph):
    with Ranks(2) as them:
        them.start(mismatched, [graph] * 2)
        for outcome in them.outcomes():
            assert "rank 1" in str(outcome) and "rank 0" in str(outcome)


def test_the_example_trains():
    check_example("tensorflow_digits.py", "--epochs", "8")
