#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Computes on one core until it is killed, as training does beside its all-reduces.

It never sleeps, and reads 4 MiB over and over, so it takes the core's time and its caches.

    compute.py CORE
"""
import hashlib
import os
import sys


def main():
    data = bytes(4 << 20)
    os.sched_setaffinity(0, {int(sys.argv[1])})
    print(f"computing on core {sys.argv[1]}", flush=True)
    while True:
        hashlib.sha256(data).digest()


if __name__ == "__main__":
    main()
