# SPDX-License-Identifier: BSD-3-Clause
"""Ruff has nothing to say about the Python of the package, the examples and the tests,
and options go by their names."""

import ast
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]


@pytest.mark.parametrize("arguments", [["check"], ["format", "--check"]], ids=["lint", "format"])
def test_ruff_is_content(arguments):
    pytest.importorskip("ruff")
    command = [sys.executable, "-m", "ruff", *arguments, "--no-cache", "."]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


def public_functions(tree):
    """Of a module, and of its classes."""
    for node in tree.body:
        name = getattr(node, "name", "_")
        if name.startswith("_") and name != "__init__":
            continue
        if isinstance(node, ast.ClassDef):
            yield from public_functions(node)
        elif isinstance(node, ast.FunctionDef):
            yield node


def test_of_three_options_at_most_one_has_a_place():
    """All others go by their names. (PyTorch decides about its own methods, in _group.)"""
    package, found = ROOT / "bindings" / "python" / "switchml", []
    for path in package.rglob("*.py"):
        if not any(part.startswith("_") for part in path.relative_to(package).parts):
            found += public_functions(ast.parse(path.read_text()))
    assert {"allreduce", "__init__", "broadcast_variables"} <= {f.name for f in found}
    for f in found:
        named = sum(default is not None for default in f.args.kw_defaults)
        options = len(f.args.defaults) + named
        assert options < 3 or len(f.args.defaults) <= 1, f.name
