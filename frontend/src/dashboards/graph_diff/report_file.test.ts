import { afterEach, describe, expect, it } from "vitest";
import { answerKey } from "../../wire/embedded";
import { readReport } from "./report_file";

afterEach(() => document.body.replaceChildren());

describe("a report", () => {
  it("names a request whatever the order of its parameters, and whatever its hash", () => {
    expect(answerKey("api/structure", { run: "a", part: "header", hash: "1" })).toBe(
      answerKey("api/structure", { part: "header", run: "a", hash: undefined }),
    );
  });

  it("unpacks what its page holds", async () => {
    // gzip of "tensor", in base64.
    const packed = "H4sIAAAAAAACAytJzSvOLwIACCeDoQYAAAA=";
    const element = document.createElement("script");
    element.type = "application/json";
    element.id = "tb-structure-report";
    element.textContent = JSON.stringify({ state: "#x", answers: { "api/records?": packed } });
    document.body.append(element);
    const { state, answers } = await readReport(document);
    expect(state).toBe("#x");
    expect(new TextDecoder().decode(answers.get("api/records?"))).toBe("tensor");
  });
});
