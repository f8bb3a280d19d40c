import {
  type CelFunc,
  type CelInput,
  CelScalar,
  type CelValue,
  celEnv,
  celMethod,
  objectType,
  type parse,
  plan,
} from "@bufbuild/cel";
import { TimestampSchema } from "@bufbuild/protobuf/wkt";
import { matchPattern } from "./pattern.ts";
import { type StaticType, staticTypeOf } from "./static-type.ts";
import { timeFields } from "./time-fields.ts";
import { type EvaluationResult, libraryResultOf, resultOf } from "./values.ts";

export type Expression = ReturnType<typeof parse>["expr"];

const { INT, STRING } = CelScalar;
const TIMESTAMP = objectType(TimestampSchema);

/** `getHours` and its like: the library's use the time zone of the process, and make a formatter for each call. */
const timeMethods: CelFunc[] = Object.entries(timeFields).flatMap(([name, read]) => [
  celMethod(name, TIMESTAMP, [], INT, function () {
    return read(this.message, undefined);
  }),
  celMethod(name, TIMESTAMP, [STRING], INT, function (zone: string) {
    return read(this.message, zone);
  }),
]);

let env: ReturnType<typeof celEnv> | undefined;

/**
 * The functions and types of CEL, made with the first condition: 3 % of a start. Patterns are compiled once and
 * bounded; see `pattern.ts`.
 */
export function conditionEnv(): ReturnType<typeof celEnv> {
  env ??= celEnv({
    funcs: timeMethods,
    re2: { compile: (pattern) => ({ test: (text) => matchPattern(pattern, text) }) },
  });
  return env;
}

const identifier = (index: number): Expression => ({
  $typeName: "cel.expr.Expr",
  id: BigInt(index + 2),
  exprKind: { case: "identExpr", value: { $typeName: "cel.expr.Expr.Ident", name: argumentName(index) } },
});

const argumentName = (index: number): string => `a${index}`;

/** Evaluates one node of an expression with the values of its operands. */
export type LibraryNode = (operands: readonly CelValue[]) => EvaluationResult;

/** Returns the library's evaluation of one node, whose operands are passed as values. */
export function planNode(make: (operand: (index: number) => Expression) => Expression["exprKind"]): LibraryNode {
  const evaluate = plan(conditionEnv(), { $typeName: "cel.expr.Expr", id: 1n, exprKind: make(identifier) });
  return (operands) => {
    const bindings: Record<string, CelInput> = {};
    for (const [index, value] of operands.entries()) bindings[argumentName(index)] = value;
    return resultOf(evaluate(bindings));
  };
}

/** Returns the library's evaluation of a call. The first operand is the target, if there is one. */
export const planCall = (name: string, hasTarget: boolean, count: number): LibraryNode =>
  planNode((operand) => {
    const operands = Array.from({ length: count }, (_, index) => operand(index));
    const [target, ...rest] = operands;
    const call = { $typeName: "cel.expr.Expr.Call" as const, function: name };
    return hasTarget && target !== undefined
      ? { case: "callExpr", value: { ...call, target, args: rest } }
      : { case: "callExpr", value: { ...call, args: operands } };
  });

/** Returns the value of a variable by its dotted name; undefined: there is no such variable. */
type ValueReader = (name: string) => EvaluationResult | undefined;

/** Evaluates a whole condition with the library alone. */
export function planExpression(expression: Expression): (read: ValueReader) => EvaluationResult {
  const evaluate = plan(conditionEnv(), expression);
  return (read) => {
    // The library looks variables up as properties, and tries longer names first: `request.headers.a`.
    const bindings = new Proxy<Record<string, CelInput>>(Object.create(null), {
      get(_, name) {
        const value = typeof name === "string" ? read(name) : undefined;
        return value === undefined ? undefined : libraryResultOf(value);
      },
    });
    return resultOf(evaluate(bindings));
  };
}

/** A form in which a function can be called. */
export interface FunctionForm {
  readonly target: StaticType | undefined;
  readonly parameters: readonly StaticType[];
  readonly result: StaticType;
}

const forms = new Map<string, readonly FunctionForm[]>();

/** Returns the forms of a function; none: there is no such function. */
export function functionForms(name: string): readonly FunctionForm[] {
  const known = forms.get(name);
  if (known !== undefined) return known;
  const made = [...(conditionEnv().funcs.find(name) ?? [])].map((form) => ({
    target: form.target === undefined ? undefined : staticTypeOf(form.target),
    parameters: form.arguments.map(staticTypeOf),
    result: staticTypeOf(form.result),
  }));
  if (made.length > 0) forms.set(name, made);
  return made;
}
