# SPDX-License-Identifier: BSD-3-Clause
r"""A group's job and its works, in the order of the calls.

    put() ----------- the job is open, nothing waits ----------> begun -> finisher -> ended
       \--> waiting -> starter (opens the job, begins works) --/    \-> follower --/  \-> callbacks

If the application waits for the work next, and no other work is under way, put() also finishes
it, in the application's thread: no thread is woken, and on one host this thread moves the data.

All ranks must make the C calls in the same order. So as soon as one work waits to be begun,
all later works wait, too. The exception is a work that a callback begins: it comes before the
works that wait for this callback to return. The finisher waits in C, without the GIL. The
follower waits for what works do after their C calls (elsewhere.py).
"""

from __future__ import annotations

import logging
import queue
import threading
import time
from collections.abc import Callable
from typing import Any, TypeGuard

from ..._settings import timeout_of_job
from ..._wait import poll
from ...errors import ClosedError, SwitchMLError, TimedOutError
from ...job import Job, Request
from .callbacks import watch
from .sizes import Sizes
from .summary import Usage
from .threads import Callbacks
from .work import Work, barrier

log = logging.getLogger("switchml.torch")

# A barrier's name, which is read after "rank 1 called", if others make another call meanwhile, and
# after "waiting for rank 1 in job …,": so it must not say who.
END_OF_GROUP = "the end of the group (destroy_process_group(), or the end of the program)"


class AbortHooks:
    """Functions to call once, when a group fails or is aborted."""

    def __init__(self, title: str) -> None:
        self._title = title
        self._lock = threading.Lock()
        self._hooks: dict[int, Callable[[], None]] = {}
        self._called: set[int] = set()

    def add(self, hook_id: int, hook: Callable[[], None]) -> None:
        with self._lock:
            self._hooks[hook_id] = hook
            self._called.discard(hook_id)

    def remove(self, hook_id: int) -> None:
        with self._lock:
            self._hooks.pop(hook_id, None)

    def arm(self) -> None:
        """The group goes on with other ranks: call all of them again when that fails."""
        with self._lock:
            self._called.clear()

    def run(self) -> None:
        with self._lock:
            hooks = [hook for number, hook in self._hooks.items() if number not in self._called]
            self._called.update(self._hooks)
        for hook in hooks:
            try:
                hook()
            except Exception:  # the others, and the caller, must learn of the failure all the same
                log.exception("an abort hook of %s has failed", self._title)


class Line:
    """Works of one process group. `opener` joins its job, which may take long. `timeout`: seconds,
    of each call that has none of its own."""

    def __init__(
        self,
        title: str,
        opener: Callable[[], Job],
        timeout: float,
        usage: Usage,
        abort_hooks: AbortHooks,
        end_title: str = END_OF_GROUP,
    ) -> None:
        self._title, self._opener, self._usage, self._end_title = title, opener, usage, end_title
        self._abort_hooks = abort_hooks
        self.n_put = 0
        self.failure: SwitchMLError | None = None  # of the first call that the job has ended
        self._job: Job | None = None
        self._timeout = timeout_of_job(timeout)
        self._failed: BaseException | None = None
        self._closed = False
        self._lock = threading.RLock()  # a signal's handler may destroy the group meanwhile
        self._more = threading.Condition(self._lock)
        self._waiting: list[Work] = []
        self._busy = False  # a thread has taken a work and has not begun it yet
        self._n_begun = 0  # works that the finisher has not ended yet
        self._n_awaited = 0  # works that the application's threads are finishing
        self._begun: queue.SimpleQueue[Work | None] = queue.SimpleQueue()
        self._proceeding: queue.SimpleQueue[Any] = queue.SimpleQueue()
        self._starter: threading.Thread | None = None
        self._finisher: threading.Thread | None = None
        self._follower: threading.Thread | None = None
        self._callbacks = Callbacks()
        watch(self)

    # ---- putting ----

    def open(self) -> None:
        """Join the job now, in this thread, and raise what prevents it."""
        job = self._opener()
        with self._lock:
            self._job = job
            job.set_timeout(self._timeout)

    def set_timeout(self, seconds: float) -> None:
        """Of later calls. A job that is not joined yet gets it then."""
        with self._lock:
            self._timeout = timeout_of_job(seconds)
            if self._job is not None and not self._closed:
                self._job.set_timeout(self._timeout)

    @property
    def job(self) -> Job | None:
        return self._job

    @property
    def closed(self) -> bool:
        return self._closed

    def check_open(self) -> None:
        if self._closed:
            raise ClosedError(f"{self._title} has been destroyed: no more calls can be made")

    @property
    def idle(self) -> bool:
        """Whether all calls have ended."""
        with self._lock:
            return not self._is_under_way()

    def _is_under_way(self) -> bool:
        return bool(self._waiting or self._busy or self._n_begun or self._n_awaited)

    def put(self, work: Work) -> None:
        """Begin the work, or let it wait for its turn."""
        try:
            with self._lock:
                if self._closed:
                    self.check_open()
                place = self._place_of(work) if self._waiting else 0
                is_held = work.late or (work.after and work.held)
                if is_held or place or self._busy or not self._job:
                    self._let_wait(work, place, is_new=True)
                    return
                self.n_put += 1
                if not work.awaited or self._n_begun:
                    n_begun = self._n_begun
                    try:
                        self._begin(work)
                        self._finish_later(work)
                    except BaseException:  # the application was interrupted
                        if self._n_begun == n_begun:  # the finisher has not got it
                            self._let_wait(work, 0)
                        raise
                    return
                self._n_awaited += 1
                work.is_here = True
                self._begin(work, waits=True)
            self._finish(work)
            self._leave(work)
        except BaseException:
            self._leave(work)
            raise

    # Ctrl-C may come in the application's thread whenever a function returns, in each of these.
    # What must change together is therefore assigned without a call between, and what wakes others
    # comes before that: they look when they get the lock.

    def _let_wait(self, work: Work, place: int, is_new: bool = False) -> None:
        if not _was_started(self._starter):
            self._starter = self._thread("starter", self._start_works)
            self._starter.start()
        self._more.notify_all()
        self.n_put += is_new
        self._waiting.insert(place, work)

    def _leave(self, work: Work) -> None:
        """The application's thread has ended the work; or it was interrupted, and the call goes
        on in other threads, from where it is."""
        with self._lock:
            if not work.is_here:
                return
            if not work.has_ended:
                self._let_wait(work, 0)
            elif self._closed:
                self._more.notify_all()
            work.ended_here = work.has_ended and not work.has_steps
            self._n_awaited -= 1
            work.is_here = False

    def _place_of(self, work: Work) -> int:
        """Insert it before works that wait for the callback that made this call; otherwise at the
        end."""
        within = work.context.within()
        for index, other in enumerate(self._waiting):
            if not within.isdisjoint(other.after):
                return index
        return len(self._waiting)

    def turns_have_closed(self) -> None:
        """Some held works may now continue."""
        with self._lock:
            if self._waiting:
                self._more.notify()

    def _thread(self, what: str, run: Callable[[], None]) -> threading.Thread:
        """A thread that is not started yet. Who is interrupted while starting it cannot know
        whether it was; so it is kept before that, and the starter and the finisher end at once if
        another thread has been kept since then."""
        return threading.Thread(target=run, name=f"switchml-{what}", daemon=True)

    def _is_kept(self) -> bool:
        with self._lock:
            return threading.current_thread() in (self._starter, self._finisher)

    def _begin(self, work: Work, waits: bool = False) -> None:
        """Again, if the application was interrupted in here: it goes on from there."""
        error = work.begin_error or self._failed
        if error is None:
            try:
                assert self._job is not None
                longer = work.limit is not None and timeout_of_job(work.limit) > self._timeout
                if longer:
                    self._job.set_timeout(timeout_of_job(work.limit))
                try:
                    if work.sizes is not None:
                        self._compare(work.sizes, work)
                    work.begin(self._job, waits)
                finally:
                    if longer:
                        self._job.set_timeout(self._timeout)
            except Exception as failure:  # reported to the caller that waits for the work
                error = failure
        if error is not None:
            work.begin_error = error
        work.after = ()

    def _compare(self, sizes: Sizes, work: Work) -> None:
        """Runs in the starter, because the work is `late`; no other call can come between."""
        assert self._job is not None
        request = Request(self._job, [sizes.call], None)
        sizes.call.begin(self._job, request, 0)
        self._await(request, work)
        sizes.check()

    def _finish_later(self, work: Work) -> None:
        if not _was_started(self._finisher):
            self._finisher = self._thread("finisher", self._finish_works)
            self._finisher.start()
        self._n_begun += 1
        self._begun.put(work)

    def call_back(self, callbacks: Callable[[], None]) -> None:
        """Run the application's callbacks, in a thread where they may wait."""
        self._callbacks.run(callbacks)

    # ---- the threads ----

    def _start_works(self) -> None:
        if not self._is_kept():
            return
        while True:
            with self._lock:
                while self._busy or not (self._closed or self._is_next_free()):
                    self._more.wait()
                if not self._waiting:
                    return
                work = self._waiting.pop(0)
                self._busy = True
            if self._job is None and self._failed is None:
                try:
                    self.open()
                except Exception as failure:  # reported to callers that wait for any of the works
                    self._failed = failure
            self._begin(work)
            with self._lock:
                self._finish_later(work)
                self._busy = False
            del work

    def _is_next_free(self) -> bool:
        return bool(self._waiting) and not self._waiting[0].held

    def _finish_works(self) -> None:
        if not self._is_kept():
            return
        while (work := self._begun.get()) is not None:
            self._finish(work)
            del work
            with self._lock:
                self._n_begun -= 1

    def _finish(self, work: Work) -> None:
        """Wait for the work's requests, and end it, or leave the rest to the follower."""
        if work.has_ended:  # by an application that was interrupted after that
            return
        error = work.begin_error
        for index, request in enumerate(work.requests):
            try:
                if work.deadline is None:
                    request._wait()
                else:
                    self._await(request, work)
                if error is None and work.has_steps:
                    work.progress(index)
            except Exception as failure:  # reported to the waiting caller
                if work.is_here and not request.has_ended:
                    raise  # of a signal's handler: as with Ctrl-C, the call goes on
                error = error or failure
        rest = None
        if error is None and work.has_steps:
            try:
                rest = work.proceed()
            except Exception as failure:  # reported to the waiting caller
                error = failure
        if rest is None:
            self._end(work, error)
        elif threading.current_thread() is self._finisher:
            if self._follower is None:
                self._follower = self._thread("follower", self._follow_works)
                self._follower.start()
            self._proceeding.put((work, rest))
        else:
            self._follow(work, rest)

    def _follow_works(self) -> None:
        while (item := self._proceeding.get()) is not None:
            self._follow(*item)
            del item

    def _follow(self, work: Work, rest: Callable[[], None]) -> None:
        error = None
        try:
            rest()
        except Exception as failure:  # reported to the waiting caller
            error = failure
        self._end(work, error)

    def _end(self, work: Work, error: BaseException | None) -> None:
        if error is None and work.is_counted:  # before its caller continues
            self._usage.add(work.name, work.calls, work.begun_at)
            work.is_counted = False  # if the application is interrupted after this
        if error is not None and isinstance(error, SwitchMLError):
            self.failure = self.failure or error
            self._abort_hooks.run()  # before its caller knows
        if callbacks := work.end(error):
            self.call_back(callbacks)

    def _await(self, request: Request, work: Work) -> None:
        """Wait for a request, no longer than the work's timeout if that is shorter than the
        job's."""
        if work.deadline is not None:
            left = max(0.0, work.deadline - time.monotonic())
            if not poll(lambda: _has_ended(request), left):
                limit = f"a timeout of {work.limit:g} s"
                text = f"{work.name} of {self._title} has not ended after {limit}"
                assert self._job is not None
                self._job.abort(text)
                try:
                    request._wait()
                except SwitchMLError as error:
                    raise TimedOutError(text) from error
        request._wait()

    # ---- the end ----

    def abort(self, reason: str) -> None:
        """End the job for all ranks."""
        if self._job is not None:
            self._job.abort(reason)

    def close(self, seconds: float) -> None:
        """Let the works end, and leave the job with all other ranks. Calling it twice is allowed.

        If another rank still waits for this rank, its call meets the barrier in here. That is a
        mismatch, and both ranks learn that this one has left.
        """
        with self._lock:
            if self._closed:
                return
            self._closed = True
            self._more.notify_all()
        if self._await_end(time.monotonic() + seconds) and self._job is not None:
            self._job.close()

    def _await_end(self, deadline: float) -> bool:
        """Wait for all ranks. True: the job can be closed."""
        if not self._end_of(self._starter, deadline) or not self._end_of_awaited(deadline):
            return False
        self._begun.put(None)
        if not self._end_of(self._finisher, deadline):
            return False
        self._proceeding.put(None)
        if not self._end_of(self._follower, deadline):
            return False
        self._callbacks.close(max(0.0, deadline - time.monotonic()))
        if self._job is None:
            return False
        left = max(0.0, deadline - time.monotonic())
        try:
            leaving = barrier(self._end_title)
            request = Request(self._job, [leaving], None)
            self._job.set_timeout(timeout_of_job(left + 1))  # what a rank that waits says
            leaving.begin(self._job, request, 0)
            if not poll(lambda: _has_ended(request), left):
                self._job.abort(f"this rank has left {self._title}, and others have not")
        except SwitchMLError:
            pass  # the job has failed, and all ranks know it
        self._usage.add_job(self._job)
        return True

    def _end_of_awaited(self, deadline: float) -> bool:
        """Whether other threads of the application have finished their works."""
        for seconds in (max(0.0, deadline - time.monotonic()), 5):
            with self._lock:
                if self._more.wait_for(lambda: not self._n_awaited, seconds):
                    return True
            self.abort(f"{self._title} was destroyed before its collectives had ended")
        return False

    def _end_of(self, thread: threading.Thread | None, deadline: float) -> bool:
        """Whether the thread has ended; otherwise it is stopped early."""
        if not _was_started(thread):
            return True
        thread.join(max(0.0, deadline - time.monotonic()))
        if thread.is_alive():
            self.abort(f"{self._title} was destroyed before its collectives had ended")
            thread.join(5)
        return not thread.is_alive()


def _was_started(thread: threading.Thread | None) -> TypeGuard[threading.Thread]:
    return thread is not None and thread.ident is not None


def _has_ended(request: Request) -> bool:
    try:
        return request.test()
    except Exception:  # it failed: wait() raises the error again
        return True
