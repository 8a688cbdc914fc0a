"""Trainings that are killed at random moments: ``python -m tests.support.killed_training FOLDER COUNT SEED``.

Each of COUNT runs below FOLDER is trained in a process of its own that records every step, flushes, and then notes the
step in ``FOLDER/<run>.flushed``. It is killed after a random time, started again a few steps before its last noted
step, as a checkpoint would have it, and killed again.
"""

from __future__ import annotations

import os
import random
import signal
import sys
import tempfile
import time
import warnings
from pathlib import Path

import torch
from torch import nn

from tb_plugin_structure import StructureWriter
from tests.support.surviving_records import flushed

STEPS_BACK = 3


def model(width: int) -> nn.Module:
    layer = nn.TransformerEncoderLayer(width, 2, width, dropout=0.0, batch_first=True)
    return nn.Sequential(nn.Linear(3, width), nn.TransformerEncoder(layer, 1, enable_nested_tensor=False))


def train(run: Path, begin: int, notes: int, steps: int = 10_000) -> None:
    torch.manual_seed(0)
    teacher, student = model(8), model(4)
    optimizer = torch.optim.SGD(student.parameters(), lr=0.01)
    writer = StructureWriter(run)
    for step in range(begin, begin + steps):
        values = torch.randn(2, 4, 3)
        with writer.record_step({"teacher": teacher, "student": student}, step=step, optimizer=optimizer):
            with torch.no_grad():
                target = teacher(values).mean(-1)
            loss = nn.functional.mse_loss(student(values).mean(-1), target)
            loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        writer.flush()
        os.write(notes, f"{step}\n".encode())
    writer.close()


def attempt(folder: Path, run: str, begin: int, random_: random.Random) -> None:
    """Train in a child process for some steps and a bit, then kill it."""
    notes = os.open(folder / f"{run}.flushed", os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    os.write(notes, f"begin {begin}\n".encode())
    child = os.fork()
    if child == 0:
        try:
            train(folder / run, begin, notes)
        finally:
            os._exit(1)
    os.close(notes)
    wanted = random_.randrange(8)
    deadline = time.monotonic() + 60
    while len(flushed(folder, run)[-1].steps) < wanted:
        assert time.monotonic() < deadline, f"{run} did not get to its step {wanted}"
        time.sleep(0.002)
    time.sleep(random_.uniform(0, 0.05))
    os.kill(child, signal.SIGKILL)
    _, status = os.waitpid(child, 0)
    assert os.WIFSIGNALED(status), f"the training of {run} ended by itself"


def main(folder: Path, count: int, seed: int) -> None:
    torch.set_num_threads(1)
    warnings.simplefilter("ignore")
    random_ = random.Random(seed)
    folder.mkdir(parents=True, exist_ok=True)
    # Everything is loaded once here, so that the children train from the start.
    with tempfile.TemporaryDirectory() as warm_up, open(os.devnull, "wb") as nowhere:
        train(Path(warm_up), 0, nowhere.fileno(), steps=1)
    runs = [f"run{number:03}" for number in range(count)]
    for run in runs:
        attempt(folder, run, 0, random_)
    time.sleep(1.1)  # event files are named, and read in order, by the second
    for run in runs:
        steps = flushed(folder, run)[-1].steps
        attempt(folder, run, max(0, steps[-1] - STEPS_BACK) if steps else 0, random_)


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3]))
