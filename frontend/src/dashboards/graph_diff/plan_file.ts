import type { Intent } from "../../wire/comparison";

/**
 * Pins and policies as a file: `{"policy": "copy", "policies": {…}, "pins": {…}}`. The three values are what
 * `align(policy=…, pins=…)` takes in Python.
 */
export function planText(intent: Intent): string {
  return `${JSON.stringify({ policy: intent.policy, policies: intent.policies, pins: intent.pins }, null, 2)}\n`;
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
