"""The stores of the tests."""

from __future__ import annotations

import gc
import os
import subprocess
import sys
import textwrap
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Callable

import pytest
import tenure
from tenure.testing import MemoryStore

#: Creates an election in the store of the test, with these settings.
Make = Callable[..., tenure.Election]

# This file has no tests. The mixed tests start it as a program.
collect_ignore = ["worker.py"]


@pytest.fixture(autouse=True)
def collect() -> Iterator[None]:
    """Drop leaderships that exceptions keep alive, because the next test may call `idle`."""
    yield
    gc.collect()


@pytest.fixture(params=["memory", "directory", "s3"])
def make(request: pytest.FixtureRequest, tmp_path: Path) -> Make:
    """Return a function that creates elections in one store."""
    bucket = os.environ.get("TENURE_TEST_S3_BUCKET")
    store: Any
    settings: dict[str, Any] = {}
    if request.param == "memory":
        store, settings = MemoryStore(), {"prefix": "orders"}
    elif request.param == "directory":
        store = tmp_path / "orders"
    elif bucket:
        store = f"s3://{bucket}/{tmp_path.name}"
    else:
        pytest.skip("TENURE_TEST_S3_BUCKET is not set")
    return lambda **more: tenure.Election(store, **{**settings, **more})


@pytest.fixture
def python(tmp_path: Path) -> Callable[..., subprocess.Popen[str]]:
    """Return a function that starts Python with a program, in an empty folder.

    The program handles SIGINT even if the tests run in a background job of a shell, whose processes
    ignore it.
    """
    heard = "import signal; signal.signal(signal.SIGINT, signal.default_int_handler)\n"

    def start(program: str, *arguments: str) -> subprocess.Popen[str]:
        return subprocess.Popen(
            [sys.executable, "-c", heard + textwrap.dedent(program), *arguments],
            cwd=tmp_path,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    return start
