import { type ConditionError, compileCondition, isCondition, type PolicyCondition } from "./condition.ts";
import type { Evaluation } from "./facts.ts";
import type { Guards } from "./guards.ts";
import { EvaluationFailure } from "./values.ts";

/** What a policy is about; `name` is empty for an environment. */
export interface PolicyScope {
  readonly kind: "environment" | "integration" | "key" | "access_session";
  readonly name: string;
}

export type PolicyEffect = "allow" | "deny" | "log";

/** A policy with its compiled condition. One whose condition does not compile fails for each request. */
export interface PolicyRule {
  readonly id: string;
  readonly description: string;
  readonly scope: PolicyScope;
  readonly effect: PolicyEffect;
  readonly condition: PolicyCondition | ConditionError;
  readonly guards: Guards;
  readonly evaluate: (evaluation: Evaluation) => boolean | EvaluationFailure;
}

export function createPolicyRule(
  { id, description, scope, effect }: Pick<PolicyRule, "id" | "description" | "scope" | "effect">,
  text: string,
): PolicyRule {
  const condition = compileCondition(text);
  const common = { id, description, scope, effect, condition };
  if (isCondition(condition)) return { ...common, guards: condition.guards, evaluate: condition.evaluate };
  const failure = new EvaluationFailure(condition.message);
  return { ...common, guards: { values: {}, pathPrefix: undefined }, evaluate: () => failure };
}

/** Returns a scope in messages: `integration github`. */
export const scopeText = ({ kind, name }: PolicyScope): string =>
  `${kind.replace("_", " ")}${name === "" ? "" : ` "${name}"`}`;
