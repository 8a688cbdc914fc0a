from google.protobuf.internal import containers as _containers
from google.protobuf.internal import enum_type_wrapper as _enum_type_wrapper
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from typing import ClassVar as _ClassVar, Iterable as _Iterable, Mapping as _Mapping, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class ValueType(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    VALUE_TYPE_UNSPECIFIED: _ClassVar[ValueType]
    VALUE_TYPE_U8: _ClassVar[ValueType]
    VALUE_TYPE_I32: _ClassVar[ValueType]
    VALUE_TYPE_U32: _ClassVar[ValueType]
    VALUE_TYPE_I64: _ClassVar[ValueType]
    VALUE_TYPE_F32: _ClassVar[ValueType]
    VALUE_TYPE_F64: _ClassVar[ValueType]
    VALUE_TYPE_F16: _ClassVar[ValueType]
    VALUE_TYPE_STRING: _ClassVar[ValueType]

class PartFormat(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    PART_FORMAT_UNSPECIFIED: _ClassVar[PartFormat]
    PART_FORMAT_TABLE: _ClassVar[PartFormat]
    PART_FORMAT_STRINGS: _ClassVar[PartFormat]
    PART_FORMAT_RAW: _ClassVar[PartFormat]
    PART_FORMAT_JSON: _ClassVar[PartFormat]
VALUE_TYPE_UNSPECIFIED: ValueType
VALUE_TYPE_U8: ValueType
VALUE_TYPE_I32: ValueType
VALUE_TYPE_U32: ValueType
VALUE_TYPE_I64: ValueType
VALUE_TYPE_F32: ValueType
VALUE_TYPE_F64: ValueType
VALUE_TYPE_F16: ValueType
VALUE_TYPE_STRING: ValueType
PART_FORMAT_UNSPECIFIED: PartFormat
PART_FORMAT_TABLE: PartFormat
PART_FORMAT_STRINGS: PartFormat
PART_FORMAT_RAW: PartFormat
PART_FORMAT_JSON: PartFormat

class Column(_message.Message):
    __slots__ = ("name", "type", "values", "offsets")
    NAME_FIELD_NUMBER: _ClassVar[int]
    TYPE_FIELD_NUMBER: _ClassVar[int]
    VALUES_FIELD_NUMBER: _ClassVar[int]
    OFFSETS_FIELD_NUMBER: _ClassVar[int]
    name: str
    type: ValueType
    values: bytes
    offsets: bytes
    def __init__(self, name: _Optional[str] = ..., type: _Optional[_Union[ValueType, str]] = ..., values: _Optional[bytes] = ..., offsets: _Optional[bytes] = ...) -> None: ...

class Table(_message.Message):
    __slots__ = ("name", "rows", "columns")
    NAME_FIELD_NUMBER: _ClassVar[int]
    ROWS_FIELD_NUMBER: _ClassVar[int]
    COLUMNS_FIELD_NUMBER: _ClassVar[int]
    name: str
    rows: int
    columns: _containers.RepeatedCompositeFieldContainer[Column]
    def __init__(self, name: _Optional[str] = ..., rows: _Optional[int] = ..., columns: _Optional[_Iterable[_Union[Column, _Mapping]]] = ...) -> None: ...

class StringPool(_message.Message):
    __slots__ = ("utf8", "offsets")
    UTF8_FIELD_NUMBER: _ClassVar[int]
    OFFSETS_FIELD_NUMBER: _ClassVar[int]
    utf8: bytes
    offsets: bytes
    def __init__(self, utf8: _Optional[bytes] = ..., offsets: _Optional[bytes] = ...) -> None: ...

class Part(_message.Message):
    __slots__ = ("name", "format", "uncompressed_bytes")
    NAME_FIELD_NUMBER: _ClassVar[int]
    FORMAT_FIELD_NUMBER: _ClassVar[int]
    UNCOMPRESSED_BYTES_FIELD_NUMBER: _ClassVar[int]
    name: str
    format: PartFormat
    uncompressed_bytes: int
    def __init__(self, name: _Optional[str] = ..., format: _Optional[_Union[PartFormat, str]] = ..., uncompressed_bytes: _Optional[int] = ...) -> None: ...
