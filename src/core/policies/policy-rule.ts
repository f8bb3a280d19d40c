import { type ConditionError, compileCondition, isCondition, type PolicyCondition } from "./condition.ts";
import type { Evaluation } from "./facts.ts";
import { type Guards, noGuards } from "./selection/guards.ts";
import { EvaluationFailure } from "./values.ts";

/** What a policy is about; `name` is empty for an environment. */
export interface PolicyScope {
  readonly kind: "environment" | "integration" | "key" | "access_session";
  readonly name: string;
}

export type PolicyEffect = "allow" | "deny" | "log" | "hold";

/** How a `hold` policy waits for a person. */
export interface HoldTimes {
  /** No answer in this time is a no. An approval can be used for as long again. */
  readonly answerWithinMs: number;
  /** How long a request waits on its connection unless its caller says otherwise. */
  readonly waitMs: number;
  /** 0: each request is asked about. */
  readonly rememberMs: number;
}

/** Times of a `hold` policy that names none. */
export const usualHold: HoldTimes = { answerWithinMs: 3_600_000, waitMs: 10_000, rememberMs: 0 };

/** A policy with its compiled condition. One whose condition does not compile fails for each request. */
export interface PolicyRule {
  readonly id: string;
  readonly description: string;
  readonly scope: PolicyScope;
  readonly effect: PolicyEffect;
  /** Times of a `hold` policy; other policies do not use them. */
  readonly hold: HoldTimes;
  readonly condition: PolicyCondition | ConditionError;
  readonly guards: Guards;
  readonly evaluate: (evaluation: Evaluation) => boolean | EvaluationFailure;
}

interface PolicyRuleFields extends Pick<PolicyRule, "id" | "description" | "scope" | "effect"> {
  readonly hold?: HoldTimes;
}

export function createPolicyRule(
  { id, description, scope, effect, hold = usualHold }: PolicyRuleFields,
  text: string,
): PolicyRule {
  const condition = compileCondition(text);
  const common = { id, description, scope, effect, hold, condition };
  if (isCondition(condition)) return { ...common, guards: condition.guards, evaluate: condition.evaluate };
  const failure = new EvaluationFailure(condition.message);
  return { ...common, guards: noGuards, evaluate: () => failure };
}

/** Returns a scope in messages: `integration github`. */
export const scopeText = ({ kind, name }: PolicyScope): string =>
  `${kind.replace("_", " ")}${name === "" ? "" : ` "${name}"`}`;
