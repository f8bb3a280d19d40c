import { createRedaction, type Redact } from "./redaction.ts";

/**
 * Redacts the secrets that are known at each call. With a long token, a redaction takes milliseconds to prepare: this is
 * done again only for other secrets, not for each line that a script logs.
 */
export function createGrowingRedaction(secrets: () => readonly string[], prepare = createRedaction): Redact {
  let known: readonly string[] = [];
  let redact: Redact | undefined;
  return (text) => {
    const now = secrets();
    if (redact === undefined || now.length !== known.length || now.some((one, i) => one !== known[i])) {
      known = now;
      redact = prepare(now);
    }
    return redact(text);
  };
}
