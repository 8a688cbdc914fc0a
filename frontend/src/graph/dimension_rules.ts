/** A dimension of an operator's input: which input, and the position in its shape. */
export interface DimensionSource {
  input: number;
  position: number;
}

/** Where a dimension of a result was before the operator ran. */
export interface DimensionRule {
  /** Empty: it begins here. */
  sources: DimensionSource[];
  /** What the operator did to it; "" when it only passed. */
  what: string;
  /** The operator's meaning says so; false: only equal sizes do. */
  isCertain: boolean;
}

/** What is known of one run of an operator. */
export interface OperatorFacts {
  name: string;
  attributes: ReadonlyMap<string, string>;
  /** Shapes of the inputs, and whether each is a parameter or buffer. */
  inputs: readonly (readonly number[])[];
  isWeight: readonly boolean[];
  output: readonly number[];
}

type Rule = (facts: OperatorFacts, position: number) => DimensionRule | null;

/** Where dimension `position` of the operator's result comes from, by what the operator does, else by equal sizes. */
export function traceDimension(facts: OperatorFacts, position: number): DimensionRule {
  const rule = RULES.find(([names]) => names.test(facts.name.replace(/(?<=\w)_$/, "")))?.[1];
  return (rule?.(facts, position) ?? null) || bySize(facts, position);
}

const RULES: readonly [RegExp, Rule][] = [
  [/^(linear|addmm)$/, linear],
  [/^(conv|_?conv)[\w]*$/, convolution],
  [/^embedding$/, embedding],
  [/^(matmul|bmm|mm|@|__matmul__|baddbmm)$/, product],
  [/^scaled_dot_product_attention$/, attention],
  [/^(transpose|swapaxes|swapdims|mT|mH|t|T)$/, transposed],
  [/^(permute|movedim|moveaxis)$/, permuted],
  [/^(view|reshape|flatten|unflatten|ravel|_unsafe_view|view_as|reshape_as)$/, regrouped],
  [/^unsqueeze$/, unsqueezed],
  [/^(\[\.\.\.\]|select|squeeze|index_select|narrow|slice)$/, selected],
  [/^(split|chunk|tensor_split|unbind)$/, part],
  [/^(cat|concat|concatenate|hstack|vstack)$/, joined],
  [/^stack$/, stacked],
  [/^(expand|expand_as|repeat|broadcast_to|tile|repeat_interleave)$/, expanded],
  [/^(sum|mean|max|min|amax|amin|argmax|argmin|prod|any|all|norm|var|std|logsumexp|adaptive_\w+)$/, reduced],
  [/^(\w*pool\dd\w*|interpolate|upsample\w*|pad|constant_pad\w*|topk|unfold|im2col|fold)$/, resized],
  [/^(arange|zeros|ones|full|empty|new_\w+|one_hot|tril|triu|linspace|eye|rand\w*|tensor)$/, made],
  [
    /^([-+*/%&|^<>=!~]+=?|\/\/|\*\*|add|sub|rsub|mul|div|pow|neg|abs|exp|log|sqrt|rsqrt|sin|cos|tanh|sigmoid|relu6?|gelu|silu|elu|selu|leaky_relu|hardswish|hardsigmoid|hardtanh|mish|softplus|softmax|log_softmax|dropout\w*|layer_norm|rms_norm|batch_norm|group_norm|instance_norm|where|masked_fill|clamp|clip|to|type_as|float|half|bfloat16|double|long|int|bool|contiguous|clone|detach|copy|cumsum|roll|eq|ne|lt|le|gt|ge|logical_\w+|bitwise_\w+|maximum|minimum|lerp|addcmul|fill|masked_\w+|normalize|flip)$/,
    elementwise,
  ],
];

/** Every dimension comes from the input that has it at the same place, counted from the last. */
function elementwise(facts: OperatorFacts, position: number): DimensionRule | null {
  const found = aligned(facts, position);
  return found ? { sources: [found], what: "", isCertain: true } : null;
}

function linear(facts: OperatorFacts, position: number): DimensionRule | null {
  const isLast = position === facts.output.length - 1;
  if (!isLast) return elementwise(facts, position);
  // `linear` keeps its weight as [out, in], `addmm` multiplies by [in, out].
  const side = facts.name.startsWith("addmm") ? 1 : 0;
  const weight = facts.inputs.findIndex(
    (shape, input) =>
      shape.length === 2 && shape[side] === facts.output[position] && (facts.isWeight[input] || input === 1),
  );
  return weight < 0 ? null : from(weight, side, "features that the weight makes");
}

function convolution(facts: OperatorFacts, position: number): DimensionRule | null {
  const weight = facts.inputs.findIndex((shape, input) => facts.isWeight[input] && shape.length >= 3);
  const data = facts.inputs.findIndex(
    (shape, input) => input !== weight && shape.length === facts.output.length,
  );
  if (weight < 0 || data < 0) return null;
  const isTransposed = facts.attributes.get("transposed") === "True" || facts.name.includes("transpose");
  if (position === 1) return from(weight, isTransposed ? 1 : 0, "channels that the weight makes");
  if (position === 0) return from(data, 0, "");
  const kernel = facts.inputs[weight]![position];
  return resizedFrom(facts, data, position, [`kernel ${kernel}`, ...settings(facts, ["stride", "padding"])]);
}

function embedding(facts: OperatorFacts, position: number): DimensionRule | null {
  const weight = facts.inputs.findIndex((shape, input) => facts.isWeight[input] && shape.length === 2);
  if (weight < 0) return null;
  if (position === facts.output.length - 1) return from(weight, 1, "width of the table");
  const indices = facts.inputs.findIndex((_, input) => input !== weight);
  return indices < 0 ? null : from(indices, position, "");
}

function product(facts: OperatorFacts, position: number): DimensionRule | null {
  const matrices = facts.inputs.flatMap((shape, input) => (shape.length >= 2 ? [input] : []));
  const [a, b] = [matrices.at(-2), matrices.at(-1)];
  if (a === undefined || b === undefined) return null;
  const last = facts.output.length - 1;
  const operand = position === last ? b : a;
  const shape = facts.inputs[operand]!;
  const at = shape.length - facts.output.length + position;
  if (at >= 0 && shape[at] === facts.output[position])
    return from(
      operand,
      at,
      position < last - 1 ? "" : `of the ${position === last ? "second" : "first"} factor`,
    );
  return null;
}

function attention(facts: OperatorFacts, position: number): DimensionRule | null {
  const operand = position === facts.output.length - 1 ? 2 : 0;
  return facts.inputs[operand]?.[position] === facts.output[position]
    ? from(operand, position, operand ? "of the values" : "of the queries")
    : null;
}

function transposed(facts: OperatorFacts, position: number): DimensionRule | null {
  const rank = facts.output.length;
  const of = (name: string, fallback: number) => place(number(facts, name) ?? fallback, rank);
  const [a, b] = [of("dim0", rank - 2), of("dim1", rank - 1)];
  const before = position === a ? b : position === b ? a : position;
  return checked(facts, position, before, before === position ? "" : `was dimension ${before}`);
}

function permuted(facts: OperatorFacts, position: number): DimensionRule | null {
  const before = list(facts.attributes.get("dims"))[position];
  if (before === undefined) return null;
  const at = place(before, facts.output.length);
  return checked(facts, position, at, at === position ? "" : `was dimension ${at}`);
}

/** Sizes on both sides are multiplied up until they meet: what lies between two meetings belongs together. */
function regrouped(facts: OperatorFacts, position: number): DimensionRule | null {
  const before = facts.inputs[0];
  const after = facts.output;
  if (!before || count(before) !== count(after)) return null;
  let [i, j] = [0, 0];
  while (i < before.length || j < after.length) {
    const [i0, j0] = [i, j];
    let [a, b] = [before[i++] ?? 1, after[j++] ?? 1];
    while (a !== b) {
      if (a < b) a *= before[i++] ?? 1;
      else b *= after[j++] ?? 1;
      if (i > before.length + 1 || j > after.length + 1) return null;
    }
    if (position < j0 || position >= j) continue;
    const [from_, to] = [before.slice(i0, i), after.slice(j0, j)];
    const sources = from_.flatMap((size, index) =>
      size > 1 || from_.length === 1 ? [{ input: 0, position: i0 + index }] : [],
    );
    if (after[position] === 1 && to.length > 1)
      return { sources: [], what: "a dimension of 1 was added", isCertain: true };
    const what =
      from_.filter((size) => size > 1).join() === to.filter((size) => size > 1).join()
        ? ""
        : `${from_.join(" × ")} became ${to.join(" × ")}`;
    return { sources, what, isCertain: true };
  }
  return null;
}

function unsqueezed(facts: OperatorFacts, position: number): DimensionRule | null {
  const added = number(facts, "dim");
  if (added === null) return null;
  const at = place(added, facts.output.length);
  if (position === at) return { sources: [], what: "a dimension of 1 was added", isCertain: true };
  return checked(facts, position, position > at ? position - 1 : position, "");
}

function selected(facts: OperatorFacts, position: number): DimensionRule | null {
  const before = facts.inputs[0] ?? [];
  const dim = number(facts, "dim");
  if (dim === null) return null;
  if (before.length === facts.output.length) {
    if (before[position] === facts.output[position]) return from(0, position, "");
    const [start, end] = [facts.attributes.get("start"), facts.attributes.get("end")];
    const range = start === undefined ? "" : ` ${start}:${end}`;
    return from(0, position, `slice${range} of ${before[position]}`);
  }
  if (before.length !== facts.output.length + 1) return null;
  const at = place(dim, before.length);
  return checked(facts, position, position >= at ? position + 1 : position, "");
}

function part(facts: OperatorFacts, position: number): DimensionRule | null {
  const before = facts.inputs[0] ?? [];
  if (before.length !== facts.output.length) return selected(facts, position);
  const same = before[position] === facts.output[position];
  return from(0, position, same ? "" : `one part of ${before[position]}`);
}

function joined(facts: OperatorFacts, position: number): DimensionRule | null {
  const at = place(number(facts, "dim") ?? 0, facts.output.length);
  const parts = facts.inputs.flatMap((shape, input) => (shape.length === facts.output.length ? [input] : []));
  if (!parts.length) return null;
  if (position !== at) return from(parts[0]!, position, "");
  const sizes = parts.map((input) => facts.inputs[input]![position]!);
  const total = sizes.reduce((sum, size) => sum + size, 0);
  // One value that is joined with itself is one input.
  const times = total && total < facts.output[position]! ? ` (${facts.output[position]! / total} times)` : "";
  return {
    sources: parts.map((input) => ({ input, position })),
    what: `joined: ${sizes.join(" + ")}${times}`,
    isCertain: true,
  };
}

function stacked(facts: OperatorFacts, position: number): DimensionRule | null {
  const at = place(number(facts, "dim") ?? 0, facts.output.length);
  if (position === at) return { sources: [], what: `${facts.output[at]} values stacked`, isCertain: true };
  return checked(facts, position, position > at ? position - 1 : position, "");
}

function expanded(facts: OperatorFacts, position: number): DimensionRule | null {
  const found = aligned(facts, position);
  if (found) return { sources: [found], what: "", isCertain: true };
  const before = facts.inputs[0] ?? [];
  const size = before[before.length - facts.output.length + position] ?? 1;
  return { sources: [], what: `repeated from ${size} to ${facts.output[position]}`, isCertain: true };
}

function reduced(facts: OperatorFacts, position: number): DimensionRule | null {
  const before = facts.inputs[0] ?? [];
  const gone = (facts.attributes.get("dim") ?? "")
    .match(/-?\d+/g)
    ?.map((dim) => place(Number(dim), before.length));
  if (before.length === facts.output.length) {
    if (before[position] === facts.output[position]) return from(0, position, "");
    return { sources: [], what: `reduced from ${before[position]}`, isCertain: true };
  }
  if (!gone || before.length - gone.length !== facts.output.length) return null;
  const kept = before.map((_, dim) => dim).filter((dim) => !gone.includes(dim));
  return checked(facts, position, kept[position]!, "");
}

function resized(facts: OperatorFacts, position: number): DimensionRule | null {
  const data = facts.inputs.findIndex((shape) => shape.length === facts.output.length);
  if (data < 0) return null;
  return resizedFrom(
    facts,
    data,
    position,
    settings(facts, ["kernel_size", "stride", "padding", "pad", "scales", "k"]),
  );
}

function made(facts: OperatorFacts): DimensionRule | null {
  return facts.inputs.length && facts.name !== "one_hot"
    ? null
    : { sources: [], what: "made by this call", isCertain: true };
}

/** What an operator without a rule did is not known; equal sizes are a guess, and said to be one. */
function bySize(facts: OperatorFacts, position: number): DimensionRule {
  const found = aligned(facts, position);
  if (found) return { sources: [found], what: "", isCertain: false };
  const size = facts.output[position]!;
  const equal = facts.inputs.flatMap((shape, input) =>
    shape.flatMap((other, at) => (other === size && size > 1 ? [{ input, position: at }] : [])),
  );
  if (!equal.length) return { sources: [], what: "first seen here", isCertain: false };
  const what = equal.length > 1 ? `one of ${equal.length} dimensions of ${size}` : "";
  return { sources: [equal[0]!], what, isCertain: false };
}

// ---- small words of the rules

function from(input: number, position: number, what: string): DimensionRule {
  return { sources: [{ input, position }], what, isCertain: true };
}

/** The rule for a dimension of the first input, if it has the size that the result has. */
function checked(facts: OperatorFacts, position: number, before: number, what: string): DimensionRule | null {
  return facts.inputs[0]?.[before] === facts.output[position] ? from(0, before, what) : null;
}

function resizedFrom(facts: OperatorFacts, input: number, position: number, how: string[]): DimensionRule {
  const before = facts.inputs[input]![position];
  if (before === facts.output[position]) return from(input, position, "");
  const by = how.length ? ` (${how.join(", ")})` : "";
  return from(input, position, `${before} became ${facts.output[position]}${by}`);
}

/**
 * The input that has a dimension at the same place, counted from the last: one that is computed rather than a
 * weight, the latest when there are several, for the way through the layer says more than the one around it.
 */
function aligned(facts: OperatorFacts, position: number): DimensionSource | null {
  const fits = facts.inputs.flatMap((shape, input) => {
    const at = shape.length - facts.output.length + position;
    return at >= 0 && shape[at] === facts.output[position] ? [{ input, position: at }] : [];
  });
  const computed = fits.filter(({ input }) => !facts.isWeight[input]);
  return computed[0] ?? fits[0] ?? null;
}

function settings(facts: OperatorFacts, names: string[]): string[] {
  return names.flatMap((name) => {
    const value = facts.attributes.get(name);
    return value === undefined ? [] : [`${name.replace("_", " ")} ${value}`];
  });
}

function number(facts: OperatorFacts, name: string): number | null {
  const text = facts.attributes.get(name);
  return text !== undefined && /^-?\d+$/.test(text) ? Number(text) : null;
}

function list(text: string | undefined): number[] {
  return text?.match(/-?\d+/g)?.map(Number) ?? [];
}

function place(dim: number, rank: number): number {
  return dim < 0 ? dim + rank : dim;
}

function count(shape: readonly number[]): number {
  return shape.reduce((product, size) => product * size, 1);
}
