"""``tb-structure import``: a model file of another tool becomes a structure in a log directory."""

from __future__ import annotations

import contextlib
import importlib
import re
import zipfile
from pathlib import Path
from typing import Any

from tb_plugin_structure.records import names
from tb_plugin_structure.records.structure import Structure


class ImportFailed(ValueError):
    """The file cannot be read as a model; the message says why and what to do."""


def read_model(path: str, name: str, variant: str = "") -> Structure:
    """Read an ``ExportedProgram`` (.pt2), TorchScript (.pt) or ONNX file; which one it is, its contents tell.

    Raises:
        ImportFailed: When it is none of these, is damaged, or the package that reads it is missing.
    """
    file = Path(path)
    if not file.is_file():
        raise ImportFailed(f"there is no file {path!r}")
    try:
        if zipfile.is_zipfile(file):
            with zipfile.ZipFile(file) as archive:
                kind = _kind_of_archive(archive.namelist())
            return _from_torch(file, kind, name, variant)
        return _from_onnx(file, name, variant)
    except ImportFailed:
        raise
    except ModuleNotFoundError as error:
        raise ImportFailed(_missing(path, error)) from error
    except Exception as error:  # torch, protobuf and zipfile each raise several kinds for a damaged file
        raise ImportFailed(
            f"{path!r} cannot be read as an ExportedProgram (.pt2), TorchScript (.pt) or ONNX file: "
            f"{type(error).__name__}: {_first_line(error)}"
        ) from error


def write_structure(structure: Structure, logdir: str) -> None:
    """Write a record into a log directory. A directory that already holds event files gets the sub-run ``structure``.

    Raises:
        OSError: When the directory cannot be written.
    """
    from tb_plugin_structure import event_file

    event_file.check_writable(logdir)
    target = event_file.OwnEventFile(logdir)
    tag = names.structure_tag(structure.header.model, structure.header.variant)
    target.add_event(event_file.record_event(names.STRUCTURE_PLUGIN, tag, structure.encode(), 0))
    target.close()


def _kind_of_archive(members: list[str]) -> str:
    inside = {member.partition("/")[2] if "/" in member else member for member in members}
    if any("serialized_exported_program" in member or member.startswith("models/") for member in inside | set(members)):
        return "program"
    if any(member.startswith("code/") for member in inside):
        return "script"
    return "weights"


def _from_torch(file: Path, kind: str, name: str, variant: str) -> Structure:
    import torch

    from tb_plugin_structure.capture.importers import structure_of_program, structure_of_script

    if kind == "program":
        _import_output_classes(file)
        return structure_of_program(torch.export.load(file), name, variant=variant)
    if kind == "script":
        return structure_of_script(torch.jit.load(str(file), map_location="cpu"), name, variant=variant)
    raise ImportFailed(
        f"{str(file)!r} holds weights (or a pickled model), no graph; record the model with 'tb-structure capture', or "
        "store it with torch.export.save, torch.jit.save or torch.onnx.export"
    )


def _import_output_classes(file: Path) -> None:
    """A program that returns a ``ModelOutput`` can be loaded only when transformers has registered that class."""
    with zipfile.ZipFile(file) as archive:
        for member in archive.namelist():
            if member.endswith(".json") and "models/" in member:
                text = archive.read(member).decode("utf-8", "replace")
                for home in sorted(set(re.findall(r"\b(transformers(?:\.\w+)+)\.\w+", text))):
                    with contextlib.suppress(Exception):
                        importlib.import_module(home)


def _from_onnx(file: Path, name: str, variant: str) -> Structure:
    import onnx

    from tb_plugin_structure.records.onnx_graph import structure_of_onnx

    model: Any = onnx.load(str(file), load_external_data=False)
    if not model.graph.node:
        raise ImportFailed(f"{str(file)!r} is no model: expected an ExportedProgram, TorchScript or ONNX file")
    try:
        model = onnx.shape_inference.infer_shapes(model, data_prop=True)
    except Exception:  # operators it does not know, or more than protobuf's 2 GB: the shapes in the file remain
        pass
    return structure_of_onnx(model, name, variant=variant)


def _missing(path: str, error: ModuleNotFoundError) -> str:
    if error.name == "torch":
        return f"{path!r} needs PyTorch to be read: pip install 'tensorboard-plugin-structure[torch]'"
    if error.name == "onnx":
        return f"{path!r} needs the onnx package to be read: pip install 'tensorboard-plugin-structure[onnx]'"
    return f"{path!r} needs the package {error.name!r}, which is not installed"


def _first_line(error: Exception) -> str:
    return (str(error).strip().splitlines() or [""])[0][:300]
