import { writeHash } from "../../host/hash";
import { type Session, TABS } from "../../ui/session";
import { embedAnswers } from "../../wire/embedded";
import { getBytes } from "../../wire/request";
import { reportAnswers } from "./report_answers";

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

/** The page with the two models, their alignments and audits under each policy, measurements, and the pins in force. */
export async function writeReport(session: Session): Promise<string> {
  const answers: Record<string, string> = {};
  for (const [key, answer] of await reportAnswers(session)) answers[key] = await pack(answer);
  const intent = session.intent.peek();
  const script = new TextDecoder().decode(await getBytes("static/report.js"));
  // Spelled out, for what came from a plan of the log directory is not in the address, and the plan is not kept.
  const state: Record<string, string> = { ...session.url.values(), policy: intent.policy };
  if (Object.keys(intent.policies).length) state.policies = JSON.stringify(intent.policies);
  if (Object.keys(intent.pins).length) state.pins = JSON.stringify(intent.pins);
  const stored: Stored = { state: writeHash("", TABS.graph_diff.plugin, state), answers };
  const names = [session.teacher.peek(), session.student.peek()].flatMap((side) => side?.choice.model ?? []);
  return [
    '<!DOCTYPE html><html lang="en"><head><meta charset="utf-8">',
    `<title>${escapeText(`Graph diff of ${names.join(" and ")}`)}</title></head><body>`,
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
