import { Fault, type FaultCode, type Mistake } from "../../base/fault.ts";

/** The message names this many mistakes; `errors` of the response lists all. */
const maxNamed = 3;

/** Returns the fault for fields that are unknown, but have almost the name of a known one. */
export function misspelledIn(code: FaultCode, misspelled: readonly Mistake[], others: readonly Mistake[]): Fault {
  const message = misspelled
    .slice(0, maxNamed)
    .map((one) => one.message)
    .join("; ");
  const [hint] = misspelled.map((one) => one.message.split("; ")[1]);
  return new Fault(code, message, { mistakes: [...misspelled, ...others], hint });
}

/** Returns the fault for a part of a request, "the body" or "the query", with everything that is wrong with it. */
export function invalid(code: FaultCode, part: string, mistakes: readonly Mistake[]): Fault {
  const named = mistakes.slice(0, maxNamed).map(({ path, message }) => `${path.join(".")} ${message}`);
  const more = mistakes.length - named.length;
  const text = named.join("; ") + (more > 0 ? `; and ${more} more` : "");
  return new Fault(code, `${part} is not valid: ${text}`, { mistakes });
}
