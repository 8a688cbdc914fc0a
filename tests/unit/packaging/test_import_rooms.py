"""Who may import whom: the table of docs/architecture.md, checked against every import statement of the source."""

from __future__ import annotations

import ast
import re
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[3]
PACKAGE = ROOT / "tb_plugin_structure"
FRONTEND = ROOT / "frontend" / "src"


@dataclass(frozen=True)
class Room:
    """What a folder (or a module beside the folders) may import, its own files apart.

    `optional`: further names that it may import inside a function, so that they load when they are used.
    """

    rooms: frozenset[str]
    packages: frozenset[str]
    optional: frozenset[str] = frozenset()


def room(rooms: str, packages: str, optional: str = "") -> Room:
    return Room(frozenset(rooms.split()), frozenset(packages.split()), frozenset(optional.split()))


WRITING = room("capture records v1 record_log event_file checksum progress", "torch tensorboard numpy google_crc32c")
ROOMS = {
    "v1": room("", "google"),
    "records": room("v1", "numpy"),
    "progress": room("", "", "tqdm"),
    "capture": room("records v1 progress", "torch numpy sympy", "transformers flash_attn xformers psutil"),
    "analysis": room("records v1", "numpy", "distill scipy"),
    "distill": room("analysis records v1", "torch numpy", "tqdm"),
    "checksum": room("", "numpy google_crc32c tensorboard"),
    "event_file": WRITING,
    "record_log": WRITING,
    "writer": WRITING,
    "integrations": room("writer capture records v1", "torch", "lightning pytorch_lightning transformers"),
    "dashboards": room("analysis records v1 checksum", "tensorboard werkzeug numpy"),
    "cli": room(
        "analysis capture dashboards distill records v1 writer record_log event_file checksum integrations progress",
        "numpy",
        "torch tensorboard tqdm onnx rich",
    ),
}


@dataclass(frozen=True)
class Import:
    file: Path
    line: int
    module: str
    in_function: bool

    def __str__(self) -> str:
        return f"{self.file.relative_to(ROOT)}:{self.line} imports {self.module}"


def imports_of(file: Path, tree: ast.Module) -> Iterator[Import]:
    """Every import statement; those that only a type checker sees are left out."""
    parts = file.relative_to(ROOT).with_suffix("").parts
    package = parts[:-1]

    def visit(node: ast.AST, in_function: bool) -> Iterator[Import]:
        if isinstance(node, ast.If) and ast.unparse(node.test) in ("TYPE_CHECKING", "typing.TYPE_CHECKING"):
            for child in node.orelse:
                yield from visit(child, in_function)
            return
        if isinstance(node, ast.Import):
            for alias in node.names:
                yield Import(file, node.lineno, alias.name, in_function)
        elif isinstance(node, ast.ImportFrom):
            base = package[: len(package) - node.level + 1] if node.level else ()
            module = ".".join((*base, *([node.module] if node.module else [])))
            if module == "tb_plugin_structure":
                # `from tb_plugin_structure import records` names a room.
                for alias in node.names:
                    yield Import(file, node.lineno, f"{module}.{alias.name}", in_function)
            else:
                yield Import(file, node.lineno, module, in_function)
        inside = in_function or isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda)
        for child in ast.iter_child_nodes(node):
            yield from visit(child, inside)

    yield from visit(tree, False)


def room_of(file: Path) -> str:
    first = file.relative_to(PACKAGE).parts[0]
    return first.removesuffix(".py")


def source_files() -> list[Path]:
    return sorted(path for path in PACKAGE.rglob("*.py") if path.name != "__init__.py" or path.parent != PACKAGE)


def violations(imports: list[Import]) -> list[str]:
    found = []
    for item in imports:
        own = room_of(item.file)
        allowed = ROOMS[own]
        top, _, rest = item.module.partition(".")
        if top in sys.stdlib_module_names:
            continue
        if top == "tb_plugin_structure":
            name, known = rest.split(".")[0], allowed.rooms | {own}
        else:
            name, known = top, allowed.packages
        if name not in known and not (item.in_function and name in allowed.optional):
            found.append(str(item))
    return found


def test_every_folder_of_the_package_is_in_the_table() -> None:
    assert {room_of(file) for file in source_files()} <= set(ROOMS)


def test_rooms_import_only_what_the_table_allows() -> None:
    imports = [item for file in source_files() for item in imports_of(file, ast.parse(file.read_text()))]
    assert len(imports) > 100, "the walk over the source found next to nothing, so it proves nothing"
    assert violations(imports) == []


@pytest.mark.parametrize(
    ("file", "code"),
    [
        ("analysis/audit/rules.py", "import torch"),
        ("analysis/audit/rules.py", "def f():\n    from torch import nn"),
        ("records/table.py", "from tb_plugin_structure.analysis import audit"),
        ("records/table.py", "from ..dashboards import store"),
        ("dashboards/store.py", "from tb_plugin_structure import capture"),
        ("dashboards/store.py", "try:\n    import torch\nexcept ImportError:\n    torch = None"),
        ("capture/observer.py", "import transformers"),
    ],
)
def test_a_forbidden_import_is_noticed(file: str, code: str) -> None:
    path = PACKAGE / file
    assert len(violations(list(imports_of(path, ast.parse(code))))) == 1


def test_package_root_imports_nothing_until_a_name_is_used() -> None:
    file = PACKAGE / "__init__.py"
    imported = {item.module.split(".")[0] for item in imports_of(file, ast.parse(file.read_text()))}
    assert imported <= sys.stdlib_module_names


def test_loaders_import_only_tensorboards_base_plugin() -> None:
    """TensorBoard does not guard this import: whatever fails here ends TensorBoard."""
    file = PACKAGE / "dashboards" / "loaders.py"
    items = imports_of(file, ast.parse(file.read_text()))
    imported = {item.module for item in items if not item.in_function}
    assert {name for name in imported if name.split(".")[0] not in sys.stdlib_module_names} == {"tensorboard.plugins"}


# ---- the frontend: dashboards draw with ui, graph, table and heatmap, which know wire and the visual language at most

# The generated code (`gen`) is the schema itself: whoever may read `wire` may name its enumerations.
WIRE = {"wire", "gen"}
DRAWING = {"graph", "table", "heatmap"}
# The visual language: colours, kinds and how numbers are written. Constants and pure functions, without components.
LANGUAGE = {"ui/tokens", "ui/kinds", "ui/verdict_styles", "ui/format"}
FRONTEND_ROOMS = {
    "gen": {"wire/message"},  # the type of the field tables that it reads
    "wire": {"gen"},
    "host": WIRE,
    "graph": {*WIRE, *LANGUAGE, "workers"},
    "table": {*WIRE, *LANGUAGE},
    "heatmap": {*WIRE, *LANGUAGE},
    "workers": {*WIRE, "graph"},
    "ui": {*WIRE, *DRAWING, "host"},
    "dashboards": {*WIRE, *DRAWING, "ui", "host", "workers"},
    "entries": {"dashboards", "ui", "host"},
}


def frontend_imports(file: Path) -> Iterator[tuple[Path, str]]:
    """(resolved target, specifier) of the relative imports of a TypeScript file."""
    for specifier in re.findall(r"""(?:from|import)\s*\(?\s*["'](\.[^"']*)["']""", file.read_text()):
        yield (file.parent / specifier.split("?")[0]).resolve(), specifier


def test_frontend_rooms_import_one_way_and_dashboards_never_each_other() -> None:
    found, seen = [], 0
    for file in sorted([*FRONTEND.rglob("*.ts"), *FRONTEND.rglob("*.tsx")]):
        parts = file.relative_to(FRONTEND).parts
        if len(parts) == 1:
            continue
        for target, specifier in frontend_imports(file):
            seen += 1
            target_parts = target.relative_to(FRONTEND).parts
            same_room = target_parts[0] == parts[0]
            if parts[0] == "dashboards" and same_room:
                fine = target_parts[1] == parts[1]
            else:
                names = {target_parts[0], "/".join(target_parts[:2])}
                fine = same_room or bool(names & FRONTEND_ROOMS[parts[0]])
            if not fine:
                found.append(f"{file.relative_to(ROOT)} imports {specifier}")
    # What those three import must be as plain as they are.
    language = {name for file in LANGUAGE for _, name in frontend_imports(FRONTEND / f"{file}.ts")}
    assert [name for name in language if not name.startswith(("./", "../wire/", "../gen/"))] == []
    assert seen > 50, "the walk over the frontend found next to nothing, so it proves nothing"
    assert found == []
