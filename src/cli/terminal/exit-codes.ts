/** Exit codes of the process. */
export const exitCodes = {
  ok: 0,
  /** The action failed, fully or partly, and a retry may succeed. */
  failed: 1,
  /** The input cannot be executed. */
  usage: 2,
  /** A command on many items did some of them, and reports the others. */
  partial: 3,
} as const;
