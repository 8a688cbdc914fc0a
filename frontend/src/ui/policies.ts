/** Policies for stacks of equal blocks, by the aligner's names. */
export const POLICIES = ["copy", "uniform", "skip", "first", "last"] as const;
