# SPDX-License-Identifier: BSD-3-Clause
"""Training with DistributedDataParallel and its relatives: as with Gloo."""

import os
import re
import signal
import zlib

import pytest
import torch
import torch.distributed as dist
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard
from torch.distributed.optim import ZeroRedundancyOptimizer
from torch.nn.parallel import DistributedDataParallel

import regression
import switchml.torch
from groups import Groups, stop
from programs import ROOT, torchrun
from ranks import each_rank_of
from switchml import errors

N = 3
STEPS = 30
# Losses that differ by rounding alone: docs/pytorch.md says so.
BOUND = {"int32": 1e-4, "int16": 5e-3, "feedback": 5e-3, "int8 feedback": 5e-2}
HOOKS = {
    "int16": ("int16", False),
    "feedback": ("int16", True),
    "int8 feedback": ("int8", True),
    "hook": (None, False),
}


class Net(torch.nn.Module):
    """Batch norm has buffers to broadcast; `extra` is not used in every step."""

    def __init__(self):
        super().__init__()
        self.first = torch.nn.Linear(64, 96)
        self.norm = torch.nn.BatchNorm1d(96)
        self.last = torch.nn.Linear(96, 10)
        self.extra = torch.nn.Linear(96, 10)

    def forward(self, x, use_extra=False):
        h = torch.relu(self.norm(self.first(x)))
        return self.last(h) + (self.extra(h) if use_extra else 0)


def batches(rank):
    pixels, labels = map(torch.from_numpy, regression.digits())
    order = torch.randperm(len(pixels), generator=torch.Generator().manual_seed(3))
    for step in range(STEPS):
        rows = order[step * 16 * N : (step + 1) * 16 * N][rank::N]
        yield pixels[rows], labels[rows].long()


def checksum(model):
    value = 0
    for parameter in model.parameters():
        value = zlib.crc32(parameter.detach().numpy().tobytes(), value)
    return value


def mean_loss(loss):
    total = loss.detach().to(torch.float64)
    dist.all_reduce(total)
    return total.item() / N


def losses_of(rank, model, optimizer, *options):
    losses = []
    for pixels, labels in batches(rank):
        optimizer.zero_grad()
        loss = torch.nn.functional.cross_entropy(model(pixels, *options), labels)
        loss.backward()
        optimizer.step()
        losses.append(mean_loss(loss))
    return losses


def train(rank, what):
    torch.manual_seed(5)
    model = Net()
    options = {"find_unused_parameters": what == "unused"}
    if what == "buckets":
        options = {"bucket_cap_mb": 0.005, "gradient_as_bucket_view": True}
    model = DistributedDataParallel(model, **options)
    hook = HOOKS.get(what)
    if hook:
        state = switchml.torch.HookState(wire=hook[0], error_feedback=hook[1])
        model.register_comm_hook(state, switchml.torch.allreduce_hook)
    if what == "zero":
        optimizer = ZeroRedundancyOptimizer(model.parameters(), torch.optim.Adam, lr=0.003)
    else:
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    losses = []
    for step, (pixels, labels) in enumerate(batches(rank)):
        accumulates = what == "accumulation" and step % 3 != 2
        with model.no_sync() if accumulates else torch.enable_grad():
            # On rank 1 only, and not in every step: DDP must find out.
            use_extra = what != "unused" or (rank == 1 and step % 2 == 0)
            loss = torch.nn.functional.cross_entropy(model(pixels, use_extra), labels)
            loss.backward()
        if not accumulates:
            optimizer.step()
            optimizer.zero_grad()
        losses.append(mean_loss(loss))
    return losses, checksum(model.module)


WAYS = ["plain", "buckets", "accumulation", "unused", "zero", *HOOKS]


@pytest.mark.parametrize("what", WAYS)
def test_ddp_trains_as_with_gloo(groups, gloo, what):
    """With our hook, of fewer bytes, too."""
    expected, _ = gloo.call(train, ["plain" if what in HOOKS else what] * N)[0]
    found = groups.call(train, [what] * N)
    assert len({parameters for _, parameters in found}) == 1, "ranks differ"
    if what in BOUND:
        assert found[0][0] != expected, "that was the wire of the others"
    compare(found[0][0], expected, BOUND.get(what, BOUND["int32"]))


def compare(losses, expected, bound):
    assert expected[-1] < 0.6 * expected[0], "it learns nothing"
    worst = max(abs(a - b) for a, b in zip(losses, expected, strict=True))
    print(f"losses differ by up to {worst:.1e}")
    assert worst <= bound, f"losses differ by {worst}"


@each_rank_of("groups")
def test_runs_are_repeated_to_the_bit(rank):
    assert train(rank, "plain") == train(rank, "plain")


# ---- error feedback ----


def mean_gradient(inputs, steps=1, group=None, **settings):
    """The mean of the same gradient, which is the inputs, over all ranks and some steps."""
    torch.manual_seed(1)
    linear = torch.nn.Linear(inputs.shape[1], 1, bias=False)
    model = DistributedDataParallel(linear, process_group=group)
    state = switchml.torch.HookState(group=group, **settings)
    model.register_comm_hook(state, switchml.torch.allreduce_hook)
    total = torch.zeros(inputs.shape[1], dtype=torch.float64)
    for _ in range(steps):
        model.zero_grad()
        model(inputs).sum().backward()
        total += linear.weight.grad[0]
    return total / steps


def mean_of_a_gradient_that_repeats(rank, wire):
    """The error of the mean over some steps, of the RMS of the exact mean, and the mean's bits."""
    inputs = [torch.randn(1, 8192, generator=torch.Generator().manual_seed(r)) for r in range(N)]
    exact = torch.cat(inputs).double().mean(0)
    found = []
    for feedback, steps in ((False, 1), (True, 100)):
        mean = mean_gradient(inputs[rank], steps, wire=wire, error_feedback=feedback)
        error = (mean - exact).square().mean() / exact.square().mean()
        found.append((error.sqrt().item(), zlib.crc32(mean.numpy().tobytes())))
    return found


# The remainder of int8 is what the switch rounds: docs/internals/numbers.md.
@pytest.mark.parametrize(("wire", "remains"), [("int16", 0.1), ("int8", 0.5)])
def test_the_mean_of_a_gradient_that_repeats_converges(groups, wire, remains):
    found = groups.call(mean_of_a_gradient_that_repeats, [wire] * N)
    assert found == [found[0]] * N, "ranks differ"
    (without, _), (with_feedback, _) = found[0]
    print(f"{wire}: error {without:.2e} without feedback, {with_feedback:.2e} with it")
    assert 0 < with_feedback < remains * without


@each_rank_of("groups")
def test_error_feedback_forgets_nothing(rank):
    """A gradient far below its block's unit: forgotten without feedback, not with it."""
    inputs = torch.full((1, 8192), 1e-6)
    inputs[0, ::64] = 1.0  # in each block of the int16 wire, the shortest
    for feedback, least, most in ((False, 0, 0.5), (True, 0.6, 1.4)):
        mean = mean_gradient(inputs, 200, wire="int16", error_feedback=feedback)
        small = mean.view(-1, 64)[:, 1:].mean().item() / 1e-6
        assert least <= small < most


def of_a_subset(rank, subsets):
    """Two models, each of some ranks only, which make a group and a hook's state by themselves."""
    for ranks in subsets:
        # torch's new_group() is for all ranks; the hook's state is for the group's.
        group = dist.new_group(ranks)
        if rank not in ranks:
            continue
        inputs = torch.full((1, 512), 10.0**rank)
        return mean_gradient(inputs, group=group, wire="int16", error_feedback=True).mean().item()
    return None


@pytest.mark.parametrize("subsets", [[[0, 2]], [[0, 1], [2, 3]]], ids=["one", "two"])
def test_error_feedback_in_a_subset_is_the_subsets_alone(subsets):
    with Groups(4, seconds=60) as groups:
        found = groups.call(of_a_subset, [subsets] * 4, timeout=100)
        for ranks in subsets:
            mean = sum(10.0**rank for rank in ranks) / len(ranks)
            assert [found[rank] for rank in ranks] == pytest.approx([mean] * len(ranks), rel=0.01)
        groups.call(stop)


# ---- sharded ----


def fsdp(rank, sharded, factor=None):
    """Losses, with parameters in shards or, on Gloo, whole: older ones take AVG for SUM. `factor`:
    gradients are divided by it, and not by N, which makes the sum a PREMUL_SUM."""
    torch.manual_seed(5)
    model = torch.nn.Sequential(torch.nn.Linear(64, 96), torch.nn.ReLU(), torch.nn.Linear(96, 10))
    if sharded:
        fully_shard(model, mesh=init_device_mesh("cpu", (N,)))
        if factor:
            model.set_gradient_divide_factor(factor)
            model.set_force_sum_reduction_for_comms(False)
    else:
        model = DistributedDataParallel(model)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1 * (factor or N) / N, momentum=0.9)
    return losses_of(rank, model, optimizer)


def test_fsdp_trains_as_ddp_with_gloo(groups, gloo):
    found, expected = groups.call(fsdp, [True] * N), gloo.call(fsdp, [False] * N)
    compare(found[0], expected[0], BOUND["int32"])


def test_fsdp_divides_by_its_own_factor(groups, gloo):
    pytest.importorskip("torch", minversion="2.9")
    found = groups.call(fsdp, [True] * N, [2.0 * N] * N)
    expected = gloo.call(fsdp, [False] * N)
    compare(found[0], expected[0], BOUND["int32"])


def hybrid(rank, sharded):
    """Sharded over two, replicated over two: gradients go through reduce-scatter and all-reduce."""
    torch.manual_seed(5)
    model = torch.nn.Linear(64, 10)
    inputs = torch.full((4, 64), float(rank))
    if not sharded:
        whole = DistributedDataParallel(model)
        whole(inputs).square().sum().backward()
        return model.weight.grad.sum().item()
    mesh = init_device_mesh("cpu", (2, 2), mesh_dim_names=("replicate", "shard"))
    fully_shard(model, mesh=mesh)
    model(inputs).square().sum().backward()
    return model.weight.grad.full_tensor().sum().item()


def test_hybrid_sharding_reduces_over_both_dimensions():
    with Groups(4) as groups, Groups(4, "gloo") as gloo:
        expected = gloo.call(hybrid, [False] * 4)
        for a, b in zip(groups.call(hybrid, [True] * 4), expected, strict=True):
            assert a == pytest.approx(b, rel=1e-5)
        groups.call(stop)


# ---- failures ----


def train_until_it_fails(rank):
    model = DistributedDataParallel(torch.nn.Linear(512, 512))
    for step in range(10_000):
        if step == 5 and rank == 2:
            os.kill(os.getpid(), signal.SIGKILL)
        model(torch.ones(8, 512)).sum().backward()


def see_a_rank_die(rank):
    with pytest.raises(RuntimeError, match=r"RankDiedError: rank 2 \(host ") as in_backward:
        train_until_it_fails(rank)
    assert type(in_backward.value) is RuntimeError
    with pytest.raises(errors.RankDiedError, match=r"^rank 2 \(host "):
        dist.all_reduce(torch.ones(3))


def test_a_killed_rank_is_named_in_backward(new_groups):
    """docs/pytorch.md: DDP makes a RuntimeError of the error, and the next collective raises it."""
    new_groups.start(see_a_rank_die)
    assert new_groups.outcomes(only=[0, 1]) == [None] * 2


ELASTIC = '''
"""Trains, dies once on rank 1, and goes on from the checkpoint."""
import os, signal, sys, time
import torch, torch.distributed as dist
import switchml.torch

checkpoint, log = sys.argv[1] + "/checkpoint", sys.argv[1] + "/log"
dist.init_process_group("switchml")
rank, attempt = dist.get_rank(), int(os.environ["TORCHELASTIC_RESTART_COUNT"])
torch.manual_seed(1)
model = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(64, 1))
optimizer = torch.optim.SGD(model.parameters(), lr=0.001)
step = 0
if os.path.exists(checkpoint):
    saved = torch.load(checkpoint)
    model.module.load_state_dict(saved["model"])
    step = saved["step"]
while step < 20:
    if step == 10 and attempt == 0 and rank == 1:
        # Not before rank 0 has what step 10 came to: torchrun ends it in the middle of anything.
        while len(open(log).readlines() if os.path.exists(log) else []) < 10:
            time.sleep(0.01)
        os.kill(os.getpid(), signal.SIGKILL)
    optimizer.zero_grad()
    loss = (model(torch.ones(4, 64) + rank) - 3).square().mean()
    loss.backward()
    optimizer.step()
    step += 1
    if rank == 0:
        torch.save({"model": model.module.state_dict(), "step": step}, checkpoint + ".new")
        os.replace(checkpoint + ".new", checkpoint)
        with open(log, "a") as file:
            print(attempt, step, loss.item(), file=file)
dist.destroy_process_group()
'''


def test_torchrun_restarts_and_trains_on(tmp_path):
    script = tmp_path / "elastic.py"
    script.write_text(ELASTIC)
    options = ["--nproc-per-node=3", "--max-restarts=1", "--monitor-interval=0.2", "--standalone"]
    torchrun(*options, script, tmp_path)
    rows = [line.split() for line in (tmp_path / "log").read_text().splitlines()]
    assert [int(step) for _, step, _ in rows] == list(range(1, 21))
    assert [int(attempt) for attempt, _, _ in rows] == [0] * 10 + [1] * 10
    losses = [float(loss) for _, _, loss in rows]
    assert losses == sorted(losses, reverse=True)


@pytest.mark.parametrize(
    ("arguments", "n_sums"), [(["--local-steps", "5"], 12), (["--local-steps", "0"], 60)]
)
def test_the_example_with_local_steps_trains(arguments, n_sums):
    """With an all-reduce of all parameters every 5 steps, or one of all gradients every step."""
    example = ROOT / "examples" / "torch_diloco.py"
    said = torchrun("--standalone", example, "--steps", "60", *arguments)
    assert f"60 steps, {n_sums} sums of 0.61 MB" in said, said
    assert "parameters are the same on all 2 ranks" in said
    # One in ten is right before the training.
    assert float(re.search(r"accuracy ([\d.]+) %", said)[1]) > 50
    calls, size = re.search(r"has ended: (\d+) calls? of ([\d.]+) MB", said).groups()
    assert int(calls) >= n_sums
    # Broadcasts and the like come on top, of less than a model's parameters each.
    assert n_sums * 0.6 <= float(size) <= (n_sums + 4) * 0.62


def test_the_example_trains_on_both():
    example = ROOT / "examples" / "torch_ddp.py"
    said = torchrun("--standalone", example, "--backend", "both", "--epochs", "3")
    assert said.count("the same on all ranks") == 2, said
    assert "times as fast as gloo" in said
