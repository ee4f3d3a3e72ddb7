# SPDX-License-Identifier: BSD-3-Clause
"""Starts and ends the programs on a star's hosts, and cleans up at the end of this one."""
import contextlib
import signal
import sys
import time

SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


def last_line(path):
    with open(path, encoding="utf-8", errors="replace") as log:
        lines = [line.strip() for line in log if line.strip()]
    return lines[-1] if lines else "it said nothing"


def has_said(switch, log, words):
    """Whether a program has said these words within 30 s; else it may have ended."""
    deadline = time.monotonic() + 30
    while time.monotonic() < deadline:
        with open(log, encoding="utf-8", errors="replace") as said:
            if words in said.read():
                return True
        if switch.poll() is not None:
            break
        time.sleep(0.05)
    return False


def exit_on_signals():
    """Let this program clean up when it is asked to end."""
    for number in SIGNALS:
        signal.signal(number, lambda number, _frame: sys.exit(128 + number))


@contextlib.contextmanager
def signals_held():
    """Hold signals until this block is over, also in children: for cleaning up."""
    before = signal.pthread_sigmask(signal.SIG_BLOCK, SIGNALS)
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
