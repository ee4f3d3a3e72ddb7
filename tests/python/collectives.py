# SPDX-License-Identifier: BSD-3-Clause
"""Each collective of torch.distributed, as the tests call it that compare one world with another.

CALLS[name](tensor, parts, whole) returns the tensors with the results, which it has waited for.
`parts`: as many tensors of the same kind as there are ranks; `whole`: all of them in one tensor. A
call reads or writes them. Rank 1 is the root.
"""

from datetime import timedelta

import torch
import torch.distributed as dist

from gloo_calls import BEFORE_2_13


def at_root(value):
    return value if dist.get_rank() == 1 else None


def in_place(call):
    def run(tensor, parts, whole):
        call(tensor)
        return [tensor]

    return run


def for_root(call):
    def run(tensor, parts, whole):
        call(tensor)
        return at_root([tensor]) or []

    return run


def future(tensor, parts, whole):
    work = dist.all_reduce(tensor, async_op=True)
    return [work.get_future().then(lambda done: done.value()[0] * 2).wait()]


def completed(tensor):
    work = dist.broadcast(tensor, 0, async_op=True)
    work.wait()
    assert work.is_completed() and work.is_success()


def all_gather(tensor, parts, whole):
    dist.all_gather(parts, tensor)
    return parts


def all_gather_into_tensor(tensor, parts, whole):
    dist.all_gather_into_tensor(whole, tensor)
    return [whole]


def gather(tensor, parts, whole):
    dist.gather(tensor, at_root(parts), 1)
    return parts


def scatter(tensor, parts, whole):
    dist.scatter(tensor, at_root(parts), 1)
    return [tensor]


def reduce_scatter(tensor, parts, whole):
    dist.reduce_scatter(tensor, parts)
    return [tensor]


def reduce_scatter_tensor(tensor, parts, whole):
    dist.reduce_scatter_tensor(tensor, whole)
    return [tensor]


def all_to_all(tensor, parts, whole):
    received = [torch.zeros_like(part) for part in parts]
    dist.all_to_all(received, parts)
    return received


def all_to_all_single(tensor, parts, whole):
    received = torch.zeros_like(whole)
    dist.all_to_all_single(received, whole)
    return [received]


def send(tensor):
    if dist.get_rank() == 0:
        dist.send(tensor, 1)
    elif dist.get_rank() == 1:
        dist.recv(tensor, 0)


def batch(tensor, parts, whole):
    """Each rank sends to the next one."""
    rank, n, received = dist.get_rank(), dist.get_world_size(), torch.zeros_like(tensor)
    to, source = (rank + 1) % n, (rank - 1) % n
    pairs = [dist.P2POp(dist.isend, tensor, to), dist.P2POp(dist.irecv, received, source)]
    for work in dist.batch_isend_irecv(pairs):
        work.wait()
    return [received]


def objects(tensor, parts, whole):
    found = [None] * len(parts)
    dist.all_gather_object(found, tensor.tolist())
    return [torch.tensor(found)]


def object_list(tensor, parts, whole):
    found = [at_root(tensor.tolist())]
    dist.broadcast_object_list(found, 1)
    return [torch.tensor(found[0])]


CALLS = {
    "all_reduce": in_place(dist.all_reduce),
    "all_reduce_async": in_place(lambda t: dist.all_reduce(t, async_op=True).wait()),
    "all_reduce_max": in_place(lambda t: dist.all_reduce(t, dist.ReduceOp.MAX)),
    "all_reduce_product": in_place(
        lambda t: dist.all_reduce(t, dist.ReduceOp.PRODUCT, async_op=True).wait()
    ),
    "all_reduce_coalesced": in_place(lambda t: dist.all_reduce_coalesced([t])),
    "future": future,
    "broadcast": in_place(lambda t: dist.broadcast(t, 1)),
    "completed": in_place(completed),
    "reduce": for_root(lambda t: dist.reduce(t, 1)),
    "reduce_product": for_root(lambda t: dist.reduce(t, 1, dist.ReduceOp.PRODUCT)),
    "all_gather": all_gather,
    "all_gather_into_tensor": all_gather_into_tensor,
    "gather": gather,
    "scatter": scatter,
    "reduce_scatter": reduce_scatter,
    "reduce_scatter_tensor": reduce_scatter_tensor,
    "all_to_all": all_to_all,
    "all_to_all_single": all_to_all_single,
    "send": in_place(send),
    "batch": batch,
    "objects": objects,
    "object_list": object_list,
    "barrier": in_place(lambda t: dist.barrier()),
    "monitored_barrier": in_place(lambda t: dist.monitored_barrier(timeout=timedelta(seconds=60))),
}
if BEFORE_2_13:  # whose Gloo has none
    del CALLS["all_to_all"]
