import { writeHash } from "../../host/hash";
import { POLICIES } from "../../ui/policies";
import { type Session, TABS } from "../../ui/session";
import { comparisonParameters } from "../../wire/comparison";
import { answerKey, embedAnswers } from "../../wire/embedded";
import type { Address, Records } from "../../wire/records";
import { getBytes, type Parameters } from "../../wire/request";
import { fetchHeader } from "../../wire/structure";
import { VARIANTS_ROUTE, variantParameters } from "../../wire/variants";

/**
 * A report is one HTML file: `report.js`, and the answers that it would ask the server for, gzipped and in
 * base64, as JSON in the element with this id.
 */
const ELEMENT = "tb-structure-report";

interface Stored {
  /** The hash of the address, so that the report opens on the picture that was exported. */
  state: string;
  answers: Record<string, string>;
}

/** The page with the two models, their alignments under each policy, and the pins in force. */
export async function writeReport(session: Session): Promise<string> {
  const [teacher, student] = [session.teacher.peek(), session.student.peek()];
  const records = session.records.state.peek().value;
  if (!teacher || !records) throw new Error("There is no model to put into a report.");
  const sides = student ? [teacher.address, student.address] : [teacher.address];
  const answers: Record<string, string> = {
    [answerKey("api/records")]: await pack(new TextEncoder().encode(JSON.stringify(only(records, sides)))),
  };
  const keep = async (route: string, parameters: Parameters) => {
    answers[answerKey(route, parameters)] = await pack(await getBytes(route, parameters));
  };
  for (const address of sides) {
    const { parts } = await fetchHeader(address);
    for (const part of ["header", ...parts.map(({ name }) => name)])
      await keep("api/structure", { ...address, part });
  }
  const intent = session.intent.peek();
  if (student) {
    for (const policy of new Set([intent.policy, ...POLICIES])) {
      await keep(
        "api/alignment",
        comparisonParameters(teacher.address, student.address, { ...intent, policy }),
      );
    }
    await keep(VARIANTS_ROUTE, variantParameters(teacher.address, student.address));
  }
  const script = new TextDecoder().decode(await getBytes("static/report.js"));
  // Spelled out, for what came from a plan of the log directory is not in the address, and the plan is not kept.
  const state: Record<string, string> = { ...session.url.values(), policy: intent.policy };
  if (Object.keys(intent.policies).length) state.policies = JSON.stringify(intent.policies);
  if (Object.keys(intent.pins).length) state.pins = JSON.stringify(intent.pins);
  const stored: Stored = { state: writeHash("", TABS.graph_diff.plugin, state), answers };
  const names = sides.map(({ tag }) => tag.split("/")[1]).join(" and ");
  return [
    '<!DOCTYPE html><html lang="en"><head><meta charset="utf-8">',
    `<title>${escapeText(`Graph diff of ${names}`)}</title></head><body>`,
    `<script type="application/json" id="${ELEMENT}">${JSON.stringify(stored).replaceAll("<", "\\u003c")}</script>`,
    `<script>${script.replaceAll("</script", "<\\/script")}</script></body></html>`,
  ].join("\n");
}

/** Lets the page answer its own requests; returns the hash of the address that was exported. */
export async function openReport(page: Document): Promise<string> {
  const { state, answers } = await readReport(page);
  embedAnswers(answers);
  return state;
}

/** What a report's page holds. */
export async function readReport(
  page: Document,
): Promise<{ state: string; answers: Map<string, Uint8Array> }> {
  const stored = JSON.parse(page.getElementById(ELEMENT)?.textContent ?? "{}") as Stored;
  const answers = new Map<string, Uint8Array>();
  for (const [key, packed] of Object.entries(stored.answers ?? {})) answers.set(key, await unpack(packed));
  return { state: stored.state ?? "", answers };
}

/** The list of records with nothing but the given ones. */
export function only(records: Records, kept: Address[]): Records {
  const structures = records.structures.flatMap((entry) => {
    const steps = entry.steps.filter(({ step }) =>
      kept.some((side) => side.run === entry.run && side.tag === entry.tag && side.step === step),
    );
    return steps.length ? [{ ...entry, steps }] : [];
  });
  return { structures, attention: [], measurements: [], plans: [], problems: [] };
}

async function pack(bytes: Uint8Array): Promise<string> {
  const packed = await through(bytes, new CompressionStream("gzip"));
  let text = "";
  // In pieces, for a function takes only so many arguments.
  for (let at = 0; at < packed.length; at += 8192)
    text += String.fromCharCode(...packed.subarray(at, at + 8192));
  return btoa(text);
}

async function unpack(text: string): Promise<Uint8Array> {
  const packed = Uint8Array.from(atob(text), (character) => character.charCodeAt(0));
  return through(packed, new DecompressionStream("gzip"));
}

async function through(
  bytes: Uint8Array,
  stream: CompressionStream | DecompressionStream,
): Promise<Uint8Array> {
  const body = new Blob([bytes as Uint8Array<ArrayBuffer>]).stream().pipeThrough(stream);
  return new Uint8Array(await new Response(body).arrayBuffer());
}

function escapeText(text: string): string {
  return text.replace(/[&<>]/g, (character) => `&#${character.charCodeAt(0)};`);
}
