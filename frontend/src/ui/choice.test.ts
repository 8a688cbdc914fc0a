import { describe, expect, it } from "vitest";
import { type Choice, changedBefore, defaultPair, parseSide, sideText } from "./choice";

const choice = (run: string, model: string, weight = 1, variant = ""): Choice => ({
  run,
  tag: `structure/${model}${variant && `/${variant}`}`,
  model,
  variant,
  detail: "",
  weight,
  steps: [
    { step: 0, wall_time: 1, hash: "a" },
    { step: 500, wall_time: 2, hash: "b" },
  ],
});

describe("sides in the address", () => {
  const choices = [choice("a:structure/x", "teacher"), choice("kd", "teacher", 1, "eval")];

  it("names a run, a tag and a step", () => {
    const text = sideText(choices[1]!, 0);
    expect(text).toBe("kd:structure/teacher/eval@0");
    expect(parseSide(text, choices)?.address).toEqual({
      run: "kd",
      tag: "structure/teacher/eval",
      step: 0,
      hash: "a",
    });
  });

  it("follows the latest step when none is named", () => {
    expect(parseSide("kd:structure/teacher/eval", choices)).toMatchObject({ latest: true, index: 1 });
  });

  it("copes with run names that look like tags", () => {
    expect(parseSide(sideText(choices[0]!, 500), choices)?.address.run).toBe("a:structure/x");
  });

  it("is null for a record that is gone", () => {
    expect(parseSide("old:structure/teacher", choices)).toBeNull();
  });
});

describe("steps of one model", () => {
  const of = (...hashes: string[]) => ({
    ...choice("kd", "student"),
    steps: hashes.map((hash, index) => ({ step: 100 * index, wall_time: index, hash })),
  });

  it("the one before the last change is what the latest is compared with", () => {
    expect(changedBefore(of("a", "b", "c", "c"))).toBe(100);
    expect(changedBefore(of("a", "b", "a"))).toBe(100);
    expect(changedBefore(of("a", "a"))).toBeNull();
  });
});

describe("the pair shown first", () => {
  it("goes by name, within one run", () => {
    const pair = defaultPair([choice("a", "teacher"), choice("b", "student"), choice("b", "teacher")]);
    expect([pair.teacher?.run, pair.student?.run]).toEqual(["b", "b"]);
  });

  it("takes the larger model as teacher when names do not tell", () => {
    const pair = defaultPair([choice("a", "resnet18", 11), choice("a", "resnet50", 25)]);
    expect([pair.teacher?.model, pair.student?.model]).toEqual(["resnet50", "resnet18"]);
  });

  it("leaves out what has nothing to show, as long as something else has", () => {
    const empty = [choice("a", "teacher", 0), choice("a", "student", 0)];
    expect(defaultPair([...empty, choice("b", "teacher"), choice("b", "student")]).teacher?.run).toBe("b");
    expect(defaultPair(empty).teacher?.run).toBe("a");
  });

  it("shows one model alone", () => {
    expect(defaultPair([choice("a", "gpt2")])).toMatchObject({ teacher: { model: "gpt2" }, student: null });
    expect(defaultPair([])).toEqual({ teacher: null, student: null });
  });
});
