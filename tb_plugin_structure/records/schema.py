"""The columns of every table of a record: name, type, unit and meaning.

One declaration serves the encoder (which refuses a table that does not fit), the reader and
``docs/record_format.md``. A column is never renamed or retyped; a new one is added at the end, with a new
format version when readers must know it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

FORMAT_VERSION: Final = 1
"""Version of the record format that this package writes."""

READER_VERSION: Final = 2
"""Records that ask for a newer reader than this are refused."""

NUMPY_TYPES: Final = {
    "u8": "<u1",
    "i32": "<i4",
    "u32": "<u4",
    "i64": "<i8",
    "f32": "<f4",
    "f64": "<f8",
    "f16": "<f2",
    "string": "<u4",
}
"""Column type name -> numpy type of the stored values."""


@dataclass(frozen=True)
class Field:
    """One column: ``type`` is a key of :data:`NUMPY_TYPES`; ``is_list`` columns hold a list per row; ``optional`` ones
    are there when what they hold was asked for."""

    name: str
    type: str
    meaning: str
    is_list: bool = False
    optional: bool = False


MODULES: Final = (
    Field("path", "string", "attribute path from the model, e.g. 'layer1.0.conv1'; '' for the model itself"),
    Field("aliases", "string", "further paths under which the same instance is registered", is_list=True),
    Field("class_name", "string", "class, e.g. 'Conv2d'"),
    Field("class_module", "string", "where the class is defined, e.g. 'torch.nn.modules.conv'"),
    Field("parent", "i32", "row of the containing module; -1 for the model"),
    Field("attribute_names", "string", "constructor-like attributes, e.g. 'stride'", is_list=True),
    Field("attribute_values", "string", "their values as text, e.g. '(2, 2)'; same length", is_list=True),
    Field("parameters", "u32", "rows of parameters registered on it (tied ones on each owner)", is_list=True),
    Field("training", "u8", "1 in training mode"),
    Field("calls", "u32", "how many times it was called in the pass"),
)

PARAMETERS: Final = (
    Field("path", "string", "attribute path, e.g. 'layer1.0.conv1.weight'"),
    Field("aliases", "string", "further paths of the same tensor (tied)", is_list=True),
    Field("shape", "i64", "elements along each dimension", is_list=True),
    Field("dtype", "string", "e.g. 'float32'"),
    Field("device", "string", "e.g. 'cuda:0'"),
    Field("is_buffer", "u8", "1 for a buffer, 0 for a parameter"),
    Field("requires_grad", "u8", "1 when it is trained"),
    Field("bytes", "i64", "bytes of its elements"),
    Field(
        "sketch",
        "f32",
        "up to 64 values sampled at positions that depend on the shape alone, comparable by cosine; empty for meta "
        "tensors and for constants",
        is_list=True,
    ),
    Field("local_shape", "i64", "shape of the part on this rank; empty when not spread", is_list=True, optional=True),
    Field(
        "placement",
        "string",
        "how it is spread over ranks, e.g. 'Shard(dim=0) over 2 (tp)'; '' when it is not",
        optional=True,
    ),
)

MODULE_CALLS: Final = (
    Field("module", "u32", "row of the module"),
    Field("parent", "i32", "row of the call within which it ran; -1 for the model's own call"),
    Field("ordinal", "u32", "0 for the first call of this module under the parent call, then 1, ..."),
    Field("operator_begin", "u32", "first row of `operators` that ran within the call, its children included"),
    Field("operator_end", "u32", "one past the last such row"),
    Field("inputs", "u32", "rows of `tensors`: tensor arguments in order", is_list=True),
    Field("input_names", "string", "argument of each: '0', 'attention_mask', 'past.0.1'", is_list=True),
    Field("outputs", "u32", "rows of `tensors`: tensors returned, in order", is_list=True),
    Field("output_names", "string", "element of each: '' for a single tensor, '0', 'last_hidden_state'", is_list=True),
    Field("raised", "u8", "1 when the call raised"),
    Field("modified_after_return", "u8", "1 when a returned tensor was changed in place after the call returned"),
    Field("duration_ns", "f64", "time of the call in nanoseconds, median of warm passes; NaN when not measured"),
    Field(
        "peak_bytes",
        "f64",
        "most bytes of new storage alive at once within the call, beyond those alive when it began; NaN when unknown",
        optional=True,
    ),
)

OPERATORS: Final = (
    Field("name", "string", "as a person wrote it: 'linear', '+', 'softmax'"),
    Field("call", "u32", "row of the innermost module call in which it ran"),
    Field("kernel_begin", "u32", "first row of `kernels` it consists of"),
    Field("kernel_end", "u32", "one past the last such row"),
    Field("inputs", "u32", "rows of `tensors` that it reads and did not make itself", is_list=True),
    Field("outputs", "u32", "rows of `tensors` that it makes and others read, or its last results", is_list=True),
    Field("attribute_names", "string", "arguments that are not tensors", is_list=True),
    Field("attribute_values", "string", "their values as text; same length", is_list=True),
    Field(
        "source",
        "string",
        "'file:line', relative to the working directory or package; empty when not kept",
    ),
    Field("macs", "f64", "multiply-accumulates; NaN when a kernel that may multiply has no formula"),
    Field("activation_bytes", "f64", "bytes of new storage it made; views and in-place results count 0"),
    Field("uncertain", "u8", "1 when the grouping of its kernels into one operator is a guess"),
    Field(
        "duration_ns",
        "f64",
        "time of its kernels in nanoseconds, median of warm passes; NaN when unknown",
        optional=True,
    ),
    Field(
        "saved_bytes",
        "f64",
        "bytes of storage that autograd keeps on its behalf until the backward pass, each storage once, parameters "
        "and buffers excluded; NaN when unknown",
        optional=True,
    ),
)

KERNELS: Final = (
    Field("name", "string", "as the dispatcher names it: 'aten.addmm.default'"),
    Field("operator", "u32", "row of the operator it belongs to"),
    Field("inputs", "u32", "rows of `tensors`: its tensor arguments in order", is_list=True),
    Field("also_reads", "u32", "values that reach it through shared storage (writes through views)", is_list=True),
    Field("outputs", "u32", "rows of `tensors`: its results; for an in-place kernel the new value", is_list=True),
    Field("arguments", "string", "JSON of all arguments; {'t': k} stands for the k-th tensor argument"),
    Field("macs", "f64", "multiply-accumulates; NaN when unknown"),
)

TENSORS: Final = (
    Field("shape", "i64", "elements along each dimension", is_list=True),
    Field(
        "strides",
        "i64",
        "elements between neighbours along each dimension; empty without strides",
        is_list=True,
    ),
    Field("dtype", "string", "e.g. 'float32'"),
    Field("device", "string", "e.g. 'cpu'"),
    Field("layout", "string", "'strided', 'sparse_coo', ..."),
    Field("requires_grad", "u8", "1 when a gradient can reach it"),
    Field("origin", "u8", "where it comes from, see ORIGINS"),
    Field("producer", "i32", "row of the kernel that made it; -1 unless origin is 'kernel'"),
    Field("parameter", "i32", "row of the parameter or buffer it is; -1 otherwise"),
    Field(
        "name",
        "string",
        "argument for inputs, path for parameters and buffers, model and path for external; of constants 'parameter' "
        "for a parameter of no recorded model, and 'trained parameter' when the optimizer of the step holds it",
    ),
    Field("storage", "u32", "number of the storage it lies in; equal numbers share memory"),
    Field("storage_offset", "i64", "elements from the start of the storage"),
    Field("bytes", "i64", "bytes of its elements"),
    Field(
        "symbolic",
        "string",
        "each dimension as an expression of the header's `symbolic.dimensions`, e.g. '(H+1)//2'; empty when unknown",
        is_list=True,
        optional=True,
    ),
    Field("local_shape", "i64", "shape of the part on this rank; empty when not spread", is_list=True, optional=True),
    Field(
        "placement",
        "string",
        "how it is spread over ranks, e.g. 'Shard(dim=0) over 2 (tp)'; '' when it is not",
        optional=True,
    ),
    Field(
        "model_tensor",
        "i32",
        "of an external value: its row of this table in the record of the model that made it; -1 when it is in none",
        optional=True,
    ),
)

ORIGINS: Final = ("kernel", "input", "parameter", "buffer", "constant", "external")
"""Values of ``tensors.origin``. 'constant': made outside the observed operators (a literal, numpy);
'external': made by another model of the same recorded step."""

STRUCTURE_TABLES: Final = {
    "modules": MODULES,
    "parameters": PARAMETERS,
    "module_calls": MODULE_CALLS,
    "operators": OPERATORS,
    "kernels": KERNELS,
    "tensors": TENSORS,
}

ATTENTION_STATISTICS: Final = (
    Field("layer", "u32", "position in AttentionOverviewHeader.layers"),
    Field("head", "u32", "query head number"),
    Field("entropy", "f32", "mean over rows of the entropy in nats"),
    Field("normalized_entropy", "f32", "mean over rows of entropy / log(visible keys); 0 peaked, 1 uniform"),
    Field("distance", "f32", "mean over rows of sum_j p_ij |i - j|; key positions scaled to the query axis"),
    Field("sink_mass", "f32", "mean probability on the first key"),
    Field("diagonal_mass", "f32", "mean probability on the own position; NaN when the map is not square"),
    Field("previous_mass", "f32", "mean probability on the position before; NaN when the map is not square"),
    Field("maximum", "f32", "largest probability"),
    Field("top1_mass", "f32", "mean over rows of the largest probability"),
    Field("masked_rows", "u32", "rows in which every key is masked; excluded from all means"),
    Field("row_sum_error", "f32", "largest |1 - row sum| over rows that are not masked"),
    Field("maximum_scale", "f32", "scale of the 'maximum' overview plane"),
    Field("mass_scale", "f32", "scale of the 'mass' overview plane"),
    Field("non_finite_rows", "u32", "rows that hold NaN or infinity; excluded from all means", optional=True),
)

ALIGNMENT_PAIRS: Final = (
    Field("teacher", "i32", "row of the teacher's module_calls; -1 for none"),
    Field("student", "i32", "row of the student's module_calls; -1 for none"),
    Field("parent", "i32", "row of this table; -1 for the root"),
    Field("kind", "u8", "PairKind"),
    Field("confidence", "f32", "0 to 1"),
    Field("evidence", "string", "reasons", is_list=True),
    Field("group", "i32", "number of an n-to-1 or 1-to-n group; -1 for none"),
    Field("stack", "i32", "index into Alignment.stacks; -1 for none"),
    Field("alternatives", "i32", "teacher calls that would fit as well", is_list=True),
)

ALIGNMENT_OPERATOR_PAIRS: Final = (
    Field("teacher", "i32", "row of the teacher's operators; -1 for none"),
    Field("student", "i32", "row of the student's operators; -1 for none"),
    Field("pair", "u32", "row of the pairs table"),
    Field("kind", "u8", "PairKind"),
    Field("confidence", "f32", "0 to 1"),
)

AUDIT_ROWS: Final = (
    Field("pair", "i32", "row of Alignment.pairs"),
    Field("teacher", "i32", "row of the teacher's module_calls; -1 for none"),
    Field("student", "i32", "row of the student's module_calls; -1 for none"),
    Field("level", "u8", "0 model, 1 stage, 2 block, 3 leaf"),
    Field("stage", "string", "stage the row belongs to"),
    Field("teacher_path", "string", "module path"),
    Field("student_path", "string", "module path"),
    Field("teacher_class", "string", "class name"),
    Field("student_class", "string", "class name"),
    Field("kind", "u8", "PairKind"),
    Field("confidence", "f32", "0 to 1"),
    Field("teacher_shape", "i64", "shape of the output element compared; empty when none", is_list=True),
    Field("student_shape", "i64", "shape of the output element compared; empty when none", is_list=True),
    Field("teacher_element", "string", "element of the output"),
    Field("student_element", "string", "element of the output"),
    Field("teacher_dimensions", "string", "a name per dimension", is_list=True),
    Field("student_dimensions", "string", "a name per dimension", is_list=True),
    Field("teacher_dtype", "string", "dtype"),
    Field("student_dtype", "string", "dtype"),
    Field("teacher_device", "string", "device"),
    Field("student_device", "string", "device"),
    Field("verdict", "u8", "Verdict"),
    Field("classes", "string", "mismatch classes", is_list=True),
    Field("adapter", "string", "the chain in one line; '' when none is needed"),
    Field("adapter_code", "string", "the chain as PyTorch code"),
    Field("adapter_parameters", "f64", "parameters of the adapter"),
    Field("cause", "string", "what brought the mismatch about, or why there is no adapter"),
    Field("teacher_parameters", "f64", "below the module, tied ones once"),
    Field("student_parameters", "f64", "below the module, tied ones once"),
    Field("teacher_macs", "f64", "of the call; NaN when unknown"),
    Field("student_macs", "f64", "of the call; NaN when unknown"),
    Field("teacher_activation_bytes", "f64", "made within the call"),
    Field("student_activation_bytes", "f64", "made within the call"),
    Field("matched", "string", "why the two were paired, e.g. 'policy copy; same name'"),
    Field("teacher_call", "string", "'2 of 3' for the second of three calls of the module; '' for a single one"),
    Field("student_call", "string", "'2 of 3' for the second of three calls of the module; '' for a single one"),
    Field("teacher_layout", "string", "'NCHW', 'BLC', ...; '' when the dimensions have no common name"),
    Field("student_layout", "string", "'NCHW', 'BLC', ...; '' when the dimensions have no common name"),
    Field("teacher_sizes", "string", "a text per dimension: 'tokens 197 = 1 + 14x14'", is_list=True),
    Field("student_sizes", "string", "a text per dimension: 'tokens 197 = 1 + 14x14'", is_list=True),
    Field("teacher_flags", "string", "'training', 'frozen', 'modified after return', 'after ReLU', ...", is_list=True),
    Field("student_flags", "string", "'training', 'frozen', 'modified after return', 'after ReLU', ...", is_list=True),
    Field("teacher_duration_ns", "f64", "of the call, median of warm passes; NaN when not recorded"),
    Field("student_duration_ns", "f64", "of the call, median of warm passes; NaN when not recorded"),
    Field("teacher_peak_bytes", "f64", "most bytes of new storage alive at once in the call; NaN when not recorded"),
    Field("student_peak_bytes", "f64", "most bytes of new storage alive at once in the call; NaN when not recorded"),
    Field("teacher_saved_bytes", "f64", "kept by autograd for the backward pass; NaN when not recorded"),
    Field("student_saved_bytes", "f64", "kept by autograd for the backward pass; NaN when not recorded"),
    Field("teacher_symbols", "string", "each dimension as an expression of the input's; empty when none", is_list=True),
    Field("student_symbols", "string", "each dimension as an expression of the input's; empty when none", is_list=True),
)

AUDIT_STAGES: Final = (
    Field("stage", "string", "name"),
    Field("teacher_parameters", "f64", "below the stage, tied ones once"),
    Field("student_parameters", "f64", "below the stage, tied ones once"),
    Field("teacher_macs", "f64", "NaN when unknown"),
    Field("student_macs", "f64", "NaN when unknown"),
    Field("teacher_activation_bytes", "f64", "made within the stage"),
    Field("student_activation_bytes", "f64", "made within the stage"),
    Field("teacher_duration_ns", "f64", "NaN when not recorded"),
    Field("student_duration_ns", "f64", "NaN when not recorded"),
    Field("teacher_peak_bytes", "f64", "largest of its calls; NaN when not recorded"),
    Field("student_peak_bytes", "f64", "largest of its calls; NaN when not recorded"),
    Field("teacher_saved_bytes", "f64", "kept by autograd for the backward pass; NaN when not recorded"),
    Field("student_saved_bytes", "f64", "kept by autograd for the backward pass; NaN when not recorded"),
)
