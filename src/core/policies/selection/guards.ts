import type { Expression } from "../library.ts";

/** Variables by which policies are chosen before their conditions run. */
type GuardName = (typeof guardNames)[number];
const guardNames = [
  "request.method",
  "request.host",
  "integration.key",
  "integration.provider",
  "integration.environment",
  "caller.key",
  "connection.id",
] as const;

/** A test of `request.path` with a literal. */
export interface PathTest {
  readonly kind: "startsWith" | "endsWith" | "contains" | "equals";
  readonly text: string;
}

/** A header that must have one of these values, or be missing. */
export interface HeaderGuard {
  readonly name: string;
  readonly values: ReadonlySet<string>;
}

/**
 * What a request must have: without it the condition is false, whatever its other parts say. All of it is read from the
 * operands of the outermost `&&`, each of which may be an `||` of tests of the same variable.
 */
export interface Guards {
  /** Values of which a request must have one, as in `integration.key in ["a", "b"]`. Undefined: any. */
  readonly values: { readonly [N in GuardName]?: ReadonlySet<string> };
  /** Tests of which the path must pass one, as in `request.path.startsWith("/admin/")`. Undefined: any path. */
  readonly path: readonly PathTest[] | undefined;
  /** From `request.headers["x-team"] == "a"`. Undefined: any headers. */
  readonly header: HeaderGuard | undefined;
}

export const noGuards: Guards = { values: {}, path: undefined, header: undefined };

/** Reads the guards of a condition. */
export function guardsOf(expression: Expression): Guards {
  const values: { [N in GuardName]?: ReadonlySet<string> } = {};
  let path: readonly PathTest[] | undefined;
  let header: HeaderGuard | undefined;
  for (const conjunct of operandsOf(expression, "_&&_")) {
    const tests = operandsOf(conjunct, "_||_").map(testOf);
    const [first] = tests;
    if (first === undefined || !tests.every((test) => test?.subject === first.subject)) continue;
    const { subject } = first;
    const known = tests.filter((test) => test !== undefined);
    if (subject === "request.path") {
      path ??= known.flatMap((test) => test.path);
      continue;
    }
    const texts = new Set(known.flatMap((test) => test.path.map(({ text }) => text)));
    if (isGuardName(subject)) values[subject] ??= texts;
    else if (subject.startsWith(headerSubject)) header ??= { name: subject.slice(headerSubject.length), values: texts };
  }
  return { values, path, header };
}

/** A test of a variable, which is false unless one of these tests of its text passes. */
interface SubjectTest {
  readonly subject: string;
  readonly path: readonly PathTest[];
}

const headerSubject = "header ";

function operandsOf(expression: Expression, operator: "_&&_" | "_||_"): readonly Expression[] {
  const { exprKind } = expression;
  if (exprKind.case !== "callExpr" || exprKind.value.function !== operator) return [expression];
  return exprKind.value.args.flatMap((arg) => operandsOf(arg, operator));
}

function testOf({ exprKind }: Expression): SubjectTest | undefined {
  if (exprKind.case !== "callExpr") return undefined;
  const { function: name, args, target } = exprKind.value;
  const [left, right] = args;
  switch (name) {
    case "_==_":
      return equalTest(left, textsOf(right)) ?? equalTest(right, textsOf(left));
    case "@in":
      return equalTest(left, elementsOf(right));
    case "startsWith":
    case "endsWith":
    case "contains": {
      const subject = target && subjectOf(target);
      const [text] = textsOf(left) ?? [];
      // Other variables are compared by their values alone.
      if (subject !== "request.path" || text === undefined) return undefined;
      return { subject, path: [{ kind: name, text }] };
    }
    default:
      return undefined;
  }
}

function equalTest(operand: Expression | undefined, texts: readonly string[] | undefined): SubjectTest | undefined {
  const subject = operand && subjectOf(operand);
  if (subject === undefined || texts === undefined) return undefined;
  return { subject, path: texts.map((text) => ({ kind: "equals", text })) };
}

/** Returns `request.path`, or `header x-team` for `request.headers["x-team"]` and `request.headers.x`. */
function subjectOf({ exprKind }: Expression): string | undefined {
  if (exprKind.case === "callExpr") {
    const { function: name, args } = exprKind.value;
    const [map, index] = args;
    if (name !== "_[_]" || map === undefined || subjectOf(map) !== "request.headers") return undefined;
    const [field] = textsOf(index) ?? [];
    return field === undefined ? undefined : headerSubject + field;
  }
  if (exprKind.case !== "selectExpr") return undefined;
  const { operand, field, testOnly } = exprKind.value;
  if (testOnly || operand === undefined) return undefined;
  if (operand.exprKind.case === "identExpr") return `${operand.exprKind.value.name}.${field}`;
  return subjectOf(operand) === "request.headers" ? headerSubject + field : undefined;
}

const isGuardName = (name: string): name is GuardName => guardNames.some((one) => one === name);

function textsOf(expression: Expression | undefined): readonly string[] | undefined {
  if (expression?.exprKind.case !== "constExpr") return undefined;
  const { constantKind } = expression.exprKind.value;
  return constantKind.case === "stringValue" ? [constantKind.value] : undefined;
}

function elementsOf(expression: Expression | undefined): readonly string[] | undefined {
  if (expression?.exprKind.case !== "listExpr") return undefined;
  const texts = expression.exprKind.value.elements.map(textsOf);
  return texts.every((text) => text !== undefined) ? texts.flat() : undefined;
}
