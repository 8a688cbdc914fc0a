"""``static/*``: the built frontend, from a manifest read once. A path is looked up, never joined."""

from __future__ import annotations

import re
from collections.abc import Callable
from importlib import resources
from typing import Any

from tensorboard import errors
from werkzeug import wrappers

from tb_plugin_structure.dashboards.http import Query, respond
from tb_plugin_structure.records.blobs import compress

_YEAR = 31_536_000

# Named here rather than guessed: the registry of some Windows machines maps .js to text/plain.
_CONTENT_TYPES = {
    ".js": "text/javascript",
    ".mjs": "text/javascript",
    ".css": "text/css",
    ".json": "application/json",
    ".map": "application/json",
    ".svg": "image/svg+xml",
    ".html": "text/html",
    ".txt": "text/plain",
    ".woff2": "font/woff2",
    ".wasm": "application/wasm",
    ".png": "image/png",
}

_NOT_BUILT = (
    b"export function render() {\n"
    b"  document.body.textContent = 'The frontend of tensorboard-plugin-structure is not built. "
    b"In the source tree, run: make frontend';\n"
    b"}\n"
)


def _walk(folder: Any, prefix: str = "") -> dict[str, bytes]:
    found: dict[str, bytes] = {}
    for entry in folder.iterdir():
        if entry.is_dir():
            found.update(_walk(entry, f"{prefix}{entry.name}/"))
        else:
            found[prefix + entry.name] = entry.read_bytes()
    return found


def read_static() -> dict[str, bytes]:
    """Path below ``static/`` -> contents; empty when the frontend is not built."""
    try:
        return _walk(resources.files("tb_plugin_structure") / "static")
    except (FileNotFoundError, NotADirectoryError):
        return {}


def handler(files: dict[str, bytes]) -> Callable[[Query], wrappers.Response]:
    compressed: dict[str, bytes] = {}

    def handle(query: Query) -> wrappers.Response:
        path = query.request.path.rpartition("/static/")[2]
        data = files.get(path)
        if data is None and not files and path.endswith(".js"):
            data = _NOT_BUILT
        suffix = path[path.rfind(".") :] if "." in path else ""
        content_type = _CONTENT_TYPES.get(suffix)
        if data is None or content_type is None:
            raise errors.NotFoundError(f"there is no file {path[:200]!r}")
        # Hashed names change with their content; entries and whatever has no hash are asked for every time.
        expires = _YEAR if re.search(r"-[0-9a-f]{8,}\.[a-z0-9]+$", path) else 0
        if not content_type.startswith(("text/", "application/json", "image/svg")):
            return respond(query, data, content_type, expires=expires)
        if path not in compressed:
            compressed[path] = compress(data, level=9)  # once a file, and then for every viewer
        return respond(query, compressed[path], content_type, content_encoding="gzip", expires=expires)

    return handle
