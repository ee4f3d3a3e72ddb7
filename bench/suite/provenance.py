# SPDX-License-Identifier: BSD-3-Clause
"""Which code each measured block is of, and whether that code is still the same.

docs/figures/paper/numbers.json has an "about" for each block: its commit, and "code", a hash of
the files that decide what was measured. The hash needs no history, and outlives a rebase.
Comments, blank lines, includes and names of files do not count. Nor does the measuring itself:
whoever changes an experiment measures again.
"""
import fnmatch
import functools
import hashlib
import json
import os
import re
import subprocess

NUMBERS = "docs/figures/paper/numbers.json"
ALL = "all"

# Packets and sums: a rank's threads, the switch, and their sockets.
DATA = ("src/core/*", "src/lib/progress/*", "src/lib/transport/*", "src/net/udp_*", "src/switch/udp/*")
TORCH = ("bindings/python/switchml/torch/hooks.py", "bindings/python/switchml/torch/_residuals.py",
         "bindings/python/switchml/torch/_calls/*")
# arguments.c has the default wire.
CALLS = ("src/lib/api/*", "src/lib/context/submit.*", "src/lib/context/wait.*",
         "src/lib/context/context.*")  # the last one has the notifier
HOSTS = ("src/lib/host/*",)
RECOVERY = ("src/job/*", "src/lib/control/*", "src/lib/context/failover.*", "src/switch/control/*")
SLOTS = ("src/job/members/slots.*",)  # how many a job gets
SIMULATOR = tuple(f"tests/sim/{name}.*" for name in ("network", "rank", "run", "switches", "tree", "world"))

# Each block of numbers.json: the files that count.
BLOCKS = {
    "rate": (*DATA, *SLOTS, *HOSTS, *SIMULATOR),
    "replay": (*DATA, *TORCH),
    "training": (*DATA, *TORCH),
    "loss": (*DATA, *SLOTS, *SIMULATOR),
    "slots": (*DATA, *SLOTS, *SIMULATOR),
    "sharing": (*DATA, *SLOTS),
    "failures": (*DATA, *RECOVERY),
    "cpu": DATA,
    "performance": (*DATA, *HOSTS, *CALLS),
    "speed": (*DATA, *CALLS),
}

C_WORDS = re.compile(r"//[^\n]*|/\*.*?\*/|(\"(?:\\.|[^\"\\\n])*\"|'(?:\\.|[^'\\\n])*')", re.DOTALL)
INCLUDE = re.compile(r"#\s*include\b")


def said(name, text):
    """What a file says to a compiler, without the layout where that means nothing."""
    if name.endswith((".c", ".h")):
        text = C_WORDS.sub(lambda match: match[1] or " ", text).replace("\\\n", " ")
        lines = (" ".join(line.split()) for line in text.splitlines())
        # Only a directive ends with its line.
        return " ".join(f"\n{line}\n" if line.startswith("#") else line
                        for line in lines if line and not INCLUDE.match(line))
    lines = (line.rstrip() for line in text.splitlines())
    return "\n".join(line for line in lines if line and not line.lstrip().startswith("#"))


@functools.lru_cache
def files_of(root):
    listed = subprocess.run([os.path.join(root, "tools/list-files")], check=True, capture_output=True)
    names = map(os.path.normpath, filter(None, listed.stdout.decode().split("\0")))
    return [name for name in names if not name.endswith((".md", "meson.build"))]


def code(root, name):
    """The hash of what counts for a block."""
    parts = []
    for pattern in BLOCKS[name]:
        files = fnmatch.filter(files_of(root), pattern)
        if not files:
            raise FileNotFoundError(f"{pattern} names no file: bench/suite/provenance.py")
        for file in files:
            with open(os.path.join(root, file), encoding="utf-8") as text:
                parts.append(hashlib.sha256(said(file, text.read()).encode()).hexdigest())
    return hashlib.sha256("".join(sorted(parts)).encode()).hexdigest()[:16]


def commit(root):
    """{"commit", "changed"}: what is checked out, and whether code or tests differ from it."""
    def git(*words):
        done = subprocess.run(["git", "-C", root, *words], capture_output=True, text=True, check=False)
        return done.stdout.strip() if done.returncode == 0 else ""
    changed = git("status", "--porcelain", "--untracked-files=no", "--", ".", ":!docs", ":!README.md")
    return {"commit": git("rev-parse", "--short=12", "HEAD") or "?", "changed": bool(changed)}


def commit_text(about):
    return f"commit {about['commit']}{' with changes' if about['changed'] else ''}"


# ---- numbers.json ----

def load(root):
    """{name: {"about", "data"}} of what the documents show."""
    with open(os.path.join(root, NUMBERS), encoding="utf-8") as file:
        return json.load(file)


def as_lines(value, depth=3):
    """JSON with a line for each member down to a depth, so that a change is a small diff."""
    if not value or depth == 0 or not isinstance(value, (dict, list)):
        return json.dumps(value)
    if isinstance(value, list):
        inside, ends = [as_lines(one, depth - 1) for one in value], "[]"
    else:
        inside = [f"{json.dumps(key)}: {as_lines(one, depth - 1)}" for key, one in value.items()]
        ends = "{}"
    return ends[0] + "\n" + ",\n".join(inside) + "\n" + ends[1]


def save(root, kept):
    with open(os.path.join(root, NUMBERS), "w", encoding="utf-8") as file:
        file.write(as_lines(dict(sorted(kept.items())), 4) + "\n")


def holds_text(about):
    """Why the numbers stay, or nothing."""
    return f"its code has changed since: {'; '.join(about['holds'])}" if "holds" in about else ""


# ---- is it still so? ----

def stale(root):
    """(name, what is wrong) for each block that is not of today's code."""
    kept = load(root)
    for name, files in BLOCKS.items():
        about = kept.get(name, {}).get("about", {})
        again = f"bench/paper --only {name} --document"
        if about.get("code") != code(root, name):
            since = about.get("commit", "?")
            yield name, (f"{name} was measured at {since}, and its code has changed:\n"
                         f"    git diff {since} -- {' '.join(files)}\n"
                         f"measure it again ({again}), or, if its numbers hold:\n"
                         f"    bench/paper --holds {name} 'why they hold'")
        else:
            shown = f"docs/figures/paper/{name}.svg"
            with open(os.path.join(root, shown), encoding="utf-8") as file:
                if commit_text(about) not in file.read():
                    yield name, f"{shown} does not name {commit_text(about)}: {again}"


def hold(root, name, why):
    """The numbers hold although the code changed. Returns the names of the blocks."""
    kept = load(root)
    names = [one for one in BLOCKS if name in (one, ALL) and one in kept
             and kept[one]["about"].get("code") != code(root, one)]
    for one in names:
        about = kept[one]["about"]
        about["code"] = code(root, one)
        about["holds"] = list(dict.fromkeys([*about.get("holds", ()), why]))
    save(root, kept)
    return names
