# SPDX-License-Identifier: BSD-3-Clause
"""HookState: rounding errors survive new buckets, pickling and checkpoints."""

import io
import pickle

import pytest
import torch
from torch.nn.parallel import DistributedDataParallel

from ranks import each_rank_of
from switchml.torch import HookState, allreduce_hook
from switchml.torch._residuals import Residuals

N = 2
STEPS = 4


def make_model():
    torch.manual_seed(8)
    layers = [torch.nn.Linear(40, 40) for _ in range(4)]
    return torch.nn.Sequential(*layers, torch.nn.Linear(40, 1))


def flat_gradient(model):
    return torch.cat([p.grad.flatten() for p in model.parameters()]).double()


def train(net, state, rank, first_step):
    """Some steps without an optimizer: all sums, and what this rank has given."""
    model = DistributedDataParallel(net, bucket_cap_mb=0.01)
    model.register_comm_hook(state, allreduce_hook)
    sums, given = 0, 0
    for step in range(first_step, first_step + STEPS):
        torch.manual_seed(100 * step + rank)
        inputs = torch.randn(8, 40)
        net.zero_grad()
        net(inputs).square().sum().backward()
        given = given + flat_gradient(net)
        net.zero_grad()
        model(inputs).square().sum().backward()
        sums = sums + N * flat_gradient(net)
    return sums, given, len(state.residuals._buckets)


def by_pickling(state):
    return pickle.loads(pickle.dumps(state))


def by_checkpoint(state):
    file = io.BytesIO()
    torch.save(state.state_dict(), file)
    file.seek(0)
    loaded = HookState(wire="int16", error_feedback=True)
    loaded.load_state_dict(torch.load(file, weights_only=True))
    return loaded


def by_nothing(state):
    return HookState(wire="int16", error_feedback=True)


def train_twice(rank, how):
    state = HookState(wire="int16", error_feedback=True)
    sums, given, n_buckets = train(make_model(), state, rank, 0)
    state = globals()[how](state)
    net = make_model()
    more_sums, more_given, _ = train(net, state, rank, STEPS)
    errors, kept = state.residuals.by_parameter(), state.residuals._numbers
    left = torch.cat([errors[kept[p]] for p in net.parameters()]).double()
    assert n_buckets > 1  # the first step has one bucket
    return (sums + more_sums).tolist(), (given + more_given).tolist(), left.tolist()


def not_accounted_for(found):
    """By how much the sums, with the errors that are left, differ from all that was given."""
    sums, given, left = (torch.tensor([its[i] for its in found]) for i in range(3))
    assert torch.equal(sums[0], sums[1])
    largest = given.abs().max()
    return [
        ((s - given.sum(0)).abs().max() / largest).item() for s in (sums[0], sums[0] + left.sum(0))
    ]


@pytest.mark.parametrize("how", ["by_pickling", "by_checkpoint"])
def test_no_rounding_error_is_lost(groups, how):
    without_left, difference = not_accounted_for(groups.call(train_twice, [how] * N))
    assert difference < 1e-6
    assert without_left > 2e-6  # else the errors would be too small to notice that they are lost


def test_rounding_errors_that_are_not_kept_are_missed(groups):
    assert not_accounted_for(groups.call(train_twice, ["by_nothing"] * N))[1] > 2e-6


@pytest.mark.parametrize("wire", [None, "int32", "exact"])
def test_only_narrow_wires_have_error_feedback(wire):
    with pytest.raises(ValueError, match="needs wire='int16' or 'int8'"):
        HookState(wire=wire, error_feedback=True)


@each_rank_of("groups")
def test_a_loaded_state_has_the_default_group_until_it_gets_another(rank):
    state = HookState(wire="int16", error_feedback=True)
    loaded = by_pickling(state)
    group = torch.distributed.new_group(list(range(N)))
    assert loaded.group is torch.distributed.group.WORLD
    loaded.group = group
    assert (loaded.group, loaded.wire, loaded.error_feedback) == (group, "int16", True)
    with pytest.raises(TypeError, match="backend is not switchml"):
        loaded.group = "no group"


def test_errors_follow_their_parameters_into_other_buckets():
    a, b, c = torch.zeros(3), torch.zeros(2), torch.zeros(4)
    here = Residuals()
    both = here.of(0, [a, b], 8)
    both[:5] = torch.arange(1.0, 6.0)
    assert here.of(0, [a, b], 8) is both
    assert here.of(0, [b], 4).tolist() == [4, 5, 0, 0]
    assert here.of(1, [c, a], 8).tolist() == [0, 0, 0, 0, 1, 2, 3, 0]
    there = Residuals()
    there.load(here.by_parameter())
    assert there.of(0, [a, b, c], 16)[:9].tolist() == [1, 2, 3, 4, 5, 0, 0, 0, 0]
    there.load(here.by_parameter())  # of a model with other parameters
    assert there.of(0, [c], 4).tolist() == [0] * 4


def test_a_parameter_never_gets_the_errors_of_one_that_is_gone():
    residuals = Residuals()
    parameters = [torch.zeros(4) for _ in range(3)]
    for index in range(3):
        residuals.of(index, parameters[index : index + 1], 4).fill_(index + 1)
    saved = {number: errors.clone() for number, errors in residuals.by_parameter().items()}
    del parameters[0]
    for index in range(3):
        assert residuals.of(index, [torch.zeros(4)], 4).tolist() == [0] * 4
    assert residuals.of(0, parameters[:1], 4).tolist() == [2] * 4
    del parameters[:]
    residuals.load(saved)  # for a model that is made anew
    assert residuals.of(0, [torch.zeros(4)], 4).tolist() == [1] * 4


# ---- sparse gradients ----


def gradients_of_sparse(rank, wire):
    """Rows of a sparse embedding that only one rank has used, after three backward passes."""
    torch.manual_seed(3)
    net = torch.nn.Sequential(torch.nn.Embedding(50, 4, sparse=True), torch.nn.Linear(4, 1))
    model = DistributedDataParallel(net)
    model.register_comm_hook(HookState(wire=wire, error_feedback=wire is not None), allreduce_hook)
    for _ in range(3):
        model.zero_grad()
        model(torch.arange(5) + 10 * rank).sum().backward()
    return net[0].weight.grad.to_dense(), net[1].weight.grad


@each_rank_of("groups")
@pytest.mark.parametrize("wire", ["int16", "int8"])
def test_feedback_leaves_sparse_gradients_alone(rank, wire):
    fed, plain = gradients_of_sparse(rank, wire), gradients_of_sparse(rank, None)
    assert torch.equal(fed[0], plain[0])
    torch.testing.assert_close(fed[1], plain[1], rtol=0.02, atol=0.02)
