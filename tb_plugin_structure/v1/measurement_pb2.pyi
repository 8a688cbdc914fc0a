from tb_plugin_structure.v1 import columns_pb2 as _columns_pb2
from google.protobuf.internal import containers as _containers
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from typing import ClassVar as _ClassVar, Iterable as _Iterable, Mapping as _Mapping, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class MeasurementHeader(_message.Message):
    __slots__ = ("format_version", "minimum_reader_version", "model", "structure_hash", "parts")
    FORMAT_VERSION_FIELD_NUMBER: _ClassVar[int]
    MINIMUM_READER_VERSION_FIELD_NUMBER: _ClassVar[int]
    MODEL_FIELD_NUMBER: _ClassVar[int]
    STRUCTURE_HASH_FIELD_NUMBER: _ClassVar[int]
    PARTS_FIELD_NUMBER: _ClassVar[int]
    format_version: int
    minimum_reader_version: int
    model: str
    structure_hash: str
    parts: _containers.RepeatedCompositeFieldContainer[_columns_pb2.Part]
    def __init__(self, format_version: _Optional[int] = ..., minimum_reader_version: _Optional[int] = ..., model: _Optional[str] = ..., structure_hash: _Optional[str] = ..., parts: _Optional[_Iterable[_Union[_columns_pb2.Part, _Mapping]]] = ...) -> None: ...
