"""Writes records to ``memory://`` and serves them from the same process, as nothing else can see that file system:
``python -m tests.support.memory_logdir``. Prints the list of records."""

from __future__ import annotations

import json
import time
import urllib.request

from tensorboard import default, program

from tb_plugin_structure import event_file
from tb_plugin_structure.dashboards import loaders
from tb_plugin_structure.records import names
from tests.support.small_records import small_structure

LOGDIR = "memory://bucket/runs"


def main() -> None:
    file = event_file.OwnEventFile(f"{LOGDIR}/kd")
    for step in range(3):
        blobs = small_structure(hidden=4 + step).encode()
        file.add_event(event_file.record_event(names.STRUCTURE_PLUGIN, "structure/teacher", blobs, step))
        file.flush()
    file.close()
    plugins = {getattr(plugin, "__name__", ""): plugin for plugin in default.get_plugins()}
    ours = [loaders.GraphDiffLoader, loaders.ShapeAuditLoader, loaders.AttentionLoader]
    server = program.TensorBoard(plugins=list((plugins | {loader.__name__: loader for loader in ours}).values()))
    server.configure(
        ["tensorboard", "--logdir", LOGDIR, "--port", "0", "--load_fast", "auto", "--reload_interval", "1"]
    )
    url = server.launch()
    deadline = time.monotonic() + 60
    listing: dict[str, object] = {}
    while not listing.get("structures") and time.monotonic() < deadline:
        time.sleep(0.2)
        with urllib.request.urlopen(f"{url}data/plugin/structure_graph_diff/api/records", timeout=30) as answer:
            listing = json.load(answer)
    print(json.dumps(listing))


if __name__ == "__main__":
    main()
