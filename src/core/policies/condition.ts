import { parse } from "@bufbuild/cel";
import { ExpressionCompiler } from "./compile.ts";
import type { Evaluation } from "./facts.ts";
import { policyLimits } from "./limits.ts";
import { type Guards, guardsOf } from "./selection/guards.ts";
import * as types from "./static-type.ts";
import { ConditionMistake } from "./term.ts";
import { EvaluationFailure } from "./values.ts";
import type { PolicyVariable } from "./variables.ts";

/** A condition that was parsed, checked and compiled once. */
export interface PolicyCondition {
  readonly text: string;
  /** Variables that it reads. */
  readonly uses: ReadonlySet<PolicyVariable>;
  /** What a request needs so that the condition can be true or fail. */
  readonly guards: Guards;
  evaluate(evaluation: Evaluation): boolean | EvaluationFailure;
}

/** What is wrong with a condition, and where in its text; both numbers count from 1. */
export interface ConditionError {
  readonly message: string;
  readonly line: number;
  readonly column: number;
}

/** Compiles the text of a condition, or says what is wrong with it. */
export function compileCondition(text: string): PolicyCondition | ConditionError {
  if (text.length > policyLimits.text) {
    return { message: `the condition must have at most ${policyLimits.text} characters`, line: 1, column: 1 };
  }
  try {
    const parsed = parse(text);
    const compiler = new ExpressionCompiler(parsed);
    const { run, type } = compiler.compile(parsed.expr);
    if (!types.isDyn(type) && !types.isNamed(type, "bool")) {
      throw new ConditionMistake(`the condition must be a bool, not ${types.describeType(type)}`, 0);
    }
    return {
      text,
      uses: compiler.used,
      guards: guardsOf(parsed.expr),
      evaluate: (evaluation) => {
        const value = run(evaluation);
        return typeof value === "boolean" || value instanceof EvaluationFailure ? value : notBool;
      },
    };
  } catch (error) {
    return errorOf(text, error);
  }
}

export const isCondition = (made: PolicyCondition | ConditionError): made is PolicyCondition => "evaluate" in made;

const notBool = new EvaluationFailure("the condition is neither true nor false");

function errorOf(text: string, error: unknown): ConditionError {
  if (error instanceof ConditionMistake) {
    const before = text.slice(0, error.offset).split("\n");
    return { message: error.message, line: before.length, column: (before.at(-1)?.length ?? 0) + 1 };
  }
  if (error instanceof RangeError) return { message: "the condition is nested too deeply", line: 1, column: 1 };
  if (!(error instanceof Error)) throw error;
  const { line, column } = placeOf(error);
  return { message: `this is not CEL: ${error.message.replace(/^<input>:\d+:\d+: /, "")}`, line, column };
}

/** The parser's errors say where they are. */
function placeOf(error: object): { readonly line: number; readonly column: number } {
  const { location } = error as { readonly location?: { readonly start?: { line?: unknown; column?: unknown } } };
  const { line, column } = location?.start ?? {};
  return { line: typeof line === "number" ? line : 1, column: typeof column === "number" ? column : 1 };
}
