# SPDX-License-Identifier: BSD-3-Clause
"""One call of a group, from its arguments to its end.

    tensors.py                           arguments of PyTorch as this package needs them
    work.py, staging.py, elsewhere.py    a call on the host's memory, on a device's, and on Gloo
    sizes.py                             how many elements ranks have for each other
    line.py, threads.py                  the calls of a group in their order, and their threads
    callbacks.py, cpp_futures.py         futures, and what is attached to them
    profiler.py, summary.py              what a user sees of calls

Nothing here knows of process groups, or of how ranks find each other.
"""
