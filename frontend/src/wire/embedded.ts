import type { Parameters } from "./request";

/**
 * Answers that a self-contained page brings along, by `answerKey`. A page that has them asks no server:
 * what is not among them cannot be had.
 */
let answers: ReadonlyMap<string, Uint8Array> | null = null;

export function embedAnswers(embedded: ReadonlyMap<string, Uint8Array>): void {
  answers = embedded;
}

/** Whether this page is a report that someone opened from a file. */
export function isReport(): boolean {
  return answers !== null;
}

export function embeddedAnswer(route: string, parameters: Parameters = {}): Uint8Array | undefined {
  return answers?.get(answerKey(route, parameters));
}

/** One name for a request, whatever the order of its parameters; the hash only matters to caches. */
export function answerKey(route: string, parameters: Parameters = {}): string {
  const query = Object.entries(parameters)
    .filter(([name, value]) => value !== undefined && name !== "hash")
    .map(([name, value]) => `${name}=${value}`)
    .sort();
  return `${route}?${query.join("&")}`;
}
