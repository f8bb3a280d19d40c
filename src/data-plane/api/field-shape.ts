/** The shape of a query parameter or a JSON field as data, for readers and for generated documentation. */
export interface FieldShape {
  readonly type: "string" | "integer" | "boolean" | "object" | "array" | "any";
  readonly required?: true;
  readonly oneOf?: readonly string[];
  readonly maxLength?: number;
  readonly min?: number;
  readonly max?: number;
  /** The value of an absent field. */
  readonly fallback?: boolean | number | string;
  readonly items?: FieldShape;
  readonly maxItems?: number;
  /** Fields of an object. */
  readonly fields?: Readonly<Record<string, FieldShape>>;
  /** Fields of each value of an object whose keys are free. */
  readonly values?: FieldShape;
  readonly description?: string;
}

/** The values that a schema reads, by name. */
export type ValuesOf<S> = {
  readonly [K in keyof S]: S[K] extends { readonly read: (...input: never[]) => infer T } ? T : never;
};

/** The words of `oneOf` in a message. */
export const listed = (words: readonly string[]): string =>
  words.length < 3 ? words.join(" or ") : `one of ${words.join(", ")}`;
