import { AuditFields } from "../gen/tb_plugin_structure/v1/audit_fields";
import type { Audit } from "../gen/tb_plugin_structure/v1/audit_pb";
import { Columns } from "./columns";
import { compare, type Intent } from "./comparison";
import { readMessage } from "./message";
import type { Address } from "./records";
import { Strings } from "./strings";

export interface DecodedAudit {
  readonly message: Audit;
  readonly rows: Columns;
  readonly stages: Columns;
}

export async function fetchAudit(
  teacher: Address,
  student: Address,
  intent: Intent,
  signal?: AbortSignal,
): Promise<DecodedAudit> {
  const message = readMessage(AuditFields, await compare("api/audit", teacher, student, intent, signal));
  const strings = new Strings(message.strings);
  return { message, rows: new Columns(message.rows, strings), stages: new Columns(message.stages, strings) };
}
