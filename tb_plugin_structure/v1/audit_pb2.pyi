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
    __slots__ = ("summary", "teacher", "student", "teacher_totals", "student_totals", "strings", "rows", "findings", "stages", "training_memory")
    SUMMARY_FIELD_NUMBER: _ClassVar[int]
    TEACHER_FIELD_NUMBER: _ClassVar[int]
    STUDENT_FIELD_NUMBER: _ClassVar[int]
    TEACHER_TOTALS_FIELD_NUMBER: _ClassVar[int]
    STUDENT_TOTALS_FIELD_NUMBER: _ClassVar[int]
    STRINGS_FIELD_NUMBER: _ClassVar[int]
    ROWS_FIELD_NUMBER: _ClassVar[int]
    FINDINGS_FIELD_NUMBER: _ClassVar[int]
    STAGES_FIELD_NUMBER: _ClassVar[int]
    TRAINING_MEMORY_FIELD_NUMBER: _ClassVar[int]
    summary: str
    teacher: str
    student: str
    teacher_totals: _structure_pb2.Totals
    student_totals: _structure_pb2.Totals
    strings: _columns_pb2.StringPool
    rows: _columns_pb2.Table
    findings: _containers.RepeatedCompositeFieldContainer[Finding]
    stages: _columns_pb2.Table
    training_memory: TrainingMemory
    def __init__(self, summary: _Optional[str] = ..., teacher: _Optional[str] = ..., student: _Optional[str] = ..., teacher_totals: _Optional[_Union[_structure_pb2.Totals, _Mapping]] = ..., student_totals: _Optional[_Union[_structure_pb2.Totals, _Mapping]] = ..., strings: _Optional[_Union[_columns_pb2.StringPool, _Mapping]] = ..., rows: _Optional[_Union[_columns_pb2.Table, _Mapping]] = ..., findings: _Optional[_Iterable[_Union[Finding, _Mapping]]] = ..., stages: _Optional[_Union[_columns_pb2.Table, _Mapping]] = ..., training_memory: _Optional[_Union[TrainingMemory, _Mapping]] = ...) -> None: ...

class TrainingMemory(_message.Message):
    __slots__ = ("teacher_weights", "student_weights", "student_gradients", "optimizer_states", "student_activations", "teacher_peak", "activations_measured", "total")
    TEACHER_WEIGHTS_FIELD_NUMBER: _ClassVar[int]
    STUDENT_WEIGHTS_FIELD_NUMBER: _ClassVar[int]
    STUDENT_GRADIENTS_FIELD_NUMBER: _ClassVar[int]
    OPTIMIZER_STATES_FIELD_NUMBER: _ClassVar[int]
    STUDENT_ACTIVATIONS_FIELD_NUMBER: _ClassVar[int]
    TEACHER_PEAK_FIELD_NUMBER: _ClassVar[int]
    ACTIVATIONS_MEASURED_FIELD_NUMBER: _ClassVar[int]
    TOTAL_FIELD_NUMBER: _ClassVar[int]
    teacher_weights: int
    student_weights: int
    student_gradients: int
    optimizer_states: int
    student_activations: int
    teacher_peak: int
    activations_measured: bool
    total: int
    def __init__(self, teacher_weights: _Optional[int] = ..., student_weights: _Optional[int] = ..., student_gradients: _Optional[int] = ..., optimizer_states: _Optional[int] = ..., student_activations: _Optional[int] = ..., teacher_peak: _Optional[int] = ..., activations_measured: bool = ..., total: _Optional[int] = ...) -> None: ...

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
