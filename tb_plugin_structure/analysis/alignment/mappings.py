"""Mappings of other distillation tools: read them as pins, write the alignment in their form.

=============== ==================================================================================================
format          form
=============== ==================================================================================================
json            our own: names of both models, policy, pins, and every pair with kind and confidence
torchdistill    the ``sub_terms`` of a loss: ``module_path`` and ``io`` on both sides
textbrewer      ``intermediate_matches`` (the list, or the configuration that holds it): ``layer_T``, ``layer_S``,
                ``feature`` (hidden 0 is the embedding)
mmrazor         recorders by name, connectors where widths differ, and ``loss_forward_mappings`` that refer to them (a
                ``distiller``, or what holds it)
modelopt        pairs of paths, the student's first
model_explorer  the mapping of synchronised navigation: ``leftNodeIds`` (teacher), ``rightNodeIds`` (student)
=============== ==================================================================================================
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from tb_plugin_structure.analysis.alignment import mmrazor
from tb_plugin_structure.analysis.alignment.alignment import Alignment
from tb_plugin_structure.analysis.alignment.pair_kinds import KIND_NAMES
from tb_plugin_structure.records.structure import Structure

JSON_FORMAT = "tb_plugin_structure.mapping"


class MappingError(ValueError):
    """A mapping cannot be read, or names modules that the models do not have; the message says what fits."""


def export_mapping(alignment: Alignment, format: str, paths: Sequence[str] | None = None) -> Any:
    """The alignment in the form of another tool, as plain lists and dictionaries.

    Args:
        alignment: What to write.
        format: One of :data:`FORMATS`.
        paths: The student's modules to write; by default the blocks of stacks, or all leaves where there is no stack.

    Raises:
        MappingError: When the format is unknown, or a path has no counterpart.
    """
    writer = _WRITERS.get(format)
    if writer is None:
        raise MappingError(f"no mapping format {format!r}; use {', '.join(FORMATS)}")
    return writer(alignment, _chosen(alignment, paths))


def import_mapping(data: Any, format: str, teacher: Structure, student: Structure) -> dict[str, Any]:
    """Pins for :func:`~tb_plugin_structure.align` from a mapping of another tool.

    Args:
        data: The parsed mapping (of YAML or JSON: lists and dictionaries).
        format: One of :data:`FORMATS`.
        teacher: The teacher's record; negative indices in paths count from the end of what it holds.
        student: The student's record.

    Raises:
        MappingError: When the format is unknown or `data` has another form.
    """
    reader = _READERS.get(format)
    if reader is None:
        raise MappingError(f"no mapping format {format!r}; use {', '.join(FORMATS)}")
    try:
        pairs = reader(data, teacher, student)
    except (KeyError, TypeError, AttributeError, IndexError) as error:
        raise MappingError(f"this is no {format} mapping: {type(error).__name__} {error}") from error
    if not pairs and format != "json":
        raise MappingError(f"this {format} mapping holds no pair of modules")
    pins: dict[str, Any] = {}
    for student_path, teacher_path in pairs:
        if teacher_path is None:
            pins[student_path] = None
        elif isinstance(pins.get(student_path), list):
            if teacher_path not in pins[student_path]:
                pins[student_path].append(teacher_path)
        else:
            pins[student_path] = [teacher_path]
    return {path: found[0] if found is not None and len(found) == 1 else found for path, found in pins.items()}


def _chosen(alignment: Alignment, paths: Sequence[str] | None) -> list[tuple[str, str]]:
    """(student path, teacher path)."""
    pairs = alignment.module_pairs()
    if paths is not None:
        missing = [path for path in paths if path not in pairs]
        if missing:
            raise MappingError(f"no counterpart for {', '.join(map(repr, missing[:4]))}; pin it or leave it out")
        return [(path, pairs[path][0]) for path in paths]
    blocks = [row for row in alignment.rows if row.stack >= 0 and row.teacher >= 0 and row.student >= 0]
    if not blocks:
        called = alignment.student.call_children
        blocks = [row for row in alignment.rows if row.teacher >= 0 and row.student >= 0 and not called[row.student]]
    found = [(alignment.student.call_path(row.student), alignment.teacher.call_path(row.teacher)) for row in blocks]
    return list(dict.fromkeys(found))


def resolve(path: str, structure: Structure, side: str) -> str:
    """A path as other tools write it -> our path: ``.`` is the model, negative indices count from the end, and a
    wrapper's name may come first ("student_model.layer1")."""
    if path in (".", ""):
        return ""
    row = structure.module_row
    if path in row:
        return structure.module_paths[row[path]]
    found = ""
    for piece in path.split("."):
        if piece.lstrip("-").isdigit() and piece.startswith("-"):
            children = [structure.module_paths[child] for child in structure.module_children[row[found]]]
            if len(children) < -int(piece):
                raise MappingError(f"the {side} path {path!r}: {found!r} holds {len(children)} modules")
            found = children[int(piece)]
            continue
        deeper = f"{found}.{piece}" if found else piece
        if deeper not in row:
            rest = path.partition(".")[2]
            if rest and found == "":
                return resolve(rest, structure, side)
            raise MappingError(f"the {side} has no module {path!r} (it ends at {found!r})")
        found = deeper
    return found


# ---- our own


def _write_json(alignment: Alignment, pairs: list[tuple[str, str]]) -> dict[str, Any]:
    teacher, student = alignment.teacher, alignment.student
    return {
        "format": JSON_FORMAT,
        "version": 1,
        "teacher": teacher.name,
        "student": student.name,
        "policy": alignment.policy if isinstance(alignment.policy, str) else dict(alignment.policy),
        "pins": alignment.pins,
        "pairs": [
            {
                "student": student.call_path(row.student) if row.student >= 0 else None,
                "teacher": teacher.call_path(row.teacher) if row.teacher >= 0 else None,
                "kind": KIND_NAMES[row.kind],
                "confidence": round(row.confidence, 4),
                "evidence": row.evidence,
            }
            for row in alignment.rows
        ],
    }


def _read_json(data: Any, teacher: Structure, student: Structure) -> list[tuple[str, str | None]]:
    if data.get("format") != JSON_FORMAT:
        raise MappingError(f"expected 'format': {JSON_FORMAT!r}, got {data.get('format')!r}")
    found: list[tuple[str, str | None]] = []
    for path, targets in data["pins"].items():
        listed = [targets] if targets is None or isinstance(targets, str) else targets
        found += [(path, target) for target in listed]
    return found


# ---- torchdistill


def _write_torchdistill(alignment: Alignment, pairs: list[tuple[str, str]]) -> dict[str, Any]:
    return {
        "sub_terms": {
            student.replace(".", "_") or "model": {
                "criterion": {"key": "MSELoss", "kwargs": {"reduction": "mean"}},
                "criterion_wrapper": {
                    "key": "SimpleLossWrapper",
                    "kwargs": {
                        "input": {"is_from_teacher": False, "module_path": student or ".", "io": "output"},
                        "target": {"is_from_teacher": True, "module_path": teacher or ".", "io": "output"},
                    },
                },
                "weight": 1.0,
            }
            for student, teacher in pairs
        }
    }


def _read_torchdistill(data: Any, teacher: Structure, student: Structure) -> list[tuple[str, str | None]]:
    found: list[tuple[str, str | None]] = []

    def visit(node: Any) -> None:
        if isinstance(node, Mapping):
            ends = [end for end in (node.get("input"), node.get("target")) if isinstance(end, Mapping)]
            by_side = {bool(end["is_from_teacher"]): end["module_path"] for end in ends if "module_path" in end}
            # "+name" is a module that the tool adds beside the model: an adapter, no part of it.
            if len(by_side) == 2 and not any(path.startswith("+") for path in by_side.values()):
                found.append((resolve(by_side[False], student, "student"), resolve(by_side[True], teacher, "teacher")))
            for value in node.values():
                visit(value)
        elif isinstance(node, Sequence) and not isinstance(node, str):
            for value in node:
                visit(value)

    visit(data)
    if not found:
        raise MappingError("no loss with 'input' and 'target', each with a 'module_path', was found")
    return found


# ---- TextBrewer


def _stack_blocks(structure: Structure) -> list[str]:
    """Paths of the blocks of the largest list of equal modules, in order."""
    best: list[str] = []
    for children in structure.module_children:
        paths = [structure.module_paths[child] for child in children]
        numbered = [path for path in paths if path.rpartition(".")[2].isdigit()]
        classes = {structure.module_classes[child] for child in children}
        if len(numbered) == len(paths) and len(classes) == 1 and len(paths) > len(best):
            best = paths
    if not best:
        raise MappingError(f"{structure.name!r} has no list of equal blocks that layer numbers could count")
    return best


def _write_textbrewer(alignment: Alignment, pairs: list[tuple[str, str]]) -> list[dict[str, Any]]:
    teacher, student = _stack_blocks(alignment.teacher), _stack_blocks(alignment.student)
    return [
        {
            "layer_T": teacher.index(path_t) + 1,
            "layer_S": student.index(path_s) + 1,
            "feature": "hidden",
            "loss": "hidden_mse",
            "weight": 1,
        }
        for path_s, path_t in pairs
        if path_t in teacher and path_s in student
    ]


def _read_textbrewer(data: Any, teacher: Structure, student: Structure) -> list[tuple[str, str | None]]:
    blocks_t, blocks_s = _stack_blocks(teacher), _stack_blocks(student)
    found: list[tuple[str, str | None]] = []
    for match in data["intermediate_matches"] if isinstance(data, Mapping) else data:
        layers = match["layer_T"], match["layer_S"]
        if any(not isinstance(layer, int) for layer in layers):
            continue  # a relation between two layers is no pair of modules
        first = 1 if match.get("feature", "hidden") == "hidden" else 0
        place_t, place_s = layers[0] - first, layers[1] - first
        if place_t < 0 or place_s < 0:
            continue  # hidden 0 is the embedding's output, which no block returns
        if place_t >= len(blocks_t) or place_s >= len(blocks_s):
            raise MappingError(f"layers {layers} lie beyond the {len(blocks_t)} and {len(blocks_s)} blocks")
        found.append((blocks_s[place_s], blocks_t[place_t]))
    return found


# ---- mmrazor


def _write_mmrazor(alignment: Alignment, pairs: list[tuple[str, str]]) -> dict[str, Any]:
    teacher, student = alignment.teacher, alignment.student
    calls: dict[tuple[str, str], tuple[int, int]] = {}
    for row in alignment.rows:
        if row.teacher >= 0 and row.student >= 0:
            paths = student.call_path(row.student), teacher.call_path(row.teacher)
            calls.setdefault(paths, (row.teacher, row.student))
    return mmrazor.distiller(teacher, student, [calls[pair] for pair in pairs])


def _read_mmrazor(data: Any, teacher: Structure, student: Structure) -> list[tuple[str, str | None]]:
    data = data.get("distiller", data)  # of a whole model's configuration, its distiller
    recorders = {True: data["student_recorders"], False: data["teacher_recorders"]}
    found: list[tuple[str, str | None]] = []
    for mapping in data["loss_forward_mappings"].values():
        sources: dict[bool, str] = {}
        for argument in mapping.values():
            if isinstance(argument, Mapping) and "recorder" in argument:
                side = bool(argument["from_student"])
                recorder = recorders[side][argument["recorder"]]
                if recorder.get("type", "ModuleOutputs") in ("ModuleOutputs", "ModuleInputs"):
                    sources[side] = recorder["source"]
        if len(sources) == 2:
            found.append((resolve(sources[True], student, "student"), resolve(sources[False], teacher, "teacher")))
    return found


# ---- pairs of paths


def _write_modelopt(alignment: Alignment, pairs: list[tuple[str, str]]) -> list[list[str]]:
    return [[student, teacher] for student, teacher in pairs]


def _read_modelopt(data: Any, teacher: Structure, student: Structure) -> list[tuple[str, str | None]]:
    pairs = data.keys() if isinstance(data, Mapping) else data
    return [(resolve(pair[0], student, "student"), resolve(pair[1], teacher, "teacher")) for pair in pairs]


# ---- Model Explorer


def _write_model_explorer(alignment: Alignment, pairs: list[tuple[str, str]]) -> dict[str, Any]:
    """Every pair; one entry for each group, because a node may appear in one entry only."""
    entries: dict[int, tuple[list[str], list[str]]] = {}
    seen: dict[tuple[str, str], int] = {}
    for student, teachers in alignment.module_pairs().items():
        keys = [("s", student), *(("t", teacher) for teacher in teachers)]
        number = next((seen[key] for key in keys if key in seen), len(entries))
        left, right = entries.setdefault(number, ([], []))
        right += [student] if student not in right else []
        left += [teacher for teacher in teachers if teacher not in left and seen.get(("t", teacher), number) == number]
        for key in keys:
            seen.setdefault(key, number)
    return {
        "type": "sync_navigation",
        "mappingEntries": [{"leftNodeIds": left, "rightNodeIds": right} for left, right in entries.values() if left],
        "disableMappingFallback": True,
    }


def _read_model_explorer(data: Any, teacher: Structure, student: Structure) -> list[tuple[str, str | None]]:
    found: list[tuple[str, str | None]] = [
        (resolve(right, student, "student"), resolve(left, teacher, "teacher"))
        for left, right in data.get("mapping", {}).items()
    ]
    for entry in data.get("mappingEntries", []):
        for right in entry["rightNodeIds"]:
            for left in entry["leftNodeIds"]:
                found.append((resolve(right, student, "student"), resolve(left, teacher, "teacher")))
    return found


_WRITERS: dict[str, Callable[[Alignment, list[tuple[str, str]]], Any]] = {
    "json": _write_json,
    "torchdistill": _write_torchdistill,
    "textbrewer": _write_textbrewer,
    "mmrazor": _write_mmrazor,
    "modelopt": _write_modelopt,
    "model_explorer": _write_model_explorer,
}
_READERS: dict[str, Callable[[Any, Structure, Structure], list[tuple[str, str | None]]]] = {
    "json": _read_json,
    "torchdistill": _read_torchdistill,
    "textbrewer": _read_textbrewer,
    "mmrazor": _read_mmrazor,
    "modelopt": _read_modelopt,
    "model_explorer": _read_model_explorer,
}

FORMATS = tuple(_WRITERS)
"""Formats of :func:`export_mapping` and :func:`import_mapping`."""
