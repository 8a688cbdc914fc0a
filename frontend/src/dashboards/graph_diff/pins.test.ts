import { describe, expect, it } from "vitest";
import { parseBlocks } from "./chosen_blocks";
import { IntentHistory } from "./intent_history";
import { compareMaps } from "./pair_facts";

const intent = (pins: Record<string, string | null>) => ({ policy: "copy", policies: {}, pins });

describe("blocks that are chosen for a stack", () => {
  it("are one number for each block of the shorter side", () => {
    expect(parseBlocks("0, 6,11", 3, 12)).toEqual([0, 6, 11]);
    expect(parseBlocks("– 2 -", 3, 4)).toEqual([-1, 2, -1]);
  });

  it("say what is wrong with them", () => {
    expect(() => parseBlocks("0, 6", 3, 12)).toThrow("These are 2 blocks; give one for each of the 3.");
    expect(() => parseBlocks("0, 6, 12", 3, 12)).toThrow("There are blocks 0 to 11");
    expect(() => parseBlocks("0, six, 11", 3, 12)).toThrow("There are blocks 0 to 11");
    expect(() => parseBlocks("6, 0, 11", 3, 12)).toThrow("must not fall");
  });
});

describe("undo and redo", () => {
  it("go back and forth between the pins in force", () => {
    const history = new IntentHistory();
    history.push(intent({}));
    history.push(intent({ a: "x" }));
    const current = intent({ a: "x", b: null });
    expect(history.undo(current)).toEqual(intent({ a: "x" }));
    expect(history.undo(intent({ a: "x" }))).toEqual(intent({}));
    expect(history.undo(intent({}))).toBeNull();
    expect(history.redo(intent({}))).toEqual(intent({ a: "x" }));
    expect(history.redo(intent({ a: "x" }))).toEqual(current);
  });

  it("forget what was undone when something else is done", () => {
    const history = new IntentHistory();
    history.push(intent({}));
    history.undo(intent({ a: "x" }));
    history.push(intent({}));
    expect(history.canRedo).toBe(false);
  });
});

describe("attributes side by side", () => {
  it("put differences first and do not call a missing side different", () => {
    const lines = compareMaps(
      new Map([
        ["kernel", "3"],
        ["stride", "2"],
      ]),
      new Map([
        ["kernel", "3"],
        ["stride", "1"],
      ]),
    );
    expect(lines.map(({ name, differs }) => [name, differs])).toEqual([
      ["stride", true],
      ["kernel", false],
    ]);
    expect(compareMaps(new Map([["stride", "2"]]), null)[0]?.differs).toBe(false);
  });
});
