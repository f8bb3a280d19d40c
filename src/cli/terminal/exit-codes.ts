/** What the process says when it ends. */
export const exitCodes = {
  ok: 0,
  /** Nothing, or not all, of what was asked is done, and it may be worth trying again. */
  failed: 1,
  /** What was typed cannot be done. */
  usage: 2,
  /** A command over many things did some of them, and says which ones it did not. */
  partial: 3,
} as const;
