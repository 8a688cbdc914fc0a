import { AlignmentFields } from "../gen/tb_plugin_structure/v1/alignment_fields";
import type { Alignment } from "../gen/tb_plugin_structure/v1/alignment_pb";
import { Columns } from "./columns";
import { readMessage } from "./message";
import type { Address } from "./records";
import { getBytes, type Parameters, postBytes } from "./request";
import { Strings } from "./strings";

/** What the user decided about the pairs; an absent key leaves it to the aligner. */
export interface Intent {
  policy: string;
  /** Student stack path → policy name or list of teacher indices. */
  policies: Record<string, string | number[]>;
  /** Student path → teacher path or paths; null: no counterpart. */
  pins: Record<string, string | string[] | null>;
}

export interface DecodedAlignment {
  readonly message: Alignment;
  readonly pairs: Columns;
  readonly operatorPairs: Columns;
}

export async function fetchAlignment(
  teacher: Address,
  student: Address,
  intent: Intent,
  signal?: AbortSignal,
): Promise<DecodedAlignment> {
  const message = readMessage(
    AlignmentFields,
    await compare("api/alignment", teacher, student, intent, signal),
  );
  const strings = new Strings(message.strings);
  return {
    message,
    pairs: new Columns(message.pairs, strings),
    operatorPairs: new Columns(message.operatorPairs, strings),
  };
}

/** The parameters of `api/alignment` and `api/audit` as a query. */
export function comparisonParameters(teacher: Address, student: Address, intent: Intent): Parameters {
  const isEmpty = (object: object) => Object.keys(object).length === 0;
  return {
    t_run: teacher.run,
    t_tag: teacher.tag,
    t_step: teacher.step,
    s_run: student.run,
    s_tag: student.tag,
    s_step: student.step,
    policy: intent.policy || undefined,
    policies: isEmpty(intent.policies) ? undefined : JSON.stringify(intent.policies),
    pins: isEmpty(intent.pins) ? undefined : JSON.stringify(intent.pins),
  };
}

/** Longest query sent as GET; many servers and proxies refuse addresses beyond 8 kB. */
const LONGEST_QUERY = 6000;

/** The answer of one of the two routes, however long the question is. */
export function compare(
  route: string,
  teacher: Address,
  student: Address,
  intent: Intent,
  signal?: AbortSignal,
): Promise<Uint8Array> {
  const parameters = comparisonParameters(teacher, student, intent);
  const length = Object.values(parameters).join("").length;
  if (length <= LONGEST_QUERY) return getBytes(route, parameters, signal);
  const side = ({ run, tag, step }: Address) => ({ run, tag, step });
  return postBytes(route, { teacher: side(teacher), student: side(student), ...intent }, signal);
}
