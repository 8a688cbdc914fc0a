/**
 * Numbers lists of whole numbers: equal lists have one number, and numbers are given in the order in which lists first
 * come. Nothing is made for a list that is known, unlike with texts as keys of a map.
 */
export class Sequences {
  private readonly byHash = new Map<number, number[]>();
  private readonly lists: number[][] = [];

  get count(): number {
    return this.lists.length;
  }

  /** The list may be changed afterwards. */
  number(list: readonly number[]): number {
    const hash = hashOf(list);
    const candidates = this.byHash.get(hash);
    const known = candidates?.find((number) => isEqual(this.lists[number]!, list));
    if (known !== undefined) return known;
    const number = this.lists.push(list.slice()) - 1;
    if (candidates) candidates.push(number);
    else this.byHash.set(hash, [number]);
    return number;
  }
}

/** A whole number of 30 bits, which engines keep without making an object. */
function hashOf(list: readonly number[]): number {
  let hash = list.length;
  for (const value of list) {
    hash = Math.imul(hash ^ value, 0x9e3779b1);
    hash ^= hash >>> 15;
  }
  return hash & 0x3fffffff;
}

function isEqual(a: readonly number[], b: readonly number[]): boolean {
  if (a.length !== b.length) return false;
  for (let at = 0; at < a.length; at++) if (a[at] !== b[at]) return false;
  return true;
}
