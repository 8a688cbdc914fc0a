"""TensorBoard inside somebody's portal: a page of another origin, with a frame in a frame around it."""

from __future__ import annotations

import http.server
import threading
from collections.abc import Iterator

import pytest
from playwright.sync_api import Page, expect

from tb_plugin_structure import event_file
from tb_plugin_structure.records import names
from tests.support.small_records import small_structure
from tests.support.tensorboard_server import TensorBoardServer

pytestmark = pytest.mark.e2e


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[TensorBoardServer]:
    folder = tmp_path_factory.mktemp("framed")
    file = event_file.OwnEventFile(folder / "kd")
    for model, hidden in (("teacher", 8), ("student", 4)):
        blobs = small_structure(model, hidden=hidden).encode()
        file.add_event(event_file.record_event(names.STRUCTURE_PLUGIN, f"structure/{model}", blobs, 0))
    file.close()
    with TensorBoardServer(folder) as started:
        started.records(at_least=2)
        yield started


@pytest.fixture
def portal(server: TensorBoardServer) -> Iterator[str]:
    """A page on another port whose frame holds a frame that holds TensorBoard."""
    style = 'style="width: 100%; height: 850px; border: 0"'

    class Pages(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            inner = f'<iframe id="board" src="{server.url}/#structure_graph_diff" {style}></iframe>'
            outer = f'<iframe id="portal" src="/inner" {style}></iframe>'
            self.send_response(200)
            self.send_header("Content-Type", "text/html")
            self.end_headers()
            self.wfile.write(
                f"<!doctype html><title>Portal</title>{inner if self.path == '/inner' else outer}".encode()
            )

        def log_message(self, *unused: object) -> None:
            pass

    pages = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Pages)
    threading.Thread(target=pages.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{pages.server_port}/"
    pages.shutdown()
    pages.server_close()


def test_the_graph_diff_is_shown_two_frames_below_a_page_of_another_origin(page: Page, portal: str) -> None:
    failures: list[str] = []
    page.on("pageerror", lambda error: failures.append(str(error)))
    page.goto(portal)
    board = page.frame_locator("#portal").frame_locator("#board")
    tab = board.frame_locator('iframe[src*="name=structure_graph_diff"]')
    expect(tab.locator("body")).to_contain_text("teacher", timeout=60_000)
    expect(tab.locator("canvas").first).to_be_visible(timeout=30_000)
    assert failures == []
