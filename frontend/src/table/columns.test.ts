import { describe, expect, it } from "vitest";
import { columnsThatFit, type TableColumn } from "./columns";

const columns: TableColumn[] = [
  { id: "module", label: "module", width: 200, text: () => "" },
  { id: "macs", label: "MACs", width: 80, text: () => "" },
  { id: "bytes", label: "memory", width: 90, text: () => "" },
  { id: "hidden", label: "hidden", width: 900, text: () => "" },
];
const wanted = new Set(["module", "macs", "bytes"]);

describe("the columns that fit", () => {
  it("are all where there is space", () => {
    expect([...columnsThatFit(columns, wanted, ["bytes", "macs"], 370)]).toEqual(["module", "macs", "bytes"]);
  });
  it("lose the expendable ones in their order, and no more than needed", () => {
    expect([...columnsThatFit(columns, wanted, ["bytes", "macs"], 369)]).toEqual(["module", "macs"]);
    expect([...columnsThatFit(columns, wanted, ["bytes", "macs"], 279)]).toEqual(["module"]);
  });
  it("keep what must stay", () => {
    expect([...columnsThatFit(columns, wanted, ["bytes"], 10)]).toEqual(["module", "macs"]);
  });
});
