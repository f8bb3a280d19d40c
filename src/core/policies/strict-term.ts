import type { CelValue } from "@bufbuild/cel";
import type { Expression } from "./library.ts";
import type { StaticType } from "./static-type.ts";
import { ConditionMistake, constantTerm, type Term, type TermCompiler } from "./term.ts";
import { EvaluationFailure, type EvaluationResult, stepsFor } from "./values.ts";

interface StrictNode {
  readonly expression: Expression;
  readonly type: StaticType;
  readonly terms: readonly Term[];
  /** Steps of `apply`; a function of the library takes as long as many closures. */
  readonly steps?: number;
  readonly apply: (operands: readonly CelValue[]) => EvaluationResult;
}

/** A node that needs the values of all its operands. Evaluated at once if they are constant. */
export function strictTerm(compiler: TermCompiler, { expression, type, terms, apply, steps = 1 }: StrictNode): Term {
  const nodes = terms.reduce((sum, term) => sum + term.nodes, 1);
  const constants = terms.flatMap(({ constant }) => (constant === undefined ? [] : [constant.value]));
  if (constants.length === terms.length) {
    const value = apply(constants);
    if (value instanceof EvaluationFailure) throw new ConditionMistake(value.message, compiler.offsetOf(expression));
    return constantTerm(type, value);
  }
  const run: Term["run"] = (evaluation) => {
    const operands: CelValue[] = [];
    evaluation.steps -= steps;
    for (const term of terms) {
      const value = term.run(evaluation);
      if (value instanceof EvaluationFailure) return value;
      evaluation.steps -= stepsFor(value);
      operands.push(value);
    }
    return evaluation.steps < 0 ? tooMuchWork : apply(operands);
  };
  return { type, run, nodes };
}

/** Every request has a budget of steps, so that no condition can slow it down. */
export const tooMuchWork = new EvaluationFailure("the conditions of this request take too much work");

export const libraryStep = 20;
