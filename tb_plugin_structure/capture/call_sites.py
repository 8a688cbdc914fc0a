"""From bytecode positions to operators as a person wrote them: names, source lines, repetitions in loops."""

from __future__ import annotations

import ast
import dis
import linecache
import os
import sys
from collections.abc import Sequence
from functools import lru_cache
from itertools import islice
from types import CodeType, ModuleType
from typing import NamedTuple

import torch

Site = tuple[tuple[CodeType, int], ...]
"""Frames of a call site, innermost first: code object and offset of the instruction."""

_OPERATORS: dict[type[ast.AST], str] = {
    ast.Add: "+",
    ast.Sub: "-",
    ast.Mult: "*",
    ast.Div: "/",
    ast.FloorDiv: "//",
    ast.Mod: "%",
    ast.Pow: "**",
    ast.MatMult: "@",
    ast.BitAnd: "&",
    ast.BitOr: "|",
    ast.BitXor: "^",
    ast.LShift: "<<",
    ast.RShift: ">>",
    ast.USub: "-",
    ast.UAdd: "+",
    ast.Invert: "~",
    ast.Not: "not",
    ast.Eq: "==",
    ast.NotEq: "!=",
    ast.Lt: "<",
    ast.LtE: "<=",
    ast.Gt: ">",
    ast.GtE: ">=",
    ast.In: "in",
    ast.NotIn: "not in",
}

_SEVERAL_STEPS = frozenset(
    [
        "einsum",
        "lstm",
        "gru",
        "rnn_tanh",
        "rnn_relu",
        "lstm_cell",
        "gru_cell",
        "multi_dot",
        "meshgrid",
        "broadcast_tensors",
        "cartesian_prod",
        "block_diag",
        "combinations",
        "stft",
        "istft",
        "tensordot",
        "sum",
        "prod",
        "max",
        "min",
        "multi_head_attention_forward",
        "interpolate",
        "unfold",
        "cdist",
        "norm",
        "pad",
        "apply_along_dim",
        "vmap",
        "atleast_1d",
        "atleast_2d",
        "atleast_3d",
        "stack",
        "cat",
        "hstack",
        "vstack",
        "dstack",
        "matrix_power",
        "matrix_exp",
        "chain_matmul",
        "index_put_",
        "roll",
        "rot90",
        "nested_tensor",
        "to_padded_tensor",
        "isin",
    ]
)
"""Functions whose single call may run the same kernels several times."""

TORCH_ROOT = os.path.dirname(os.path.abspath(torch.__file__)) + os.sep

_TORCH_PLACES = (
    torch,
    torch.Tensor,
    torch.nn.functional,
    torch.linalg,
    torch.fft,
    torch.special,
    torch.sparse,
    torch.nested,
    torch._C._nn,
    torch._VF,
)


class Written(NamedTuple):
    """How an operator stands in the source.

    Attributes:
        name: 'linear', '+', '[...]'; empty when the source does not tell.
        certain: Whether the name is that of a function or operator and not of a variable.
        line: Line number, 0 when unknown.
    """

    name: str
    certain: bool
    line: int


_positions: dict[int, tuple[CodeType, list[tuple[int | None, int | None, int | None, int | None]]]] = {}
_written: dict[tuple[int, int], tuple[CodeType, Written]] = {}


def written_at(code: CodeType, offset: int) -> Written:
    """Name and line of the instruction at `offset`; remembered, as the same code runs in every layer and step."""
    key = (id(code), offset)
    known = _written.get(key)
    if known is not None and known[0] is code:
        return known[1]
    found = _read(code, offset)
    _written[key] = (code, found)
    return found


def _read(code: CodeType, offset: int) -> Written:
    if sys.version_info < (3, 11):
        return _read_by_line(code, offset)
    known = _positions.get(id(code))
    if known is None or known[0] is not code:
        known = _positions[id(code)] = (code, list(code.co_positions()))
    index = offset // 2
    if not 0 <= index < len(known[1]):
        return Written("", False, code.co_firstlineno)
    line, end_line, column, end_column = known[1][index]
    if line is None:
        return Written("", False, code.co_firstlineno)
    if end_line is None or column is None or end_column is None:
        return Written("", False, line)
    lines = linecache.getlines(code.co_filename)
    if not 0 < end_line <= len(lines):
        return Written("", False, line)
    first, last = lines[line - 1], lines[end_line - 1]
    # Columns are in bytes of UTF-8.
    if line == end_line:
        segment = first.encode()[column:end_column].decode(errors="replace")
    else:
        segment = "".join(
            [
                first.encode()[column:].decode(errors="replace"),
                *islice(lines, line, end_line - 1),
                last.encode()[:end_column].decode(errors="replace"),
            ]
        )
    name, certain = _name_of(segment, _opcode(code, offset))
    return Written(name, certain, line)


def _read_by_line(code: CodeType, offset: int) -> Written:
    """Python 3.10 keeps lines only: a line with a single call or operator still has a name."""
    line = code.co_firstlineno
    for begin, end, number in code.co_lines():
        if number is not None and begin <= offset < end:
            line = number
    lines = linecache.getlines(code.co_filename)
    if not 0 < line <= len(lines):
        return Written("", False, line)
    try:
        tree = ast.parse(lines[line - 1].strip().rstrip(":"))
    except SyntaxError:
        return Written("", False, line)
    found = [node for node in ast.walk(tree) if isinstance(node, (ast.Call, ast.BinOp, ast.Subscript, ast.AugAssign))]
    if len(found) != 1:
        return Written("", False, line)
    name, certain = _node_name(found[0], "")
    return Written(name, certain, line)


@lru_cache(maxsize=512)
def _opcodes(code: CodeType) -> dict[int, str]:
    return {instruction.offset: instruction.opname for instruction in dis.get_instructions(code)}


def _opcode(code: CodeType, offset: int) -> str:
    raw = code.co_code
    return dis.opname[raw[offset]] if 0 <= offset < len(raw) else ""


def _name_of(segment: str, opcode: str) -> tuple[str, bool]:
    text = segment.strip()
    try:
        node: ast.AST = ast.parse(f"({text})", mode="eval").body
    except (SyntaxError, ValueError):
        try:
            body = ast.parse(text).body
        except (SyntaxError, ValueError):
            return "", False
        if len(body) != 1:
            return "", False
        node = body[0]
    name, certain = _node_name(node, opcode)
    return name, certain and bool(name)  # `not x.all()`: the kernel has a name, the syntax has none


def _node_name(node: ast.AST, opcode: str) -> tuple[str, bool]:
    if isinstance(node, ast.Expr):
        return _node_name(node.value, opcode)
    if isinstance(node, ast.Call):
        if isinstance(node.func, ast.Attribute):
            name = node.func.attr
            inner = node.func.value
            if isinstance(inner, ast.Attribute) and ast.unparse(inner).startswith("torch.ops."):
                name = inner.attr if ast.unparse(inner).count(".") == 3 else name  # torch.ops.aten.linear.default
                return name, True
            return name, _is_torch_name(name)
        if isinstance(node.func, ast.Name):
            return node.func.id, _is_torch_name(node.func.id)
        return "", False
    if isinstance(node, ast.BinOp):
        return _OPERATORS.get(type(node.op), ""), True
    if isinstance(node, ast.AugAssign):
        return _OPERATORS.get(type(node.op), "") + "=", True
    if isinstance(node, ast.UnaryOp):
        return _OPERATORS.get(type(node.op), ""), True
    if isinstance(node, ast.Compare) and len(node.ops) == 1:
        return _OPERATORS.get(type(node.ops[0]), ""), True
    if isinstance(node, ast.Subscript):
        return ("[...] =" if opcode.startswith("STORE") else "[...]"), True
    if isinstance(node, ast.Attribute) and opcode.startswith("LOAD"):
        return node.attr, _is_torch_name(node.attr)
    return "", False


@lru_cache(maxsize=4096)
def _is_torch_name(name: str) -> bool:
    if name.startswith("__"):
        return False  # every object has a __call__
    found = [getattr(place, name) for place in _TORCH_PLACES if hasattr(place, name)]
    return any(not isinstance(each, ModuleType) for each in found)  # torch.func is no operator


# ---- repetitions


@lru_cache(maxsize=2048)
def _loops(code: CodeType) -> tuple[tuple[int, int], ...]:
    """Byte ranges that a backward jump repeats."""
    found = []
    for instruction in dis.get_instructions(code):
        target = instruction.argval
        if "JUMP" in instruction.opname and isinstance(target, int) and target <= instruction.offset:
            found.append((target, instruction.offset))
    return tuple(found)


def may_repeat(site: Site) -> bool:
    """Whether the instruction of a site, or of a caller within the module call, lies in a loop."""
    for code, offset in site:
        if code.co_name == "<lambda>" or any(begin <= offset <= end for begin, end in _loops(code)):
            return True
    return False


def split_repetitions(site: Site, name: str, kernels: Sequence[str]) -> tuple[int, bool]:
    """How many times a site ran, given the kernels that it ran in a row.

    Frame and instruction are the same in every iteration of ``for w in ws: x = x @ w``; what tells the iterations
    apart is that their kernels repeat.

    Returns:
        (kernels per execution, whether that is a guess).
    """
    count = len(kernels)
    if count < 2 or not site or not may_repeat(site):
        return count, False
    if name in _SEVERAL_STEPS:
        return count, True
    for period in range(1, count // 2 + 1):
        if count % period == 0 and all(kernels[i] == kernels[i - period] for i in range(period, count)):
            # Indexing runs one kernel a dimension, so its own kernels may repeat as well.
            return period, name.startswith("[")
    # No period although it may have repeated: executions that differ (a first one that casts, a last one that pads).
    return count, kernels.count(kernels[0]) > 1


# ---- where it stands


def source_location(site: Site) -> str:
    """'file:line' of the innermost frame outside torch, or of the innermost one when all are torch's own."""
    if not site:
        return ""
    users = [frame for frame in site if not frame[0].co_filename.startswith(TORCH_ROOT)]
    code, offset = users[0] if users else site[0]
    return f"{relative_file(code.co_filename)}:{written_at(code, offset).line}"


def source_text(site: Site) -> str:
    """The line itself, for ``source="text"``."""
    for code, offset in site:
        if not code.co_filename.startswith(TORCH_ROOT):
            return linecache.getline(code.co_filename, written_at(code, offset).line).strip()
    return ""


@lru_cache(maxsize=4096)
def relative_file(filename: str) -> str:
    """A path relative to the working directory or to the import root; never an absolute one."""
    if not os.path.isabs(filename):
        return filename.replace(os.sep, "/") if ".." not in filename.split(os.sep) else os.path.basename(filename)
    path = os.path.normpath(filename)
    roots = [root for root in (os.path.abspath(entry or os.curdir) for entry in sys.path) if os.path.isdir(root)]
    within = [root for root in roots if path.startswith(root + os.sep)]
    current = os.getcwd()
    if path.startswith(current + os.sep) and not any(len(root) > len(current) for root in within):
        return path[len(current) + 1 :].replace(os.sep, "/")
    if within:
        return path[len(max(within, key=len)) + 1 :].replace(os.sep, "/")
    return os.path.basename(path)
