# SPDX-License-Identifier: BSD-3-Clause
"""The process group that torch.distributed gets, above _calls/ and _joining/.

    group.py          its calls
    options.py        what the user sets
    lists.py          calls of lists, with a tensor for each rank
    router.py         which calls run on the switch, and which on Gloo
    gateway.py        the backend that PyTorch's C++ finds in it
    derivation.py     groups that are made from it
    reconfigure.py    groups whose ranks change

Of these, only group.py knows all others, and router.py knows gateway.py.
"""
