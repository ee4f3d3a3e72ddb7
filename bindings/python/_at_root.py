# SPDX-License-Identifier: BSD-3-Clause
"""A build backend that runs two directories up, because the C library is built there."""

import os
from pathlib import Path

import mesonpy

ROOT = Path(__file__).resolve().parents[2]


def _at_root(hook):
    def call(*arguments, **options):
        os.chdir(ROOT)
        return hook(*arguments, **options)

    return call


get_requires_for_build_wheel = _at_root(mesonpy.get_requires_for_build_wheel)
build_wheel = _at_root(mesonpy.build_wheel)
get_requires_for_build_sdist = _at_root(mesonpy.get_requires_for_build_sdist)
build_sdist = _at_root(mesonpy.build_sdist)
get_requires_for_build_editable = _at_root(mesonpy.get_requires_for_build_editable)
build_editable = _at_root(mesonpy.build_editable)
