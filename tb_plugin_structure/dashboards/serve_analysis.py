"""``api/alignment`` and ``api/audit``: pure computations over two stored structures."""

from __future__ import annotations

import gzip
import json
from collections.abc import Callable, Hashable
from typing import Any, NamedTuple, TypeVar

from tensorboard import errors
from werkzeug import wrappers

from tb_plugin_structure.dashboards.http import Query, comparing, respond_bytes, respond_download
from tb_plugin_structure.dashboards.recorded_beside import Beside, recorded_beside
from tb_plugin_structure.dashboards.serve_parts import address_of
from tb_plugin_structure.dashboards.store import Address, RecordStore
from tb_plugin_structure.records.blobs import compress
from tb_plugin_structure.records.structure import Structure

Result = TypeVar("Result")


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


class Pair:
    """The two structures of a request: found, and decoded when it is their turn."""

    def __init__(self, store: RecordStore, query: Query, request: Request) -> None:
        self._store, self._query, self.request = store, query, request
        self._sides = [
            store.stored_structure(query.context, query.experiment, address)
            for address in (request.teacher, request.student)
        ]

    def key(self, what: str) -> Hashable:
        """Of an answer about these structures, aligned in this way."""
        intent = json.dumps([self.request.policy, self.request.pins], sort_keys=True)
        return (what, self._query.experiment, *(side.hash for side in self._sides), intent)

    def computed(self, compute: Callable[[Structure, Structure], Result]) -> Result:
        """What `compute` makes of teacher and student; of large ones one computation runs at a time. Not to be nested.

        Nobody else holds the structures: with what was made of them they are gone when the turn ends, and not only
        while the next one already fills memory.
        """
        sizes = [side.decoded_bytes for side in self._sides]
        with self._store.computing(*sizes, is_gone=self._query.is_gone), comparing("structures"):
            return compute(*(side.decode() for side in self._sides))

    def answer(self, what: str, make: Callable[[], bytes]) -> bytes:
        """A compressed answer, kept: many viewers ask for the same, and a large audit takes seconds."""

        def compressed() -> tuple[bytes, int]:
            data = make()
            return data, len(data) + 1_000

        return self._store.answers.get(self.key(what), compressed)

    def alignment(self) -> bytes:
        """The alignment's message, compressed."""

        def message(teacher: Structure, student: Structure) -> bytes:
            return compress(self._align(teacher, student).to_proto().SerializeToString(), level=2)

        return self.answer("alignment", lambda: self.computed(message))

    def module_pairs(self) -> dict[str, list[str]]:
        """As ``Alignment.module_pairs``."""

        def make() -> tuple[dict[str, list[str]], int]:
            pairs = self.computed(lambda teacher, student: self._align(teacher, student).module_pairs())
            return pairs, 500 * len(pairs) + 1_000

        return self._store.decoded.get(self.key("module pairs"), make)

    def _align(self, teacher: Structure, student: Structure) -> Any:
        from tb_plugin_structure.analysis.alignment import align  # on first use: TensorBoard starts faster

        try:
            return align(teacher=teacher, student=student, policy=self.request.policy, pins=self.request.pins)
        except ValueError as error:  # a pin or policy that does not fit; the message lists what would
            raise errors.InvalidArgumentError(str(error)) from error


def alignment_handler(store: RecordStore) -> Callable[[Query], wrappers.Response]:
    def handle(query: Query) -> wrappers.Response:
        return respond_bytes(query, Pair(store, query, parse_request(query)).alignment(), gzipped=True)

    return handle


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
        pair = Pair(store, query, parse_request(query))
        beside = recorded_beside(store, query, pair.request.student)

        def make() -> bytes:
            # Not within the turn below: it is an answer of its own. What made it is gone, an audit needs the pairs.
            aligned = pair.alignment()

            def answer(teacher: Structure, student: Structure) -> bytes:
                report = _audit(aligned, teacher, student, beside)
                if format_:
                    return bytes(getattr(report, _DOWNLOADS[format_][0])().encode("utf-8", "replace"))
                return compress(report.to_proto().SerializeToString(), level=2)

            return pair.computed(answer)

        if format_:
            _, content_type, name = _DOWNLOADS[format_]
            return respond_download(query, make().decode(), content_type, name)
        return respond_bytes(query, pair.answer(" ".join(("audit", *beside.hashes)), make), gzipped=True)

    return handle


def _audit(aligned: bytes, teacher: Structure, student: Structure, beside: Beside) -> Any:
    from tb_plugin_structure.analysis.alignment.message import read_pairs
    from tb_plugin_structure.analysis.audit import audit

    outside, measured = beside.decode()
    sides = {"teacher": teacher, "student": student}
    measurements = {role: measured[side.name] for role, side in sides.items() if side.name in measured}
    pairs = read_pairs(gzip.decompress(aligned), teacher, student)
    return audit(pairs, outside=outside, measurements=measurements)
