from tb_plugin_structure.v1 import columns_pb2 as _columns_pb2
from google.protobuf.internal import containers as _containers
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from typing import ClassVar as _ClassVar, Iterable as _Iterable, Mapping as _Mapping, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class StructureHeader(_message.Message):
    __slots__ = ("format_version", "minimum_reader_version", "model", "variant", "structure_hash", "model_class", "totals", "provenance", "error", "inputs", "notes", "parts", "symbolic")
    FORMAT_VERSION_FIELD_NUMBER: _ClassVar[int]
    MINIMUM_READER_VERSION_FIELD_NUMBER: _ClassVar[int]
    MODEL_FIELD_NUMBER: _ClassVar[int]
    VARIANT_FIELD_NUMBER: _ClassVar[int]
    STRUCTURE_HASH_FIELD_NUMBER: _ClassVar[int]
    MODEL_CLASS_FIELD_NUMBER: _ClassVar[int]
    TOTALS_FIELD_NUMBER: _ClassVar[int]
    PROVENANCE_FIELD_NUMBER: _ClassVar[int]
    ERROR_FIELD_NUMBER: _ClassVar[int]
    INPUTS_FIELD_NUMBER: _ClassVar[int]
    NOTES_FIELD_NUMBER: _ClassVar[int]
    PARTS_FIELD_NUMBER: _ClassVar[int]
    SYMBOLIC_FIELD_NUMBER: _ClassVar[int]
    format_version: int
    minimum_reader_version: int
    model: str
    variant: str
    structure_hash: str
    model_class: str
    totals: Totals
    provenance: Provenance
    error: CaptureError
    inputs: _containers.RepeatedCompositeFieldContainer[Argument]
    notes: _containers.RepeatedScalarFieldContainer[str]
    parts: _containers.RepeatedCompositeFieldContainer[_columns_pb2.Part]
    symbolic: SymbolicDimensions
    def __init__(self, format_version: _Optional[int] = ..., minimum_reader_version: _Optional[int] = ..., model: _Optional[str] = ..., variant: _Optional[str] = ..., structure_hash: _Optional[str] = ..., model_class: _Optional[str] = ..., totals: _Optional[_Union[Totals, _Mapping]] = ..., provenance: _Optional[_Union[Provenance, _Mapping]] = ..., error: _Optional[_Union[CaptureError, _Mapping]] = ..., inputs: _Optional[_Iterable[_Union[Argument, _Mapping]]] = ..., notes: _Optional[_Iterable[str]] = ..., parts: _Optional[_Iterable[_Union[_columns_pb2.Part, _Mapping]]] = ..., symbolic: _Optional[_Union[SymbolicDimensions, _Mapping]] = ...) -> None: ...

class SymbolicDimensions(_message.Message):
    __slots__ = ("dimensions", "conditions", "known_tensors")
    DIMENSIONS_FIELD_NUMBER: _ClassVar[int]
    CONDITIONS_FIELD_NUMBER: _ClassVar[int]
    KNOWN_TENSORS_FIELD_NUMBER: _ClassVar[int]
    dimensions: _containers.RepeatedCompositeFieldContainer[SymbolicDimension]
    conditions: _containers.RepeatedScalarFieldContainer[str]
    known_tensors: int
    def __init__(self, dimensions: _Optional[_Iterable[_Union[SymbolicDimension, _Mapping]]] = ..., conditions: _Optional[_Iterable[str]] = ..., known_tensors: _Optional[int] = ...) -> None: ...

class SymbolicDimension(_message.Message):
    __slots__ = ("name", "input", "dimension", "size", "expression")
    NAME_FIELD_NUMBER: _ClassVar[int]
    INPUT_FIELD_NUMBER: _ClassVar[int]
    DIMENSION_FIELD_NUMBER: _ClassVar[int]
    SIZE_FIELD_NUMBER: _ClassVar[int]
    EXPRESSION_FIELD_NUMBER: _ClassVar[int]
    name: str
    input: str
    dimension: int
    size: int
    expression: str
    def __init__(self, name: _Optional[str] = ..., input: _Optional[str] = ..., dimension: _Optional[int] = ..., size: _Optional[int] = ..., expression: _Optional[str] = ...) -> None: ...

class Totals(_message.Message):
    __slots__ = ("modules", "module_calls", "operators", "kernels", "parameters", "trainable_parameters", "parameter_bytes", "buffer_bytes", "macs", "kernels_without_formula", "activation_bytes", "duration_ns", "saved_bytes", "peak_bytes")
    MODULES_FIELD_NUMBER: _ClassVar[int]
    MODULE_CALLS_FIELD_NUMBER: _ClassVar[int]
    OPERATORS_FIELD_NUMBER: _ClassVar[int]
    KERNELS_FIELD_NUMBER: _ClassVar[int]
    PARAMETERS_FIELD_NUMBER: _ClassVar[int]
    TRAINABLE_PARAMETERS_FIELD_NUMBER: _ClassVar[int]
    PARAMETER_BYTES_FIELD_NUMBER: _ClassVar[int]
    BUFFER_BYTES_FIELD_NUMBER: _ClassVar[int]
    MACS_FIELD_NUMBER: _ClassVar[int]
    KERNELS_WITHOUT_FORMULA_FIELD_NUMBER: _ClassVar[int]
    ACTIVATION_BYTES_FIELD_NUMBER: _ClassVar[int]
    DURATION_NS_FIELD_NUMBER: _ClassVar[int]
    SAVED_BYTES_FIELD_NUMBER: _ClassVar[int]
    PEAK_BYTES_FIELD_NUMBER: _ClassVar[int]
    modules: int
    module_calls: int
    operators: int
    kernels: int
    parameters: int
    trainable_parameters: int
    parameter_bytes: int
    buffer_bytes: int
    macs: float
    kernels_without_formula: int
    activation_bytes: int
    duration_ns: int
    saved_bytes: int
    peak_bytes: int
    def __init__(self, modules: _Optional[int] = ..., module_calls: _Optional[int] = ..., operators: _Optional[int] = ..., kernels: _Optional[int] = ..., parameters: _Optional[int] = ..., trainable_parameters: _Optional[int] = ..., parameter_bytes: _Optional[int] = ..., buffer_bytes: _Optional[int] = ..., macs: _Optional[float] = ..., kernels_without_formula: _Optional[int] = ..., activation_bytes: _Optional[int] = ..., duration_ns: _Optional[int] = ..., saved_bytes: _Optional[int] = ..., peak_bytes: _Optional[int] = ...) -> None: ...

class Provenance(_message.Message):
    __slots__ = ("versions", "training", "grad_mode", "autocast", "device", "rank", "world_size", "wrappers")
    class VersionsEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: str
        def __init__(self, key: _Optional[str] = ..., value: _Optional[str] = ...) -> None: ...
    VERSIONS_FIELD_NUMBER: _ClassVar[int]
    TRAINING_FIELD_NUMBER: _ClassVar[int]
    GRAD_MODE_FIELD_NUMBER: _ClassVar[int]
    AUTOCAST_FIELD_NUMBER: _ClassVar[int]
    DEVICE_FIELD_NUMBER: _ClassVar[int]
    RANK_FIELD_NUMBER: _ClassVar[int]
    WORLD_SIZE_FIELD_NUMBER: _ClassVar[int]
    WRAPPERS_FIELD_NUMBER: _ClassVar[int]
    versions: _containers.ScalarMap[str, str]
    training: bool
    grad_mode: str
    autocast: str
    device: str
    rank: int
    world_size: int
    wrappers: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, versions: _Optional[_Mapping[str, str]] = ..., training: bool = ..., grad_mode: _Optional[str] = ..., autocast: _Optional[str] = ..., device: _Optional[str] = ..., rank: _Optional[int] = ..., world_size: _Optional[int] = ..., wrappers: _Optional[_Iterable[str]] = ...) -> None: ...

class Argument(_message.Message):
    __slots__ = ("name", "description")
    NAME_FIELD_NUMBER: _ClassVar[int]
    DESCRIPTION_FIELD_NUMBER: _ClassVar[int]
    name: str
    description: str
    def __init__(self, name: _Optional[str] = ..., description: _Optional[str] = ...) -> None: ...

class CaptureError(_message.Message):
    __slots__ = ("type", "message", "module_path", "source", "kernel", "operands")
    TYPE_FIELD_NUMBER: _ClassVar[int]
    MESSAGE_FIELD_NUMBER: _ClassVar[int]
    MODULE_PATH_FIELD_NUMBER: _ClassVar[int]
    SOURCE_FIELD_NUMBER: _ClassVar[int]
    KERNEL_FIELD_NUMBER: _ClassVar[int]
    OPERANDS_FIELD_NUMBER: _ClassVar[int]
    type: str
    message: str
    module_path: str
    source: str
    kernel: str
    operands: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, type: _Optional[str] = ..., message: _Optional[str] = ..., module_path: _Optional[str] = ..., source: _Optional[str] = ..., kernel: _Optional[str] = ..., operands: _Optional[_Iterable[str]] = ...) -> None: ...
