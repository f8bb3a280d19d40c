import type { JsonValue } from "@bufbuild/protobuf";

/** Splits `a.0.b\.c` into its names, `a`, `0` and `b.c`; undefined if a name is empty. */
export function stepsOf(path: string): readonly string[] | undefined {
  const steps = path.split(/(?<!\\)\./).map((step) => step.replaceAll("\\.", "."));
  return steps.includes("") ? undefined : steps;
}

/** Returns the value at a path in a provider's response; undefined if there is none. */
export function valueAt(path: string, answer: JsonValue): JsonValue | undefined {
  let value: JsonValue | undefined = answer;
  for (const step of stepsOf(path) ?? []) value = within(value, step);
  return value;
}

/**
 * Returns all values at a path in which `*` matches every element of an array: one per element, undefined where an
 * element has no value. In an object, `*` is an ordinary field name.
 */
export function valuesAt(path: string, body: JsonValue): readonly (JsonValue | undefined)[] {
  let values: readonly (JsonValue | undefined)[] = [body];
  for (const step of stepsOf(path) ?? []) {
    values = values.flatMap((value): readonly (JsonValue | undefined)[] =>
      step === "*" && Array.isArray(value) ? value : [within(value, step)],
    );
  }
  return values;
}

function within(value: JsonValue | undefined, step: string): JsonValue | undefined {
  if (typeof value !== "object" || value === null) return undefined;
  if (Array.isArray(value)) return /^\d{1,9}$/.test(step) ? value[Number(step)] : undefined;
  // Own fields only: `constructor` is an ordinary field name here.
  return Object.hasOwn(value, step) ? value[step] : undefined;
}
