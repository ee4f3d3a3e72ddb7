# SPDX-License-Identifier: BSD-3-Clause
"""A training in which a worker dies and comes back: examples/torch_elastic.py."""

import re

from programs import ROOT, run_python


def test_the_others_go_on_and_a_new_process_gets_their_parameters():
    example = str(ROOT / "examples" / "torch_elastic.py")
    # Five times, a process starts PyTorch.
    said = run_python(example, "--workers=3", "--kill=1", "--at=10", "--steps=60", timeout=600)
    assert "killed worker 1; it starts again" in said
    joined = re.search(r"^worker 1 joined at step (\d+): 3 workers$", said, re.MULTILINE)
    assert joined, said
    died = re.search(r"\[[02]\] RankDiedError: rank (\d) ", said)
    assert died, said
    # Each membership's job begins with a line of its rank 0, and ends with one if that one lives.
    begun = re.findall(r'^switchml\[rank 0\]: job ".*": (\d) ranks', said, re.MULTILINE)
    assert begun[0] == begun[-1] == "3", said
    assert re.search(r'^switchml\[rank 0\]: job ".*" has ended: ', said, re.MULTILINE)
    named = re.search(r"has failed: rank (\d) \(host .*, pid \d+\) died; ", said)
    assert (named.group(1) if named else "0") == died.group(1), said
    assert re.search(r"\[[02]\] went on \d+ ms after the error", said), said
    assert re.search("the same on all workers$", said, re.MULTILINE)
