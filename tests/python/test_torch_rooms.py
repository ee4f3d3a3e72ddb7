# SPDX-License-Identifier: BSD-3-Clause
"""The folders of switchml/torch: each imports only folders below it, and no files in a circle."""

import ast
import graphlib
from pathlib import Path

FOLDER = Path(__file__).resolve().parents[2] / "bindings" / "python" / "switchml" / "torch"
FILES = sorted(FOLDER.rglob("*.py"))
# What the files of a folder may import. "" has the public modules.
BELOW = {"_calls": set(), "_joining": set(), "_group": {"_calls", "_joining"}}
BELOW[""] = set(BELOW)


def place_of(path):
    """Its folder and its name: ("_calls", "work"), or ("", "hooks")."""
    *folder, name = path.relative_to(FOLDER).with_suffix("").parts
    return "/".join(folder), name


def imported(path):
    """The files of switchml/torch that a file imports, at its top or in a function."""
    folder, _ = place_of(path)
    here = [folder] if folder else []
    for node in ast.walk(ast.parse(path.read_text())):
        if not isinstance(node, ast.ImportFrom) or not 0 < node.level <= len(here) + 1:
            continue
        parts = node.module.split(".") if node.module else []
        base = FOLDER.joinpath(*here[: len(here) + 1 - node.level], *parts)
        for alias in node.names:  # a module, or something in one
            for target in ((base / alias.name).with_suffix(".py"), base.with_suffix(".py")):
                if target in FILES:
                    yield place_of(target)


GRAPH = {place_of(path): set(imported(path)) for path in FILES}


def test_a_folder_imports_only_folders_below_it():
    upward = [
        (file, target)
        for file, targets in GRAPH.items()
        for target in targets
        if target[0] not in {file[0], *BELOW[file[0]]}
    ]
    assert not upward
    # The graph has what it is about.
    assert ("_calls", "work") in GRAPH[("_group", "group")]
    assert ("_joining", "job_name") in GRAPH[("_joining", "rendezvous")]
    assert ("_group", "group") in GRAPH[("", "__init__")]


def test_no_files_import_each_other_in_a_circle():
    assert len(list(graphlib.TopologicalSorter(GRAPH).static_order())) == len(FILES)
