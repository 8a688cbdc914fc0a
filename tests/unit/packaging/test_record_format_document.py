"""docs/record_format.md says what the code does."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from tb_plugin_structure.records import schema

ROOT = Path(__file__).resolve().parents[3]


def test_the_document_is_current(tmp_path: Path) -> None:
    script = (ROOT / "docs" / "make_record_format.py").read_text()
    # The script writes beside itself: run a copy.
    copy = tmp_path / "make_record_format.py"
    copy.write_text(script)
    subprocess.run([sys.executable, str(copy)], check=True, capture_output=True, cwd=ROOT)
    made = (tmp_path / "record_format.md").read_text()
    assert (ROOT / "docs" / "record_format.md").read_text() == made, "run `make record-format`"


def test_every_column_is_documented_with_its_meaning() -> None:
    text = (ROOT / "docs" / "record_format.md").read_text()
    columns = [field for table in schema.STRUCTURE_TABLES.values() for field in table]
    assert len(columns) > 60
    assert [field.name for field in columns if f"| `{field.name}` |" not in text] == []
    assert "| `macs` | f64 | multiply-accumulates; NaN when unknown |" in text
