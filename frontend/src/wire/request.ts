import { embeddedAnswer, isReport } from "./embedded";

/** A request that the server or the network refused; `message` is a sentence for the user. */
export class RequestError extends Error {
  constructor(
    message: string,
    /** HTTP status; 0 when there was no answer. */
    readonly status: number,
  ) {
    super(message);
    this.name = "RequestError";
  }
}

export type Parameters = Record<string, string | number | undefined>;

/**
 * The URL of a route of this tab, e.g. `routeUrl("api/structure", { run: "kd" })`.
 *
 * TensorBoard sets the document's base to `<prefix>/data/plugin/<tab>/`, so relative addresses work behind
 * every path prefix and proxy. Parameters that are undefined are left out.
 */
export function routeUrl(route: string, parameters: Parameters = {}): string {
  const url = new URL(route, document.baseURI);
  for (const [name, value] of Object.entries(parameters)) {
    if (value !== undefined) url.searchParams.set(name, String(value));
  }
  return url.href;
}

export async function getBytes(
  route: string,
  parameters?: Parameters,
  signal?: AbortSignal,
): Promise<Uint8Array> {
  const embedded = answerOfReport(route, parameters);
  if (embedded) return embedded;
  return new Uint8Array(await (await request(routeUrl(route, parameters), { signal })).arrayBuffer());
}

export async function getJson<T>(route: string, parameters?: Parameters, signal?: AbortSignal): Promise<T> {
  const embedded = answerOfReport(route, parameters);
  if (embedded) return JSON.parse(new TextDecoder().decode(embedded)) as T;
  return (await (await request(routeUrl(route, parameters), { signal })).json()) as T;
}

/** POST of a JSON body to one of the pure computations. */
export async function postBytes(route: string, body: unknown, signal?: AbortSignal): Promise<Uint8Array> {
  const answer = await request(routeUrl(route), {
    method: "POST",
    headers: { "Content-Type": "application/json" },
    body: JSON.stringify(body),
    signal,
  });
  return new Uint8Array(await answer.arrayBuffer());
}

/** Null when there is a server to ask. */
function answerOfReport(route: string, parameters: Parameters = {}): Uint8Array | null {
  if (!isReport()) return null;
  const answer = embeddedAnswer(route, parameters);
  if (!answer)
    throw new RequestError("This report does not hold that. Open the log directory in TensorBoard.", 0);
  return answer;
}

async function request(
  url: string,
  options: RequestInit & { signal?: AbortSignal | undefined },
): Promise<Response> {
  let answer: Response;
  try {
    answer = await fetch(url, options);
  } catch (error) {
    if (options.signal?.aborted) throw error;
    throw new RequestError("TensorBoard does not answer. Is it still running? Try again when it is.", 0);
  }
  if (answer.ok) return answer;
  const type = answer.headers.get("Content-Type") ?? "";
  const text = type.startsWith("text/plain") ? (await answer.text()).trim() : "";
  throw new RequestError(
    text || `TensorBoard answered ${answer.status} ${answer.statusText}.`,
    answer.status,
  );
}
