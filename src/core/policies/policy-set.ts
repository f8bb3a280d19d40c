import { isCondition } from "./condition.ts";
import type { Evaluation, RequestFacts } from "./facts.ts";
import { policyLimits } from "./limits.ts";
import type { PolicyEffect, PolicyRule, PolicyScope } from "./policy-rule.ts";
import { startsWith } from "./text-tests.ts";
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

/** What policies can be about, besides the environment. */
export interface JudgedScopes {
  readonly integration: string;
  readonly key: string;
  /** Empty: none. */
  readonly session: string;
  /** Undefined: not known. */
  readonly host: string | undefined;
  readonly provider: string | undefined;
  readonly environment: string;
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

/** The policies that are about one combination of integration, key and session. */
interface PolicySelection {
  readonly deny: readonly PolicyRule[];
  /** By scope: at least one of each group must match. */
  readonly allow: readonly AllowGroup[];
  readonly hold: readonly PolicyRule[];
  readonly log: readonly PolicyRule[];
  /** The same without those whose condition is false for a method. */
  readonly byMethod: Map<string, PolicySelection>;
}

/** The `allow` policies of a scope. */
interface AllowGroup {
  readonly all: readonly PolicyRule[];
  /** Those whose condition may be true. Without any, nothing is allowed. */
  readonly possible: readonly PolicyRule[];
}

/** Selections that are kept; callers choose neither integrations nor keys, but there may be many of both. */
const maxSelections = 1_000;
const maxMethods = 20;

export function createPolicySet(rules: readonly PolicyRule[]): PolicySet {
  const selections = new Map<string, PolicySelection>();
  const sessions = new Set(rules.flatMap(({ scope }) => (scope.kind === "access_session" ? [scope.name] : [])));

  function selectionFor(about: JudgedScopes): PolicySelection {
    const { integration, key, session, host, provider } = about;
    const named = sessions.has(session) ? session : "";
    // An integration may be made again with another provider.
    const id = `${integration}\0${key}\0${named}\0${host ?? ""}\0${provider ?? ""}`;
    const known = selections.get(id);
    if (known !== undefined) return known;
    const made = select(
      rules.filter(({ scope }) => isAbout(scope, about)),
      about,
    );
    if (selections.size >= maxSelections) selections.clear();
    selections.set(id, made);
    return made;
  }

  return {
    rules,
    judge(facts, about) {
      const whole = selectionFor(about);
      return judge(forMethod(whole, facts.method), newEvaluation(facts));
    },
    explain(facts, about) {
      const selection = selectionFor(about);
      const evaluation = newEvaluation(facts);
      const looked = rules
        .filter(({ scope }) => isAbout(scope, about))
        .map((rule) => ({ rule, result: rule.evaluate(evaluation) }));
      return { verdict: judge(selection, newEvaluation(facts)), looked };
    },
  };
}

const newEvaluation = (facts: RequestFacts): Evaluation => ({ facts, locals: [], steps: policyLimits.steps });

function isAbout({ kind, name }: PolicyScope, { integration, key, session }: JudgedScopes): boolean {
  switch (kind) {
    case "environment":
      return true;
    case "integration":
      return name === integration;
    case "key":
      return name === key;
    case "access_session":
      return name === session;
  }
}

function select(rules: readonly PolicyRule[], about: JudgedScopes): PolicySelection {
  const of = (effect: PolicyEffect) => rules.filter((rule) => rule.effect === effect);
  const groups = Map.groupBy(of("allow"), ({ scope }) => `${scope.kind}\0${scope.name}`);
  const allow = [...groups.values()].map((all) => ({ all, possible: all }));
  const selection = { deny: of("deny"), allow, hold: of("hold"), log: of("log"), byMethod: new Map() };
  return narrowed(selection, ({ guards: { values } }) => {
    const { host, provider } = about;
    return (
      values["integration.key"]?.has(about.integration) !== false &&
      values["integration.environment"]?.has(about.environment) !== false &&
      values["caller.key"]?.has(about.key) !== false &&
      (host === undefined || values["request.host"]?.has(host) !== false) &&
      (provider === undefined || values["integration.provider"]?.has(provider) !== false)
    );
  });
}

/** Leaves out policies whose condition is false. */
const narrowed = (
  { deny, allow, hold, log }: PolicySelection,
  fits: (rule: PolicyRule) => boolean,
): PolicySelection => ({
  deny: deny.filter(fits),
  allow: allow.map(({ all, possible }) => ({ all, possible: possible.filter(fits) })),
  hold: hold.filter(fits),
  log: log.filter(fits),
  byMethod: new Map(),
});

/** Leaves out policies whose condition is false for this method. */
function forMethod(selection: PolicySelection, method: string | EvaluationFailure): PolicySelection {
  if (typeof method !== "string") return selection;
  const known = selection.byMethod.get(method);
  if (known !== undefined) return known;
  const made = narrowed(selection, ({ guards: { values } }) => values["request.method"]?.has(method) !== false);
  if (selection.byMethod.size < maxMethods) selection.byMethod.set(method, made);
  return made;
}

/** Most conditions of paths are decided by their prefix, without an evaluation. */
function evaluateRule(rule: PolicyRule, evaluation: Evaluation): boolean | EvaluationFailure {
  const { pathPrefix } = rule.guards;
  if (pathPrefix !== undefined) {
    const { path } = evaluation.facts;
    if (typeof path === "string" && !startsWith(path, pathPrefix)) return false;
  }
  return rule.evaluate(evaluation);
}

const none: readonly PolicyMatch[] = [];
const allowed: Verdict = { outcome: "allowed", logged: none };

function judge({ deny, allow, hold, log }: PolicySelection, evaluation: Evaluation): Verdict {
  let unknown: PolicyMatch[] | undefined;
  for (const rule of deny) {
    const result = evaluateRule(rule, evaluation);
    if (result === false) continue;
    const match = { rule, result };
    if (result !== true && result.isUnknown) unknown = [...(unknown ?? []), match];
    else return { outcome: "denied", by: match, logged: matching(log, evaluation) };
  }
  for (const group of allow) {
    const missed = missedIn(group, evaluation);
    if (missed === undefined) continue;
    const open = missed.filter(isUnknown);
    if (open.length > 0) unknown = [...(unknown ?? []), ...open];
    else {
      const [first] = group.all;
      if (first === undefined) continue;
      return { outcome: "not allowed", scope: first.scope, policies: missed, logged: matching(log, evaluation) };
    }
  }
  const holding = matching(hold, evaluation);
  const open = holding.filter(isUnknown);
  if (open.length > 0) unknown = [...(unknown ?? []), ...open];
  const matches = matching(log, evaluation);
  if (unknown !== undefined) return { outcome: "unknown", policies: unknown, logged: matches };
  if (holding.length > 0) return { outcome: "held", by: holding, logged: matches };
  return matches === none ? allowed : { outcome: "allowed", logged: matches };
}

const isUnknown = ({ result }: PolicyMatch): boolean => typeof result !== "boolean" && result.isUnknown;

/** Returns the results of a group of `allow` policies; undefined if one of them matched. */
function missedIn({ all, possible }: AllowGroup, evaluation: Evaluation): readonly PolicyMatch[] | undefined {
  const failures = new Map<PolicyRule, EvaluationFailure>();
  for (const rule of possible) {
    const result = evaluateRule(rule, evaluation);
    if (result === true) return undefined;
    if (result !== false) failures.set(rule, result);
  }
  return all.map((rule) => ({ rule, result: failures.get(rule) ?? false }));
}

/** Returns the policies that matched or failed. */
function matching(rules: readonly PolicyRule[], evaluation: Evaluation): readonly PolicyMatch[] {
  let matches: PolicyMatch[] | undefined;
  for (const rule of rules) {
    const result = evaluateRule(rule, evaluation);
    if (result === false) continue;
    matches ??= [];
    matches.push({ rule, result });
  }
  return matches ?? none;
}

/** Returns whether any policy reads a variable. */
export const readsVariable = ({ rules }: PolicySet, name: PolicyVariable): boolean =>
  rules.some(({ condition }) => isCondition(condition) && condition.uses.has(name));
