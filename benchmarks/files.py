"""How fast records are written into event files, side by side: TensorBoard's own checksum, numpy's, google-crc32c's.

    python benchmarks/files.py [--mebibytes 64] [--own-mebibytes 4]

Every row writes records of 1 MiB of random bytes through the same EventFileWriter and closes it; only the checksum
differs. Then each file is read back by TensorBoard's Python reader, which computes the checksums again. Processor time
is given beside elapsed time, for machines that are busy with other things.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
from tensorboard.backend.event_processing import event_file_loader
from tensorboard.compat.tensorflow_stub import pywrap_tensorflow
from tensorboard.summary.writer import event_file_writer

from tb_plugin_structure import checksum, event_file
from tb_plugin_structure.records import names

RECORD = 1 << 20


def write(folder: Path, count: int, crc32c: Callable[[bytes], int] | None) -> tuple[float, float]:
    """(elapsed, processor) seconds of writing `count` records; None: TensorBoard's own record writer."""
    random = np.random.default_rng(0)
    events = [
        event_file.record_event(names.STRUCTURE_PLUGIN, f"structure/{number}", [random.bytes(RECORD)], 0)
        for number in range(count)
    ]
    writer = event_file_writer.EventFileWriter(str(folder))
    original = checksum.crc32c
    try:
        if crc32c is not None:
            checksum.crc32c = crc32c
            assert event_file.use_fast_checksum(writer) is not None
        started, busy = time.perf_counter(), time.process_time()
        for event in events:
            writer.add_event(event)
        writer.close()
        return time.perf_counter() - started, time.process_time() - busy
    finally:
        checksum.crc32c = original


def read(folder: Path, fast: bool) -> tuple[float, float, int]:
    """(elapsed, processor) seconds of reading a file by TensorBoard's Python reader, and the records found."""
    original = pywrap_tensorflow.masked_crc32c
    if fast:
        pywrap_tensorflow.masked_crc32c = checksum.masked_crc32c
    try:
        (path,) = folder.iterdir()
        started, busy = time.perf_counter(), time.process_time()
        found = sum(len(event.summary.value) for event in event_file_loader.EventFileLoader(str(path)).Load())
        return time.perf_counter() - started, time.process_time() - busy, found
    finally:
        pywrap_tensorflow.masked_crc32c = original


def implementations() -> Iterator[tuple[str, Callable[[bytes], int] | None]]:
    yield "TensorBoard's own (Python)", None
    yield "numpy", checksum.crc32c_numpy
    try:
        import google_crc32c
    except ImportError:
        return
    if google_crc32c.implementation == "c":
        yield "google-crc32c", lambda data: int(google_crc32c.value(data))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--mebibytes", type=int, default=64)
    parser.add_argument("--own-mebibytes", type=int, default=4, help="less for TensorBoard's own, which takes minutes")
    arguments = parser.parse_args()
    print("| checksum | write MiB/s | of processor time | read MiB/s | of processor time |")
    print("| --- | ---: | ---: | ---: | ---: |")
    for name, crc32c in implementations():
        count = arguments.own_mebibytes if crc32c is None else arguments.mebibytes
        with tempfile.TemporaryDirectory() as folder:
            elapsed, busy = write(Path(folder), count, crc32c)
            cells = [f"{count / elapsed:.0f}", f"{count / busy:.0f}"]
            # The reader takes the fastest checksum of this environment, or its own.
            if name == "numpy":
                cells += ["", ""]
            else:
                read_elapsed, read_busy, found = read(Path(folder), fast=crc32c is not None)
                assert found == count, f"{found} of {count} records were read back"
                cells += [f"{count / read_elapsed:.0f}", f"{count / read_busy:.0f}"]
        print(f"| {name} | {' | '.join(cells)} |")


if __name__ == "__main__":
    main()
