import { describe, expect, it } from "vitest";
import { IntentHistory } from "./intent_history";
import { compareMaps } from "./pair_facts";

const intent = (pins: Record<string, string | null>) => ({ policy: "copy", policies: {}, pins });

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
