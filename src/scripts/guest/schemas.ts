interface Issue {
  readonly path?: readonly unknown[];
  readonly message: string;
}

interface ParseResult {
  readonly success: boolean;
  readonly data?: unknown;
  readonly error?: { readonly issues?: readonly Issue[] };
}

/** As much of a schema as zod 3 and 4 have in common, and what 4 has beside. */
interface ZodLike {
  safeParseAsync?(value: unknown): Promise<ParseResult>;
  toJSONSchema?(options: unknown): unknown;
  readonly _def?: { readonly typeName?: string; readonly type?: string };
}

const asSchema = (value: unknown): ZodLike | undefined =>
  typeof value === "object" && value !== null ? (value as ZodLike) : undefined;

/** `z.void()` and its like: the script wants nothing. */
export function isNothing(schema: unknown): boolean {
  const { type, typeName } = asSchema(schema)?._def ?? {};
  return schema === undefined || ["void", "undefined", "never"].includes(type ?? "") || typeName === "ZodVoid";
}

/** JSON Schema, where the schema can say it: zod 4 can, and for what JSON cannot hold it says nothing. */
export function jsonSchemaOf(value: unknown, io: "input" | "output"): unknown {
  const schema = asSchema(value);
  if (schema === undefined || isNothing(value)) return undefined;
  if (typeof schema.toJSONSchema !== "function") return {};
  try {
    return schema.toJSONSchema({ unrepresentable: "any", io });
  } catch {
    // One that refers to itself without a name, or is of another make: it is still judged when it is used.
    return {};
  }
}

export interface Problem {
  readonly path: string;
  readonly message: string;
}

export type ValidationResult =
  | { readonly ok: true; readonly data: unknown }
  | { readonly ok: false; readonly problems: readonly Problem[] };

export async function judge(value: unknown, against: unknown): Promise<ValidationResult> {
  const schema = asSchema(against);
  if (typeof schema?.safeParseAsync !== "function") return { ok: true, data: value };
  // JSON has null where a script's schema says that there is nothing.
  const parsed = await schema.safeParseAsync(value === null && isNothing(against) ? undefined : value);
  if (parsed.success) return { ok: true, data: parsed.data };
  return {
    ok: false,
    problems: (parsed.error?.issues ?? []).map(({ path = [], message }) => ({ path: path.join("."), message })),
  };
}

/** Thrown where what a script is given, or gives, is not what its schema says. */
export class SchemaError extends Error {
  override readonly name = "SchemaError";
  readonly code: "invalid_input" | "invalid_output";
  readonly problems: readonly Problem[];

  constructor(code: "invalid_input" | "invalid_output", what: string, problems: readonly Problem[]) {
    const list = problems.map(({ path, message }) => `${path === "" ? what : `${what}.${path}`}: ${message}`);
    super(list.slice(0, 10).join("; "));
    this.code = code;
    this.problems = problems;
  }
}
