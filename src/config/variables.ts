/**
 * Every environment variable, in the order in which help lists them. `_FILE` beside a secret takes it from a
 * mounted file instead. What begins with OTEL_ is OpenTelemetry's, named and read as its specification says.
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
    name: "LATCHKEY_FORWARD_URL",
    default: "none",
    meaning: "where webhooks of the environment `dev` are forwarded; any address, `http` too: it is your own",
  },
  {
    name: "LATCHKEY_FORWARD_SECRET",
    default: "made, and shown by `environments secrets --reveal`",
    secret: true,
    meaning: "what signs them: `whsec_` and base64 of 24 to 64 bytes",
  },
  {
    name: "LATCHKEY_ALLOWED_ORIGINS",
    default: "none",
    meaning: "origins whose pages may use the browser routes of the environment `dev`, comma-separated",
  },
  {
    name: "LATCHKEY_CONFIG",
    default: "none",
    meaning: "YAML file of environments, keys, integrations, providers, limits, rates and TLS",
  },
  {
    name: "LATCHKEY_SCRIPTS",
    default: "none",
    meaning: "folder of scripts: `<integration>/{syncs,actions,events}/<name>.ts`",
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
  {
    name: "LATCHKEY_FAST_LANE",
    default: "on",
    meaning: "`off`: every request to a provider and every webhook is read by `node:http`, also the ordinary ones",
  },
  { name: "LATCHKEY_GRACE", default: "25s", meaning: "how long a stop may take, all in all" },
  {
    name: "LATCHKEY_STREAM_GRACE",
    default: "10s",
    meaning: "how long of it WebSockets and event streams may go on, which have no end of their own",
  },
  {
    name: "LATCHKEY_DRAIN_DELAY",
    default: "0s",
    meaning: "how long of it everything is still served, unready: until whoever balances the load has noticed",
  },
  { name: "LATCHKEY_LOG_LEVEL", default: "info", meaning: "`debug`, `info`, `warn` or `error`" },
  { name: "LATCHKEY_LOG_FORMAT", default: "`pretty` on a terminal, else `json`", meaning: "`json` or `pretty`" },
  {
    name: "OTEL_EXPORTER_OTLP_ENDPOINT",
    default: "off",
    twin: "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT",
    meaning: "collector of spans, `http://host:4318`, to which `/v1/traces` is added; its twin is taken as it is",
  },
  {
    name: "OTEL_EXPORTER_OTLP_HEADERS",
    default: "none",
    twin: "OTEL_EXPORTER_OTLP_TRACES_HEADERS",
    meaning: "sent to it: `name=value`, comma-separated, percent-encoded",
  },
  {
    name: "OTEL_EXPORTER_OTLP_PROTOCOL",
    default: "http/json",
    twin: "OTEL_EXPORTER_OTLP_TRACES_PROTOCOL",
    meaning: "`http/json`, which is also sent for `http/protobuf`",
  },
  {
    name: "OTEL_EXPORTER_OTLP_TIMEOUT",
    default: "10000",
    twin: "OTEL_EXPORTER_OTLP_TRACES_TIMEOUT",
    meaning: "milliseconds that it may take for a batch",
  },
  {
    name: "OTEL_EXPORTER_OTLP_CERTIFICATE",
    default: "the usual authorities",
    twin: "OTEL_EXPORTER_OTLP_TRACES_CERTIFICATE",
    meaning: "PEM file of authorities that its certificate may come from",
  },
  { name: "OTEL_SERVICE_NAME", default: "latchkey", meaning: "who made the spans" },
  {
    name: "OTEL_RESOURCE_ATTRIBUTES",
    default: "none",
    meaning: "more about it: `name=value`, comma-separated, percent-encoded",
  },
  {
    name: "OTEL_TRACES_SAMPLER",
    default: "parentbased_always_on",
    meaning: "`always_on`, `always_off` or `traceidratio`, each also as `parentbased_…`",
  },
  { name: "OTEL_TRACES_SAMPLER_ARG", default: "1", meaning: "the share of traces that `traceidratio` keeps" },
  {
    name: "OTEL_TRACES_EXPORTER",
    default: "otlp",
    meaning: "`otlp`, which alone means a collector at `http://localhost:4318`, or `none`",
  },
  { name: "OTEL_BSP_SCHEDULE_DELAY", default: "5000", meaning: "milliseconds that a span waits for others" },
  { name: "OTEL_BSP_MAX_EXPORT_BATCH_SIZE", default: "512", meaning: "spans that are sent together" },
  { name: "OTEL_BSP_MAX_QUEUE_SIZE", default: "2048", meaning: "spans that wait; what comes beyond is dropped" },
  { name: "OTEL_SDK_DISABLED", default: "false", meaning: "`true`: no spans, whatever else is set" },
] as const satisfies readonly EnvironmentVariable[];

interface EnvironmentVariable {
  readonly name: `LATCHKEY_${string}` | `OTEL_${string}`;
  readonly default: string;
  readonly meaning: string;
  readonly secret?: true;
  /** Of OpenTelemetry's: the same for traces alone, which goes before it. */
  readonly twin?: `OTEL_EXPORTER_OTLP_TRACES_${string}`;
}

export type VariableName = (typeof variables)[number]["name"];

/** What the command line reads for itself; not the sidecar's. */
export const clientVariables: readonly string[] = ["LATCHKEY_CONTROL", "LATCHKEY_KEY", "LATCHKEY_ENVIRONMENT"];

/** For `latchkey serve --help`. */
export const variablesHelp = (): string =>
  variables
    .map((row) => {
      const twin = "secret" in row ? ` (or ${row.name}_FILE)` : "twin" in row ? ` (or ${row.twin})` : "";
      return `  ${row.name}${twin}\n      ${row.meaning}\n      default: ${row.default}`;
    })
    .join("\n");
