"""``api/alignment`` and ``api/audit``: pure computations over two stored structures."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any, NamedTuple

from tensorboard import errors
from werkzeug import wrappers

from tb_plugin_structure.dashboards.http import Query, comparing, respond_bytes, respond_download
from tb_plugin_structure.dashboards.recorded_beside import recorded_beside
from tb_plugin_structure.dashboards.serve_parts import address_of
from tb_plugin_structure.dashboards.store import Address, RecordStore, decoded_bytes
from tb_plugin_structure.records.blobs import compress


class Request(NamedTuple):
    """What both routes take."""

    teacher: Address
    student: Address
    policy: Any
    pins: dict[str, Any]


def parse_request(query: Query) -> Request:
    if query.request.method == "POST":
        body = query.body()
        teacher, student = _body_address(body, "teacher"), _body_address(body, "student")
        policy, policies, pins = body.get("policy", "copy"), body.get("policies", {}), body.get("pins", {})
    else:
        teacher, student = address_of(query, "t_"), address_of(query, "s_")
        policy, policies, pins = query.text("policy", "copy"), query.json("policies"), query.json("pins")
    return Request(teacher, student, *_checked_intent(policy, policies, pins))


def intent_of(query: Query) -> tuple[Any, dict[str, Any]]:
    """Policy and pins from the parameters `policy`, `policies` and `pins`, as ``align`` takes them."""
    return _checked_intent(query.text("policy", "copy"), query.json("policies"), query.json("pins"))


def _checked_intent(policy: Any, policies: Any, pins: Any) -> tuple[Any, dict[str, Any]]:
    if not isinstance(policy, str):
        raise errors.InvalidArgumentError("'policy' must be the name of a policy")
    _check_policies(policies)
    _check_pins(pins)
    return {"": policy or "copy", **policies} if policies else policy or "copy", pins


def _body_address(body: dict[str, Any], side: str) -> Address:
    value = body.get(side)
    if not isinstance(value, dict):
        raise errors.InvalidArgumentError(f"the body needs {side!r}: an object with run, tag and step")
    run, tag, step, digest = value.get("run"), value.get("tag"), value.get("step"), value.get("hash", "")
    if (
        not isinstance(run, str)
        or not isinstance(tag, str)
        or not isinstance(step, int)
        or not isinstance(digest, str)
        or abs(step) >= 1 << 63
    ):
        raise errors.InvalidArgumentError(f"{side!r} needs run and tag as text and step as a whole number")
    return Address(run, tag, step, digest)


def _check_policies(policies: Any) -> None:
    if not isinstance(policies, dict):
        raise errors.InvalidArgumentError("'policies' must be an object: student stack path -> policy")
    for stack, policy in policies.items():
        indices = isinstance(policy, list) and all(isinstance(index, int) for index in policy)
        if not isinstance(policy, str) and not indices:
            raise errors.InvalidArgumentError(
                f"the policy of stack {stack[:80]!r} must be a policy's name or a list of block indices"
            )


def _check_pins(pins: Any) -> None:
    if not isinstance(pins, dict):
        raise errors.InvalidArgumentError("'pins' must be an object: student path -> teacher path, list or null")
    for path, target in pins.items():
        paths = isinstance(target, list) and all(isinstance(item, str) for item in target)
        if target is not None and not isinstance(target, str) and not paths:
            raise errors.InvalidArgumentError(
                f"the pin of {path[:80]!r} must be a teacher path, a list of teacher paths, or null"
            )


def alignment_of(store: RecordStore, query: Query, request: Request) -> Any:
    teacher, teacher_hash = store.structure(query.context, query.experiment, request.teacher)
    student, student_hash = store.structure(query.context, query.experiment, request.student)
    intent = json.dumps([request.policy, request.pins], sort_keys=True)

    def make() -> tuple[Any, int]:
        from tb_plugin_structure.analysis.alignment import align  # on first use: TensorBoard starts faster

        with store.computing(teacher, student), comparing("structures"):
            try:
                alignment = align(teacher=teacher, student=student, policy=request.policy, pins=request.pins)
            except ValueError as error:  # a pin or policy that does not fit; the message lists what would
                raise errors.InvalidArgumentError(str(error)) from error
        # It keeps both structures in memory, also when they are dropped from the cache themselves.
        size = 600 * (teacher.module_calls.rows + student.module_calls.rows) + 100_000
        return alignment, size + decoded_bytes(teacher) + decoded_bytes(student)

    return store.decoded.get(("alignment", query.experiment, teacher_hash, student_hash, intent), make)


def alignment_handler(store: RecordStore) -> Callable[[Query], wrappers.Response]:
    def handle(query: Query) -> wrappers.Response:
        request = parse_request(query)

        def make() -> bytes:
            return bytes(alignment_of(store, query, request).to_proto().SerializeToString())

        return respond_bytes(query, _answer(store, query, request, "alignment", make), gzipped=True)

    return handle


def _answer(store: RecordStore, query: Query, request: Request, what: str, make: Callable[[], bytes]) -> bytes:
    """The compressed answer, kept: many viewers ask for the same, and a large audit takes seconds."""
    sides = [store.structure_hash(query.context, query.experiment, side) for side in (request.teacher, request.student)]
    key = (what, query.experiment, *sides, json.dumps([request.policy, request.pins], sort_keys=True))

    def compressed() -> tuple[bytes, int]:
        with comparing("structures"):
            data = compress(make(), level=2)
        return data, len(data) + 1_000

    return store.answers.get(key, compressed)


_DOWNLOADS = {
    "markdown": ("to_markdown", "text/plain", "audit.md"),
    "csv": ("to_csv", "text/csv", "audit.csv"),
    "json": ("to_json", "application/json", "audit.json"),
}


def audit_handler(store: RecordStore) -> Callable[[Query], wrappers.Response]:
    def handle(query: Query) -> wrappers.Response:
        format_ = query.text("format", "") if query.request.method != "POST" else ""
        if format_ and format_ not in _DOWNLOADS:
            raise errors.InvalidArgumentError(f"'format' is {format_[:40]!r}, expected one of {', '.join(_DOWNLOADS)}")
        from tb_plugin_structure.analysis.audit import audit

        request = parse_request(query)
        beside = recorded_beside(store, query, request.student)

        def report() -> Any:
            alignment = alignment_of(store, query, request)
            outside, measured = beside.decode()
            with store.computing(alignment.teacher, alignment.student):
                sides = (("teacher", alignment.teacher), ("student", alignment.student))
                measurements = {role: measured[side.name] for role, side in sides if side.name in measured}
                return audit(alignment, outside=outside, measurements=measurements)

        if format_:
            method, content_type, name = _DOWNLOADS[format_]
            with comparing("structures"):
                return respond_download(query, getattr(report(), method)(), content_type, name)

        def make() -> bytes:
            return bytes(report().to_proto().SerializeToString())

        what = " ".join(("audit", *beside.hashes))
        return respond_bytes(query, _answer(store, query, request, what, make), gzipped=True)

    return handle
