from tb_plugin_structure.v1 import columns_pb2 as _columns_pb2
from google.protobuf.internal import containers as _containers
from google.protobuf.internal import enum_type_wrapper as _enum_type_wrapper
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from typing import ClassVar as _ClassVar, Iterable as _Iterable, Mapping as _Mapping, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class QuantityScale(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    QUANTITY_SCALE_UNSPECIFIED: _ClassVar[QuantityScale]
    QUANTITY_SCALE_LINEAR: _ClassVar[QuantityScale]
    QUANTITY_SCALE_LOG: _ClassVar[QuantityScale]
    QUANTITY_SCALE_SIGNED: _ClassVar[QuantityScale]
    QUANTITY_SCALE_CATEGORY: _ClassVar[QuantityScale]

class QuantitySum(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    QUANTITY_SUM_UNSPECIFIED: _ClassVar[QuantitySum]
    QUANTITY_SUM_PLAIN: _ClassVar[QuantitySum]
    QUANTITY_SUM_SQUARES: _ClassVar[QuantitySum]
    QUANTITY_SUM_MAXIMUM: _ClassVar[QuantitySum]
    QUANTITY_SUM_MEAN: _ClassVar[QuantitySum]
QUANTITY_SCALE_UNSPECIFIED: QuantityScale
QUANTITY_SCALE_LINEAR: QuantityScale
QUANTITY_SCALE_LOG: QuantityScale
QUANTITY_SCALE_SIGNED: QuantityScale
QUANTITY_SCALE_CATEGORY: QuantityScale
QUANTITY_SUM_UNSPECIFIED: QuantitySum
QUANTITY_SUM_PLAIN: QuantitySum
QUANTITY_SUM_SQUARES: QuantitySum
QUANTITY_SUM_MAXIMUM: QuantitySum
QUANTITY_SUM_MEAN: QuantitySum

class MeasurementHeader(_message.Message):
    __slots__ = ("format_version", "minimum_reader_version", "model", "structure_hash", "parts", "quantities")
    FORMAT_VERSION_FIELD_NUMBER: _ClassVar[int]
    MINIMUM_READER_VERSION_FIELD_NUMBER: _ClassVar[int]
    MODEL_FIELD_NUMBER: _ClassVar[int]
    STRUCTURE_HASH_FIELD_NUMBER: _ClassVar[int]
    PARTS_FIELD_NUMBER: _ClassVar[int]
    QUANTITIES_FIELD_NUMBER: _ClassVar[int]
    format_version: int
    minimum_reader_version: int
    model: str
    structure_hash: str
    parts: _containers.RepeatedCompositeFieldContainer[_columns_pb2.Part]
    quantities: _containers.RepeatedCompositeFieldContainer[Quantity]
    def __init__(self, format_version: _Optional[int] = ..., minimum_reader_version: _Optional[int] = ..., model: _Optional[str] = ..., structure_hash: _Optional[str] = ..., parts: _Optional[_Iterable[_Union[_columns_pb2.Part, _Mapping]]] = ..., quantities: _Optional[_Iterable[_Union[Quantity, _Mapping]]] = ...) -> None: ...

class Quantity(_message.Message):
    __slots__ = ("name", "label", "unit", "scale", "sum", "categories", "meaning", "minimum", "maximum", "least_positive", "modules")
    NAME_FIELD_NUMBER: _ClassVar[int]
    LABEL_FIELD_NUMBER: _ClassVar[int]
    UNIT_FIELD_NUMBER: _ClassVar[int]
    SCALE_FIELD_NUMBER: _ClassVar[int]
    SUM_FIELD_NUMBER: _ClassVar[int]
    CATEGORIES_FIELD_NUMBER: _ClassVar[int]
    MEANING_FIELD_NUMBER: _ClassVar[int]
    MINIMUM_FIELD_NUMBER: _ClassVar[int]
    MAXIMUM_FIELD_NUMBER: _ClassVar[int]
    LEAST_POSITIVE_FIELD_NUMBER: _ClassVar[int]
    MODULES_FIELD_NUMBER: _ClassVar[int]
    name: str
    label: str
    unit: str
    scale: QuantityScale
    sum: QuantitySum
    categories: _containers.RepeatedScalarFieldContainer[str]
    meaning: str
    minimum: float
    maximum: float
    least_positive: float
    modules: int
    def __init__(self, name: _Optional[str] = ..., label: _Optional[str] = ..., unit: _Optional[str] = ..., scale: _Optional[_Union[QuantityScale, str]] = ..., sum: _Optional[_Union[QuantitySum, str]] = ..., categories: _Optional[_Iterable[str]] = ..., meaning: _Optional[str] = ..., minimum: _Optional[float] = ..., maximum: _Optional[float] = ..., least_positive: _Optional[float] = ..., modules: _Optional[int] = ...) -> None: ...
