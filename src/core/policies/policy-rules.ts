import { durationMs } from "@bufbuild/protobuf/wkt";
import type { Mistake } from "../../base/fault.ts";
import {
  type HoldRules,
  type Policy,
  PolicyEffect,
  type PolicyScope as WrittenScope,
} from "../../gen/latchkey/v1/policy_pb.ts";
import { type ConditionError, compileCondition, isCondition } from "./condition.ts";
import { createPolicyRule, type HoldTimes, type PolicyRule, type PolicyScope, usualHold } from "./policy-rule.ts";

type Effect = PolicyRule["effect"];

const effects: ReadonlyMap<PolicyEffect, Effect> = new Map([
  [PolicyEffect.ALLOW, "allow"],
  [PolicyEffect.DENY, "deny"],
  [PolicyEffect.LOG, "log"],
  [PolicyEffect.HOLD, "hold"],
]);

/** Returns an effect in text; undefined if it is not set. */
export const effectText = (effect: PolicyEffect): Effect | undefined => effects.get(effect);

/** Effects by their names in configuration and commands. */
export const effectsByName: ReadonlyMap<string, PolicyEffect> = new Map(
  [...effects].map(([effect, name]) => [name, effect]),
);

/** Returns what a policy is about. */
export function scopeOf(about: WrittenScope | undefined): PolicyScope {
  const kind = about?.kind;
  switch (kind?.case) {
    case "integration":
      return { kind: "integration", name: kind.value };
    case "key":
      return { kind: "key", name: kind.value };
    case "accessSession":
      return { kind: "access_session", name: kind.value };
    case undefined:
      return { kind: "environment", name: "" };
  }
}

/** A policy that is stored is in force even if it is broken: one without an effect refuses. */
export const ruleOf = ({ id, description, about, effect, condition, hold }: Policy): PolicyRule =>
  createPolicyRule(
    { id, description, scope: scopeOf(about), effect: effectText(effect) ?? "deny", hold: holdTimes(hold) },
    condition,
  );

function holdTimes(rules: HoldRules | undefined): HoldTimes {
  if (rules === undefined) return usualHold;
  const { answerWithin, wait, remember } = rules;
  return {
    answerWithinMs: answerWithin === undefined ? usualHold.answerWithinMs : durationMs(answerWithin),
    waitMs: wait === undefined ? usualHold.waitMs : durationMs(wait),
    rememberMs: remember === undefined ? usualHold.rememberMs : durationMs(remember),
  };
}

/** A mistake in a policy; `place` is that in its condition. */
export interface PolicyMistakeFound extends Mistake {
  readonly place: Pick<ConditionError, "line" | "column"> | undefined;
}

/** Returns everything that is wrong with a policy. */
export function mistakesInPolicy({ about, effect, condition, hold }: Policy): PolicyMistakeFound[] {
  const found: PolicyMistakeFound[] = [];
  if (effectText(effect) === undefined) {
    found.push({ path: ["effect"], message: "must be allow, deny, hold or log", place: undefined });
  }
  if (hold !== undefined && effect !== PolicyEffect.HOLD) {
    found.push({ path: ["hold"], message: "is only for policies with the effect hold", place: undefined });
  }
  if (about !== undefined && about.kind.case === undefined) {
    found.push({ path: ["about"], message: "must name an integration, a key or an access session", place: undefined });
  }
  const compiled = compileCondition(condition);
  if (isCondition(compiled)) return found;
  const { message, line, column } = compiled;
  return [...found, { path: ["condition"], message, place: { line, column } }];
}
