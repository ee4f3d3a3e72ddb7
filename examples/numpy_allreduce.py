#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""The mean of an array over all ranks, and how long it takes.

With torchrun, or by hand:

    torchrun --nproc-per-node 4 examples/numpy_allreduce.py
    for rank in 0 1 2 3; do RANK=$rank WORLD_SIZE=4 examples/numpy_allreduce.py & done; wait
"""

import argparse
import sys
import time
from pathlib import Path

import numpy as np

try:
    import switchml
except ImportError:  # not installed: from the source tree, after `make`
    sys.path.insert(0, str(Path(__file__).parents[1] / "bindings" / "python"))
    import switchml


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("-n", "--elements", type=int, default=1 << 20, help="floats in the array")
    parser.add_argument("-r", "--repeat", type=int, default=20, help="all-reduces to time")
    parser.add_argument("-w", "--wire", choices=["int32", "int16", "int8"], help="of floats")
    options = parser.parse_args()

    switchml.init(wire=options.wire)
    rank, world_size = switchml.rank(), switchml.world_size()

    # Every rank can make every rank's numbers, and so knows the true mean.
    everybodys = [
        np.random.default_rng(r).standard_normal(options.elements, np.float32)
        for r in range(world_size)
    ]
    mean = np.empty_like(everybodys[rank])
    error = switchml.allreduce(everybodys[rank], mean, op="avg") - np.mean(everybodys, axis=0)

    switchml.barrier()
    began = time.perf_counter()
    for _ in range(options.repeat):
        switchml.allreduce(everybodys[rank], mean, op="avg")
    seconds = (time.perf_counter() - began) / options.repeat

    if rank == 0:
        print(
            f"{world_size} ranks, {options.elements} floats: {1e3 * seconds:.2f} ms, "
            f"{mean.nbytes * 8 / seconds / 1e9:.2f} Gbit/s; "
            f"largest error {np.max(np.abs(error), initial=0):.1e}"
        )
    switchml.finalize()


if __name__ == "__main__":
    main()
