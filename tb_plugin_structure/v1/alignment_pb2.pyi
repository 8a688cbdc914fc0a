from tb_plugin_structure.v1 import columns_pb2 as _columns_pb2
from tb_plugin_structure.v1 import structure_pb2 as _structure_pb2
from google.protobuf.internal import containers as _containers
from google.protobuf.internal import enum_type_wrapper as _enum_type_wrapper
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from typing import ClassVar as _ClassVar, Iterable as _Iterable, Mapping as _Mapping, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class PairKind(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    PAIR_KIND_UNSPECIFIED: _ClassVar[PairKind]
    PAIR_KIND_IDENTICAL: _ClassVar[PairKind]
    PAIR_KIND_RESIZED: _ClassVar[PairKind]
    PAIR_KIND_RECONFIGURED: _ClassVar[PairKind]
    PAIR_KIND_RETYPED: _ClassVar[PairKind]
    PAIR_KIND_INSERTED: _ClassVar[PairKind]
    PAIR_KIND_DELETED: _ClassVar[PairKind]
    PAIR_KIND_MOVED: _ClassVar[PairKind]
PAIR_KIND_UNSPECIFIED: PairKind
PAIR_KIND_IDENTICAL: PairKind
PAIR_KIND_RESIZED: PairKind
PAIR_KIND_RECONFIGURED: PairKind
PAIR_KIND_RETYPED: PairKind
PAIR_KIND_INSERTED: PairKind
PAIR_KIND_DELETED: PairKind
PAIR_KIND_MOVED: PairKind

class Alignment(_message.Message):
    __slots__ = ("summary", "teacher", "student", "teacher_totals", "student_totals", "policy", "counts", "edits", "stacks", "strings", "pairs", "operator_pairs")
    SUMMARY_FIELD_NUMBER: _ClassVar[int]
    TEACHER_FIELD_NUMBER: _ClassVar[int]
    STUDENT_FIELD_NUMBER: _ClassVar[int]
    TEACHER_TOTALS_FIELD_NUMBER: _ClassVar[int]
    STUDENT_TOTALS_FIELD_NUMBER: _ClassVar[int]
    POLICY_FIELD_NUMBER: _ClassVar[int]
    COUNTS_FIELD_NUMBER: _ClassVar[int]
    EDITS_FIELD_NUMBER: _ClassVar[int]
    STACKS_FIELD_NUMBER: _ClassVar[int]
    STRINGS_FIELD_NUMBER: _ClassVar[int]
    PAIRS_FIELD_NUMBER: _ClassVar[int]
    OPERATOR_PAIRS_FIELD_NUMBER: _ClassVar[int]
    summary: str
    teacher: str
    student: str
    teacher_totals: _structure_pb2.Totals
    student_totals: _structure_pb2.Totals
    policy: str
    counts: _containers.RepeatedCompositeFieldContainer[KindCount]
    edits: _containers.RepeatedCompositeFieldContainer[Edit]
    stacks: _containers.RepeatedCompositeFieldContainer[Stack]
    strings: _columns_pb2.StringPool
    pairs: _columns_pb2.Table
    operator_pairs: _columns_pb2.Table
    def __init__(self, summary: _Optional[str] = ..., teacher: _Optional[str] = ..., student: _Optional[str] = ..., teacher_totals: _Optional[_Union[_structure_pb2.Totals, _Mapping]] = ..., student_totals: _Optional[_Union[_structure_pb2.Totals, _Mapping]] = ..., policy: _Optional[str] = ..., counts: _Optional[_Iterable[_Union[KindCount, _Mapping]]] = ..., edits: _Optional[_Iterable[_Union[Edit, _Mapping]]] = ..., stacks: _Optional[_Iterable[_Union[Stack, _Mapping]]] = ..., strings: _Optional[_Union[_columns_pb2.StringPool, _Mapping]] = ..., pairs: _Optional[_Union[_columns_pb2.Table, _Mapping]] = ..., operator_pairs: _Optional[_Union[_columns_pb2.Table, _Mapping]] = ...) -> None: ...

class KindCount(_message.Message):
    __slots__ = ("kind", "leaves", "calls", "parameters")
    KIND_FIELD_NUMBER: _ClassVar[int]
    LEAVES_FIELD_NUMBER: _ClassVar[int]
    CALLS_FIELD_NUMBER: _ClassVar[int]
    PARAMETERS_FIELD_NUMBER: _ClassVar[int]
    kind: PairKind
    leaves: int
    calls: int
    parameters: int
    def __init__(self, kind: _Optional[_Union[PairKind, str]] = ..., leaves: _Optional[int] = ..., calls: _Optional[int] = ..., parameters: _Optional[int] = ...) -> None: ...

class Edit(_message.Message):
    __slots__ = ("text", "kind", "teacher_path", "student_path")
    TEXT_FIELD_NUMBER: _ClassVar[int]
    KIND_FIELD_NUMBER: _ClassVar[int]
    TEACHER_PATH_FIELD_NUMBER: _ClassVar[int]
    STUDENT_PATH_FIELD_NUMBER: _ClassVar[int]
    text: str
    kind: PairKind
    teacher_path: str
    student_path: str
    def __init__(self, text: _Optional[str] = ..., kind: _Optional[_Union[PairKind, str]] = ..., teacher_path: _Optional[str] = ..., student_path: _Optional[str] = ...) -> None: ...

class Stack(_message.Message):
    __slots__ = ("teacher_path", "student_path", "teacher_blocks", "student_blocks", "policy", "indices", "choices", "interchangeable")
    TEACHER_PATH_FIELD_NUMBER: _ClassVar[int]
    STUDENT_PATH_FIELD_NUMBER: _ClassVar[int]
    TEACHER_BLOCKS_FIELD_NUMBER: _ClassVar[int]
    STUDENT_BLOCKS_FIELD_NUMBER: _ClassVar[int]
    POLICY_FIELD_NUMBER: _ClassVar[int]
    INDICES_FIELD_NUMBER: _ClassVar[int]
    CHOICES_FIELD_NUMBER: _ClassVar[int]
    INTERCHANGEABLE_FIELD_NUMBER: _ClassVar[int]
    teacher_path: str
    student_path: str
    teacher_blocks: int
    student_blocks: int
    policy: str
    indices: _containers.RepeatedScalarFieldContainer[int]
    choices: _containers.RepeatedScalarFieldContainer[str]
    interchangeable: bool
    def __init__(self, teacher_path: _Optional[str] = ..., student_path: _Optional[str] = ..., teacher_blocks: _Optional[int] = ..., student_blocks: _Optional[int] = ..., policy: _Optional[str] = ..., indices: _Optional[_Iterable[int]] = ..., choices: _Optional[_Iterable[str]] = ..., interchangeable: bool = ...) -> None: ...
