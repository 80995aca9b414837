"""What a test needs of the machine. In CI nothing may be missing."""

from __future__ import annotations

import importlib.util
import os
import shutil

import pytest

from tests.fleet.yard import ROOT


def require(*tools: str, modules: tuple[str, ...] = (), root: bool = False) -> None:
    """Skip the test where a program, a Python module or root is missing; with CI set, fail instead."""
    path = f"{os.environ['PATH']}:/usr/sbin:/sbin"
    missing = [tool for tool in tools if shutil.which(tool, path=path) is None]
    missing += [module for module in modules if importlib.util.find_spec(module) is None]
    missing += ["root"] if root and not ROOT else []
    if missing:
        reason = f"missing: {', '.join(missing)}"
        if os.environ.get("CI"):
            pytest.fail(reason)
        pytest.skip(reason)
