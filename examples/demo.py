"""Run the examples, then show them in TensorBoard until Ctrl-C.

python examples/demo.py --logdir runs/demo --port 6006
"""

from __future__ import annotations

import argparse
import contextlib
import shutil
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from pathlib import Path

TABS = ("structure_graph_diff", "structure_shape_audit", "structure_attention")
RUNS = ("resnet", "bert", "digits")
SECONDS_TO_START = 120.0


def record(logdir: Path) -> None:
    """Train the digit models and record the two well-known pairs, each into a run of its own."""
    # Imported here: together they take some seconds, and `--help` should not.
    import distill_digits
    import log_pairs

    for run in RUNS:
        shutil.rmtree(logdir / run, ignore_errors=True)
    print("Recording ResNet-50 and ResNet-18, then BERT-base and DistilBERT, on the meta device", flush=True)
    log_pairs.log_resnets(logdir / "resnet")
    log_pairs.log_berts(logdir / "bert")
    print("Training a vision transformer on handwritten digits, then distilling a smaller one", flush=True)
    distill_digits.run(logdir / "digits")


def free_port(wanted: int) -> int:
    """`wanted`, or the next port above it that nothing listens on."""
    for port in range(wanted, wanted + 100):
        with socket.socket() as probe:
            if probe.connect_ex(("localhost", port)) != 0:
                return port
    raise SystemExit(f"ports {wanted} to {wanted + 99} are all in use; name another one with --port")


@contextlib.contextmanager
def tensorboard(logdir: Path, port: int) -> Iterator[tuple[str, subprocess.Popen[bytes]]]:
    """A TensorBoard that answers: its address and its process, which ends with the block."""
    port = free_port(port)
    log = logdir / "tensorboard.log"
    with log.open("w") as output:
        server = subprocess.Popen(
            [sys.executable, "-m", "tensorboard.main", "--logdir", str(logdir), "--port", str(port)],
            stdout=output,
            stderr=subprocess.STDOUT,
        )
        try:
            wait_until_it_answers(server, port, log)
            yield f"http://localhost:{port}", server
        finally:
            server.terminate()
            server.wait()


def wait_until_it_answers(server: subprocess.Popen[bytes], port: int, log: Path) -> None:
    """Return once the tabs are listed. Raises ``SystemExit`` with TensorBoard's own words when it ends or hangs."""
    deadline = time.monotonic() + SECONDS_TO_START
    while time.monotonic() < deadline and server.poll() is None:
        try:
            with urllib.request.urlopen(f"http://localhost:{port}/data/plugins_listing", timeout=5) as answer:
                if TABS[0].encode() in answer.read():
                    return
        except OSError:
            pass
        time.sleep(0.3)
    raise SystemExit(f"TensorBoard did not start; it says:\n{log.read_text()}")


def serve(logdir: Path, port: int) -> int:
    """Show the tabs until Ctrl-C. Returns an exit status."""
    try:
        with tensorboard(logdir, port) as (address, server):
            print("\nTensorBoard is running. Open")
            for tab in TABS:
                print(f"    {address}/#{tab}")
            print("Ctrl-C stops it.", flush=True)
            return server.wait()
    except KeyboardInterrupt:
        print("\nstopped")
        return 0


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--logdir", type=Path, default=Path("runs/demo"), help="its runs of the last demo are replaced")
    parser.add_argument("--port", type=int, default=6006, help="the next free one from here is taken")
    parser.add_argument("--serve-only", action="store_true", help="show what an earlier run recorded")
    arguments = parser.parse_args()
    try:
        if not arguments.serve_only:
            record(arguments.logdir)
    except KeyboardInterrupt:
        raise SystemExit("\nstopped") from None
    raise SystemExit(serve(arguments.logdir, arguments.port))


if __name__ == "__main__":
    main()
