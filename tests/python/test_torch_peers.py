# SPDX-License-Identifier: BSD-3-Clause
"""Groups whose job begins with their first collective, when a rank is dead, has left, or cannot.

Every form of making a group, with and without a switch. Without the fix, the ranks wait until the
group's timeout and raise TimedOutError.
"""

import contextlib
from datetime import timedelta

import pytest

torch = pytest.importorskip("torch")

import torch.distributed as dist  # noqa: E402

from groups import Groups, stop  # noqa: E402
from ranks import RankError  # noqa: E402
from switches import PROGRAM, switch  # noqa: E402

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


def expect_all(groups, only, kind, *texts):
    for outcome in groups.outcomes(only=only, timeout=150):
        assert isinstance(outcome, RankError), outcome
        assert outcome.kind == kind, outcome
        for text in texts:
            assert text in str(outcome)


@pytest.mark.parametrize("which", ["none", "switch"])
def test_no_form_of_group_waits_for_a_dead_rank(which):
    with a_switch_or_none(which) as options, Groups(4, options=options) as groups:
        groups.call(make, [[1, 2, 3]] * 4)
        groups.processes[3].kill()
        groups.processes[3].join()
        for form in (f for f in FORMS if f != "merge"):
            groups.start(first_call, [form] * 4, only=[1, 2])
            expect_all(groups, [1, 2], "RankDiedError", "rank 3")
        groups.start(new_one, [[1, 2, 3]] * 4, only=[1, 2])
        expect_all(groups, [1, 2], "RankDiedError", "rank 3")
        # A group without the dead rank goes on.
        groups.start(first_call, ["others"] * 4, only=[0, 1, 2])
        assert groups.outcomes(only=[0, 1, 2]) == [[3.0]] * 3


def test_a_rank_that_dies_while_others_wait_for_it_is_named():
    with Groups(4) as groups:
        groups.call(make, [[1, 2, 3]] * 4)
        groups.start(first_call, ["new_group"] * 4, only=[1, 2])
        groups.processes[3].kill()
        expect_all(groups, [1, 2], "RankDiedError", "rank 3")


def test_the_rank_with_the_store_is_named_when_it_is_dead():
    with Groups(4) as groups:
        groups.call(make, [[2, 1, 0]] * 4)
        groups.processes[0].kill()
        groups.processes[0].join()
        for form in ("new_group", "split"):
            groups.start(first_call, [form] * 4, only=[1, 2])
            expect_all(groups, [1, 2], "RankDiedError", "rank 0")


def leave(rank, how):
    if how == "destroy":
        for form in FORMS:
            _made[form].shutdown()
        return
    try:
        raise OverflowError("the loss is infinite")
    finally:
        for form in FORMS:
            _made[form].shutdown()


@pytest.mark.parametrize(
    ("how", "kind", "text"),
    [("destroy", "MismatchError", "makes no call"), ("raise", "AbortedError", "infinite")],
)
def test_a_rank_that_leaves_a_group_before_its_first_call_says_so(how, kind, text):
    with Groups(4) as groups:
        groups.call(make, [[1, 2, 3]] * 4)
        groups.start(leave, [how] * 4, only=[3])
        groups.outcomes(only=[3])
        for form in (f for f in FORMS if f != "merge"):
            groups.start(first_call, [form] * 4, only=[1, 2])
            expect_all(groups, [1, 2], kind, "rank 3", text)
        groups.start(first_call, ["merge"] * 4, only=[1, 2])
        expect_all(groups, [1, 2], kind, text)


def quote_a_death(rank):
    """Rank 2 ends with an error that names rank 0, and the others go on in a new group."""
    if rank == 2:
        with contextlib.suppress(RuntimeError):
            try:
                raise RuntimeError("rank 0 died in another group")
            finally:
                dist.destroy_process_group()
        return None
    with pytest.raises(RuntimeError, match="rank 0 died in another group"):
        dist.barrier()
    group = dist.new_group([0, 1], use_local_synchronization=True)
    sums = torch.ones(4)
    dist.all_reduce(sums, group=group)
    return sums.tolist()


def test_a_death_that_a_rank_only_quotes_when_it_aborts_is_none():
    with Groups(3) as groups:
        assert groups.call(quote_a_death) == [[2.0] * 4, [2.0] * 4, None]


def cannot_join(rank):
    """The library refuses this rank alone."""
    import os

    if rank == 3:
        os.environ["SWITCHML_RECORD"] = "failure:/nowhere/file"
    return first_call(rank, "new_group")


def test_a_rank_that_cannot_join_tells_the_others_why():
    with Groups(4) as groups:
        groups.call(make, [[1, 2, 3]] * 4)
        groups.start(cannot_join, only=[1, 2, 3])
        expect_all(groups, [1, 2, 3], "ConfigError", "SWITCHML_RECORD")


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
        groups.start(use_all, [FORMS] * 3, only=[0, 2])
        assert groups.outcomes(only=[0, 2]) == [[[2.0]] * len(FORMS)] * 2
        groups.call(end_derived)


def refuse(rank):
    world, found = dist.group.WORLD, []
    for ranks, options in (([], None), ([0, 0], None), ([0, 9], None), ([0, 1], object())):
        try:
            world.split_group(ranks, opts=options)
        except (ValueError, TypeError) as error:
            found.append(str(error))
    return found


def test_a_group_that_cannot_be_split_so_is_refused():
    with Groups(2) as groups:
        for texts in groups.call(refuse):
            assert len(texts) == 4
            assert all("\n" not in text for text in texts)
            assert "0 to 1" in texts[2]
            assert "Options" in texts[3]
        groups.call(stop)


def call_what_is_inherited(rank):
    """Every method of PyTorch's class, without arguments and with some: errors, or results."""
    world, called = dist.group.WORLD, 0
    left_out = {"abort", "shutdown", "split_group", "merge_remote_group"}
    group = dist.new_group([0, 1])
    for name in sorted(set(dir(dist.ProcessGroup)) - left_out):
        method = getattr(group, name, None)
        if name.startswith("__") or not callable(method) or name[0].isupper():
            continue
        for arguments in ((), (torch.device("cpu"),), (0,), ("a",), ([torch.ones(2)],)):
            with contextlib.suppress(Exception):
                if "barrier" not in name and "recv" not in name:
                    method(*arguments)
            called += 1
    return called, world.size()


def test_no_inherited_method_ends_the_process():
    with Groups(2, seconds=30) as groups:
        for called, size in groups.call(call_what_is_inherited):
            assert called > 100
            assert size == 2
