# SPDX-License-Identifier: BSD-3-Clause
"""Groups whose job begins with their first collective, when a rank is dead, has left, or cannot.

Every form of making a group, with and without a switch. Without the fix, the ranks wait until the
group's timeout and raise TimedOutError.
"""

import contextlib
import os
from datetime import timedelta

import pytest
import torch
import torch.distributed as dist

from groups import Groups
from ranks import each_rank_of
from switches import PROGRAM, switch

N = 4
SECONDS = timedelta(seconds=45)
FORMS = ("new_group", "local", "split", "split of a split", "merge")
_made = {}


def make(rank, members):
    """Groups of the same members in every form. Nobody calls a collective on them yet."""
    world = dist.group.WORLD
    # First, and on every rank: PyTorch names groups by how many a rank has made or is in.
    local = members if rank in members else [r for r in range(world.size()) if r not in members]
    _made["local"] = dist.new_group(local, timeout=SECONDS, use_local_synchronization=True)
    if rank in members:
        store = dist.PrefixStore("merged/", _made["local"].get_group_store())
        _made["merge"] = world.merge_remote_group(store, len(members), timeout=SECONDS)
    _made["new_group"] = dist.new_group(members, timeout=SECONDS)
    _made["others"] = dist.new_group([r for r in range(world.size()) if r != members[-1]])
    _made["split"] = world.split_group(members, timeout=SECONDS)
    if rank in members:
        everybody = list(range(len(members)))
        _made["split of a split"] = _made["split"].split_group(everybody, timeout=SECONDS)
    dist.barrier()


def first_call(rank, form):
    tensor = torch.full((1000,), float(rank))
    _made[form].allreduce([tensor]).wait()  # torch.distributed does not know the derived ones
    return tensor.unique().tolist()


def new_one(rank, members):
    dist.new_group(members, timeout=SECONDS, use_local_synchronization=True)


@contextlib.contextmanager
def a_switch_or_none(which):
    if which == "none":
        yield None
    elif not PROGRAM.exists():
        pytest.skip("no program build/switchml")
    else:
        with switch() as address:
            yield {"switch": address}


@pytest.mark.parametrize("which", ["none", "switch"])
def test_no_form_of_group_waits_for_a_dead_rank(which):
    with a_switch_or_none(which) as options, Groups(4, options=options) as groups:
        groups.call(make, [[1, 2, 3]] * 4)
        groups.processes[3].kill()
        groups.processes[3].join()
        for form in (f for f in FORMS if f != "merge"):
            groups.start(first_call, [form] * 4, only=[1, 2])
            groups.expect("RankDiedError", "rank 3", only=[1, 2])
        groups.start(new_one, [[1, 2, 3]] * 4, only=[1, 2])
        groups.expect("RankDiedError", "rank 3", only=[1, 2])
        # A group without the dead rank goes on.
        assert groups.call(first_call, ["others"] * 4, only=[0, 1, 2]) == [[3.0]] * 3


def test_a_rank_that_dies_while_others_wait_for_it_is_named(new_groups):
    new_groups.call(make, [[1, 2, 3]] * 4)
    new_groups.start(first_call, ["new_group"] * 4, only=[1, 2])
    new_groups.processes[3].kill()
    new_groups.expect("RankDiedError", "rank 3", only=[1, 2])


def test_the_rank_with_the_store_is_named_when_it_is_dead(new_groups):
    new_groups.call(make, [[2, 1, 0]] * 4)
    new_groups.processes[0].kill()
    new_groups.processes[0].join()
    for form in ("new_group", "split"):
        new_groups.start(first_call, [form] * 4, only=[1, 2])
        new_groups.expect("RankDiedError", "rank 0", only=[1, 2])


def leave(rank, error):
    try:
        if error:
            raise error
    finally:
        for form in FORMS:
            _made[form].shutdown()


@pytest.mark.parametrize(
    ("error", "kind", "text"),
    [
        (None, "MismatchError", "makes no call"),
        (OverflowError("the loss is infinite"), "AbortedError", "infinite"),
    ],
)
def test_a_rank_that_leaves_a_group_before_its_first_call_says_so(new_groups, error, kind, text):
    new_groups.call(make, [[1, 2, 3]] * 4)
    new_groups.start(leave, [error] * 4, only=[3])
    new_groups.outcomes(only=[3])
    for form in FORMS:
        new_groups.start(first_call, [form] * 4, only=[1, 2])
        new_groups.expect(kind, "" if form == "merge" else "rank 3", text, only=[1, 2])


@each_rank_of("new_groups")
def test_a_death_that_a_rank_only_quotes_when_it_aborts_is_none(rank):
    """Rank 2 ends with an error that names rank 0, and the others go on in a new group."""
    if rank == 2:
        with contextlib.suppress(RuntimeError):
            try:
                raise RuntimeError("rank 0 died in another group")
            finally:
                dist.destroy_process_group()
        return
    with pytest.raises(RuntimeError, match="rank 0 died in another group"):
        dist.barrier()
    others = [r for r in range(N) if r != 2]
    group = dist.new_group(others, use_local_synchronization=True)
    sums = torch.ones(4)
    dist.all_reduce(sums, group=group)
    assert sums.tolist() == [N - 1.0] * 4


def cannot_join(rank):
    """The library refuses this rank alone."""
    if rank == 3:
        os.environ["SWITCHML_RECORD"] = "failure:/nowhere/file"
    return first_call(rank, "new_group")


def test_a_rank_that_cannot_join_tells_the_others_why(new_groups):
    new_groups.call(make, [[1, 2, 3]] * 4)
    new_groups.start(cannot_join, only=[1, 2, 3])
    new_groups.expect("ConfigError", "SWITCHML_RECORD", only=[1, 2, 3])


# ---- the groups themselves ----


def use_all(rank, forms):
    found = [first_call(rank, form) for form in forms]
    names = {_made[form].group_name for form in forms}
    assert len(names) == len(forms)
    return found


def end_derived(rank):
    for form in ("split of a split", "split", "merge"):
        if _made.get(form) is not None:
            _made[form].shutdown()
    dist.destroy_process_group()


def test_every_form_of_group_adds():
    with Groups(3) as groups:
        groups.call(make, [[2, 0]] * 3)
        assert groups.call(use_all, [FORMS] * 3, only=[0, 2]) == [[[2.0]] * len(FORMS)] * 2
        groups.call(end_derived)


@each_rank_of("new_groups")
def test_a_group_that_cannot_be_split_so_is_refused(rank):
    for ranks, options, text in (
        ([], None, ""),
        ([0, 0], None, ""),
        ([0, 9], None, f"0 to {N - 1}"),
        (list(range(N)), object(), "Options"),
    ):
        with pytest.raises((ValueError, TypeError), match=f"^.*{text}.*\\Z"):
            dist.group.WORLD.split_group(ranks, opts=options)


@each_rank_of("new_groups")
def test_no_inherited_method_ends_the_process(rank):
    """Every method of PyTorch's class, without arguments and with some: errors, or results."""
    called, left_out = 0, {"abort", "shutdown", "split_group", "merge_remote_group"}
    group = dist.new_group(timeout=timedelta(seconds=30))
    for name in sorted(set(dir(dist.ProcessGroup)) - left_out):
        method = getattr(group, name, None)
        if name.startswith("__") or not callable(method) or name[0].isupper():
            continue
        for arguments in ((), (torch.device("cpu"),), (0,), ("a",), ([torch.ones(2)],)):
            with contextlib.suppress(Exception):
                if "barrier" not in name and "recv" not in name:
                    method(*arguments)
            called += 1
    assert called > 100
    assert dist.group.WORLD.size() == N
