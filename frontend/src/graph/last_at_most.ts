/** Where the last of the first `count` ascending values that is at most `limit` stands; 0 when all are larger. */
export function lastAtMost(values: ArrayLike<number>, limit: number, count = values.length): number {
  let low = 0;
  let high = count - 1;
  while (low < high) {
    const middle = (low + high + 1) >> 1;
    if (values[middle]! <= limit) low = middle;
    else high = middle - 1;
  }
  return low;
}
