import type { Intent } from "../../wire/comparison";

/** The names of the two models in their records. */
export interface PlannedModels {
  teacher: string;
  student: string;
}

/**
 * Pins and policies as a file: `{"teacher": …, "student": …, "policy": "copy", "policies": {…}, "pins": {…}}`. The
 * last three values are what `align(policy=…, pins=…)` takes in Python.
 */
export function planText({ teacher, student }: PlannedModels, intent: Intent): string {
  const { policy, policies, pins } = intent;
  return `${JSON.stringify({ teacher, student, policy, policies, pins }, null, 2)}\n`;
}

/** The command that writes such a file into a run of the log directory. */
export function planCommand(file: string, run: string): string {
  const folder = run === "." || run === "" ? "LOGDIR" : `LOGDIR/${run}`;
  return `tb-structure plan ${quoted(file)} --logdir ${quoted(folder)}`;
}

/** The line of a training script that does the same, for a `StructureWriter` of the run. */
export function planCall({ teacher, student }: PlannedModels, intent: Intent): string {
  const given = [pythonText(teacher), pythonText(student)];
  if (intent.policy) given.push(`policy=${pythonText(intent.policy)}`);
  if (Object.keys(intent.policies).length) given.push(`stack_policies=${pythonText(intent.policies)}`);
  if (Object.keys(intent.pins).length) given.push(`pins=${pythonText(intent.pins)}`);
  return `writer.add_plan(${given.join(", ")})`;
}

/** A word for a shell. */
function quoted(text: string): string {
  return /^[\w./-]+$/.test(text) ? text : `'${text.replaceAll("'", "'\\''")}'`;
}

/** JSON is Python but for null. */
function pythonText(value: unknown): string {
  if (value === null) return "None";
  if (Array.isArray(value)) return `[${value.map(pythonText).join(", ")}]`;
  if (typeof value !== "object") return JSON.stringify(value);
  const items = Object.entries(value as object).map(
    ([key, item]) => `${JSON.stringify(key)}: ${pythonText(item)}`,
  );
  return `{${items.join(", ")}}`;
}

/** Reads such a file; throws an error that says what is wrong with it. */
export function parsePlan(text: string): Partial<Intent> {
  let value: unknown;
  try {
    value = JSON.parse(text);
  } catch {
    throw new Error('This file is not JSON. A plan looks like {"pins": {"student.path": "teacher.path"}}.');
  }
  if (!isObject(value)) throw new Error('A plan is an object with "pins", "policies" or "policy".');
  const plan: Partial<Intent> = {};
  if (typeof value.policy === "string") plan.policy = value.policy;
  if (value.policies !== undefined) {
    plan.policies = entries(
      value.policies,
      "policies",
      "a policy's name or a list of block numbers",
      isPolicy,
    );
  }
  if (value.pins !== undefined) {
    plan.pins = entries(value.pins, "pins", "a teacher's path, a list of paths, or null", isPin);
  }
  if (!Object.keys(plan).length) throw new Error('The file holds none of "pins", "policies" and "policy".');
  return plan;
}

function entries<T>(
  value: unknown,
  name: string,
  expected: string,
  fits: (value: unknown) => value is T,
): Record<string, T> {
  if (!isObject(value)) throw new Error(`"${name}" is not an object.`);
  const checked: Record<string, T> = {};
  for (const [key, item] of Object.entries(value)) {
    if (!fits(item))
      throw new Error(`"${name}" of "${key}" is ${JSON.stringify(item)}; it must be ${expected}.`);
    checked[key] = item;
  }
  return checked;
}

function isObject(value: unknown): value is Record<string, unknown> {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}

function isPolicy(value: unknown): value is string | number[] {
  return typeof value === "string" || (Array.isArray(value) && value.every((item) => Number.isInteger(item)));
}

function isPin(value: unknown): value is string | string[] | null {
  return (
    value === null ||
    typeof value === "string" ||
    (Array.isArray(value) && value.every((item) => typeof item === "string"))
  );
}
