# SPDX-License-Identifier: BSD-3-Clause
"""One rank that replays training steps: real all-reduces of a model's buckets, and a wait for the
time that a GPU would compute.

Started by replay.py, with RANK, WORLD_SIZE and MASTER_ADDR set. Needs PyTorch. Buckets are those
of DistributedDataParallel, by its own function, in the order in which gradients are ready. Each
bucket then has `scale` times fewer elements, and is sent when the last of its gradients would be
ready. Rank 0 writes the times of the steps: the slowest rank's.
"""
import argparse
import json
import os
import sys
import time

import torch
import torch.distributed as dist

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
sys.path[:0] = [os.path.join(ROOT, "bindings", "python")]
import switchml.torch  # noqa: E402

FIRST_BYTES = dist._DEFAULT_FIRST_BUCKET_BYTES
CAP_BYTES = 25 * 2**20  # DistributedDataParallel's bucket_cap_mb
WAYS = {"gloo": None, "int32": {"wire": "int32"}, "int16": {"wire": "int16"},
        "ranks-int32": {"wire": "int32", "switch": "embedded"},
        "ranks-int16": {"wire": "int16", "switch": "embedded"}}


def buckets(networks):
    """[elements, share of the step when the bucket is ready], in the order of sending."""
    found = []
    for tensors in networks:
        shapes = [torch.empty(n, device="meta") for n, _ in tensors]
        groups, _ = dist._compute_bucket_assignment_by_size(shapes, [FIRST_BYTES, CAP_BYTES])
        found += [[sum(tensors[i][0] for i in group), max(tensors[i][1] for i in group)]
                  for group in groups]
    return sorted(found, key=lambda bucket: bucket[1])


def pause(until):
    time.sleep(max(0, until - time.perf_counter()))


class Way:
    def __init__(self, name):
        ranks = list(range(dist.get_world_size()))
        settings = WAYS[name] and switchml.torch.Options(**WAYS[name])
        self.group = dist.new_group(ranks, backend="switchml" if settings else "gloo",
                                    pg_options=settings)
        # Half of the elements of a 16-bit number's range are enough for the sum of the ranks.
        self.error = 2e-3 if name.endswith("int16") else 1e-6

    def step(self, parts, compute_s):
        """Seconds, and the number of wrong elements."""
        for buffer, _ in parts:
            buffer.fill_(dist.get_rank() + 1)
        dist.barrier()
        began = time.perf_counter()
        works = []
        for buffer, ready in parts:
            pause(began + ready * compute_s)
            works.append(dist.all_reduce(buffer, group=self.group, async_op=True))
        pause(began + compute_s)
        for work in works:
            work.wait()
        seconds = torch.tensor([time.perf_counter() - began])
        size = dist.get_world_size()
        right = size * (size + 1) / 2
        wrong = sum(((buffer / right - 1).abs() > self.error).sum().item() for buffer, _ in parts)
        dist.all_reduce(seconds, op=dist.ReduceOp.MAX)
        return seconds.item(), wrong


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--models", required=True, help="models.json")
    parser.add_argument("--compute", required=True, help="JSON: [[model, seconds of a step], ...]")
    parser.add_argument("--scale", type=float, required=True)
    parser.add_argument("--rounds", type=int, required=True)
    parser.add_argument("--ways", default=",".join(WAYS))
    parser.add_argument("--output", required=True)
    options = parser.parse_args()
    torch.set_num_threads(1)
    dist.init_process_group("gloo")
    with open(options.models, encoding="utf-8") as file:
        models = json.load(file)
    ways = {name: Way(name) for name in options.ways.split(",")}
    for way in ways.values():  # connections are made, and round trips known
        way.step([[torch.empty(50_000), 0]], 0)
    found = []
    for name, compute_s in json.loads(options.compute):
        whole = buckets(models[name])
        parts = [[torch.empty(max(1, round(n / options.scale))), ready] for n, ready in whole]
        row = {"model": name, "compute_s": compute_s, "buckets": whole, "wrong": 0,
               "seconds": {name: [] for name in ways}}
        for _ in range(options.rounds):
            for way_name, way in ways.items():
                seconds, wrong = way.step(parts, compute_s)
                row["seconds"][way_name].append(seconds)
                row["wrong"] += wrong
        found.append(row)
    if dist.get_rank() == 0:
        with open(options.output, "w", encoding="utf-8") as file:
            json.dump(found, file)
    for way in ways.values():
        dist.destroy_process_group(way.group)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
