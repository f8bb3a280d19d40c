/** The generated files of docs/. */
export const documentNames = [
  "api.md",
  "cli.md",
  "configuration.md",
  "errors.md",
  "metrics.md",
  "openapi.json",
  "rpc.md",
] as const;

export type DocumentName = (typeof documentNames)[number];
