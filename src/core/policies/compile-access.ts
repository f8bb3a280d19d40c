import { type CelMap, type CelUint, type CelValue, isCelList, isCelMap, isCelUint } from "@bufbuild/cel";
import { readVariable } from "./facts.ts";
import { type Expression, planNode } from "./library.ts";
import * as types from "./static-type.ts";
import { strictTerm } from "./strict-term.ts";
import { ConditionMistake, type Term, type TermCompiler } from "./term.ts";
import { EvaluationFailure, type EvaluationResult } from "./values.ts";

interface FieldSelection {
  readonly operand: Expression | undefined;
  readonly field: string;
  /** The expression is `has(…)`. */
  readonly testOnly: boolean;
}

/** Compiles `operand.field` and `has(operand.field)`. */
export function compileSelect(
  compiler: TermCompiler,
  expression: Expression,
  { operand, field, testOnly }: FieldSelection,
): Term {
  const from = compiler.compile(operand);
  const { type } = from;
  if (type.kind === "list" || (type.kind === "simple" && !types.isDyn(type))) {
    throw new ConditionMistake(
      `a ${types.describeType(type)} has no field \`${field}\``,
      compiler.offsetOf(expression),
    );
  }
  if (type.kind === "map") requireComparable(compiler, expression, type.key, types.string);
  if (isHeaders(from)) return headerTerm(compiler, expression, { name: field, isTest: testOnly });
  const missing = new EvaluationFailure(`there is no field "${field}"`);
  const ofMessage = planNode((value) => ({
    case: "selectExpr",
    value: { $typeName: "cel.expr.Expr.Select", operand: value(0), field, testOnly },
  }));
  const apply = ([value]: readonly CelValue[]): EvaluationResult => {
    if (isCelMap(value)) {
      const found = value.get(field);
      if (testOnly) return found !== undefined;
      return found === undefined ? missing : found;
    }
    if (typeof value !== "object" || value === null || isCelList(value)) return testOnly ? false : missing;
    return ofMessage([value]);
  };
  const result = testOnly ? types.bool : type.kind === "map" ? type.value : types.dyn;
  return strictTerm(compiler, { expression, type: result, terms: [from], apply });
}

/** Compiles `operand[index]`. */
export function compileIndex(compiler: TermCompiler, expression: Expression, args: readonly Expression[]): Term {
  const from = compiler.compile(args[0]);
  const index = compiler.compile(args[1]);
  const { type } = from;
  if (type.kind === "simple" && !types.isDyn(type)) {
    throw new ConditionMistake(`a ${types.describeType(type)} has no index`, compiler.offsetOf(expression));
  }
  if (type.kind === "list") requireComparable(compiler, expression, index.type, types.int);
  if (type.kind === "map") requireComparable(compiler, expression, type.key, index.type);
  const name = index.constant?.value;
  if (isHeaders(from) && typeof name === "string") {
    return headerTerm(compiler, expression, { name, isTest: false });
  }
  const result = type.kind === "list" ? type.element : type.kind === "map" ? type.value : types.dyn;
  return strictTerm(compiler, { expression, type: result, terms: [from, index], apply: elementAt });
}

function elementAt([value, index]: readonly CelValue[]): EvaluationResult {
  if (isCelList(value)) {
    const found = isNumeric(index) ? value.get(Number(isCelUint(index) ? index.value : index)) : undefined;
    return found === undefined ? outOfRange : found;
  }
  if (!isCelMap(value) || !isKey(index)) return outOfRange;
  const found = value.get(index);
  return found === undefined ? outOfRange : found;
}

const outOfRange = new EvaluationFailure("there is no such element");

type MapKey = Parameters<CelMap["get"]>[0];

const isNumeric = (value: CelValue | undefined): value is bigint | number | CelUint =>
  typeof value === "bigint" || typeof value === "number" || isCelUint(value);

export const isKey = (value: CelValue | undefined): value is MapKey =>
  typeof value === "string" || typeof value === "boolean" || isNumeric(value);

function requireComparable(
  compiler: TermCompiler,
  expression: Expression,
  left: types.StaticType,
  right: types.StaticType,
): void {
  if (types.isComparable(left, right)) return;
  throw new ConditionMistake(
    `the index must be of the type ${types.describeType(left)}, not ${types.describeType(right)}`,
    compiler.offsetOf(expression),
  );
}

export const isHeaders = ({ run }: Term): boolean => run === readVariable["request.headers"];

interface HeaderRequest {
  readonly name: string;
  readonly isTest: boolean;
}

/** Looks a header up without making a map of all headers for CEL. */
export function headerTerm(compiler: TermCompiler, expression: Expression, { name, isTest }: HeaderRequest): Term {
  requireHeaderName(compiler, expression, name);
  const missing = new EvaluationFailure(`there is no header "${name}"`);
  const run: Term["run"] = ({ facts: { headers } }) => {
    if (headers instanceof EvaluationFailure) return headers;
    const value = headers.get(name);
    if (isTest) return value !== undefined;
    return value === undefined ? missing : value;
  };
  return { type: isTest ? types.bool : types.string, run, nodes: 2 };
}

function requireHeaderName(compiler: TermCompiler, expression: Expression, name: string): void {
  const lower = name.toLowerCase();
  if (name === lower) return;
  throw new ConditionMistake(`names of headers are in lower case: "${lower}"`, compiler.offsetOf(expression));
}
