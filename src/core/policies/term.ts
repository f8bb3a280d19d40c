import type { CelValue } from "@bufbuild/cel";
import type { Evaluation } from "./facts.ts";
import type { Expression } from "./library.ts";
import type { StaticType } from "./static-type.ts";
import type { EvaluationResult } from "./values.ts";

/** A compiled expression. */
export interface Term {
  readonly type: StaticType;
  readonly run: (evaluation: Evaluation) => EvaluationResult;
  /** Set if the value never depends on a request. */
  readonly constant?: { readonly value: CelValue };
  /** Nodes of the expression: the steps of one run within a loop. */
  readonly nodes: number;
}

/** What is wrong with a condition, and where. */
export class ConditionMistake extends Error {
  /** Characters before the mistake. */
  readonly offset: number;

  constructor(message: string, offset: number) {
    super(message);
    this.offset = offset;
  }
}

/** Compiles the parts of an expression. */
export interface TermCompiler {
  compile(expression: Expression | undefined): Term;
  /** Compiles with a variable of a macro; `slot` is where its value is. */
  withLocal<T>(local: { readonly name: string; readonly type: StaticType }, run: (slot: number) => T): T;
  offsetOf(expression: Expression): number;
}

export const constantTerm = (type: StaticType, value: CelValue): Term => ({
  type,
  run: () => value,
  constant: { value },
  nodes: 1,
});
