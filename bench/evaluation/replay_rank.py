# SPDX-License-Identifier: BSD-3-Clause
"""One rank that replays training steps: real all-reduces of a model's buckets, and a wait for the
time that a GPU would compute. Needs PyTorch.

replay.py starts it, with RANK, WORLD_SIZE and MASTER_ADDR set; the arguments are a file and options (JSON).
Buckets are those of DistributedDataParallel, by its own function, in the order in which gradients are ready. Each
bucket then has `scale` times fewer elements, and is sent when the last of its gradients would be
ready. Rank 0 writes the times of the steps into the file: the slowest rank's.
"""
import json
import os
import sys
import time

import torch
import torch.distributed as dist

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "../../bindings/python"))
import switchml.torch  # noqa: E402

FIRST_BYTES = dist._DEFAULT_FIRST_BUCKET_BYTES
CAP_BYTES = 25 * 2**20  # DistributedDataParallel's bucket_cap_mb


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


def group_of(way):
    """Of a way to sum: "int16", say, or "ranks-int16" and "int8-stripes-feedback", which have no switch; else Gloo."""
    wire, options = next((word for word in way.split("-") if word.startswith("int")), None), None
    if wire:
        options = switchml.torch.Options(wire=wire, switch="embedded" if "ranks" in way or "stripes" in way else None)
    return dist.new_group(list(range(dist.get_world_size())), backend="switchml" if options else "gloo", pg_options=options)


class Way:
    def __init__(self, name, group):
        self.group = group
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


def replay(groups, compute, scale, rounds):
    """compute: the model and the seconds of each step."""
    ways = {name: Way(name, group) for name, group in groups.items()}
    with open(os.path.join(HERE, "models.json"), encoding="utf-8") as file:
        models = json.load(file)
    for way in ways.values():  # connections are made, and round trips known
        way.step([[torch.empty(50_000), 0]], 0)
    for name, compute_s in compute:
        whole = buckets(models[name])
        parts = [[torch.empty(max(1, round(n / scale))), ready] for n, ready in whole]
        row = {"model": name, "compute_s": compute_s, "buckets": whole, "wrong": 0,
               "seconds": {name: [] for name in ways}}
        for _ in range(rounds):
            for way_name, way in ways.items():
                seconds, wrong = way.step(parts, compute_s)
                row["seconds"][way_name].append(seconds)
                row["wrong"] += wrong
        yield row


def main(find):
    """find: yields what is found, of the groups of the ways to sum and of the other options."""
    path, options = sys.argv[1], json.loads(sys.argv[2])
    torch.set_num_threads(1)
    dist.init_process_group("gloo")
    groups = {way: group_of(way) for way in options.pop("ways")}
    found = list(find(groups, **options))
    if dist.get_rank() == 0:
        with open(path, "w", encoding="utf-8") as file:
            json.dump(found, file)
    for group in groups.values():
        dist.destroy_process_group(group)
    dist.destroy_process_group()


if __name__ == "__main__":
    main(replay)
