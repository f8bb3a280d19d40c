/**
 * Where in the customer's script something was asked for. What is thrown after a wait has a stack of its own side
 * alone, which says nothing to whoever wrote the script.
 */

export const here = (): string => new Error().stack ?? "";

/** As the host calls the bundle. */
const bundle = "script.js:";

/** With the place where it was asked for, unless it knows one of its own. */
export function placed(thrown: unknown, at: string): unknown {
  if (!(thrown instanceof Error) || String(thrown.stack).includes(bundle)) return thrown;
  Object.defineProperty(thrown, "stack", { value: `${thrown.stack ?? ""}${at}`, writable: true, configurable: true });
  return thrown;
}

/** A tool whose failures say where it was called. */
export function fromHere<Given extends readonly unknown[], Result>(
  tool: (...given: Given) => Promise<Result>,
): (...given: Given) => Promise<Result> {
  return (...given) => {
    const at = here();
    return tool(...given).catch((thrown: unknown) => {
      throw placed(thrown, at);
    });
  };
}
