"""Adds to the site what lives elsewhere in the repository: README, CHANGELOG, CONTRIBUTING, examples.

A hook of MkDocs, see mkdocs.yml. The files stay where people and tools look for them, and are not written twice.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from mkdocs.structure.files import File, Files

ROOT = Path(__file__).resolve().parents[1]
PAGES = {"README.md": "index.md", "CHANGELOG.md": "changelog.md", "CONTRIBUTING.md": "contributing.md"}
EXAMPLES = ("examples/*.py", "examples/*.ipynb")


def on_files(files: Files, config: Any) -> Files:
    """Pages of the root, and the examples as files to download."""
    for source, page in PAGES.items():
        files.append(File.generated(config, page, content=from_root((ROOT / source).read_text())))
    for pattern in EXAMPLES:
        for path in sorted(ROOT.glob(pattern)):
            files.append(File.generated(config, f"examples/{path.name}", content=path.read_bytes()))
    return files


def on_page_markdown(markdown: str, **unused: Any) -> str:
    """Links of pages in docs/ to what lies outside of it."""
    for source, page in PAGES.items():
        markdown = markdown.replace(f"](../{source}", f"]({page}")
    return markdown.replace("](../examples/", "](examples/")


def from_root(markdown: str) -> str:
    """Links of a page at the root, as seen from docs/."""
    markdown = re.sub(r'(\]\(|src="|srcset=")docs/', r"\1", markdown)
    for source, page in PAGES.items():
        markdown = markdown.replace(f"]({source}", f"]({page}")
    return markdown
