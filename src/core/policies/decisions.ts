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

/** Returns what policies say of two parts of a whole: the stricter of both. If both are held, by the policies of both. */
export function bothVerdicts(one: Verdict | undefined, other: Verdict | undefined): Verdict | undefined {
  if (one === undefined || other === undefined) return one ?? other;
  const logged = together(one.logged, other.logged);
  const stricter = strictness[one.outcome] >= strictness[other.outcome] ? one : other;
  if (one.outcome !== "held" || other.outcome !== "held") return { ...stricter, logged };
  return { outcome: "held", by: together(one.by, other.by), logged };
}

/** What is not known may turn out to be a refusal. */
const strictness = { allowed: 0, held: 1, unknown: 2, "not allowed": 3, denied: 4 } as const satisfies Record<
  Verdict["outcome"],
  number
>;

/** A policy that both parts match is named once. */
const together = (one: readonly PolicyMatch[], other: readonly PolicyMatch[]): readonly PolicyMatch[] => [
  ...one,
  ...other.filter(({ rule }) => !one.some((match) => match.rule.id === rule.id)),
];

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
