/**
 * Reads the blocks that someone chose for a stack: for each block of the shorter side one of the longer side's, in
 * order; "-" or -1 for none. Throws an error that says what is wrong.
 */
export function parseBlocks(text: string, shorter: number, longer: number): number[] {
  const blocks = text
    .split(/[\s,]+/)
    .filter(Boolean)
    .map((word) => (word === "-" || word === "–" ? -1 : Number(word)));
  if (blocks.length !== shorter)
    throw new Error(`These are ${blocks.length} blocks; give one for each of the ${shorter}.`);
  const wrong = blocks.find((block) => !Number.isInteger(block) || block < -1 || block >= longer);
  if (wrong !== undefined) throw new Error(`There are blocks 0 to ${longer - 1}; write - for none.`);
  const used = blocks.filter((block) => block >= 0);
  if (used.some((block, index) => block < (used[index - 1] ?? 0)))
    throw new Error("Blocks are paired in order: the numbers must not fall.");
  return blocks;
}
