import { type CelValue, isCelList, isCelMap } from "@bufbuild/cel";
import { headerTerm, isHeaders, isKey } from "./compile-access.ts";
import { compileLogic } from "./compile-logic.ts";
import { type Expression, type FunctionForm, functionForms, planCall } from "./library.ts";
import { policyLimits } from "./limits.ts";
import { compilePattern, textTooLong } from "./pattern.ts";
import * as types from "./static-type.ts";
import { libraryStep, strictTerm, tooMuchWork } from "./strict-term.ts";
import { ConditionMistake, type Term, type TermCompiler } from "./term.ts";
import { endsWith, startsWith } from "./text-tests.ts";
import { compareTimes, EvaluationFailure, type EvaluationResult, equalSimple, timeMessageOf } from "./values.ts";

export type CallExpression = Extract<Expression["exprKind"], { case: "callExpr" }>["value"];

/** Compiles an operator or a call of a function. What has no closure here is evaluated by the library. */
export function compileCall(compiler: TermCompiler, expression: Expression, call: CallExpression): Term {
  const logic = compileLogic(compiler, call);
  if (logic !== undefined) return logic;
  const operands = call.target === undefined ? call.args : [call.target, ...call.args];
  const terms = operands.map((operand) => compiler.compile(operand));
  const [left, right] = terms;
  const type = resultType(compiler, expression, { call, terms });
  const site = { compiler, expression, terms, type };
  if (left !== undefined && right !== undefined) {
    switch (call.function) {
      case "_==_":
      case "_!=_":
        return compileEquality(site, left, right, call.function === "_==_");
      case "_<_":
      case "_<=_":
      case "_>_":
      case "_>=_":
        return compileOrder(site, left, right, call.function);
      case "@in":
        return compileIn(site, left, right);
      case "matches":
        return compileMatches(site, left, right);
      case "startsWith":
      case "endsWith":
      case "contains":
        if (types.isNamed(left.type, "string") && types.isNamed(right.type, "string")) {
          return compileTextTest(left, right, call.function);
        }
        break;
    }
  }
  const apply = planCall(call.function, call.target !== undefined, terms.length);
  if (call.function === "size") return strictTerm(compiler, { expression, type, terms, apply: sizeOr(apply) });
  return strictTerm(compiler, { expression, type, terms, apply, steps: libraryStep });
}

interface CallSite {
  readonly compiler: TermCompiler;
  readonly expression: Expression;
  readonly terms: readonly Term[];
  readonly type: types.StaticType;
}

interface TypedCall {
  readonly call: CallExpression;
  readonly terms: readonly Term[];
}

/** Returns the type of the result. Throws for a function that does not exist, or does not take these types. */
function resultType(compiler: TermCompiler, expression: Expression, { call, terms }: TypedCall): types.StaticType {
  const hasTarget = call.target !== undefined;
  const forms = functionForms(call.function);
  const shown = operatorName(call.function);
  const offset = compiler.offsetOf(expression);
  if (forms.length === 0) throw new ConditionMistake(`there is no function \`${shown}\``, offset);
  const fitting = forms.filter((form) => takes(form, hasTarget, terms));
  const [first] = fitting;
  if (first === undefined) {
    const given = terms.map(({ type }) => types.describeType(type)).join(", ");
    throw new ConditionMistake(`\`${shown}\` cannot be used with (${given})`, offset);
  }
  return fitting.every(({ result }) => types.nameOf(result) === types.nameOf(first.result)) ? first.result : types.dyn;
}

function takes({ target, parameters }: FunctionForm, hasTarget: boolean, terms: readonly Term[]): boolean {
  if ((target !== undefined) !== hasTarget) return false;
  const wanted = target === undefined ? parameters : [target, ...parameters];
  return (
    wanted.length === terms.length &&
    wanted.every((type, i) => {
      const given = terms[i]?.type ?? types.dyn;
      return types.isDyn(type) || types.isDyn(given) || types.nameOf(type) === types.nameOf(given);
    })
  );
}

const operatorName = (name: string): string => name.replaceAll("_", "").replace("@", "") || name;

function compileEquality(site: CallSite, left: Term, right: Term, isEqual: boolean): Term {
  const { compiler, expression, terms } = site;
  if (!types.isComparable(left.type, right.type)) {
    const text = `${types.describeType(left.type)} and ${types.describeType(right.type)} are never equal`;
    throw new ConditionMistake(text, compiler.offsetOf(expression));
  }
  const nodes = left.nodes + right.nodes + 1;
  const literal = right.constant?.value;
  if (typeof literal === "string" && left.constant === undefined) {
    const { run } = left;
    return {
      type: types.bool,
      nodes,
      run: (evaluation) => {
        const value = run(evaluation);
        return value instanceof EvaluationFailure ? value : (value === literal) === isEqual;
      },
    };
  }
  const library = planCall("_==_", false, 2);
  const apply = (values: readonly CelValue[]): EvaluationResult => {
    const [a = null, b = null] = values;
    const equal = equalSimple(a, b) ?? equalTimes(a, b) ?? library(values);
    return typeof equal === "boolean" ? equal === isEqual : equal;
  };
  return strictTerm(compiler, { expression, type: types.bool, terms, apply });
}

function equalTimes(left: CelValue, right: CelValue): boolean | undefined {
  const a = timeMessageOf(left);
  const b = timeMessageOf(right);
  if (a === undefined || b === undefined) return undefined;
  return a.$typeName === b.$typeName && compareTimes(a, b) === 0;
}

const orders = {
  "_<_": (order: number) => order < 0,
  "_<=_": (order: number) => order <= 0,
  "_>_": (order: number) => order > 0,
  "_>=_": (order: number) => order >= 0,
} as const;

function compileOrder(site: CallSite, left: Term, right: Term, name: keyof typeof orders): Term {
  const { compiler, expression, terms } = site;
  const isWanted = orders[name];
  const library = planCall(name, false, 2);
  const isTime = [left, right].every(({ type }) => type === types.timestamp || types.nameOf(type).startsWith("google"));
  const apply = (values: readonly CelValue[]): EvaluationResult => {
    const [a = null, b = null] = values;
    if (typeof a === typeof b && (typeof a === "string" || typeof a === "bigint")) {
      return isWanted(a === b ? 0 : a < (b as typeof a) ? -1 : 1);
    }
    const from = isTime ? timeMessageOf(a) : undefined;
    const to = isTime ? timeMessageOf(b) : undefined;
    if (from !== undefined && to !== undefined && from.$typeName === to.$typeName) {
      return isWanted(compareTimes(from, to));
    }
    return library(values);
  };
  return strictTerm(compiler, { expression, type: types.bool, terms, apply });
}

/** `in` of a map: a null value counts, as CEL's definition says, and unlike the library. */
function compileIn(site: CallSite, left: Term, right: Term): Term {
  const { compiler, expression, terms } = site;
  const { type } = right;
  const element = type.kind === "list" ? type.element : type.kind === "map" ? type.key : types.dyn;
  if (!types.isComparable(left.type, element)) {
    const text = `${types.describeType(left.type)} is never in ${types.describeType(type)}`;
    throw new ConditionMistake(text, compiler.offsetOf(expression));
  }
  const name = left.constant?.value;
  if (isHeaders(right) && typeof name === "string") {
    return headerTerm(compiler, expression, { name, isTest: true });
  }
  const texts = textsIn(right);
  if (texts !== undefined && left.constant === undefined) {
    const { run } = left;
    return {
      type: types.bool,
      nodes: left.nodes + 2,
      run: (evaluation) => {
        const value = run(evaluation);
        if (value instanceof EvaluationFailure) return value;
        return typeof value === "string" && texts.has(value);
      },
    };
  }
  const library = planCall("@in", false, 2);
  const apply = (values: readonly CelValue[]): EvaluationResult => {
    const [value = null, all = null] = values;
    if (isCelMap(all)) return isKey(value) ? all.get(value) !== undefined : noSuchKey;
    return library(values);
  };
  return strictTerm(compiler, { expression, type: types.bool, terms, apply });
}

const noSuchKey = new EvaluationFailure("a key of a map is a string, a bool or a number");

/** Returns the elements of a constant list of strings. */
function textsIn({ constant }: Term): ReadonlySet<string> | undefined {
  const value = constant?.value;
  if (!isCelList(value)) return undefined;
  const texts = new Set<string>();
  for (const one of value) {
    if (typeof one !== "string") return undefined;
    texts.add(one);
  }
  return texts;
}

const textTests = {
  startsWith,
  endsWith,
  contains: (text: string, part: string) => text.includes(part),
} as const;

function compileTextTest(left: Term, right: Term, name: keyof typeof textTests): Term {
  const test = textTests[name];
  const run: Term["run"] = (evaluation) => {
    const text = left.run(evaluation);
    if (text instanceof EvaluationFailure) return text;
    const part = right.run(evaluation);
    if (part instanceof EvaluationFailure) return part;
    if (typeof text !== "string" || typeof part !== "string") return notText;
    evaluation.steps -= text.length >> 6;
    return evaluation.steps < 0 ? tooMuchWork : test(text, part);
  };
  return { type: types.bool, run, nodes: left.nodes + right.nodes + 1 };
}

const notText = new EvaluationFailure("the value is not a string");
const tooLong = new EvaluationFailure(textTooLong);

function compileMatches({ compiler, expression }: CallSite, left: Term, right: Term): Term {
  const text = right.constant?.value;
  const offset = compiler.offsetOf(expression);
  if (typeof text !== "string") throw new ConditionMistake("the pattern of `matches` must be a literal", offset);
  const pattern = checkedPattern(text, offset);
  const run: Term["run"] = (evaluation) => {
    const value = left.run(evaluation);
    if (value instanceof EvaluationFailure) return value;
    if (typeof value !== "string") return notText;
    if (value.length > policyLimits.matchedText) return tooLong;
    evaluation.steps -= (value.length * pattern.size) >> 4;
    return evaluation.steps < 0 ? tooMuchWork : pattern.test(value);
  };
  return { type: types.bool, run, nodes: left.nodes + 2 };
}

function checkedPattern(text: string, offset: number) {
  try {
    return compilePattern(text);
  } catch (error) {
    throw new ConditionMistake(error instanceof Error ? error.message : "the pattern is not valid", offset);
  }
}

/** `size` of a text counts code points; most texts are ASCII. */
const sizeOr =
  (library: (values: readonly CelValue[]) => EvaluationResult) =>
  (values: readonly CelValue[]): EvaluationResult => {
    const [value] = values;
    if (isCelList(value) || isCelMap(value)) return BigInt(value.size);
    if (typeof value !== "string") return library(values);
    let size = value.length;
    for (let i = 0; i < value.length - 1; i += 1) {
      if (isHighSurrogate(value.charCodeAt(i)) && isLowSurrogate(value.charCodeAt(i + 1))) size -= 1;
    }
    return BigInt(size);
  };

const isHighSurrogate = (unit: number) => unit >= 0xd800 && unit <= 0xdbff;
const isLowSurrogate = (unit: number) => unit >= 0xdc00 && unit <= 0xdfff;
