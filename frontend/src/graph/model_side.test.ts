import { create } from "@bufbuild/protobuf";
import { describe, expect, it } from "vitest";
import { StructureHeaderSchema } from "../gen/tb_plugin_structure/v1/structure_pb";
import { Columns } from "../wire/columns";
import type { StructureTables } from "../wire/structure";
import { ModelSide } from "./model_side";
import { Pool, residualModel, tableOf } from "./tiny_model";

/** A model with two children; `parameters` are the rows of each module, row 2 is a buffer. */
function withParameters(parameters: number[][]): ModelSide {
  const pool = new Pool();
  const modules = tableOf(
    "modules",
    parameters.map((rows, module) => ({ parent: module ? 0 : -1, parameters: rows })),
    ["parent", "parameters"],
    pool,
  );
  const table = tableOf(
    "parameters",
    [
      { shape: [4, 5], is_buffer: 0 },
      { shape: [3], is_buffer: 0 },
      { shape: [7], is_buffer: 1 },
    ],
    ["shape", "is_buffer"],
    pool,
  );
  const base = residualModel().tables;
  const tables: StructureTables = {
    ...base,
    header: create(StructureHeaderSchema),
    modules: new Columns(modules, pool.strings()),
    parameters: new Columns(table, pool.strings()),
  };
  return new ModelSide(tables);
}

describe("a recorded model", () => {
  it("counts parameters below a module, buffers left out", () => {
    const model = withParameters([[], [0, 2], [1]]);
    expect([0, 1, 2].map((module) => model.moduleParameters(module))).toEqual([23, 20, 3]);
  });

  it("counts a tied parameter once", () => {
    const model = withParameters([[], [0], [0, 1]]);
    expect([0, 1, 2].map((module) => model.moduleParameters(module))).toEqual([23, 20, 23]);
  });

  it("sums operators within a call, and knows what it does not know", () => {
    const model = residualModel();
    expect(model.callSum("macs", 0)).toBe(4);
    expect(model.callSum("activation_bytes", 2)).toBe(8);
    expect(model.callSum("macs", 4)).toBe(0);
  });

  it("knows who made and who reads a value", () => {
    const model = residualModel();
    expect([...model.producers]).toEqual([-1, 0, 1, 2, 3]);
    const { offsets, operators } = model.readers;
    expect([...operators.slice(offsets[1], offsets[2])]).toEqual([1, 2]);
  });
});
