"""Writes docs/record_format.md from the declarations in records/schema.py and records/names.py.

python docs/make_record_format.py            # or: make record-format
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from tb_plugin_structure.records import names, quantities, schema

TARGET = Path(__file__).with_name("record_format.md")

INTRODUCTION = """\
# Record format

What this package puts into TensorBoard's event files, byte by byte, for those who read or write it without us.
Made by `docs/make_record_format.py` from the declarations that the code itself uses; a test keeps it current.
Messages (`StructureHeader`, `Table`, …) are defined, with a comment for each field, in `proto/tb_plugin_structure/v1/`.

Format version {format}; records that ask for a reader newer than {reader} are refused with a sentence that says so.

## In the event file

A record is one event: one `Summary.Value` with a tag, a rank-1 string tensor of blobs, and full metadata
(`data_class` is `DATA_CLASS_BLOB_SEQUENCE`, `plugin_data.plugin_name` is the data plugin, `plugin_data.content` is
`08 01`). The steps of a tag ascend strictly.

| data plugin | tag | blobs |
| --- | --- | --- |
| `{structure_plugin}` | `{structure}`, `{variant}`, `{outside}` | `StructureHeader`, then parts |
| `{measurement_plugin}` | `{measurement}`, `{series}` | `MeasurementHeader`, then parts |
| `{overview_plugin}` | `{overview}`, `{example}` | `AttentionOverviewHeader`, then parts |
| `{detail_plugin}` | `{detail}` | `AttentionDetailHeader`, then one blob a head |
| `{plan_plugin}` | `{plan}` | `Plan` |

Inside a name `/`, `%` and control characters are percent-encoded, so `/` always separates: the model `{slash_name}`
has the tag `{slash_tag}`.

## Parts

The first blob, the header, is small and not compressed; it holds what a list page needs and names the parts in their
stored order. Each further blob is one part, compressed with gzip; after decompression it has exactly the size that the
header gives. A part is a `Table`, a `StringPool`, JSON or raw bytes, as its entry in the header says.

**Tables** are self-describing: each column has a name, a type and its values as little-endian bytes, back to back. A
list column holds all its lists concatenated, and `rows + 1` positions (u32): row *r* is
`values[offsets[r]:offsets[r+1]]`. Readers skip columns that they do not know. Columns are never renamed or retyped;
new ones come at the end. An *optional* column is there when what it holds was asked for.

| type | stored as | numpy |
| --- | --- | --- |
{types}

**Strings** are stored once a record, in its part `strings`: UTF-8 text back to back, and `count + 1` byte positions
(u32). String 0 is empty.

"Row of `x`" means a row number of the record's table `x`; -1 stands for none.
"""

SECTIONS = (
    (
        "Structure",
        "What one model executed in one pass. Row 0 of `modules` and of `module_calls` is the model. A part `config` "
        "(JSON) follows the tables when a configuration was given. `outside/<region>` holds what ran between the "
        "models of a recorded step, in the same tables.",
        schema.STRUCTURE_TABLES,
    ),
    (
        "Measurement",
        "Quantities that change while the structure stays. The table `measurements` has the columns `path` (string) "
        "and `subject` (u8: 0 module, 1 parameter, 2 input of the model), then one f64 column for each quantity; NaN "
        "where a row has no value. The header describes each column (`quantities`: label, unit, scale, range), so that "
        "a reader needs no list of names. `<series>` is empty for what a recorded step measured, `monitor` for what "
        "StructureMonitor logs at its own steps, or the name of a user's quantity. Well-known names are listed below.",
        {},
    ),
    (
        "Attention",
        "The part `statistics` has a row for each head of each layer. The parts `maximum` and `mass` hold overview "
        "planes, one byte a cell: byte *c* of a head stands for `scale * (c / 255)²`, with the head's `maximum_scale` "
        "or `mass_scale`. The part `row_states`, there when a row of a plane shows no probabilities, has one byte for "
        "each row of each head's planes: 0 probabilities, 1 not recorded, 2 every key masked, 3 NaN or infinity. A "
        "blob of a detail record is gzip of half-precision values, row by row.",
        {"statistics": schema.ATTENTION_STATISTICS},
    ),
    (
        "Not stored: alignment and audit",
        "Computed when asked for and sent to the browser (`docs/http_api.md`) in the same kind of tables.",
        {
            "pairs": schema.ALIGNMENT_PAIRS,
            "operator_pairs": schema.ALIGNMENT_OPERATOR_PAIRS,
            "rows": schema.AUDIT_ROWS,
            "stages": schema.AUDIT_STAGES,
        },
    ),
)


def table_rows(rows: Iterable[tuple[str, ...]]) -> str:
    return "\n".join("| " + " | ".join(cell.replace("|", "\\|") for cell in row) + " |" for row in rows)


def document() -> str:
    """The whole text."""
    types = []
    for name, numpy_type in schema.NUMPY_TYPES.items():
        stored = "u32 index into the string pool" if name == "string" else name
        types.append((f"`{name}`", stored, f"`{numpy_type}`"))
    parts = [
        INTRODUCTION.format(
            format=schema.FORMAT_VERSION,
            reader=schema.READER_VERSION,
            types=table_rows(types),
            structure_plugin=names.STRUCTURE_PLUGIN,
            measurement_plugin=names.MEASUREMENT_PLUGIN,
            overview_plugin=names.ATTENTION_OVERVIEW_PLUGIN,
            detail_plugin=names.ATTENTION_DETAIL_PLUGIN,
            plan_plugin=names.PLAN_PLUGIN,
            structure=names.structure_tag("<model>"),
            variant=names.structure_tag("<model>", "<variant>"),
            outside=names.outside_tag("<region>"),
            measurement=names.measurement_tag("<model>"),
            series=names.measurement_tag("<model>", "<variant>", "<series>"),
            overview=names.attention_overview_tag("<model>"),
            example=names.attention_overview_tag("<model>", "<example>"),
            detail=names.attention_detail_tag("<model>", "<module path>"),
            plan=names.plan_tag("<teacher>", "<student>"),
            slash_name="meta/llama",
            slash_tag=names.structure_tag("meta/llama"),
        )
    ]
    for title, text, tables in SECTIONS:
        parts.append(f"\n## {title}\n\n{text}\n")
        for name, fields in tables.items():
            rows = [
                (
                    f"`{field.name}`",
                    (f"list of {field.type}" if field.is_list else field.type) + ", optional" * field.optional,
                    field.meaning,
                )
                for field in fields
            ]
            parts.append(f"\n### `{name}`\n\n| column | type | meaning |\n| --- | --- | --- |\n{table_rows(rows)}\n")
    rows = [
        (f"`{known.name}`", known.unit, ", ".join(known.categories) or known.scale, known.meaning)
        for known in quantities.KNOWN
    ]
    parts.append("\n## Well-known quantities\n\n| column | unit | scale | meaning |\n| --- | --- | --- | --- |\n")
    parts.append(table_rows(rows) + "\n")
    parts.append(
        "\n`tensors.origin` is one of " + ", ".join(f"{n} {name}" for n, name in enumerate(schema.ORIGINS)) + ".\n"
    )
    return "".join(parts)


if __name__ == "__main__":
    TARGET.write_text(document(), encoding="utf-8")
    print(f"wrote {TARGET}")
