import type { edgeVariables } from "./edges/edge-variables.ts";

/**
 * All environment variables of `latchkey serve`, in the order of the help. With the suffix `_FILE`, a secret is read from a file. Names and
 * meanings of OTEL_ variables come from the specification of OpenTelemetry.
 */
export const variables = [
  {
    name: "LATCHKEY_DATA_LISTEN",
    default: "127.0.0.1:3003",
    meaning: "address of the data listener: `host:port`, `:0` for any port, or `unix:/path`",
  },
  {
    name: "LATCHKEY_PUBLIC_LISTEN",
    default: "off",
    meaning: "address of the public listener, which serves only browsers and providers",
  },
  {
    name: "LATCHKEY_CONTROL_LISTEN",
    default: "127.0.0.1:3004",
    meaning: "address of the control plane: gRPC, gRPC-Web and Connect",
  },
  { name: "LATCHKEY_OPS_LISTEN", default: "127.0.0.1:3005", meaning: "address of probes and metrics" },
  {
    name: "LATCHKEY_FORWARD_PROXY_LISTEN",
    default: "off; 127.0.0.1:3008 under `latchkey dev`",
    meaning: "address of the forward proxy, for the `HTTPS_PROXY` of programs",
  },
  {
    name: "LATCHKEY_FORWARD_PROXY_CA_FILE",
    default: "none",
    meaning:
      "file that is written, and replaced after rotations, with the authorities that programs behind the forward proxy must trust: its own and the system's",
  },
  {
    name: "LATCHKEY_UI",
    default: "off; on under `latchkey dev`",
    meaning: "`on` serves the dashboard at `/ui/` of the control listener",
  },
  {
    name: "LATCHKEY_UI_LISTEN",
    default: "off",
    meaning: "address of a listener for the dashboard alone, which the control listener then does not serve",
  },
  {
    name: "LATCHKEY_UI_OIDC_ISSUER",
    default: "none",
    meaning: "OpenID Connect provider of the dashboard; `dashboard.oidc.groups` of the file says who may do what",
  },
  { name: "LATCHKEY_UI_OIDC_CLIENT_ID", default: "none", meaning: "client ID of Latchkey at this provider" },
  { name: "LATCHKEY_UI_OIDC_CLIENT_SECRET", default: "none", secret: true, meaning: "its client secret" },
  {
    name: "LATCHKEY_PUBLIC_URL",
    default: "the address of the data listener",
    meaning: "base of redirect and webhook URLs",
  },
  {
    name: "LATCHKEY_DOCS_URL",
    default: "the public URL",
    meaning: "base of the links in errors, which lead to `/docs/errors` below it",
  },
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
    meaning: "keys that encrypt the store: `id:base64` of 32 bytes, comma-separated; the first encrypts, all decrypt",
  },
  {
    name: "LATCHKEY_SECRET_KEY",
    default: "generated, in a file in the store's folder",
    secret: true,
    meaning: "API key of the environment `dev`",
  },
  {
    name: "LATCHKEY_ADMIN_KEY",
    default: "generated, in a file in the store's folder",
    secret: true,
    meaning: "API key of the control plane",
  },
  {
    name: "LATCHKEY_FORWARD_URL",
    default: "none",
    meaning: "URL that receives the webhooks of the environment `dev`; may be private and `http`",
  },
  {
    name: "LATCHKEY_FORWARD_SECRET",
    default: "generated; shown by `environments secrets --reveal`",
    secret: true,
    meaning: "secret that signs these webhooks: `whsec_` and base64 of 24 to 64 bytes",
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
    default: "the listeners' hosts, `localhost`, the public URL's host",
    meaning: "accepted `Host` headers, comma-separated",
  },
  {
    name: "LATCHKEY_ALLOW_PRIVATE",
    default: "none",
    meaning: "providers with private addresses, comma-separated: `host:port`, or `http://host:port` without TLS",
  },
  {
    name: "LATCHKEY_PROVIDER_CA",
    default: "none",
    meaning: "PEM file of additional certificate authorities for providers",
  },
  {
    name: "LATCHKEY_EGRESS_PROXY",
    default: "off",
    secret: true,
    meaning: "HTTP proxy for everything that leaves: `http(s)://host:port`, with `user:password@` if it wants one",
  },
  {
    name: "LATCHKEY_EGRESS_AUTH",
    default: "none",
    secret: true,
    meaning: "`user:password` for this proxy, if not in its URL",
  },
  {
    name: "LATCHKEY_EGRESS_NO_PROXY",
    default: "localhost,127.0.0.0/8,::1",
    meaning: "hosts that are dialed directly, comma-separated: names, `.endings`, addresses, networks; `none` for none",
  },
  {
    name: "LATCHKEY_EGRESS_RESOLVE",
    default: "local",
    meaning:
      "who resolves names: `local` (Latchkey checks the addresses), `pinned` (and the proxy gets the address) or `proxy`",
  },
  {
    name: "LATCHKEY_EGRESS_CA",
    default: "none",
    meaning: "PEM file of additional certificate authorities for an `https` proxy",
  },
  {
    name: "LATCHKEY_EGRESS_INTERCEPT_CA",
    default: "none",
    meaning: "PEM file of the authorities with which the proxy opens TLS to read it",
  },
  {
    name: "LATCHKEY_EGRESS_CLIENT_CERT",
    default: "none",
    meaning: "PEM file of the certificate that an `https` proxy is shown",
  },
  { name: "LATCHKEY_EGRESS_CLIENT_KEY", default: "none", meaning: "PEM file of its private key" },
  {
    name: "LATCHKEY_FAST_LANE",
    default: "on",
    meaning: "`off`: all proxy requests and webhooks use `node:http`",
  },
  {
    name: "LATCHKEY_RECENT_REQUESTS",
    default: "on",
    meaning: "`off`: the last 1,000 requests to providers are not kept in memory for `latchkey requests`",
  },
  {
    name: "LATCHKEY_LOOKUP_MEMORY",
    default: "128",
    meaning:
      "MiB for the index by which webhooks find connections, about 1.6 million values; a larger one is kept in the store",
  },
  { name: "LATCHKEY_GRACE", default: "25s", meaning: "maximum duration of a graceful stop" },
  {
    name: "LATCHKEY_STREAM_GRACE",
    default: "10s",
    meaning: "part of the grace period in which WebSockets and event streams may continue",
  },
  {
    name: "LATCHKEY_DRAIN_DELAY",
    default: "0s",
    meaning:
      "part of the grace period in which Latchkey is not ready but still serves, until the load balancer notices",
  },
  { name: "LATCHKEY_LOG_LEVEL", default: "info", meaning: "`debug`, `info`, `warn` or `error`" },
  { name: "LATCHKEY_LOG_FORMAT", default: "`pretty` on a terminal, else `json`", meaning: "`json` or `pretty`" },
  {
    name: "OTEL_EXPORTER_OTLP_ENDPOINT",
    default: "off",
    twin: "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT",
    meaning: "URL of the trace collector, `http://host:4318`; `/v1/traces` is appended, except to the traces variable",
  },
  {
    name: "OTEL_EXPORTER_OTLP_HEADERS",
    default: "none",
    twin: "OTEL_EXPORTER_OTLP_TRACES_HEADERS",
    meaning: "headers for the collector: `name=value`, comma-separated, percent-encoded",
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
    meaning: "timeout of an export in milliseconds",
  },
  {
    name: "OTEL_EXPORTER_OTLP_CERTIFICATE",
    default: "the system's authorities",
    twin: "OTEL_EXPORTER_OTLP_TRACES_CERTIFICATE",
    meaning: "PEM file of certificate authorities for the collector",
  },
  { name: "OTEL_SERVICE_NAME", default: "latchkey", meaning: "service name in spans" },
  {
    name: "OTEL_RESOURCE_ATTRIBUTES",
    default: "none",
    meaning: "resource attributes of spans: `name=value`, comma-separated, percent-encoded",
  },
  {
    name: "OTEL_TRACES_SAMPLER",
    default: "parentbased_always_on",
    meaning: "`always_on`, `always_off` or `traceidratio`, each also as `parentbased_…`",
  },
  { name: "OTEL_TRACES_SAMPLER_ARG", default: "1", meaning: "share of traces that `traceidratio` keeps, from 0 to 1" },
  {
    name: "OTEL_TRACES_EXPORTER",
    default: "otlp",
    meaning: "`otlp` (by default to `http://localhost:4318`) or `none`",
  },
  { name: "OTEL_BSP_SCHEDULE_DELAY", default: "5000", meaning: "maximum delay of an export in milliseconds" },
  { name: "OTEL_BSP_MAX_EXPORT_BATCH_SIZE", default: "512", meaning: "maximum number of spans in an export" },
  {
    name: "OTEL_BSP_MAX_QUEUE_SIZE",
    default: "2048",
    meaning: "maximum number of queued spans; further ones are dropped",
  },
  { name: "OTEL_SDK_DISABLED", default: "false", meaning: "`true` turns tracing off" },
] as const satisfies readonly EnvironmentVariable[];

interface EnvironmentVariable {
  readonly name: `LATCHKEY_${string}` | `OTEL_${string}`;
  readonly default: string;
  readonly meaning: string;
  readonly secret?: true;
  /** OpenTelemetry's variable for traces only, which takes precedence. */
  readonly twin?: `OTEL_EXPORTER_OTLP_TRACES_${string}`;
}

/** Those of edges as well. */
export type VariableName = (typeof variables)[number]["name"] | (typeof edgeVariables)[number]["name"];

/** Variables of the command line, which `serve` ignores. */
export const clientVariables: readonly string[] = ["LATCHKEY_CONTROL", "LATCHKEY_KEY", "LATCHKEY_ENVIRONMENT"];

/** Returns the part of `latchkey serve --help` that lists the variables. */
export const variablesHelp = (): string =>
  variables
    .map((row) => {
      const twin = "secret" in row ? ` (or ${row.name}_FILE)` : "twin" in row ? ` (or ${row.twin})` : "";
      return `  ${row.name}${twin}\n      ${row.meaning}\n      default: ${row.default}`;
    })
    .join("\n");
