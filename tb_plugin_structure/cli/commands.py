"""The commands: each takes the parsed options, prints or writes, and returns the exit code."""

from __future__ import annotations

import argparse
import contextlib
import csv
import io
import json
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from tb_plugin_structure.analysis.alignment import align
from tb_plugin_structure.analysis.audit import AuditReport
from tb_plugin_structure.analysis.audit import audit as run_audit
from tb_plugin_structure.analysis.audit.formats import (
    COMPARED_HEAD,
    ROW_HEAD,
    compared_cells,
    markdown_table,
    not_recorded,
    row_cells,
    rows_to_level,
)
from tb_plugin_structure.analysis.audit.formats import stage_table as stage_totals
from tb_plugin_structure.analysis.compared_features import compared_features
from tb_plugin_structure.analysis.variants import are_variants, compare_variants
from tb_plugin_structure.cli.annotations import github_text, sarif_text
from tb_plugin_structure.cli.event_files import AddressError, EventFiles, Key, split_address
from tb_plugin_structure.cli.gates import ANY_CHANGE, GateError, changes, check_gates, failures
from tb_plugin_structure.cli.importing import ImportFailed, read_model, write_structure
from tb_plugin_structure.cli.report_html import NotBuiltError, Side, distinct, report_html
from tb_plugin_structure.cli.single_model import operator_table, record_list, stage_table
from tb_plugin_structure.cli.tables import EXACT_NAMES, Exact, Part, TextTable, plain_text, print_parts
from tb_plugin_structure.progress import Progress
from tb_plugin_structure.records.structure import Structure
from tb_plugin_structure.v1 import alignment_pb2

VARIANT_HEAD = ("where", "what", "module", "difference")


class CommandError(ValueError):
    """The command cannot be carried out; the message says why and what to do."""


# ---- one model


def show(options: argparse.Namespace) -> int:
    path, model, step = split_address(options.record)
    files = EventFiles.read(path)
    if not model and step is None and len({key.tag for key, _ in files.structures()}) != 1:
        if not files.structures():
            raise AddressError(f"{path!r} holds no structure records")
        _print_table(options, *record_list(files.structures()))
        if options.format in ("text", "md") and not options.output:
            _print_compared(options, files)
        return 0
    _, structure = files.find(model, step)
    _print_structure(options, structure)
    return 0


def _print_compared(options: argparse.Namespace, files: EventFiles) -> None:
    """What the losses of recorded steps compared, for each run with a teacher, a student and what ran between them."""
    for run in sorted({key.run for key in files.records if key.tag.startswith("outside/")}):
        found: dict[str, tuple[Key, Structure]] = {}
        for role in ("teacher", "student"):
            with contextlib.suppress(AddressError):
                found[role] = files.find(f"{run}/{role}" if run else role)
        if len(found) < 2:
            continue
        outside, _ = files.beside(found["student"][0])
        models = {role: structure for role, (_, structure) in found.items()}
        pairs = [] if outside is None else compared_features(outside, **models)
        if pairs:
            title = f"\nCompared by the loss of {run or 'the run'}, student against teacher:"
            _print_table(options, COMPARED_HEAD, list(map(compared_cells, pairs)), title=title)


def _print_structure(options: argparse.Namespace, structure: Structure) -> None:
    if getattr(options, "operators", False) or getattr(options, "changes", False):
        head, rows, right = operator_table(structure, only_changes=options.changes)
    else:
        head, rows, right = stage_table(structure)
    totals = structure.header.totals
    title = (
        f"{structure.name}: {structure.header.model_class}, {totals.parameters:,} parameters, {totals.macs:,.0f} MACs, "
        f"{totals.module_calls:,} module calls, {totals.operators:,} operators"
    )
    if structure.header.HasField("error"):
        error = structure.header.error
        title += f"\nthe pass stopped in {error.module_path or 'the model'}: {error.type}: {error.message}"
    _print_table(options, head, rows, right, title)


# ---- two models


class Loaded(NamedTuple):
    """A record that an address named, and the files it was found in."""

    files: EventFiles
    key: Key
    structure: Structure
    step: int | None = None
    """The step that was asked for; None for the latest."""


def _load_pair(options: argparse.Namespace) -> tuple[Loaded, Loaded]:
    """Teacher and student."""
    if options.student is None:
        path, model, step = split_address(options.teacher)
        if model:
            raise AddressError("name a second record, or a log directory with the models 'teacher' and 'student'")
        files = EventFiles.read(path)
        teacher, student = files.pair()
        return Loaded(files, *files.find(teacher, step), step), Loaded(files, *files.find(student, step), step)
    return _load(options.teacher), _load(options.student)


def _load(address: str) -> Loaded:
    path, model, step = split_address(address)
    files = EventFiles.read(path)
    return Loaded(files, *files.find(model, step), step)


def _pins(options: argparse.Namespace) -> dict[str, str | None]:
    pins: dict[str, str | None] = {}
    for pin in options.pin:
        mine, equals, theirs = pin.partition("=")
        if not equals:
            raise CommandError(f"--pin {pin!r}: expected STUDENT=TEACHER")
        pins[mine] = theirs or None
    return pins


def _align(options: argparse.Namespace, teacher: Structure, student: Structure) -> Any:
    pins = _pins(options)
    try:
        with Progress("Comparing"):
            return align(teacher=teacher, student=student, policy=options.policy, pins=pins)
    except ValueError as error:
        raise CommandError(str(error)) from error


def diff(options: argparse.Namespace) -> int:
    for gate in options.fail_on:
        if gate != ANY_CHANGE:
            raise GateError(f"--fail-on {gate!r}: diff knows {ANY_CHANGE}; the other gates belong to audit")
    teacher, student = _load_pair(options)
    alignment = _align(options, teacher.structure, student.structure)
    head = ("kind", "edit")
    rows = [(_kind(edit.kind), edit.text) for edit in alignment.edits]
    variants = None
    if are_variants(teacher.structure, student.structure):
        variants = compare_variants(teacher.structure, student.structure)
    if options.format == "json":
        value: dict[str, Any] = {
            "summary": alignment.summary(),
            "edits": [{"kind": kind, "text": text} for kind, text in rows],
        }
        if variants is not None:
            differences = [dict(zip(VARIANT_HEAD, row, strict=True)) for row in variants.rows()]
            value["variants"] = {"summary": variants.summary(), "differences": differences}
        _write(options, json.dumps(value, indent=1, ensure_ascii=False) + "\n")
    else:
        tables: list[tuple[str, Sequence[str], Sequence[Any]]] = [(alignment.summary(), head, rows)]
        if variants is not None:
            # Both are of one model: what ran in one pass only says more than counterparts do.
            tables = [(variants.summary(), VARIANT_HEAD, variants.rows()), *(tables if rows else [])]
        _print_tables(options, tables)
    failed = changes(alignment) if options.fail_on else []
    if options.fail_on and variants is not None and variants.differences:
        failed.append(f"{ANY_CHANGE}: {variants.summary()}")
    return _gate(failed)


def _kind(number: int) -> str:
    return alignment_pb2.PairKind.Name(number).removeprefix("PAIR_KIND_").lower()  # type: ignore[arg-type]


def _audited(options: argparse.Namespace) -> AuditReport:
    (_, _, teacher, _), (files, key, student, step) = _load_pair(options)
    outside, measured = files.beside(key, step)
    measurements = {
        role: measured[structure.name]
        for role, structure in (("teacher", teacher), ("student", student))
        if structure.name in measured
    }
    severities = {}
    for entry in getattr(options, "severity", []):
        rule, equals, level = entry.partition("=")
        if not equals:
            raise CommandError(f"--severity {entry!r}: expected RULE=LEVEL")
        severities[rule] = level
    alignment = _align(options, teacher, student)
    try:
        with Progress("Auditing"):
            return run_audit(
                alignment,
                outside=outside,
                measurements=measurements,
                norm=getattr(options, "norm", False),
                hooks=_hooks(options),
                silence=getattr(options, "silence", []),
                severities=severities,
            )
    except ValueError as error:
        raise CommandError(str(error)) from error


def _hooks(options: argparse.Namespace) -> list[tuple[str, str]]:
    """(teacher path, student path) of each --hook."""
    hooks = []
    for hook in getattr(options, "hook", []):
        mine, equals, theirs = hook.partition("=")
        if not equals:
            raise CommandError(f"--hook {hook!r}: expected STUDENT=TEACHER")
        hooks.append((theirs, mine))
    return hooks


def audit(options: argparse.Namespace) -> int:
    check_gates(options.fail_on)
    report = _audited(options)
    writers: dict[str, Callable[[], str]] = {
        "md": lambda: report.to_markdown(options.level),
        "json": report.to_json,
        "csv": report.to_csv,
        "sarif": lambda: sarif_text(report),
        "github": lambda: github_text(report),
    }
    if options.format == "text":
        _write_parts(options, _audit_parts(report, options.level))
    else:
        _write(options, writers[options.format]())
    return _gate(failures(report, options.fail_on))


def _audit_parts(report: AuditReport, level: str) -> list[Part]:
    missing = not_recorded(report)
    parts: list[Part] = [f"{report.summary()}\n{report.memory().text()}." + (f"\n{missing}" if missing else "")]
    if report.findings:
        rows = [(f.severity, f.rule, f.subject, f.message) for f in report.findings]
        parts.append(TextTable(("severity", "rule", "where", "what"), rows))
        fixes = {f.rule: f.fix for f in report.findings if f.severity != "info"}
        parts += ["\n".join(f"{rule}: {fix}" for rule, fix in fixes.items())] if fixes else []
    if report.compared:
        parts += ["compared by the loss", TextTable(COMPARED_HEAD, list(map(compared_cells, report.compared)))]
    head, stages = stage_totals(report)
    parts.append(TextTable(head, stages, frozenset(range(1, len(head)))))
    parts.append(TextTable(ROW_HEAD, [row_cells(row) for row in rows_to_level(report, level)], frozenset({7})))
    return parts


def export(options: argparse.Namespace) -> int:
    if not options.framework:
        return _export_page(options)
    report = _audited(options)
    made = report.configuration(options.framework, options.level)
    _write(options, json.dumps(_json_keys(made), indent=2, ensure_ascii=False) + "\n")
    return 0


def _export_page(options: argparse.Namespace) -> int:
    if not options.output or not options.output.lower().endswith((".html", ".htm")):
        raise CommandError(
            "export needs --output FILE.html for the Graph diff as one HTML file, "
            "or --framework NAME for the configuration of a distillation framework"
        )
    alone = options.student is None and split_address(options.teacher)[1]
    loaded = (_load(options.teacher),) if alone else _load_pair(options)
    sides = [Side(each.files, each.key, each.structure, step=each.step) for each in loaded]
    if not alone and loaded[0].files.path.resolve() != loaded[-1].files.path.resolve():
        sides = list(distinct(*sides))
    teacher, student = sides[0], None if alone else sides[1]
    try:
        page = report_html(teacher, student, policy=options.policy, pins=_pins(options))
    except (NotBuiltError, ValueError) as error:
        raise CommandError(str(error)) from error
    _write(options, page)
    return 0


def _json_keys(value: Any) -> Any:
    """JSON has no tuples as keys: (student, teacher) becomes a list of pairs."""
    if isinstance(value, dict):
        if any(isinstance(key, tuple) for key in value):
            return [[*key, _json_keys(item)] for key, item in value.items()]
        return {key: _json_keys(item) for key, item in value.items()}
    return value


# ---- recording


def capture(options: argparse.Namespace) -> int:
    try:
        from tb_plugin_structure.cli.recording import CaptureError, record
    except ModuleNotFoundError as error:
        if error.name != "torch":
            raise
        message = "capture needs PyTorch: pip install 'tensorboard-plugin-structure[torch]'"
        raise CommandError(message) from error
    try:
        structure = record(options)
    except CaptureError as error:
        raise CommandError(str(error)) from error
    _print_structure(options, structure)
    return 0


def import_model(options: argparse.Namespace) -> int:
    try:
        with Progress(f"Reading {Path(options.file).name}"):
            structure = read_model(options.file, options.name or Path(options.file).stem, options.variant)
    except ImportFailed as error:
        raise CommandError(str(error)) from error
    if options.logdir:
        try:
            write_structure(structure, options.logdir)
        except OSError as error:
            raise CommandError(f"the log directory {options.logdir!r} cannot be written: {error}") from error
    _print_structure(options, structure)
    return 0


# ---- output


def _print_table(
    options: argparse.Namespace,
    head: Sequence[str],
    rows: Sequence[Sequence[Any]],
    right: frozenset[int] = frozenset(),
    title: str = "",
) -> None:
    if options.format == "json":
        names = [EXACT_NAMES.get(name, name) for name in head]
        exact = [[cell.value if isinstance(cell, Exact) else cell for cell in row] for row in rows]
        text = json.dumps([dict(zip(names, row, strict=True)) for row in exact], indent=1, ensure_ascii=False) + "\n"
    elif options.format == "csv":
        names = [EXACT_NAMES.get(name, name) for name in head]
        out = io.StringIO()
        csv.writer(out, lineterminator="\n").writerows([names, *([_csv_cell(cell) for cell in row] for row in rows)])
        text = out.getvalue()
    elif options.format == "md":
        table = markdown_table(head, rows, right)
        text = f"{title}\n\n{table}\n" if title else f"{table}\n"
    else:
        table_part = TextTable(head, rows, right)
        _write_parts(options, [title, table_part] if title else [table_part])
        return
    _write(options, text)


def _csv_cell(cell: Any) -> Any:
    """Numbers exactly, shapes as for people."""
    return cell.value if isinstance(cell, Exact) and not isinstance(cell.value, list) else cell


def _print_tables(options: argparse.Namespace, tables: Sequence[tuple[str, Sequence[str], Sequence[Any]]]) -> None:
    """Titles with their tables; a table without rows is left out."""
    parts: list[Part] = []
    for title, head, rows in tables:
        parts.append(title)
        if rows:
            parts.append(markdown_table(head, rows, frozenset()) if options.format == "md" else TextTable(head, rows))
    if options.format == "md":
        _write(options, "\n\n".join(map(str, parts)) + "\n")
    else:
        _write_parts(options, parts)


def _write_parts(options: argparse.Namespace, parts: Sequence[Part]) -> None:
    if options.output:
        _write(options, plain_text(parts))
    else:
        print_parts(parts)


def _write(options: argparse.Namespace, text: str) -> None:
    if options.output:
        try:
            Path(options.output).write_text(text, encoding="utf-8")
        except OSError as error:
            raise CommandError(f"{options.output!r} cannot be written: {error.strerror}") from error
    else:
        sys.stdout.write(text)


def _gate(failed: Sequence[str]) -> int:
    for sentence in failed:
        print(f"tb-structure: not passed: {sentence}", file=sys.stderr)
    return 1 if failed else 0
