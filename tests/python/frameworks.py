# SPDX-License-Identifier: BSD-3-Clause
"""What test_frameworks.py wants of JAX and of TensorFlow. Only ranks import the frameworks."""

import contextlib
import os

import numpy as np

import regression

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")  # of the ranks


class Jax:
    def __init__(self, job):
        import jax

        import switchml.jax as binding

        self.jax, self.job, self.binding = jax, job, binding
        self.compiled, self.sum, self.full = jax.jit, jax.numpy.sum, jax.numpy.full
        self.flatten, self.map = jax.tree.leaves, jax.tree.map

    def allreduce(self, tree, **named):
        return self.binding.allreduce(tree, job=self.job, **named)

    def constants(self, tree):
        return self.map(self.jax.numpy.asarray, tree)

    @contextlib.contextmanager
    def wide(self):
        """Numbers of 64 bits stay so."""
        self.jax.config.update("jax_enable_x64", True)
        try:
            yield
        finally:
            self.jax.config.update("jax_enable_x64", False)

    def gradient(self, loss, x):
        return self.jax.grad(loss)(x)

    def broadcast(self, arrays, root):
        return self.binding.broadcast(self.constants(arrays), root, job=self.job)

    def other_takers(self):
        """Other calls that take arrays."""
        return [lambda array: self.binding.broadcast({"a": [array]}, job=self.job)]

    def averages(self):
        def average(array):
            return self.allreduce(array, op="avg")

        def gradient(array):
            return self.jax.vjp(average, array)[1](array)[0]

        return self.jax.jit(average), self.jax.jit(gradient)

    def train(self, form):
        jax, jnp = self.jax, self.jax.numpy
        pixels, labels = regression.share(self.job.rank, self.job.world_size)

        def loss_of(parameters):
            odds = jax.nn.log_softmax(pixels @ parameters["weights"] + parameters["bias"])
            return -jnp.take_along_axis(odds, labels[:, None], axis=1).mean()

        def step(parameters):
            found = jax.value_and_grad(loss_of)(parameters)
            loss, gradients = self.allreduce(found, op="avg")
            return loss, jax.tree.map(lambda p, g: p - regression.RATE * g, parameters, gradients)

        step = form(step)
        parameters = {"weights": jnp.zeros((64, 10)), "bias": jnp.zeros(10)}
        losses = []
        for _ in range(regression.STEPS):
            loss, parameters = step(parameters)
            losses.append(loss)
        return np.array(losses), np.asarray(parameters["weights"]), np.asarray(parameters["bias"])


class TensorFlow:
    wide = contextlib.nullcontext

    def __init__(self, job):
        import tensorflow as tf

        import switchml.tensorflow as binding

        self.tf, self.job, self.binding = tf, job, binding
        self.compiled, self.sum = tf.function, tf.reduce_sum
        self.flatten, self.map = tf.nest.flatten, tf.nest.map_structure

    def allreduce(self, tree, **named):
        return self.binding.allreduce(tree, job=self.job, **named)

    def constants(self, tree):
        return self.map(self.tf.constant, tree)

    def full(self, count, value):
        return self.tf.fill([count], value)

    def gradient(self, loss, x):
        with self.tf.GradientTape() as tape:
            tape.watch(x)
            found = loss(x)
        return tape.gradient(found, x)

    def broadcast(self, arrays, root):
        variables = {name: self.tf.Variable(array) for name, array in arrays.items()}
        self.binding.broadcast_variables(variables.values(), root, job=self.job)
        return variables

    def other_takers(self):
        return [lambda array: self.binding._reduce_gradients([array], "avg", None, self.job)]

    def averages(self):
        tf = self.tf

        def average(array):
            return self.allreduce(array, op="avg")

        def gradient(array):
            """By the tape, of what has the array as its gradient."""
            variable = tf.Variable(tf.zeros_like(array))
            with self.binding.DistributedGradientTape(tf.GradientTape(), job=self.job) as tape:
                loss = tf.reduce_sum(variable * array)
            return tape.gradient(loss, variable)

        def applied(array):
            """By the optimizer, which subtracts it from zeros."""
            variable = tf.Variable(tf.zeros_like(array))
            plain = tf.keras.optimizers.SGD(1.0)
            optimizer = self.binding.DistributedOptimizer(plain, job=self.job)
            optimizer.apply([tf.convert_to_tensor(array)], [variable])
            return -variable.numpy()

        return average, gradient, applied

    def train(self, form):
        tf = self.tf
        pixels, labels = regression.share(self.job.rank, self.job.world_size)
        parameters = tf.Variable(tf.zeros((64, 10))), tf.Variable(tf.zeros(10))

        def step():
            with self.binding.DistributedGradientTape(tf.GradientTape(), job=self.job) as tape:
                logits = pixels @ parameters[0] + parameters[1]
                loss = tf.reduce_mean(
                    tf.nn.sparse_softmax_cross_entropy_with_logits(labels=labels, logits=logits)
                )
            for variable, gradient in zip(parameters, tape.gradient(loss, parameters), strict=True):
                variable.assign_sub(regression.RATE * gradient)
            return self.allreduce(loss, op="avg")

        step = form(step)
        losses = [step().numpy() for _ in range(regression.STEPS)]
        return np.array(losses), *(variable.numpy() for variable in parameters)


FRAMEWORKS = {"jax": Jax, "tensorflow": TensorFlow}
