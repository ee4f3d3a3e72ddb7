# SPDX-License-Identifier: BSD-3-Clause
"""The forms of a group's methods: with options, or with an operation, a root and a timeout; with
tensors by position or by name. Every form that PyTorch's groups have does the same."""

from datetime import timedelta

import pytest
import torch
import torch.distributed as dist
from torch._C import _distributed_c10d as c10d

from switchml.torch._group.gateway import unsent

N = 2
LONG = timedelta(seconds=100)
MAX = dist.ReduceOp.MAX


def chosen(kind, **values):
    opts = kind()
    for name, value in values.items():
        setattr(opts, name, value)
    return opts


def own(rank):
    return torch.tensor([1.0, 5.0 - rank, 3.0 * rank])


def parts(rank):
    return [own(rank), own(rank) + 1]


# For each method: the tensors of a call, those with its results, the results if MAX is the
# operation and rank 1 the root, its options, and what stands in place of options.


def reduced(rank):
    tensor = own(rank)
    return [tensor], [tensor], [[1.0, 5.0, 3.0]]


def at_root(rank):
    tensor = own(rank)
    return [tensor], [tensor] if rank == 1 else [], [[1.0, 5.0, 3.0]] if rank == 1 else []


def from_root(rank):
    tensor = own(rank)
    return [tensor], [tensor], [own(1).tolist()]


def gathered(rank):
    outputs = [torch.zeros(3) for _ in range(N)]
    return [outputs, own(rank)], outputs, [own(0).tolist(), own(1).tolist()]


def gathered_at_root(rank):
    arguments, outputs, expected = gathered(rank)
    return (arguments, outputs, expected) if rank == 1 else ([[], own(rank)], [], [])


def scattered(rank):
    output = torch.zeros(3)
    inputs = parts(1) if rank == 1 else []
    return [output, inputs], [output], [parts(1)[rank].tolist()]


def largest_part(rank):
    largest = torch.maximum(parts(0)[rank], parts(1)[rank]).tolist()
    output = torch.zeros(3)
    return [output, parts(rank)], [output], [largest]


def into_one(rank):
    output = torch.zeros(3 * N)
    return [output, own(rank)], [output], [torch.cat([own(0), own(1)]).tolist()]


def largest_part_of_one(rank):
    (output, inputs), outputs, expected = largest_part(rank)
    return [output, torch.cat(inputs)], outputs, expected


def nothing(rank):
    return [], [], []


def in_lists(made):
    """The same call in the form for several devices: each tensor, or list of them, in a list."""

    def make(rank):
        arguments, outputs, expected = made(rank)
        return [[each] if len(each) else [] for each in arguments], outputs, expected

    return make


METHODS = {
    "allreduce": (reduced, c10d.AllreduceOptions, {"op": MAX}),
    "reduce": (at_root, c10d.ReduceOptions, {"root": 1, "op": MAX}),
    "broadcast": (from_root, c10d.BroadcastOptions, {"root": 1}),
    "allgather": (gathered, c10d.AllgatherOptions, {}),
    "gather": (gathered_at_root, c10d.GatherOptions, {"root": 1}),
    "scatter": (scattered, c10d.ScatterOptions, {"root": 1}),
    "reduce_scatter": (largest_part, c10d.ReduceScatterOptions, {"op": MAX}),
    "barrier": (nothing, c10d.BarrierOptions, {}),
    "allreduce_coalesced": (in_lists(reduced), c10d.AllreduceCoalescedOptions, {"op": MAX}),
    "_allgather_base": (into_one, c10d.AllgatherOptions, {}),
    "all_gather_single": (into_one, c10d.AllgatherOptions, {}),
    "allgather_into_tensor_coalesced": (in_lists(into_one), c10d.AllgatherOptions, {}),
    "all_gather_single_coalesced": (in_lists(into_one), c10d.AllgatherOptions, {}),
    "_reduce_scatter_base": (largest_part_of_one, c10d.ReduceScatterOptions, {"op": MAX}),
    "reduce_scatter_single": (largest_part_of_one, c10d.ReduceScatterOptions, {"op": MAX}),
    "reduce_scatter_tensor_coalesced": (
        in_lists(largest_part_of_one),
        c10d.ReduceScatterOptions,
        {"op": MAX},
    ),
    "reduce_scatter_single_coalesced": (
        in_lists(largest_part_of_one),
        c10d.ReduceScatterOptions,
        {"op": MAX},
    ),
}
OPTIONS = {"op": "reduceOp", "root": "rootRank"}
NAMES = {
    **dict.fromkeys(("reduced", "at_root", "from_root"), ["tensor"]),
    **dict.fromkeys(("gathered", "gathered_at_root"), ["output_tensors", "input_tensor"]),
    "scattered": ["output_tensor", "input_tensors"],
    "largest_part": ["output", "input"],
    "into_one": ["output", "input"],
    "largest_part_of_one": ["outputTensor", "inputTensor"],
}


def forms_of(name):
    """Functions of a group and a rank, each of which makes the same call in another form."""
    made, kind, values = METHODS[name]
    opts = {OPTIONS[key]: value for key, value in values.items()}
    others = list(values.values())

    def form(change=lambda arguments: (arguments, {}), made=made):
        def make(group, rank):
            arguments, outputs, expected = made(rank)
            arguments, named = change(arguments)
            getattr(group, name)(*arguments, **named).wait()
            return [output.tolist() for output in outputs], expected

        return make

    found = {
        "options": form(lambda a: ([*a, chosen(kind, **opts)], {})),
        "named options": form(lambda a: (a, {"opts": chosen(kind, **opts)})),
        "values": form(lambda a: ([*a, *others], {})),
        "named values": form(lambda a: (a, dict(values))),
        "with a timeout": form(lambda a: ([*a, *others, LONG], {})),
        "with a named timeout": form(lambda a: (a, {**values, "timeout": LONG})),
    }
    if "op" in values:
        wrapped = {**values, "op": dist.ReduceOp(MAX)}
        found["another kind of operation"] = form(lambda a: ([*a, *wrapped.values()], {}))
    if names := NAMES.get(made.__name__):
        by_name = {**opts}
        found["named tensors"] = form(
            lambda a: ([], {**dict(zip(names, a, strict=True)), "opts": chosen(kind, **by_name)})
        )
        found["all by name"] = form(lambda a: ([], {**dict(zip(names, a, strict=True)), **values}))
        if "outputs" not in name and not name.endswith(("base", "single")):
            found["lists, and options"] = form(
                lambda a: ([*a, chosen(kind, **opts)], {}), in_lists(made)
            )
    return found


def outcome_of(call, group, rank):
    try:
        return call(group, rank)
    except TypeError as refusal:
        return str(refusal)


def outcomes(rank, name):
    """Of each form: what it came to, and whether PyTorch's own groups have it."""
    reference = unsent(rank, N)
    if not hasattr(reference, name):
        return {}
    return {
        form: (
            outcome_of(call, dist.group.WORLD, rank),
            not isinstance(outcome_of(call, reference, rank), str),
        )
        for form, call in forms_of(name).items()
    }


def is_right(outcome):
    return isinstance(outcome, tuple) and outcome[0] == outcome[1]


@pytest.mark.parametrize("name", METHODS)
def test_every_form_of_a_method_does_the_same_or_is_refused(groups, name):
    of_ranks = groups.call(outcomes, [name] * N)
    if not of_ranks[0]:
        pytest.skip(f"PyTorch {torch.__version__} has no {name}")
    for found in of_ranks:
        assert sum(is_right(ours) for ours, _ in found.values()) > 1, found
        for form, (ours, exists) in found.items():
            assert is_right(ours) or (isinstance(ours, str) and not exists), (form, ours)
