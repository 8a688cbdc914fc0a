from tb_plugin_structure.v1 import columns_pb2 as _columns_pb2
from tb_plugin_structure.v1 import structure_pb2 as _structure_pb2
from google.protobuf.internal import containers as _containers
from google.protobuf.internal import enum_type_wrapper as _enum_type_wrapper
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from typing import ClassVar as _ClassVar, Iterable as _Iterable, Mapping as _Mapping, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class Verdict(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    VERDICT_UNSPECIFIED: _ClassVar[Verdict]
    VERDICT_MATCH: _ClassVar[Verdict]
    VERDICT_ADAPT: _ClassVar[Verdict]
    VERDICT_INCOMPATIBLE: _ClassVar[Verdict]
    VERDICT_UNMATCHED: _ClassVar[Verdict]

class Severity(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    SEVERITY_UNSPECIFIED: _ClassVar[Severity]
    SEVERITY_INFO: _ClassVar[Severity]
    SEVERITY_WARNING: _ClassVar[Severity]
    SEVERITY_ERROR: _ClassVar[Severity]
VERDICT_UNSPECIFIED: Verdict
VERDICT_MATCH: Verdict
VERDICT_ADAPT: Verdict
VERDICT_INCOMPATIBLE: Verdict
VERDICT_UNMATCHED: Verdict
SEVERITY_UNSPECIFIED: Severity
SEVERITY_INFO: Severity
SEVERITY_WARNING: Severity
SEVERITY_ERROR: Severity

class Audit(_message.Message):
    __slots__ = ("summary", "teacher", "student", "teacher_totals", "student_totals", "strings", "rows", "findings", "stages")
    SUMMARY_FIELD_NUMBER: _ClassVar[int]
    TEACHER_FIELD_NUMBER: _ClassVar[int]
    STUDENT_FIELD_NUMBER: _ClassVar[int]
    TEACHER_TOTALS_FIELD_NUMBER: _ClassVar[int]
    STUDENT_TOTALS_FIELD_NUMBER: _ClassVar[int]
    STRINGS_FIELD_NUMBER: _ClassVar[int]
    ROWS_FIELD_NUMBER: _ClassVar[int]
    FINDINGS_FIELD_NUMBER: _ClassVar[int]
    STAGES_FIELD_NUMBER: _ClassVar[int]
    summary: str
    teacher: str
    student: str
    teacher_totals: _structure_pb2.Totals
    student_totals: _structure_pb2.Totals
    strings: _columns_pb2.StringPool
    rows: _columns_pb2.Table
    findings: _containers.RepeatedCompositeFieldContainer[Finding]
    stages: _columns_pb2.Table
    def __init__(self, summary: _Optional[str] = ..., teacher: _Optional[str] = ..., student: _Optional[str] = ..., teacher_totals: _Optional[_Union[_structure_pb2.Totals, _Mapping]] = ..., student_totals: _Optional[_Union[_structure_pb2.Totals, _Mapping]] = ..., strings: _Optional[_Union[_columns_pb2.StringPool, _Mapping]] = ..., rows: _Optional[_Union[_columns_pb2.Table, _Mapping]] = ..., findings: _Optional[_Iterable[_Union[Finding, _Mapping]]] = ..., stages: _Optional[_Union[_columns_pb2.Table, _Mapping]] = ...) -> None: ...

class Finding(_message.Message):
    __slots__ = ("rule", "severity", "message", "explanation", "fix", "subject", "module_path", "row")
    RULE_FIELD_NUMBER: _ClassVar[int]
    SEVERITY_FIELD_NUMBER: _ClassVar[int]
    MESSAGE_FIELD_NUMBER: _ClassVar[int]
    EXPLANATION_FIELD_NUMBER: _ClassVar[int]
    FIX_FIELD_NUMBER: _ClassVar[int]
    SUBJECT_FIELD_NUMBER: _ClassVar[int]
    MODULE_PATH_FIELD_NUMBER: _ClassVar[int]
    ROW_FIELD_NUMBER: _ClassVar[int]
    rule: str
    severity: Severity
    message: str
    explanation: str
    fix: str
    subject: str
    module_path: str
    row: int
    def __init__(self, rule: _Optional[str] = ..., severity: _Optional[_Union[Severity, str]] = ..., message: _Optional[str] = ..., explanation: _Optional[str] = ..., fix: _Optional[str] = ..., subject: _Optional[str] = ..., module_path: _Optional[str] = ..., row: _Optional[int] = ...) -> None: ...
