interface Issue {
  readonly path?: readonly unknown[];
  readonly message: string;
}

interface ParseResult {
  readonly success: boolean;
  readonly data?: unknown;
  readonly error?: { readonly issues?: readonly Issue[] };
}

/** The schema features that zod 3 and 4 share, and the one that only zod 4 has. */
interface ZodLike {
  safeParseAsync?(value: unknown): Promise<ParseResult>;
  toJSONSchema?(options: unknown): unknown;
  readonly _def?: { readonly typeName?: string; readonly type?: string };
}

const asSchema = (value: unknown): ZodLike | undefined =>
  typeof value === "object" && value !== null ? (value as ZodLike) : undefined;

/** Reports whether a schema is `z.void()` or similar: the script declares nothing. */
export function isNothing(schema: unknown): boolean {
  const { type, typeName } = asSchema(schema)?._def ?? {};
  return schema === undefined || ["void", "undefined", "never"].includes(type ?? "") || typeName === "ZodVoid";
}

/** Returns JSON Schema if the schema supports it, as zod 4 does; types that JSON cannot represent stay open. */
export function jsonSchemaOf(value: unknown, io: "input" | "output"): unknown {
  const schema = asSchema(value);
  if (schema === undefined || isNothing(value)) return undefined;
  if (typeof schema.toJSONSchema !== "function") return {};
  try {
    return schema.toJSONSchema({ unrepresentable: "any", io });
  } catch {
    // An unnamed recursive schema, or another library: it still validates at run time.
    return {};
  }
}

export interface SchemaProblem {
  readonly path: string;
  readonly message: string;
}

export type ValidationResult =
  | { readonly ok: true; readonly data: unknown }
  | { readonly ok: false; readonly problems: readonly SchemaProblem[] };

export async function validate(value: unknown, against: unknown): Promise<ValidationResult> {
  const schema = asSchema(against);
  if (typeof schema?.safeParseAsync !== "function") return { ok: true, data: value };
  // JSON has null where the schema expects undefined.
  const parsed = await schema.safeParseAsync(value === null && isNothing(against) ? undefined : value);
  if (parsed.success) return { ok: true, data: parsed.data };
  return {
    ok: false,
    problems: (parsed.error?.issues ?? []).map(({ path = [], message }) => ({ path: path.join("."), message })),
  };
}

/** Thrown if the input or output of a script does not match its schema. */
export class SchemaError extends Error {
  override readonly name = "SchemaError";
  readonly code: "invalid_input" | "invalid_output";
  readonly problems: readonly SchemaProblem[];

  constructor(code: "invalid_input" | "invalid_output", what: string, problems: readonly SchemaProblem[]) {
    const list = problems.map(({ path, message }) => `${path === "" ? what : `${what}.${path}`}: ${message}`);
    super(list.slice(0, 10).join("; "));
    this.code = code;
    this.problems = problems;
  }
}
