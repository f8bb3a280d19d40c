import type { Expression } from "./library.ts";

/** Variables by which policies are chosen before their conditions run. */
type GuardName = (typeof guardNames)[number];
const guardNames = [
  "request.method",
  "request.host",
  "integration.key",
  "integration.provider",
  "integration.environment",
  "caller.key",
] as const;

/**
 * Values of which a request must have one, or the condition is false: from `request.method == "POST" && …` and
 * `integration.key in ["a", "b"] && …`. Undefined: any value.
 */
export interface Guards {
  readonly values: { readonly [N in GuardName]?: ReadonlySet<string> };
  /** From `request.path.startsWith("/admin/") && …`. */
  readonly pathPrefix: string | undefined;
}

/** Reads the guards from the operands of the outermost `&&`. */
export function guardsOf(expression: Expression): Guards {
  const found: { [N in GuardName]?: ReadonlySet<string> } = {};
  const conjuncts = conjunctsOf(expression);
  for (const { name, values } of conjuncts.flatMap(guardOf)) found[name] ??= values;
  const [pathPrefix] = conjuncts.flatMap(pathPrefixOf);
  return { values: found, pathPrefix };
}

function conjunctsOf(expression: Expression): readonly Expression[] {
  const { exprKind } = expression;
  if (exprKind.case !== "callExpr" || exprKind.value.function !== "_&&_") return [expression];
  return exprKind.value.args.flatMap(conjunctsOf);
}

interface ValueGuard {
  readonly name: GuardName;
  readonly values: ReadonlySet<string>;
}

function guardOf({ exprKind }: Expression): readonly ValueGuard[] {
  if (exprKind.case !== "callExpr") return [];
  const { function: name, args } = exprKind.value;
  const [left, right] = args;
  if (left === undefined || right === undefined) return [];
  if (name === "_==_") return [...guardFrom(left, textsOf(right)), ...guardFrom(right, textsOf(left))];
  return name === "@in" ? guardFrom(left, elementsOf(right)) : [];
}

function guardFrom(variable: Expression, values: readonly string[] | undefined): readonly ValueGuard[] {
  const name = variableName(variable);
  return name === undefined || values === undefined || !isGuardName(name) ? [] : [{ name, values: new Set(values) }];
}

function pathPrefixOf({ exprKind }: Expression): readonly string[] {
  if (exprKind.case !== "callExpr" || exprKind.value.function !== "startsWith") return [];
  const { target, args } = exprKind.value;
  const [prefix] = args;
  if (target === undefined || prefix === undefined || variableName(target) !== "request.path") return [];
  return textsOf(prefix) ?? [];
}

function variableName({ exprKind }: Expression): string | undefined {
  if (exprKind.case !== "selectExpr") return undefined;
  const { operand, field, testOnly } = exprKind.value;
  if (testOnly || operand?.exprKind.case !== "identExpr") return undefined;
  return `${operand.exprKind.value.name}.${field}`;
}

const isGuardName = (name: string): name is GuardName => guardNames.some((one) => one === name);

function textsOf({ exprKind }: Expression): readonly string[] | undefined {
  if (exprKind.case !== "constExpr") return undefined;
  const { constantKind } = exprKind.value;
  return constantKind.case === "stringValue" ? [constantKind.value] : undefined;
}

function elementsOf({ exprKind }: Expression): readonly string[] | undefined {
  if (exprKind.case !== "listExpr") return undefined;
  const texts = exprKind.value.elements.map(textsOf);
  return texts.every((text) => text !== undefined) ? texts.flat() : undefined;
}
