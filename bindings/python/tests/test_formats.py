"""Objects that the Rust library wrote, and the test vectors of docs/reference/formats.md."""

from __future__ import annotations

import json
import re
import shutil
from pathlib import Path
from typing import Any, Optional

import pytest
import tenure
from tenure.testing import MemoryStore

ROOT = Path(__file__).parents[3]
FIXTURES = ROOT / "tests/protocol/fixtures"


@pytest.fixture
def scenes(tmp_path: Path) -> Path:
    """Return the folder of a copy of the fixtures. Each fixture is a folder in it."""
    return Path(shutil.copytree(FIXTURES, tmp_path / "scenes"))


@pytest.mark.parametrize(
    ("scene", "epoch", "end"),
    [
        ("held", 1, None),
        ("lapsed", 1, "lapsed"),
        ("deposed", 1, "deposed"),
        ("resigned", 1, "resigned"),
        ("restored", 41, "restored"),
        ("single-released", 1, "resigned"),
        ("single-deposed", 1, "deposed"),
        ("single-restored", 41, "restored"),
        ("directory", 1, "resigned"),
    ],
)
def test_python_continues_an_election(
    scenes: Path, scene: str, epoch: int, end: Optional[str]
) -> None:
    is_single = scene.startswith("single") or scene == "directory"
    election = tenure.Election(
        scenes / scene, name="b", layout="single-object" if is_single else "epoch-files"
    )
    snapshot = election.snapshot()
    assert snapshot.leader is not None
    assert (snapshot.leader.epoch, snapshot.end) == (epoch, end)
    text = max((FIXTURES / scene).iterdir()).read_text()
    record = json.loads(text[text.index("{\n") :])
    assert (snapshot.leader.candidate, snapshot.sealed_by) == (
        record["candidate"],
        record["sealed_by"],
    )
    if end in ("resigned", "lapsed"):  # after any other end, the successor would have to wait
        with election.campaign(timeout=60) as leadership:
            assert leadership.check() == epoch + 1


def test_python_continues_guarded_resources(scenes: Path) -> None:
    log = tenure.FencedLog(scenes / "log", 3)
    read = [(it.number, it.epoch, it.body) for it in log.read_from(3)]
    assert read == [(3, 1, b"two"), (4, 1, b"three"), (6, 2, b"four")] and log.oldest() == 3
    with pytest.raises(tenure.StaleTokenError):
        tenure.FencedLog(scenes / "log", 1).append(b"late")
    assert log.append(b"next") > 6
    state = tenure.FencedObject(scenes / "object", 3, name="state")
    assert state.open() == b"one\n"
    state.write(b"two")
    assert tenure.FencedObject(scenes / "object", name="state").read() == tenure.Contents(3, b"two")
    claimed = tenure.FencedObject(scenes / "object", name="claimed").read()
    assert claimed is not None and claimed.body is None
    gate = tenure.DurableGate(scenes / "gate", name="gate")
    assert gate.newest() == 7
    with pytest.raises(tenure.StaleTokenError):
        gate.admit(6)


def test_python_writes_the_published_formats() -> None:
    page = (ROOT / "docs/reference/formats.md").read_text()
    vectors = [json.loads(line) for line in re.findall(r'^(\{"tenure_.*?\})\\n', page, re.M)]
    assert len(vectors) == 8
    store = MemoryStore()
    state = tenure.FencedObject(store, 1, name="state")
    state.open()
    state.write(b"{}\n")
    logs = [tenure.FencedLog(store, token, name="log") for token in (1, 2)]
    for log in logs:
        log.append(b"one")
        log.append(b"two")
    logs[1].trim(3)
    written: list[dict[str, Any]] = []
    for key in store.keys():
        body = store.read(key)
        assert body is not None
        line = body.split(b"\n")[0]
        written.append(json.loads(line))
        assert json.dumps(written[-1], separators=(",", ":")).encode() == line
    fields = {tuple(vector) for vector in vectors}
    assert {tuple(header) for header in written} <= fields
    kinds = {next(iter(header)) for header in written}
    assert kinds == {"tenure_object", "tenure_log", "tenure_log_trim"}
