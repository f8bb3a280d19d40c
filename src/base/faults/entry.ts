/** The explanation of an error code, for the page that each error links to. Markdown: only `code` is used. */
export interface FaultEntry {
  readonly subject: (typeof faultSubjects)[number];
  readonly meaning: string;
  readonly action: string;
  /** A message of the product, as a caller sees it. */
  readonly example: string;
}

/** The sections of the page, in order. */
export const faultSubjects = [
  "Keys and permissions",
  "The request",
  "Names",
  "State and conflicts",
  "Connections and authorization",
  "Providers",
  "Latchkey itself",
] as const;
