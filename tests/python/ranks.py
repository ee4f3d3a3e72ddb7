# SPDX-License-Identifier: BSD-3-Clause
"""Processes that are a job's ranks, and that make the calls that a test asks for."""

import faulthandler
import functools
import importlib
import inspect
import multiprocessing
import os
import traceback

from ports import free_port
from switches import enter

SPAWN = multiprocessing.get_context("spawn")


def _trace_of(error):
    """From the test's function on. Values say why an assertion failed."""
    is_failure = isinstance(error, AssertionError)
    try:
        found = traceback.TracebackException(
            type(error), error, error.__traceback__.tb_next, capture_locals=is_failure
        )
        lines = "".join(found.format()).splitlines()
    except Exception:  # a value that cannot be shown
        return "".join(traceback.format_exception(error))
    return "".join(f"{line[:500]}\n" for line in lines)


def _serve(pipe, rank, n, settings, network, environment):
    """Make the calls that come down the pipe, until None comes."""
    os.environ.clear()
    os.environ.update(environment)  # not that of the process which it was forked from
    faulthandler.enable()  # a crash says which call it was in, and what the other threads did
    try:
        job = None
        if network:
            enter(rank, network)
        if settings is not None:
            import switchml

            # Starting Python may take one rank seconds longer than another: a job's timeout
            # does not begin before all have.
            pipe.send(("started", None))
            pipe.recv()
            job = switchml.Job(rank=rank, world_size=n, **settings)
        pipe.send(("ready", None))
        while (call := pipe.recv()) is not None:
            function, arguments = call
            try:
                pipe.send(("result", function(job if job else rank, *arguments)))
            except BaseException as error:  # the test looks at it
                pipe.send(("error", (type(error).__name__, str(error), _trace_of(error))))
        if job:
            job.close()
        pipe.send(("closed", None))
    except BaseException:
        pipe.send(("broken", traceback.format_exc()))


class RankLostError(Exception):
    """A rank's process ended before it had answered; a negative code is the signal's number."""


class RankError(Exception):
    """A rank's call raised: .kind is the exception's class, str() its text."""

    def __init__(self, kind, text, trace):
        super().__init__(text)
        self.kind, self.trace = kind, trace


class Ranks:
    """n processes, in `network`. `settings` are Job's; job=False: functions get their rank."""

    how_to_start = SPAWN

    def __init__(self, n, settings=None, job=True, network=None):
        self.n, self.processes, self.pipes = n, [], []
        if job:
            settings = {
                "job": "test",
                "master_port": free_port(),
                "timeout": 150,  # one rank may still import what another has long imported
                **(settings or {}),
            }
        for rank in range(n):
            ours, theirs = SPAWN.Pipe()
            its = settings if job else None
            arguments = (theirs, rank, n, its, network, dict(os.environ))
            process = self.how_to_start.Process(target=_serve, args=arguments, daemon=True)
            process.start()
            theirs.close()
            self.processes.append(process)
            self.pipes.append(ours)
        if job:
            self._await("started")
            for pipe in self.pipes:
                pipe.send("open")
        self._await("ready")

    def _await(self, expected):
        for rank in range(self.n):
            what, said = self._take(rank, 200)
            assert what == expected, said

    def _take(self, rank, timeout):
        if not self.pipes[rank].poll(timeout):
            raise TimeoutError(f"rank {rank} said nothing for {timeout} s")
        try:
            return self.pipes[rank].recv()
        except (EOFError, ConnectionResetError):
            self.processes[rank].join(10)
            code = self.processes[rank].exitcode
            raise RankLostError(f"rank {rank} is gone; its exit code is {code}") from None

    def start(self, function, *each, only=None):
        """Call function(job, *arguments) on the ranks; each argument is a list, one a rank."""
        for rank in range(self.n) if only is None else only:
            self.pipes[rank].send((function, tuple(argument[rank] for argument in each)))

    def outcomes(self, only=None, timeout=200):
        """What the calls came to: results, and RankErrors in place of those that raised."""
        found, lost = [], None
        for rank in range(self.n) if only is None else only:
            try:
                what, value = self._take(rank, timeout)
            except (TimeoutError, RankLostError) as error:
                # What the others have said is not the answer to the next call.
                lost = lost or error
                timeout = 1 if isinstance(error, TimeoutError) else timeout  # they had as long
                continue
            found.append(RankError(*value) if what == "error" else value)
        if lost:
            raise lost
        return found

    def call(self, function, *each, only=None, timeout=200):
        """Results of the ranks, or one AssertionError with all errors of theirs."""
        self.start(function, *each, only=only)
        found = self.outcomes(only, timeout)
        errors = [outcome for outcome in found if isinstance(outcome, RankError)]
        # A rank that fails leaves the others waiting: what they say is what it cost.
        errors.sort(key=lambda error: error.kind != "AssertionError")
        if errors:
            raise AssertionError("\n".join(f"{e.kind}: {e}\n{e.trace}" for e in errors))
        return found

    def expect(self, kind, *texts, only=None, timeout=200):
        """The calls that were started raise such an error, and its text has these."""
        for outcome in self.outcomes(only, timeout):
            assert isinstance(outcome, RankError) and outcome.kind == kind, outcome
            assert all(text in str(outcome) for text in texts), outcome

    def close(self):
        for process, pipe in zip(self.processes, self.pipes, strict=True):
            if process.is_alive():
                try:
                    pipe.send(None)
                except OSError:
                    continue
        for process in self.processes:
            process.join(30)
            if process.is_alive():
                process.kill()
                process.join()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()


def _run_test(job, module, name, given):
    return getattr(importlib.import_module(module), name).of_a_rank(job, **given)


def each_rank_of(fixture):
    """A test that all ranks of this fixture run. It gets the rank, or its job, and what pytest
    gives it by name."""

    def decorate(function):
        module, name = function.__module__, function.__name__
        _, *parameters = inspect.signature(function).parameters.values()

        def test(**given):
            ranks = given.pop(fixture)
            ranks.call(_run_test, *([one] * ranks.n for one in (module, name, given)))

        functools.update_wrapper(test, function)
        del test.__wrapped__  # pytest would ask it for its parameters
        of_test = inspect.Parameter(fixture, inspect.Parameter.POSITIONAL_OR_KEYWORD)
        test.__signature__ = inspect.Signature([of_test, *parameters])
        test.of_a_rank = function
        return test

    return decorate
