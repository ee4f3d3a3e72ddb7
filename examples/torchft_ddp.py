#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Trains a classifier of handwritten digits under torchft while replicas die and come back.

The data are those of demo/digits.csv (1797 images of 8 x 8 pixels). A lighthouse, which comes with
torchft, knows who lives; each replica is a process, on any host:

    torchft_lighthouse --min_replicas 1
    TORCHFT_LIGHTHOUSE=http://HOST:29510 python examples/torchft_ddp.py --replica 0 --replicas 3

Kill any replica: the others go on. Start it again: it gets their parameters and momenta. At the
end, all replicas have the same bits.

The first step needs all replicas, and the end is two rounds without an update. Each round is a
quorum, a sum and a vote. The manager of each replica counts those that it has ended; a replica that
has counted fewer takes the state and the count of the others in the next quorum. So no replica
leaves while another still needs it, and none waits for one that has left:

    round `steps`      counts only if all replicas are in it: all have the trained state
    round `steps + 1`  counts with any that are left: who is in it knows that, and may go
"""

import argparse
import logging
import socket
import zlib
from datetime import timedelta

import torch
import torch.distributed as dist
import torchft
from torch_ddp import ROOT, digits, network  # finds switchml in the source tree, too

from switchml.torch import Options
from switchml.torch.torchft import ProcessGroupSwitchML


def arguments():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--replica", type=int, required=True, help="number of this one")
    parser.add_argument("--replicas", type=int, default=3, help="that must be there at the end")
    parser.add_argument("--steps", type=int, default=150)
    parser.add_argument("--batch", type=int, default=32, help="images a replica and step")
    return parser.parse_args()


class Model(torchft.DistributedDataParallel):
    """DDP that sums its buckets through the manager."""

    @staticmethod
    def _comm_hook(manager, bucket):
        # That of torchft 0.2.0 raises AttributeError where the step has failed before this bucket.
        manager.allreduce(bucket.buffer()).wait()
        done = torch.futures.Future()
        done.set_result(bucket.buffer())
        return done


def train(options, store):
    """Returns the trained model, as all replicas have it."""
    bare = network(128, 1)
    optimizer = torch.optim.SGD(bare.parameters(), lr=0.05, momentum=0.9)

    def load(state):
        bare.load_state_dict(state["model"])
        optimizer.load_state_dict(state["optimizer"])

    group = ProcessGroupSwitchML(timedelta(seconds=30), Options(summary=False))
    manager = torchft.Manager(
        pg=group,
        load_state_dict=load,
        state_dict=lambda: {"model": bare.state_dict(), "optimizer": optimizer.state_dict()},
        min_replica_size=1,
        use_async_quorum=False,  # a replica that comes back trains in its first step
        timeout=timedelta(seconds=30),
        quorum_timeout=timedelta(minutes=10),  # longer than any replica is in a step
        replica_id=f"replica {options.replica}",
        rank=0,
        world_size=1,
        store_addr=socket.gethostname(),
        store_port=store.port,
    )
    model = Model(manager, bare)
    images, draw = digits(ROOT / "demo" / "digits.csv")[0], torch.Generator()
    while manager.current_step() < options.steps + 2:
        manager.start_quorum()  # and the state of those that are farther
        step, replicas = manager.current_step(), manager.num_participants()
        draw.manual_seed(1000 * step + options.replica)
        pixels, labels = images[torch.randint(len(images), (options.batch,), generator=draw)]
        loss = torch.nn.functional.cross_entropy(model(pixels), labels)
        optimizer.zero_grad()
        loss.backward()
        if step in (0, options.steps) and replicas < options.replicas:
            manager.report_error(RuntimeError("not all replicas are here"))
        if not manager.should_commit():
            print(f"step {step}: not done: {manager.errored()}".splitlines()[0], flush=True)
        elif step < options.steps:
            optimizer.step()
            print(f"step {step}: loss {loss.item():.3f}, {replicas} replicas", flush=True)
    group.shutdown()
    manager.shutdown()
    return bare


def main():
    options = arguments()
    logging.basicConfig(level=logging.CRITICAL)
    torch.set_num_threads(1)
    # Replicas meet in the store of one of them.
    store = dist.TCPStore(socket.gethostname(), 0, is_master=True, wait_for_workers=False)
    checksum = 0
    for parameter in train(options, store).parameters():
        checksum = zlib.crc32(parameter.detach().numpy().tobytes(), checksum)
    print(f"end: checksum {checksum:08x}", flush=True)


if __name__ == "__main__":
    main()
