import { POLICIES } from "../../ui/policies";
import type { Session } from "../../ui/session";
import { comparisonParameters } from "../../wire/comparison";
import { answerKey } from "../../wire/embedded";
import { type MeasuredListing, measuredParameters } from "../../wire/measured";
import type { Address, Problem, Records } from "../../wire/records";
import { getBytes, getJson, type Parameters } from "../../wire/request";
import { fetchHeader } from "../../wire/structure";
import { VARIANTS_ROUTE, variantParameters } from "../../wire/variants";

/** Of the measurements of one model so many are kept, evenly over the steps. `cli/report_measured.py` keeps as many. */
const MOST_MEASUREMENTS = 200;
/** So many requests are made at once. */
const TOGETHER = 6;

/** What a report has to answer by itself, by `answerKey`. */
export async function reportAnswers(session: Session): Promise<Map<string, Uint8Array>> {
  const [teacher, student] = [session.teacher.peek(), session.student.peek()];
  const records = session.records.state.peek().value;
  if (!teacher || !records) throw new Error("There is no model to put into a report.");
  const sides = student ? [teacher, student] : [teacher];
  const answers = new Map<string, Uint8Array>();
  const wanted: [route: string, parameters: Parameters][] = [];
  for (const { address } of sides) {
    const { parts } = await fetchHeader(address);
    for (const part of ["header", ...parts.map(({ name }) => name)])
      wanted.push(["api/structure", { ...address, part }]);
  }
  const listing = only(
    records,
    sides.map(({ address }) => address),
  );
  if (student) {
    const both = [teacher.address, student.address] as const;
    const intent = session.intent.peek();
    for (const policy of new Set([intent.policy, ...POLICIES])) {
      const parameters = comparisonParameters(...both, { ...intent, policy });
      wanted.push(["api/alignment", parameters], ["api/audit", parameters]);
    }
    wanted.push([VARIANTS_ROUTE, variantParameters(...both)]);
    if (listing.structures.some(({ kind }) => kind === "outside"))
      wanted.push(["api/compared", variantParameters(...both)]);
  }
  for (const [run, model, variant] of measuredModels(listing, sides)) {
    const parameters = measuredParameters(run, model, variant);
    const all = await getJson<MeasuredListing>("api/measurements", parameters);
    const kept = thinned(all, MOST_MEASUREMENTS);
    if (kept !== all) listing.problems.push(leftOut(run, model, kept.records.length, all.records.length));
    answers.set(answerKey("api/measurements", parameters), encode(kept));
    for (const { tag, step, hash } of kept.records) {
      for (const part of ["strings", "measurements"])
        wanted.push(["api/measurement", { run, tag, step, hash, part }]);
    }
  }
  answers.set(answerKey("api/records"), encode(listing));
  while (wanted.length) {
    await Promise.all(
      wanted.splice(0, TOGETHER).map(async ([route, parameters]) => {
        answers.set(answerKey(route, parameters), await getBytes(route, parameters));
      }),
    );
  }
  return answers;
}

/** The list of records with the given ones, and what was recorded beside them. */
export function only(records: Records, kept: Address[]): Records {
  const structures = records.structures.flatMap((entry) => {
    // What ran between the models is not shown by itself; that it is there says that a loss can be.
    if (entry.kind === "outside") return kept[1] && entry.run === kept[1].run ? [entry] : [];
    const steps = entry.steps.filter(({ step }) =>
      kept.some((side) => side.run === entry.run && side.tag === entry.tag && side.step === step),
    );
    return steps.length ? [{ ...entry, steps }] : [];
  });
  const isShown = ({ run, model }: { run: string; model: string }) =>
    structures.some((entry) => entry.run === run && entry.model === model);
  const measurements = records.measurements.filter(isShown);
  return { structures, attention: [], measurements, plans: [], problems: [] };
}

/** A listing of no more than `most` records, evenly over the steps and with the last; the same when it is short. */
export function thinned(listing: MeasuredListing, most: number): MeasuredListing {
  const count = listing.records.length;
  if (count <= most) return listing;
  const places = new Map<number, number>();
  for (let index = 0; index < most; index++)
    places.set(Math.round((index * (count - 1)) / (most - 1)), index);
  return {
    records: listing.records.filter((_, position) => places.has(position)),
    quantities: listing.quantities.map((quantity) => ({
      ...quantity,
      records: quantity.records.flatMap((position) => places.get(position) ?? []),
    })),
  };
}

function measuredModels(
  listing: Records,
  sides: { choice: { run: string; model: string; variant: string } }[],
): [run: string, model: string, variant: string][] {
  const found = new Map<string, [string, string, string]>();
  for (const { choice } of sides) {
    const { run, model, variant } = choice;
    if (listing.measurements.some((entry) => entry.run === run && entry.model === model))
      found.set(JSON.stringify([run, model, variant]), [run, model, variant]);
  }
  return [...found.values()];
}

function leftOut(run: string, model: string, kept: number, all: number): Problem {
  const message = `Of ${all} measurements of ${model} this report holds ${kept}, evenly over the steps.`;
  return { run, tag: "", step: 0, message };
}

function encode(value: unknown): Uint8Array {
  return new TextEncoder().encode(JSON.stringify(value));
}
