/**
 * Every environment variable, in the order in which help lists them. `_FILE` beside a secret takes it from a
 * mounted file instead.
 */
export const variables = [
  {
    name: "LATCHKEY_DATA_LISTEN",
    default: "127.0.0.1:3003",
    meaning: "data door: `host:port`, `:0` for any port, or `unix:/path`",
  },
  {
    name: "LATCHKEY_PUBLIC_LISTEN",
    default: "off",
    meaning: "public door: only what browsers and providers must reach",
  },
  { name: "LATCHKEY_CONTROL_LISTEN", default: "127.0.0.1:3004", meaning: "control plane: gRPC, gRPC-Web and Connect" },
  { name: "LATCHKEY_OPS_LISTEN", default: "127.0.0.1:3005", meaning: "probes and metrics" },
  { name: "LATCHKEY_PUBLIC_URL", default: "the data door's address", meaning: "base of redirect and webhook URLs" },
  {
    name: "LATCHKEY_STORE",
    default: "level:./.latchkey",
    secret: true,
    meaning: "`level:<folder>`, or `postgres://user:password@host/database` for several replicas",
  },
  {
    name: "LATCHKEY_SEAL_KEYS",
    default: "required",
    secret: true,
    meaning: "`id:base64` of 32 bytes, comma-separated; the first seals, all open",
  },
  {
    name: "LATCHKEY_SECRET_KEY",
    default: "made, in a file beside the store",
    secret: true,
    meaning: "the key of the environment `dev`",
  },
  {
    name: "LATCHKEY_ADMIN_KEY",
    default: "made, in a file beside the store",
    secret: true,
    meaning: "the key of the control plane",
  },
  {
    name: "LATCHKEY_CONFIG",
    default: "none",
    meaning: "YAML file of environments, keys, integrations, providers, limits, rates and TLS",
  },
  {
    name: "LATCHKEY_ALLOWED_HOSTS",
    default: "what is listened on, `localhost`, the public URL's host",
    meaning: "names that a `Host` header may have, comma-separated",
  },
  {
    name: "LATCHKEY_ALLOW_PRIVATE",
    default: "none",
    meaning:
      "providers on private addresses, comma-separated: `host:port`, or `http://host:port` for one spoken to without TLS",
  },
  {
    name: "LATCHKEY_PROVIDER_CA",
    default: "none",
    meaning: "PEM file of authorities that providers' certificates may come from, beside the usual ones",
  },
  { name: "LATCHKEY_GRACE", default: "25s", meaning: "how long a stop may take" },
  { name: "LATCHKEY_LOG_LEVEL", default: "info", meaning: "`debug`, `info`, `warn` or `error`" },
  { name: "LATCHKEY_LOG_FORMAT", default: "`pretty` on a terminal, else `json`", meaning: "`json` or `pretty`" },
] as const satisfies readonly Variable[];

interface Variable {
  readonly name: `LATCHKEY_${string}`;
  readonly default: string;
  readonly meaning: string;
  readonly secret?: true;
}

export type VariableName = (typeof variables)[number]["name"];

/** What the command line reads for itself; not the sidecar's. */
export const clientVariables: readonly string[] = ["LATCHKEY_CONTROL", "LATCHKEY_KEY", "LATCHKEY_ENVIRONMENT"];

/** For `latchkey serve --help`. */
export const variablesHelp = (): string =>
  variables
    .map((row) => {
      const twin = "secret" in row ? ` (or ${row.name}_FILE)` : "";
      return `  ${row.name}${twin}\n      ${row.meaning}\n      default: ${row.default}`;
    })
    .join("\n");
