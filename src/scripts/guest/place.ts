/**
 * Returns the stack of the caller in the customer's script. An error thrown after a wait has only internal frames,
 * which do not help the script's author.
 */

export const callerStack = (): string => new Error().stack ?? "";

/** The host's name for the bundle. */
const bundle = "script.js:";

/** Adds the call's stack to an error that has no frame in the script. */
export function withCallerStack(thrown: unknown, at: string): unknown {
  if (!(thrown instanceof Error) || String(thrown.stack).includes(bundle)) return thrown;
  Object.defineProperty(thrown, "stack", { value: `${thrown.stack ?? ""}${at}`, writable: true, configurable: true });
  return thrown;
}

/** Wraps a tool so that its errors include the position of the call. */
export function withCallerPosition<Given extends readonly unknown[], Result>(
  tool: (...given: Given) => Promise<Result>,
): (...given: Given) => Promise<Result> {
  return (...given) => {
    const at = callerStack();
    return tool(...given).catch((thrown: unknown) => {
      throw withCallerStack(thrown, at);
    });
  };
}
