import { type CelValue, celList, isCelList, isCelMap } from "@bufbuild/cel";
import type { Evaluation } from "./facts.ts";
import type { Expression } from "./library.ts";
import * as types from "./static-type.ts";
import { tooMuchWork } from "./strict-term.ts";
import { ConditionMistake, type Term, type TermCompiler } from "./term.ts";
import { EvaluationFailure, type EvaluationResult, stepsFor, worseFailure } from "./values.ts";

type Comprehension = Extract<Expression["exprKind"], { case: "comprehensionExpr" }>["value"];

/** A macro, read back from the loop that the parser made of it. */
interface Macro {
  readonly kind: "exists" | "all" | "exists_one" | "map" | "filter";
  readonly test: Expression | undefined;
  /** The element of the result; undefined for a macro without a list. */
  readonly element: Expression | undefined;
}

/** Compiles `exists`, `all`, `exists_one`, `filter` and `map`. */
export function compileMacro(compiler: TermCompiler, expression: Expression, loop: Comprehension): Term {
  const offset = compiler.offsetOf(expression);
  const range = compiler.compile(loop.iterRange);
  const type = elementType(range.type);
  if (type === undefined) {
    throw new ConditionMistake(`a macro takes a list or a map, not a ${types.describeType(range.type)}`, offset);
  }
  const macro = macroOf(loop);
  if (macro === undefined) throw new ConditionMistake("there is no such macro", offset);
  return located(offset, () =>
    compiler.withLocal({ name: loop.iterVar, type }, (slot) => {
      const test = macro.test === undefined ? undefined : requireBool(compiler, macro.test);
      const element = macro.element === undefined ? undefined : compiler.compile(macro.element);
      const step = (test?.nodes ?? 0) + (element?.nodes ?? 0) + 1;
      const visitor = { kind: macro.kind, test, element };
      const run: Term["run"] = (evaluation) => {
        const value = range.run(evaluation);
        if (value instanceof EvaluationFailure) return value;
        const items = isCelList(value) ? value : isCelMap(value) ? value.keys() : undefined;
        return items === undefined ? notIterable : runMacro(visitor, { items, slot, step, evaluation });
      };
      const result = macro.element === undefined ? types.bool : types.listOf(element?.type ?? types.dyn);
      return { type: result, run, nodes: range.nodes + step };
    }),
  );
}

const notIterable = new EvaluationFailure("a macro takes a list or a map");
const notBool = new EvaluationFailure("the condition of a macro must be true or false");

interface MacroTerms {
  readonly kind: Macro["kind"];
  readonly test: Term | undefined;
  readonly element: Term | undefined;
}

interface Loop {
  readonly items: Iterable<CelValue>;
  readonly slot: number;
  readonly step: number;
  readonly evaluation: Evaluation;
}

function runMacro({ kind, test, element }: MacroTerms, { items, slot, step, evaluation }: Loop): EvaluationResult {
  const kept: CelValue[] = [];
  let failure: EvaluationFailure | undefined;
  let matches = 0;
  for (const item of items) {
    evaluation.steps -= step;
    if (evaluation.steps < 0) return tooMuchWork;
    evaluation.locals[slot] = item;
    const result = test === undefined ? true : test.run(evaluation);
    if (kind === "exists" && result === true) return true;
    if (kind === "all" && result === false) return false;
    if (typeof result !== "boolean") {
      failure = worseFailure(failure, result instanceof EvaluationFailure ? result : notBool);
    } else if (result) {
      matches += 1;
      const value = element?.run(evaluation);
      if (value instanceof EvaluationFailure) failure = worseFailure(failure, value);
      else if (value !== undefined) {
        evaluation.steps -= stepsFor(value);
        kept.push(value);
      }
    }
  }
  if (failure !== undefined) return failure;
  if (element !== undefined) return celList(kept);
  return kind === "exists_one" ? matches === 1 : kind === "all";
}

function elementType(range: types.StaticType): types.StaticType | undefined {
  if (types.isDyn(range)) return types.dyn;
  if (range.kind === "list") return range.element;
  return range.kind === "map" ? range.key : undefined;
}

function requireBool(compiler: TermCompiler, expression: Expression): Term {
  const term = compiler.compile(expression);
  if (types.isDyn(term.type) || types.isNamed(term.type, "bool")) return term;
  throw new ConditionMistake(
    `the condition of a macro must be a bool, not ${types.describeType(term.type)}`,
    compiler.offsetOf(expression),
  );
}

/** The compiler knows names and depths of macros, and no positions. */
function located<T>(offset: number, run: () => T): T {
  try {
    return run();
  } catch (error) {
    if (error instanceof ConditionMistake && error.offset === 0) throw new ConditionMistake(error.message, offset);
    throw error;
  }
}

function macroOf({ accuInit, loopStep }: Comprehension): Macro | undefined {
  const step = loopStep?.exprKind;
  const init = accuInit?.exprKind;
  if (step?.case !== "callExpr" || init === undefined) return undefined;
  const [first, second] = step.value.args;
  if (init.case === "constExpr") {
    const { constantKind } = init.value;
    if (constantKind.case === "int64Value") return { kind: "exists_one", test: first, element: undefined };
    return { kind: constantKind.value === true ? "all" : "exists", test: second, element: undefined };
  }
  if (step.value.function === "_+_") return { kind: "map", test: undefined, element: addedElement(loopStep) };
  return { kind: "filter", test: first, element: addedElement(second) };
}

/** Returns `element` of `@result + [element]`. */
function addedElement(sum: Expression | undefined): Expression | undefined {
  if (sum?.exprKind.case !== "callExpr") return undefined;
  const list = sum.exprKind.value.args[1]?.exprKind;
  return list?.case === "listExpr" ? list.value.elements[0] : undefined;
}
