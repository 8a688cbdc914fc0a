from google.protobuf.internal import containers as _containers
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from typing import ClassVar as _ClassVar, Iterable as _Iterable, Mapping as _Mapping, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class Plan(_message.Message):
    __slots__ = ("format_version", "minimum_reader_version", "teacher", "student", "policy", "stack_policies", "pins")
    class StackPoliciesEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: str
        def __init__(self, key: _Optional[str] = ..., value: _Optional[str] = ...) -> None: ...
    FORMAT_VERSION_FIELD_NUMBER: _ClassVar[int]
    MINIMUM_READER_VERSION_FIELD_NUMBER: _ClassVar[int]
    TEACHER_FIELD_NUMBER: _ClassVar[int]
    STUDENT_FIELD_NUMBER: _ClassVar[int]
    POLICY_FIELD_NUMBER: _ClassVar[int]
    STACK_POLICIES_FIELD_NUMBER: _ClassVar[int]
    PINS_FIELD_NUMBER: _ClassVar[int]
    format_version: int
    minimum_reader_version: int
    teacher: str
    student: str
    policy: str
    stack_policies: _containers.ScalarMap[str, str]
    pins: _containers.RepeatedCompositeFieldContainer[Pin]
    def __init__(self, format_version: _Optional[int] = ..., minimum_reader_version: _Optional[int] = ..., teacher: _Optional[str] = ..., student: _Optional[str] = ..., policy: _Optional[str] = ..., stack_policies: _Optional[_Mapping[str, str]] = ..., pins: _Optional[_Iterable[_Union[Pin, _Mapping]]] = ...) -> None: ...

class Pin(_message.Message):
    __slots__ = ("student_path", "teacher_paths")
    STUDENT_PATH_FIELD_NUMBER: _ClassVar[int]
    TEACHER_PATHS_FIELD_NUMBER: _ClassVar[int]
    student_path: str
    teacher_paths: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, student_path: _Optional[str] = ..., teacher_paths: _Optional[_Iterable[str]] = ...) -> None: ...
