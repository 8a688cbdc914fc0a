import type { Intent } from "../../wire/comparison";

/** Undo and redo of pins and policies. */
export class IntentHistory {
  private past: Intent[] = [];
  private future: Intent[] = [];

  /** Remembers what was in force before a change. */
  push(before: Intent): void {
    this.past.push(structuredClone(before));
    this.future = [];
  }

  undo(current: Intent): Intent | null {
    return this.move(this.past, this.future, current);
  }

  redo(current: Intent): Intent | null {
    return this.move(this.future, this.past, current);
  }

  get canUndo(): boolean {
    return this.past.length > 0;
  }

  get canRedo(): boolean {
    return this.future.length > 0;
  }

  private move(from: Intent[], to: Intent[], current: Intent): Intent | null {
    const intent = from.pop();
    if (!intent) return null;
    to.push(structuredClone(current));
    return intent;
  }
}
