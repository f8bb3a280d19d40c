/**
 * The text from which the bundle makes descriptors: a line for the file, then one for each enumeration, message and
 * service, in the order in which `lazyFile` visits them. Each line is JSON, and what is usual is left out.
 */

export interface FileRow {
  readonly name: string;
  readonly package: string;
  readonly edition: number;
  readonly deprecated?: true;
  /** Names only: the other lines have the rest. */
  readonly enums: readonly string[];
  readonly messages: readonly NamesRow[];
  readonly services: readonly string[];
  readonly extensions: readonly ExtensionRow[];
}

/** Names of a message and of what is declared in it. */
export type NamesRow = readonly [name: string, enums?: readonly string[], messages?: readonly NamesRow[]];

export interface MessageRow {
  readonly fields: readonly FieldRow[];
  readonly oneofs?: readonly (readonly [name: string, localName: string])[];
  readonly deprecated?: true;
}

/** What fields hold, by the number in `FieldRow`. */
export const fieldForms = [
  "scalar",
  "enum",
  "message",
  "list of scalar",
  "list of enum",
  "list of message",
  "map to scalar",
  "map to enum",
  "map to message",
] as const;

/** The usual presence of a form's field: explicit is 1, implicit 2. */
export const usualPresence = (form: number): number => (fieldForms[form] === "message" ? 1 : 2);

/** `type` is the number of a scalar, or the name of an enumeration or message. */
export type FieldRow = readonly [name: string, number: number, form: number, type: number | string, rest?: FieldRest];

interface FieldRest {
  /** Otherwise the name. */
  readonly localName?: string;
  /** Otherwise the local name. */
  readonly jsonName?: string;
  /** Otherwise explicit for a message, and implicit for the others. */
  readonly presence?: number;
  /** Position in the message's list. */
  readonly oneof?: number;
  readonly mapKey?: number;
  readonly default?: string | number | boolean;
  readonly isUnchecked?: true;
  readonly isPacked?: true;
  readonly isDelimited?: true;
  readonly isLongText?: true;
  readonly deprecated?: true;
}

export interface ExtensionRow {
  readonly extendee: string;
  readonly field: FieldRow;
}

export interface EnumRow {
  readonly values: readonly EnumValueRow[];
  readonly sharedPrefix?: string;
  readonly isClosed?: true;
  readonly deprecated?: true;
}

export type EnumValueRow = readonly [
  name: string,
  localName: string,
  number: number,
  rest?: { readonly jsonName?: string; readonly deprecated?: true },
];

export interface ServiceRow {
  readonly methods: readonly MethodRow[];
  readonly deprecated?: true;
}

export type MethodRow = readonly [
  name: string,
  localName: string,
  kind: string,
  input: string,
  output: string,
  rest?: { readonly idempotency?: number; readonly deprecated?: true },
];
