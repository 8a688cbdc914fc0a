import { StringPoolFields, TableFields } from "../gen/tb_plugin_structure/v1/columns_fields";
import { StructureHeaderFields } from "../gen/tb_plugin_structure/v1/structure_fields";
import type { StructureHeader } from "../gen/tb_plugin_structure/v1/structure_pb";
import { Columns } from "./columns";
import { readMessage } from "./message";
import type { Address } from "./records";
import { getBytes } from "./request";
import { Strings } from "./strings";

/** The tables of a structure that the views need; `kernels` is fetched when someone looks inside an operator. */
export interface StructureTables {
  readonly address: Address;
  readonly header: StructureHeader;
  readonly modules: Columns;
  readonly parameters: Columns;
  readonly calls: Columns;
  readonly operators: Columns;
  readonly tensors: Columns;
  readonly strings: Strings;
}

const NEEDED = ["modules", "parameters", "module_calls", "operators", "tensors"] as const;

export async function fetchHeader(address: Address, signal?: AbortSignal): Promise<StructureHeader> {
  return readMessage(
    StructureHeaderFields,
    await getBytes("api/structure", { ...address, part: "header" }, signal),
  );
}

export async function fetchStructure(address: Address, signal?: AbortSignal): Promise<StructureTables> {
  const part = (name: string) => getBytes("api/structure", { ...address, part: name }, signal);
  const [header, strings, ...tables] = await Promise.all(["header", "strings", ...NEEDED].map(part));
  const pool = new Strings(readMessage(StringPoolFields, strings!));
  const [modules, parameters, calls, operators, tensors] = tables.map(
    (bytes) => new Columns(readMessage(TableFields, bytes), pool),
  );
  return {
    address,
    header: readMessage(StructureHeaderFields, header!),
    modules: modules!,
    parameters: parameters!,
    calls: calls!,
    operators: operators!,
    tensors: tensors!,
    strings: pool,
  };
}

/** The configuration that the user logged with the record; undefined when there is none. */
export async function fetchConfig(structure: StructureTables, signal?: AbortSignal): Promise<unknown> {
  if (!structure.header.parts.some((part) => part.name === "config")) return undefined;
  const bytes = await getBytes("api/structure", { ...structure.address, part: "config" }, signal);
  return JSON.parse(new TextDecoder().decode(bytes));
}

/** What the dispatcher ran; the rows `kernel_begin` to `kernel_end` of an operator. */
export async function fetchKernels(structure: StructureTables, signal?: AbortSignal): Promise<Columns> {
  const bytes = await getBytes("api/structure", { ...structure.address, part: "kernels" }, signal);
  return new Columns(readMessage(TableFields, bytes), structure.strings);
}
