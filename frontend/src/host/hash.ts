/**
 * A tab's own values inside TensorBoard's URL hash, `#<tab>&p.<tab>.key=value&…`. TensorBoard and other plugins
 * keep keys there too, so everything that is not ours is carried over untouched.
 */
export type HashValues = Record<string, string>;

/** Our values in `hash`, decoded. */
export function readHash(hash: string, plugin: string): HashValues {
  const prefix = `p.${plugin}.`;
  const values: HashValues = {};
  for (const token of tokens(hash)) {
    const equals = token.indexOf("=");
    if (equals > 0 && token.startsWith(prefix)) {
      values[token.slice(prefix.length, equals)] = decode(token.slice(equals + 1));
    }
  }
  return values;
}

/** `hash` with our values replaced by `values` (empty ones left out), on the tab `plugin`. */
export function writeHash(hash: string, plugin: string, values: HashValues): string {
  const prefix = `p.${plugin}.`;
  const foreign = tokens(hash).filter((token) => token.includes("=") && !token.startsWith(prefix));
  const own = Object.entries(values)
    .filter(([, value]) => value !== "")
    .map(([key, value]) => `${prefix}${key}=${encode(value)}`);
  return `#${[plugin, ...own, ...foreign].join("&")}`;
}

function tokens(hash: string): string[] {
  return hash.replace(/^#/, "").split("&").filter(Boolean);
}

/** Encodes all that could split a value (TensorBoard drops one with a second "="), and leaves "/:,@$" readable. */
function encode(value: string): string {
  return encodeURIComponent(value).replace(/%(2F|3A|2C|40|24)/g, decodeURIComponent);
}

function decode(value: string): string {
  try {
    return decodeURIComponent(value);
  } catch {
    return value;
  }
}
