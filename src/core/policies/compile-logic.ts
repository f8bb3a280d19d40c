import type { Expression } from "./library.ts";
import * as types from "./static-type.ts";
import { ConditionMistake, type Term, type TermCompiler } from "./term.ts";
import { EvaluationFailure, type EvaluationResult, worseFailure } from "./values.ts";

interface LogicCall {
  readonly function: string;
  readonly args: readonly Expression[];
}

/** Compiles `&&`, `||`, `!` and `?:`, which do not need the values of all their operands. */
export function compileLogic(compiler: TermCompiler, call: LogicCall): Term | undefined {
  switch (call.function) {
    case "_&&_":
      return compileJunction(compiler, call.args, false);
    case "_||_":
      return compileJunction(compiler, call.args, true);
    case "!_":
      return compileNot(compiler, call.args);
    case "_?_:_":
      return compileConditional(compiler, call.args);
    default:
      return undefined;
  }
}

/**
 * An operand that decides makes errors of the others irrelevant, in either order: `false && error` is false. `decisive`
 * is that value: false for `&&`.
 */
function compileJunction(compiler: TermCompiler, args: readonly Expression[], decisive: boolean): Term {
  const terms = args.map((arg) => requireBool(compiler, arg));
  const nodes = terms.reduce((sum, term) => sum + term.nodes, 1);
  const [first, second] = terms;
  if (terms.length === 2 && first !== undefined && second !== undefined) {
    const { run: left } = first;
    const { run: right } = second;
    return {
      type: types.bool,
      nodes,
      run: (evaluation) => {
        const one = left(evaluation);
        if (one === decisive) return decisive;
        const other = right(evaluation);
        if (other === decisive) return decisive;
        if (one === !decisive && other === !decisive) return !decisive;
        return joinFailures(one, other);
      },
    };
  }
  const run: Term["run"] = (evaluation) => {
    let result: EvaluationResult = !decisive;
    for (const term of terms) {
      const value = term.run(evaluation);
      if (value === decisive) return decisive;
      if (value !== !decisive) result = joinFailures(result, value);
    }
    return result;
  };
  return { type: types.bool, run, nodes };
}

function joinFailures(one: EvaluationResult, other: EvaluationResult): EvaluationFailure {
  const failures = [one, other].flatMap((value) =>
    typeof value === "boolean" ? [] : [value instanceof EvaluationFailure ? value : notBool],
  );
  return failures.reduce<EvaluationFailure | undefined>(worseFailure, undefined) ?? notBool;
}

const notBool = new EvaluationFailure("the value is not true or false");

function compileNot(compiler: TermCompiler, args: readonly Expression[]): Term {
  const [arg] = args;
  const { run, nodes } = requireBool(compiler, arg);
  return {
    type: types.bool,
    nodes: nodes + 1,
    run: (evaluation) => {
      const value = run(evaluation);
      if (typeof value === "boolean") return !value;
      return value instanceof EvaluationFailure ? value : notBool;
    },
  };
}

function compileConditional(compiler: TermCompiler, args: readonly Expression[]): Term {
  const [condition, then, otherwise] = args;
  const test = requireBool(compiler, condition);
  const first = compiler.compile(then);
  const second = compiler.compile(otherwise);
  return {
    type: types.joinTypes(first.type, second.type),
    nodes: test.nodes + first.nodes + second.nodes + 1,
    run: (evaluation) => {
      const value = test.run(evaluation);
      if (value === true) return first.run(evaluation);
      if (value === false) return second.run(evaluation);
      return value instanceof EvaluationFailure ? value : notBool;
    },
  };
}

function requireBool(compiler: TermCompiler, expression: Expression | undefined): Term {
  const term = compiler.compile(expression);
  if (types.isDyn(term.type) || types.isNamed(term.type, "bool")) return term;
  const offset = expression === undefined ? 0 : compiler.offsetOf(expression);
  throw new ConditionMistake(`must be a bool, not ${types.describeType(term.type)}`, offset);
}
