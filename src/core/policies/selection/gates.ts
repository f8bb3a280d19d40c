import type { RequestFacts } from "../facts.ts";
import type { PolicyRule } from "../policy-rule.ts";
import { endsWith, startsWith } from "../text-tests.ts";
import { EvaluationFailure } from "../values.ts";
import type { PathTest } from "./guards.ts";

/** How a policy's tests of the path are decided: together with those of the other policies, or one by one. */
type PathGate = "none" | "prefix" | "part" | "own";

/** A policy, and how to tell cheaply that its condition is false. */
export interface GatedRule {
  readonly rule: PolicyRule;
  readonly pathGate: PathGate;
  readonly tests: readonly PathTest[];
  /** Empty: its condition needs no header. */
  readonly header: string;
  readonly headerValues: ReadonlySet<string> | undefined;
}

/** Longer texts are compared one by one: they would make the common expression large. */
const maxText = 64;
const maxTexts = 1_000;

export function gatedRule(rule: PolicyRule): GatedRule {
  const { path, header } = rule.guards;
  return {
    rule,
    pathGate: pathGateOf(path),
    tests: path ?? [],
    header: header?.name ?? "",
    headerValues: header?.values,
  };
}

function pathGateOf(tests: readonly PathTest[] | undefined): PathGate {
  if (tests === undefined) return "none";
  const isOf = (kind: PathTest["kind"]) => tests.every((test) => test.kind === kind && test.text.length <= maxText);
  if (tests.length === 0) return "own";
  return isOf("startsWith") ? "prefix" : isOf("contains") ? "part" : "own";
}

/** The expressions that match a path if any policy of a list may be about it. */
export interface PathGates {
  readonly prefix: RegExp | undefined;
  readonly part: RegExp | undefined;
}

export function pathGatesOf(rules: Iterable<GatedRule>): PathGates {
  const texts = { prefix: new Set<string>(), part: new Set<string>() };
  for (const { pathGate, tests } of rules) {
    if (pathGate === "prefix" || pathGate === "part") for (const { text } of tests) texts[pathGate].add(text);
  }
  return { prefix: expressionOf(texts.prefix, "^"), part: expressionOf(texts.part, "") };
}

/** Without an expression, all are tested one by one. */
function expressionOf(texts: ReadonlySet<string>, start: string): RegExp | undefined {
  if (texts.size === 0 || texts.size > maxTexts) return undefined;
  return new RegExp(`${start}(?:${[...texts].sort().map(RegExp.escape).join("|")})`);
}

/** What is known of one request while policies are looked at. */
export class RequestGates {
  readonly #facts: RequestFacts;
  readonly #gates: PathGates;
  /** Undefined: it was not read yet. */
  #path: string | EvaluationFailure | undefined;
  #hasPrefix: boolean | undefined;
  #hasPart: boolean | undefined;
  #header = "";
  #headerValue: string | undefined;

  constructor(facts: RequestFacts, gates: PathGates) {
    this.#facts = facts;
    this.#gates = gates;
  }

  /** Returns whether the condition of a policy is false, as far as that can be told without an evaluation. */
  isFalse(gated: GatedRule): boolean {
    return (
      (gated.pathGate !== "none" && !this.#passesPath(gated)) || (gated.header !== "" && !this.#passesHeader(gated))
    );
  }

  #passesPath({ pathGate, tests }: GatedRule): boolean {
    this.#path ??= this.#facts.path;
    const path = this.#path;
    // The condition says what it makes of the failure.
    if (path instanceof EvaluationFailure) return true;
    if (pathGate === "prefix") {
      this.#hasPrefix ??= this.#gates.prefix?.test(path) ?? true;
      if (!this.#hasPrefix) return false;
    } else if (pathGate === "part") {
      this.#hasPart ??= this.#gates.part?.test(path) ?? true;
      if (!this.#hasPart) return false;
    }
    for (const test of tests) if (passes(test, path)) return true;
    return false;
  }

  /** A header that is missing makes the test an error, and not false. */
  #passesHeader({ header, headerValues }: GatedRule): boolean {
    if (header !== this.#header) {
      const { headers } = this.#facts;
      this.#header = header;
      this.#headerValue = headers instanceof EvaluationFailure ? undefined : headers.get(header);
    }
    const value = this.#headerValue;
    return value === undefined || headerValues === undefined || headerValues.has(value);
  }
}

function passes({ kind, text }: PathTest, path: string): boolean {
  switch (kind) {
    case "startsWith":
      return startsWith(path, text);
    case "endsWith":
      return endsWith(path, text);
    case "contains":
      return path.includes(text);
    case "equals":
      return path === text;
  }
}
