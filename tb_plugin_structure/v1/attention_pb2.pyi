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
    ATTENTION_CODEC_QUERY_KEY: _ClassVar[AttentionCodec]
    ATTENTION_CODEC_TILES_U8: _ClassVar[AttentionCodec]
    ATTENTION_CODEC_ROWS_F16: _ClassVar[AttentionCodec]
ATTENTION_ROUTE_UNSPECIFIED: AttentionRoute
ATTENTION_ROUTE_FUSED_KERNEL: AttentionRoute
ATTENTION_ROUTE_SOFTMAX_MATMUL: AttentionRoute
ATTENTION_ROUTE_EXPLICIT: AttentionRoute
ATTENTION_ROUTE_INTERFACE: AttentionRoute
ATTENTION_ROUTE_PROBE: AttentionRoute
ATTENTION_CODEC_UNSPECIFIED: AttentionCodec
ATTENTION_CODEC_MATRIX_F16: AttentionCodec
ATTENTION_CODEC_QUERY_KEY: AttentionCodec
ATTENTION_CODEC_TILES_U8: AttentionCodec
ATTENTION_CODEC_ROWS_F16: AttentionCodec

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
    __slots__ = ("format_version", "minimum_reader_version", "model", "example", "axes", "layers", "notes", "parts", "distances")
    FORMAT_VERSION_FIELD_NUMBER: _ClassVar[int]
    MINIMUM_READER_VERSION_FIELD_NUMBER: _ClassVar[int]
    MODEL_FIELD_NUMBER: _ClassVar[int]
    EXAMPLE_FIELD_NUMBER: _ClassVar[int]
    AXES_FIELD_NUMBER: _ClassVar[int]
    LAYERS_FIELD_NUMBER: _ClassVar[int]
    NOTES_FIELD_NUMBER: _ClassVar[int]
    PARTS_FIELD_NUMBER: _ClassVar[int]
    DISTANCES_FIELD_NUMBER: _ClassVar[int]
    format_version: int
    minimum_reader_version: int
    model: str
    example: str
    axes: _containers.RepeatedCompositeFieldContainer[TokenAxis]
    layers: _containers.RepeatedCompositeFieldContainer[AttentionLayer]
    notes: _containers.RepeatedScalarFieldContainer[str]
    parts: _containers.RepeatedCompositeFieldContainer[_columns_pb2.Part]
    distances: _containers.RepeatedCompositeFieldContainer[RecordedDistances]
    def __init__(self, format_version: _Optional[int] = ..., minimum_reader_version: _Optional[int] = ..., model: _Optional[str] = ..., example: _Optional[str] = ..., axes: _Optional[_Iterable[_Union[TokenAxis, _Mapping]]] = ..., layers: _Optional[_Iterable[_Union[AttentionLayer, _Mapping]]] = ..., notes: _Optional[_Iterable[str]] = ..., parts: _Optional[_Iterable[_Union[_columns_pb2.Part, _Mapping]]] = ..., distances: _Optional[_Iterable[_Union[RecordedDistances, _Mapping]]] = ...) -> None: ...

class RecordedDistances(_message.Message):
    __slots__ = ("model", "part", "rows", "columns", "resolution")
    MODEL_FIELD_NUMBER: _ClassVar[int]
    PART_FIELD_NUMBER: _ClassVar[int]
    ROWS_FIELD_NUMBER: _ClassVar[int]
    COLUMNS_FIELD_NUMBER: _ClassVar[int]
    RESOLUTION_FIELD_NUMBER: _ClassVar[int]
    model: str
    part: str
    rows: int
    columns: int
    resolution: str
    def __init__(self, model: _Optional[str] = ..., part: _Optional[str] = ..., rows: _Optional[int] = ..., columns: _Optional[int] = ..., resolution: _Optional[str] = ...) -> None: ...

class QueryKeyForm(_message.Message):
    __slots__ = ("width", "dtype", "scale", "softcap", "alibi_slopes", "alibi_offset", "key_blobs", "mask_blob", "checked_error")
    WIDTH_FIELD_NUMBER: _ClassVar[int]
    DTYPE_FIELD_NUMBER: _ClassVar[int]
    SCALE_FIELD_NUMBER: _ClassVar[int]
    SOFTCAP_FIELD_NUMBER: _ClassVar[int]
    ALIBI_SLOPES_FIELD_NUMBER: _ClassVar[int]
    ALIBI_OFFSET_FIELD_NUMBER: _ClassVar[int]
    KEY_BLOBS_FIELD_NUMBER: _ClassVar[int]
    MASK_BLOB_FIELD_NUMBER: _ClassVar[int]
    CHECKED_ERROR_FIELD_NUMBER: _ClassVar[int]
    width: int
    dtype: str
    scale: float
    softcap: float
    alibi_slopes: _containers.RepeatedScalarFieldContainer[float]
    alibi_offset: int
    key_blobs: _containers.RepeatedScalarFieldContainer[int]
    mask_blob: int
    checked_error: float
    def __init__(self, width: _Optional[int] = ..., dtype: _Optional[str] = ..., scale: _Optional[float] = ..., softcap: _Optional[float] = ..., alibi_slopes: _Optional[_Iterable[float]] = ..., alibi_offset: _Optional[int] = ..., key_blobs: _Optional[_Iterable[int]] = ..., mask_blob: _Optional[int] = ..., checked_error: _Optional[float] = ...) -> None: ...

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
    __slots__ = ("module_path", "call_ordinal", "ordinal", "query_length", "key_length", "codec", "heads", "first_blob", "rows", "form")
    MODULE_PATH_FIELD_NUMBER: _ClassVar[int]
    CALL_ORDINAL_FIELD_NUMBER: _ClassVar[int]
    ORDINAL_FIELD_NUMBER: _ClassVar[int]
    QUERY_LENGTH_FIELD_NUMBER: _ClassVar[int]
    KEY_LENGTH_FIELD_NUMBER: _ClassVar[int]
    CODEC_FIELD_NUMBER: _ClassVar[int]
    HEADS_FIELD_NUMBER: _ClassVar[int]
    FIRST_BLOB_FIELD_NUMBER: _ClassVar[int]
    ROWS_FIELD_NUMBER: _ClassVar[int]
    FORM_FIELD_NUMBER: _ClassVar[int]
    module_path: str
    call_ordinal: int
    ordinal: int
    query_length: int
    key_length: int
    codec: AttentionCodec
    heads: _containers.RepeatedScalarFieldContainer[int]
    first_blob: int
    rows: _containers.RepeatedScalarFieldContainer[int]
    form: QueryKeyForm
    def __init__(self, module_path: _Optional[str] = ..., call_ordinal: _Optional[int] = ..., ordinal: _Optional[int] = ..., query_length: _Optional[int] = ..., key_length: _Optional[int] = ..., codec: _Optional[_Union[AttentionCodec, str]] = ..., heads: _Optional[_Iterable[int]] = ..., first_blob: _Optional[int] = ..., rows: _Optional[_Iterable[int]] = ..., form: _Optional[_Union[QueryKeyForm, _Mapping]] = ...) -> None: ...
