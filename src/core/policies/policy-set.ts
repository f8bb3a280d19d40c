import { isCondition } from "./condition.ts";
import type { Evaluation, RequestFacts } from "./facts.ts";
import { policyLimits } from "./limits.ts";
import type { PolicyRule, PolicyScope } from "./policy-rule.ts";
import { type GatedRule, RequestGates } from "./selection/gates.ts";
import {
  createSelections,
  forConnection,
  forMethod,
  isAbout,
  type JudgedScopes,
  type PolicySelection,
} from "./selection/selections.ts";
import type { EvaluationFailure } from "./values.ts";
import type { PolicyVariable } from "./variables.ts";

/** The policies of an environment. */
export interface PolicySet {
  readonly rules: readonly PolicyRule[];
  /** Judges a request. */
  judge(facts: RequestFacts, about: JudgedScopes): Verdict;
  /** Judges a request and says what each policy that is about it came to. */
  explain(facts: RequestFacts, about: JudgedScopes): PolicyExplanation;
}

/** Whether a request may be sent. */
export type Verdict =
  | { readonly outcome: "allowed"; readonly logged: readonly PolicyMatch[] }
  /** A `deny` policy matched, or failed. */
  | { readonly outcome: "denied"; readonly by: PolicyMatch; readonly logged: readonly PolicyMatch[] }
  /** None of the `allow` policies of a scope matched. */
  | {
      readonly outcome: "not allowed";
      readonly scope: PolicyScope;
      readonly policies: readonly PolicyMatch[];
      readonly logged: readonly PolicyMatch[];
    }
  /** Allowed but for a person's answer: `hold` policies matched, or failed. */
  | { readonly outcome: "held"; readonly by: readonly PolicyMatch[]; readonly logged: readonly PolicyMatch[] }
  /** Depends on a value that is not known, such as a body that was not read. */
  | { readonly outcome: "unknown"; readonly policies: readonly PolicyMatch[]; readonly logged: readonly PolicyMatch[] };

/** A policy and the result of its condition. */
export interface PolicyMatch {
  readonly rule: PolicyRule;
  readonly result: boolean | EvaluationFailure;
}

export interface PolicyExplanation {
  readonly verdict: Verdict;
  readonly looked: readonly PolicyMatch[];
}

export function createPolicySet(rules: readonly PolicyRule[]): PolicySet {
  const selectionFor = createSelections(rules);
  return {
    rules,
    judge(facts, about) {
      const { method } = facts;
      const { connection } = about;
      let selection = selectionFor(about);
      if (typeof method === "string") selection = forMethod(selection, method);
      if (connection !== undefined) selection = forConnection(selection, connection);
      return judge(selection, newJudging(facts, selection));
    },
    explain(facts, about) {
      const selection = selectionFor(about);
      const evaluation = newEvaluation(facts);
      const looked = rules
        .filter(({ scope }) => isAbout(scope, about))
        .map((rule) => ({ rule, result: rule.evaluate(evaluation) }));
      return { verdict: judge(selection, newJudging(facts, selection)), looked };
    },
  };
}

/** What the policies of one request share. */
interface Judging {
  readonly evaluation: Evaluation;
  readonly gates: RequestGates;
}

const newEvaluation = (facts: RequestFacts): Evaluation => ({ facts, locals: [], steps: policyLimits.steps });

const newJudging = (facts: RequestFacts, { gates }: PolicySelection): Judging => ({
  evaluation: newEvaluation(facts),
  gates: new RequestGates(facts, gates),
});

/** Most conditions are decided by what they say of the path or of a header, without an evaluation. */
const evaluateRule = (gated: GatedRule, { evaluation, gates }: Judging): boolean | EvaluationFailure =>
  gates.isFalse(gated) ? false : gated.rule.evaluate(evaluation);

const none: readonly PolicyMatch[] = [];
const allowed: Verdict = { outcome: "allowed", logged: none };

function judge({ deny, allow, hold, log }: PolicySelection, judging: Judging): Verdict {
  let unknown: PolicyMatch[] | undefined;
  for (const gated of deny) {
    const result = evaluateRule(gated, judging);
    if (result === false) continue;
    const match = { rule: gated.rule, result };
    if (result !== true && result.isUnknown) unknown = [...(unknown ?? []), match];
    else return { outcome: "denied", by: match, logged: matching(log, judging) };
  }
  for (const group of allow) {
    const missed = missedIn(group, judging);
    if (missed === undefined) continue;
    const open = missed.filter(isUnknown);
    if (open.length > 0) unknown = [...(unknown ?? []), ...open];
    else {
      const [first] = group.all;
      if (first === undefined) continue;
      return { outcome: "not allowed", scope: first.scope, policies: missed, logged: matching(log, judging) };
    }
  }
  const holding = matching(hold, judging);
  const open = holding.filter(isUnknown);
  if (open.length > 0) unknown = [...(unknown ?? []), ...open];
  const matches = matching(log, judging);
  if (unknown !== undefined) return { outcome: "unknown", policies: unknown, logged: matches };
  if (holding.length > 0) return { outcome: "held", by: holding, logged: matches };
  return matches === none ? allowed : { outcome: "allowed", logged: matches };
}

const isUnknown = ({ result }: PolicyMatch): boolean => typeof result !== "boolean" && result.isUnknown;

/** Returns the results of a group of `allow` policies; undefined if one of them matched. */
function missedIn(
  { all, possible }: PolicySelection["allow"][number],
  judging: Judging,
): readonly PolicyMatch[] | undefined {
  const failures = new Map<PolicyRule, EvaluationFailure>();
  for (const gated of possible) {
    const result = evaluateRule(gated, judging);
    if (result === true) return undefined;
    if (result !== false) failures.set(gated.rule, result);
  }
  return all.map((rule) => ({ rule, result: failures.get(rule) ?? false }));
}

/** Returns the policies that matched or failed. */
function matching(rules: readonly GatedRule[], judging: Judging): readonly PolicyMatch[] {
  let matches: PolicyMatch[] | undefined;
  for (const gated of rules) {
    const result = evaluateRule(gated, judging);
    if (result === false) continue;
    matches ??= [];
    matches.push({ rule: gated.rule, result });
  }
  return matches ?? none;
}

const messageVariables: readonly PolicyVariable[] = ["mcp.method", "mcp.tool", "mcp.arguments"];

/** Returns whether a policy reads messages of MCP clients. One whose condition does not compile might have. */
export const readsMessage = ({ condition }: PolicyRule): boolean =>
  !isCondition(condition) || messageVariables.some((name) => condition.uses.has(name));

const messagePolicies = new WeakMap<PolicySet, PolicySet | "none">();

/** Returns the policies of a set that read messages of MCP clients; undefined: there are none. */
export function messagePoliciesOf(set: PolicySet): PolicySet | undefined {
  const known = messagePolicies.get(set);
  if (known !== undefined) return known === "none" ? undefined : known;
  const rules = set.rules.filter(readsMessage);
  const made = rules.length === 0 ? undefined : createPolicySet(rules);
  messagePolicies.set(set, made ?? "none");
  return made;
}
