/** Environment variables of `latchkey edge` that `latchkey serve` does not have. */
export const edgeVariables = [
  {
    name: "LATCHKEY_BROKERS",
    default: "required",
    meaning: "control listeners of the brokers, comma-separated: `http(s)://host:port`; any of them will do",
  },
  {
    name: "LATCHKEY_BROKERS_KEY",
    default: "none",
    secret: true,
    meaning: "API key with the scope `edge`; its file is read again when it changes",
  },
  {
    name: "LATCHKEY_BROKERS_TOKEN_FILE",
    default: "none",
    meaning: "file with the token of a Kubernetes service account, instead of a key; read again when it changes",
  },
  {
    name: "LATCHKEY_BROKERS_DATA",
    default: "none",
    meaning:
      "data listeners of the brokers, comma-separated: `http(s)://host:port`; all requests but those to providers are relayed there",
  },
  {
    name: "LATCHKEY_BROKERS_CA",
    default: "the system's authorities",
    meaning: "PEM file of the certificate authorities that sign the brokers' certificates",
  },
  {
    name: "LATCHKEY_BROKERS_CLIENT_CERT",
    default: "none",
    meaning: "PEM file of the certificate that the edge shows to brokers",
  },
  { name: "LATCHKEY_BROKERS_CLIENT_KEY", default: "none", meaning: "PEM file of its private key" },
  {
    name: "LATCHKEY_EDGE_MAX_CONNECTIONS",
    default: "10000",
    meaning: "most connections in the edge's memory; the least recently used is forgotten first",
  },
  {
    name: "LATCHKEY_EDGE_MAX_AWAY",
    default: "1h",
    meaning: "how long the edge uses what it has in memory while no broker can be reached",
  },
] as const;

/** Variables of `latchkey serve` that an edge has too. */
export const sharedWithEdges = [
  "LATCHKEY_DATA_LISTEN",
  "LATCHKEY_OPS_LISTEN",
  "LATCHKEY_FORWARD_PROXY_LISTEN",
  "LATCHKEY_FORWARD_PROXY_CA_FILE",
  "LATCHKEY_ENVIRONMENT",
  "LATCHKEY_CONFIG",
  "LATCHKEY_DOCS_URL",
  "LATCHKEY_ALLOWED_HOSTS",
  "LATCHKEY_ALLOW_PRIVATE",
  "LATCHKEY_PROVIDER_CA",
  "LATCHKEY_EGRESS_PROXY",
  "LATCHKEY_EGRESS_AUTH",
  "LATCHKEY_EGRESS_NO_PROXY",
  "LATCHKEY_EGRESS_RESOLVE",
  "LATCHKEY_EGRESS_CA",
  "LATCHKEY_EGRESS_INTERCEPT_CA",
  "LATCHKEY_EGRESS_CLIENT_CERT",
  "LATCHKEY_EGRESS_CLIENT_KEY",
  "LATCHKEY_FAST_LANE",
  "LATCHKEY_GRACE",
  "LATCHKEY_STREAM_GRACE",
  "LATCHKEY_DRAIN_DELAY",
  "LATCHKEY_LOG_LEVEL",
  "LATCHKEY_LOG_FORMAT",
] as const;

/** Returns the part of `latchkey edge --help` that lists the variables. */
export function edgeVariablesHelp(): string {
  const rows = edgeVariables.map((row) => {
    const file = "secret" in row ? ` (or ${row.name}_FILE)` : "";
    return `  ${row.name}${file}\n      ${row.meaning}\n      default: ${row.default}`;
  });
  return [...rows, "", "As for `latchkey serve`:", ...sharedWithEdges.map((name) => `  ${name}`), "  OTEL_…"].join(
    "\n",
  );
}
