/** A head of one model: a layer of the overview's list and a head number; written "3.5" in the address. */
export interface HeadChoice {
  readonly layer: number;
  readonly head: number;
}

export function headText(choice: HeadChoice | null): string {
  return choice === null ? "" : `${choice.layer}.${choice.head}`;
}

export function parseHead(text: string): HeadChoice | null {
  const match = /^(\d+)\.(\d+)$/.exec(text);
  return match === null ? null : { layer: Number(match[1]), head: Number(match[2]) };
}
