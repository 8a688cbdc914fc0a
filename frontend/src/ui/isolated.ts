/** A name beside other text: marks that turn the direction of what follows are closed where the name ends. */
export function isolated(name: string): string {
  return /[\u200e\u200f\u202a-\u202e\u2066-\u2069]/.test(name) ? `\u2068${name}\u2069` : name;
}
