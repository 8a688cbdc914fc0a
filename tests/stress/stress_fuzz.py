"""``make stress``: 100,000 fuzzed records in process, and some hundreds of fuzzed files through each real reader.

Not collected by a plain ``pytest``: the file's name is not test_*.
"""

from __future__ import annotations

import os
import resource
import signal
from collections import Counter
from pathlib import Path
from types import FrameType

import pytest

from tests.support import hostile_logdir
from tests.support.exercised_records import judge
from tests.support.tensorboard_server import TensorBoardServer

CASES = int(os.environ.get("STRESS_CASES", "100000"))
FILES = int(os.environ.get("STRESS_FILES", "300"))
SECONDS_PER_CASE = 10
SHARES = {
    "structure": 0.35,
    "measured structure": 0.25,
    "attention": 0.15,
    "attention details": 0.1,
    "measurement": 0.1,
    "plan": 0.05,
}


def _too_slow(number: int, frame: FrameType | None) -> None:
    raise AssertionError(f"a record of 3 kB takes more than {SECONDS_PER_CASE} s")


@pytest.mark.parametrize("kind", SHARES)
def test_fuzzed_records_in_process(kind: str, record_property: pytest.RecordProperty) -> None:
    """Every tenth record that is still usable also goes through alignment, audit or comparison."""
    outcomes: Counter[str] = Counter()
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    handler = signal.signal(signal.SIGALRM, _too_slow)
    try:
        for seed in range(int(CASES * SHARES[kind])):
            signal.alarm(SECONDS_PER_CASE)
            outcomes[judge(kind, seed, analyse=seed % 10 == 0)] += 1
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, handler)
    grown = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before
    print(f"\n{kind}: {sum(outcomes.values()):,} records, {dict(outcomes)}, {grown >> 10} MiB more memory at the peak")
    assert set(outcomes) == {"refused", "usable"}
    assert grown < 500 << 10


@pytest.mark.parametrize("fast", [False, True], ids=["python", "rust"])
def test_fuzzed_files_through_a_real_reader(tmp_path: Path, fast: bool) -> None:
    import psutil

    hostile_logdir.write_logdir(tmp_path, FILES)
    with TensorBoardServer(tmp_path, fast=fast) as server:
        hostile_logdir.wait_until_read(server)
        process = psutil.Process(server.pid)
        records = hostile_logdir.ask_for_records(server, share=0.5)
        requests = hostile_logdir.send(server, 3_000)
        memory = process.memory_info().rss >> 20
        print(f"\n{FILES} files and records: {dict(records)}; wrong requests: {dict(requests)}; {memory} MiB")
        assert records[200] > 100
        assert records[422] > 10
        assert memory < 1_000
        assert server.alive
        assert server.request("/data/runs")[0] == 200
