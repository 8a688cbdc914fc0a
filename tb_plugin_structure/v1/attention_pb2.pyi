from tb_plugin_structure.v1 import columns_pb2 as _columns_pb2
from google.protobuf.internal import containers as _containers
from google.protobuf.internal import enum_type_wrapper as _enum_type_wrapper
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from typing import ClassVar as _ClassVar, Iterable as _Iterable, Mapping as _Mapping, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class AttentionRoute(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    ATTENTION_ROUTE_UNSPECIFIED: _ClassVar[AttentionRoute]
    ATTENTION_ROUTE_FUSED_KERNEL: _ClassVar[AttentionRoute]
    ATTENTION_ROUTE_SOFTMAX_MATMUL: _ClassVar[AttentionRoute]
    ATTENTION_ROUTE_EXPLICIT: _ClassVar[AttentionRoute]
    ATTENTION_ROUTE_INTERFACE: _ClassVar[AttentionRoute]
    ATTENTION_ROUTE_PROBE: _ClassVar[AttentionRoute]

class AttentionCodec(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    ATTENTION_CODEC_UNSPECIFIED: _ClassVar[AttentionCodec]
    ATTENTION_CODEC_MATRIX_F16: _ClassVar[AttentionCodec]
ATTENTION_ROUTE_UNSPECIFIED: AttentionRoute
ATTENTION_ROUTE_FUSED_KERNEL: AttentionRoute
ATTENTION_ROUTE_SOFTMAX_MATMUL: AttentionRoute
ATTENTION_ROUTE_EXPLICIT: AttentionRoute
ATTENTION_ROUTE_INTERFACE: AttentionRoute
ATTENTION_ROUTE_PROBE: AttentionRoute
ATTENTION_CODEC_UNSPECIFIED: AttentionCodec
ATTENTION_CODEC_MATRIX_F16: AttentionCodec

class TokenAxis(_message.Message):
    __slots__ = ("kind", "length", "tokens", "grid_height", "grid_width", "special_tokens", "thumbnail_png")
    KIND_FIELD_NUMBER: _ClassVar[int]
    LENGTH_FIELD_NUMBER: _ClassVar[int]
    TOKENS_FIELD_NUMBER: _ClassVar[int]
    GRID_HEIGHT_FIELD_NUMBER: _ClassVar[int]
    GRID_WIDTH_FIELD_NUMBER: _ClassVar[int]
    SPECIAL_TOKENS_FIELD_NUMBER: _ClassVar[int]
    THUMBNAIL_PNG_FIELD_NUMBER: _ClassVar[int]
    kind: str
    length: int
    tokens: _containers.RepeatedScalarFieldContainer[str]
    grid_height: int
    grid_width: int
    special_tokens: int
    thumbnail_png: bytes
    def __init__(self, kind: _Optional[str] = ..., length: _Optional[int] = ..., tokens: _Optional[_Iterable[str]] = ..., grid_height: _Optional[int] = ..., grid_width: _Optional[int] = ..., special_tokens: _Optional[int] = ..., thumbnail_png: _Optional[bytes] = ...) -> None: ...

class AttentionLayer(_message.Message):
    __slots__ = ("module_path", "call_ordinal", "ordinal", "heads", "key_heads", "query_length", "key_length", "relation", "route", "kernel", "dtype", "mask", "query_axis", "key_axis", "first_head_row", "overview_rows", "overview_columns", "overview_offset", "not_captured", "exactness")
    MODULE_PATH_FIELD_NUMBER: _ClassVar[int]
    CALL_ORDINAL_FIELD_NUMBER: _ClassVar[int]
    ORDINAL_FIELD_NUMBER: _ClassVar[int]
    HEADS_FIELD_NUMBER: _ClassVar[int]
    KEY_HEADS_FIELD_NUMBER: _ClassVar[int]
    QUERY_LENGTH_FIELD_NUMBER: _ClassVar[int]
    KEY_LENGTH_FIELD_NUMBER: _ClassVar[int]
    RELATION_FIELD_NUMBER: _ClassVar[int]
    ROUTE_FIELD_NUMBER: _ClassVar[int]
    KERNEL_FIELD_NUMBER: _ClassVar[int]
    DTYPE_FIELD_NUMBER: _ClassVar[int]
    MASK_FIELD_NUMBER: _ClassVar[int]
    QUERY_AXIS_FIELD_NUMBER: _ClassVar[int]
    KEY_AXIS_FIELD_NUMBER: _ClassVar[int]
    FIRST_HEAD_ROW_FIELD_NUMBER: _ClassVar[int]
    OVERVIEW_ROWS_FIELD_NUMBER: _ClassVar[int]
    OVERVIEW_COLUMNS_FIELD_NUMBER: _ClassVar[int]
    OVERVIEW_OFFSET_FIELD_NUMBER: _ClassVar[int]
    NOT_CAPTURED_FIELD_NUMBER: _ClassVar[int]
    EXACTNESS_FIELD_NUMBER: _ClassVar[int]
    module_path: str
    call_ordinal: int
    ordinal: int
    heads: int
    key_heads: int
    query_length: int
    key_length: int
    relation: str
    route: AttentionRoute
    kernel: str
    dtype: str
    mask: str
    query_axis: int
    key_axis: int
    first_head_row: int
    overview_rows: int
    overview_columns: int
    overview_offset: int
    not_captured: str
    exactness: str
    def __init__(self, module_path: _Optional[str] = ..., call_ordinal: _Optional[int] = ..., ordinal: _Optional[int] = ..., heads: _Optional[int] = ..., key_heads: _Optional[int] = ..., query_length: _Optional[int] = ..., key_length: _Optional[int] = ..., relation: _Optional[str] = ..., route: _Optional[_Union[AttentionRoute, str]] = ..., kernel: _Optional[str] = ..., dtype: _Optional[str] = ..., mask: _Optional[str] = ..., query_axis: _Optional[int] = ..., key_axis: _Optional[int] = ..., first_head_row: _Optional[int] = ..., overview_rows: _Optional[int] = ..., overview_columns: _Optional[int] = ..., overview_offset: _Optional[int] = ..., not_captured: _Optional[str] = ..., exactness: _Optional[str] = ...) -> None: ...

class AttentionOverviewHeader(_message.Message):
    __slots__ = ("format_version", "minimum_reader_version", "model", "example", "axes", "layers", "notes", "parts")
    FORMAT_VERSION_FIELD_NUMBER: _ClassVar[int]
    MINIMUM_READER_VERSION_FIELD_NUMBER: _ClassVar[int]
    MODEL_FIELD_NUMBER: _ClassVar[int]
    EXAMPLE_FIELD_NUMBER: _ClassVar[int]
    AXES_FIELD_NUMBER: _ClassVar[int]
    LAYERS_FIELD_NUMBER: _ClassVar[int]
    NOTES_FIELD_NUMBER: _ClassVar[int]
    PARTS_FIELD_NUMBER: _ClassVar[int]
    format_version: int
    minimum_reader_version: int
    model: str
    example: str
    axes: _containers.RepeatedCompositeFieldContainer[TokenAxis]
    layers: _containers.RepeatedCompositeFieldContainer[AttentionLayer]
    notes: _containers.RepeatedScalarFieldContainer[str]
    parts: _containers.RepeatedCompositeFieldContainer[_columns_pb2.Part]
    def __init__(self, format_version: _Optional[int] = ..., minimum_reader_version: _Optional[int] = ..., model: _Optional[str] = ..., example: _Optional[str] = ..., axes: _Optional[_Iterable[_Union[TokenAxis, _Mapping]]] = ..., layers: _Optional[_Iterable[_Union[AttentionLayer, _Mapping]]] = ..., notes: _Optional[_Iterable[str]] = ..., parts: _Optional[_Iterable[_Union[_columns_pb2.Part, _Mapping]]] = ...) -> None: ...

class AttentionDetailHeader(_message.Message):
    __slots__ = ("format_version", "minimum_reader_version", "model", "example", "details")
    FORMAT_VERSION_FIELD_NUMBER: _ClassVar[int]
    MINIMUM_READER_VERSION_FIELD_NUMBER: _ClassVar[int]
    MODEL_FIELD_NUMBER: _ClassVar[int]
    EXAMPLE_FIELD_NUMBER: _ClassVar[int]
    DETAILS_FIELD_NUMBER: _ClassVar[int]
    format_version: int
    minimum_reader_version: int
    model: str
    example: str
    details: _containers.RepeatedCompositeFieldContainer[AttentionDetail]
    def __init__(self, format_version: _Optional[int] = ..., minimum_reader_version: _Optional[int] = ..., model: _Optional[str] = ..., example: _Optional[str] = ..., details: _Optional[_Iterable[_Union[AttentionDetail, _Mapping]]] = ...) -> None: ...

class AttentionDetail(_message.Message):
    __slots__ = ("module_path", "call_ordinal", "ordinal", "query_length", "key_length", "codec", "heads", "first_blob")
    MODULE_PATH_FIELD_NUMBER: _ClassVar[int]
    CALL_ORDINAL_FIELD_NUMBER: _ClassVar[int]
    ORDINAL_FIELD_NUMBER: _ClassVar[int]
    QUERY_LENGTH_FIELD_NUMBER: _ClassVar[int]
    KEY_LENGTH_FIELD_NUMBER: _ClassVar[int]
    CODEC_FIELD_NUMBER: _ClassVar[int]
    HEADS_FIELD_NUMBER: _ClassVar[int]
    FIRST_BLOB_FIELD_NUMBER: _ClassVar[int]
    module_path: str
    call_ordinal: int
    ordinal: int
    query_length: int
    key_length: int
    codec: AttentionCodec
    heads: _containers.RepeatedScalarFieldContainer[int]
    first_blob: int
    def __init__(self, module_path: _Optional[str] = ..., call_ordinal: _Optional[int] = ..., ordinal: _Optional[int] = ..., query_length: _Optional[int] = ..., key_length: _Optional[int] = ..., codec: _Optional[_Union[AttentionCodec, str]] = ..., heads: _Optional[_Iterable[int]] = ..., first_blob: _Optional[int] = ...) -> None: ...
