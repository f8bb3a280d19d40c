import { scopeText } from "./policy-rule.ts";
import type { PolicyMatch, Verdict } from "./policy-set.ts";

/** Names of decisions in metrics. */
export type PolicyDecision =
  | "allowed"
  | "denied"
  | "denied_by_error"
  | "not_allowed"
  | "held"
  | "logged"
  | "log_failed";

/** Returns the decision about a request. */
export function decisionOf(verdict: Verdict): PolicyDecision {
  switch (verdict.outcome) {
    case "allowed":
      return "allowed";
    case "denied":
      return verdict.by.result === true ? "denied" : "denied_by_error";
    case "not allowed":
      return "not_allowed";
    case "held":
      return "held";
    case "unknown":
      return "denied_by_error";
  }
}

/**
 * Says why a request is refused, by the ids and descriptions of policies. Never shows a condition: it may say what
 * the caller must not know. Undefined for a request that is allowed or held.
 */
export function refusalText(verdict: Verdict): string | undefined {
  switch (verdict.outcome) {
    case "allowed":
    case "held":
      return undefined;
    case "denied":
      return verdict.by.result === true
        ? `the policy ${named(verdict.by)} does not allow this request`
        : `the policy ${named(verdict.by)} could not be evaluated for this request`;
    case "not allowed":
      return `no policy of the ${scopeText(verdict.scope)} allows this request; they are ${list(verdict.policies)}`;
    case "unknown":
      return `the policies ${list(verdict.policies)} could not be evaluated for this request`;
  }
}

/** Names the policies that hold a request. */
export const holdersText = (by: readonly PolicyMatch[]): string =>
  `the ${by.length === 1 ? "policy" : "policies"} ${list(by)}`;

/** The ids of the policies that refuse or hold a request. */
export function refusingIds(verdict: Verdict): readonly string[] {
  switch (verdict.outcome) {
    case "allowed":
      return [];
    case "held":
      return verdict.by.map(({ rule }) => rule.id);
    case "denied":
      return [verdict.by.rule.id];
    case "not allowed":
    case "unknown":
      return verdict.policies.map(({ rule }) => rule.id);
  }
}

const maxNamed = 5;

function named({ rule: { id, description } }: PolicyMatch): string {
  return description === "" ? `"${id}"` : `"${id}" (${description})`;
}

function list(matches: readonly PolicyMatch[]): string {
  const more = matches.length > maxNamed ? ` and ${matches.length - maxNamed} more` : "";
  return matches.slice(0, maxNamed).map(named).join(", ") + more;
}
