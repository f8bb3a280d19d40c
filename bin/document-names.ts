/** The generated files of docs/. Those of the folder docs/rpc have the names of the proto files. */
export const documentNames = [
  "api.md",
  "catalog.md",
  "cli.md",
  "configuration.md",
  "errors.md",
  "metrics.md",
  "openapi.json",
] as const;

export type DocumentName = (typeof documentNames)[number];
