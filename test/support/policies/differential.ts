import { parse } from "@bufbuild/cel";
import { compileCondition, isCondition } from "../../../src/core/policies/condition.ts";
import { type Evaluation, readVariable } from "../../../src/core/policies/facts.ts";
import { planExpression } from "../../../src/core/policies/library.ts";
import { policyLimits } from "../../../src/core/policies/limits.ts";
import { LazyRequestFacts } from "../../../src/core/policies/request-facts.ts";
import { isVariable } from "../../../src/core/policies/variables.ts";
import { createRandom } from "./random.ts";
import { randomCondition } from "./random-conditions.ts";
import { randomRequest } from "./random-requests.ts";

export interface DifferentialReport {
  readonly compiled: number;
  readonly refused: number;
  /** How often each result came. */
  readonly results: { true: number; false: number; error: number };
  /** Conditions and requests for which our closures and the library disagree. */
  readonly differences: string[];
}

/** Compares our closures with the library's own evaluator, on random conditions and requests. */
export function compareEvaluators({ seed, conditions }: { readonly seed: number; readonly conditions: number }) {
  const random = createRandom(seed);
  const report: { compiled: number; refused: number } & DifferentialReport = {
    compiled: 0,
    refused: 0,
    results: { true: 0, false: 0, error: 0 },
    differences: [],
  };
  for (let i = 0; i < conditions; i += 1) {
    const text = randomCondition(random);
    const condition = compileCondition(text);
    if (!isCondition(condition)) {
      report.refused += 1;
      continue;
    }
    report.compiled += 1;
    const byLibrary = planExpression(parse(text).expr);
    for (let k = 0; k < 3; k += 1) {
      const request = randomRequest(random);
      const evaluation: Evaluation = { facts: new LazyRequestFacts(request), locals: [], steps: policyLimits.steps };
      const ours = nameOf(condition.evaluate(evaluation));
      const theirs = nameOf(byLibrary((name) => (isVariable(name) ? readVariable[name](evaluation) : undefined)));
      report.results[ours] += 1;
      if (ours !== theirs) {
        const { body, ...rest } = request;
        const sent = body.kind === "bytes" ? new TextDecoder().decode(body.bytes) : body.kind;
        report.differences.push(`${text}\n  ours ${ours}, library ${theirs}: ${JSON.stringify(rest)} body ${sent}`);
      }
    }
  }
  return report;
}

const nameOf = (value: unknown): "true" | "false" | "error" =>
  value === true ? "true" : value === false ? "false" : "error";
