import type { JsonValue } from "@bufbuild/protobuf";

/** `a.0.b\.c` as its names, `a`, `0` and `b.c`; undefined where one of them is empty. */
export function stepsOf(path: string): readonly string[] | undefined {
  const steps = path.split(/(?<!\\)\./).map((step) => step.replaceAll("\\.", "."));
  return steps.includes("") ? undefined : steps;
}

/** What stands at a path of a provider's description in what the provider answered; undefined where nothing does. */
export function valueAt(path: string, answer: JsonValue): JsonValue | undefined {
  let value: JsonValue | undefined = answer;
  for (const step of stepsOf(path) ?? []) value = within(value, step);
  return value;
}

/**
 * All that stands at a path in which `*` is every element of a list: as many as there are elements, undefined where one
 * has nothing there. Of an object, `*` is a field like any other.
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
  // Own fields alone: `constructor` is a field like any other.
  return Object.hasOwn(value, step) ? value[step] : undefined;
}
