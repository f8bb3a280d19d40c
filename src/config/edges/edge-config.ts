import { createSecureContext } from "node:tls";
import type { Config, ConfigSource } from "../config.ts";
import { type DoorsConfig, doorsOf } from "../doors.ts";
import { egressOf } from "../egress/egress.ts";
import { withIdentitySockets } from "../identities/identity-sockets.ts";
import { limitsOf, relayOf } from "../limits.ts";
import { ConfigMistakes } from "../mistakes.ts";
import { forwardProxyOf, proxyLimitsOf } from "../proxy.ts";
import { emptyFile, readConfigFile, withPlace } from "../read-file.ts";
import { createSecretSource } from "../secrets.ts";
import { tracingOf } from "../tracing.ts";
import { allowPrivateOf, docsUrlOf, logFormats, logLevels, providerCaOf, type Refuse } from "../values.ts";
import { checkVariableNames } from "../variable-names.ts";
import { createVariableReader, type VariableReader } from "../variable-reader.ts";
import { type BrokerCredentialsSource, createBrokerCredentials } from "./broker-credentials.ts";
import { createEdgeRulesReader, type EdgeIdentityConfig, edgeRulesOf } from "./edge-rules.ts";

/** Where an edge gets keys and connections from. */
export interface BrokersConfig {
  /** `http(s)://host:port` of control listeners. */
  readonly urls: readonly string[];
  /** The same of data listeners; empty: nothing is relayed. */
  readonly dataUrls: readonly string[];
  /** What the edge shows to brokers. */
  readonly credentials: BrokerCredentialsSource;
  /** Empty: the only environment of the edge's identity. */
  readonly environment: string;
  readonly maxConnections: number;
  readonly maxAwayMs: number;
}

type SharedConfig = Pick<
  Config,
  | "aliases"
  | "forwardProxyTunnels"
  | "forwardProxyCaFile"
  | "docsUrl"
  | "allowPrivate"
  | "providerCa"
  | "egressProxy"
  | "relay"
  | "proxy"
  | "allowedHosts"
  | "fastLane"
  | "graceMs"
  | "streamGraceMs"
  | "drainDelayMs"
  | "logLevel"
  | "logFormat"
  | "limits"
  | "tracing"
  | "warnings"
>;

/** The configuration of `latchkey edge`. */
export interface EdgeConfig extends SharedConfig, EdgeIdentityConfig {
  readonly doors: Pick<DoorsConfig, "data" | "ops" | "forwardProxy">;
  readonly publicUrl: undefined;
  readonly brokers: BrokersConfig;
}

/** What an edge must not be able to read, and what it ignores. */
const ofBrokers = ["LATCHKEY_SEAL_KEYS", "LATCHKEY_ADMIN_KEY", "LATCHKEY_STORE", "LATCHKEY_SECRET_KEY"] as const;
/** Keys of the configuration file that an edge reads. */
const ownKeys = new Set(["aliases", "egress", "forward_proxy", "identities", "limits", "proxy", "tls"]);
const mostConnections = 100_000;

/** Returns the configuration of an edge. Throws a `ConfigMistakes` with every mistake in it. */
export function parseEdgeConfig({ env, files }: ConfigSource): EdgeConfig {
  const mistakes: string[] = [];
  const warnings: string[] = [];
  const refuse = (message: string) => void mistakes.push(message);
  const warn = (message: string) => void warnings.push(message);
  const secrets = createSecretSource({ env, files });
  const variables = createVariableReader({ env, secrets, refuse });
  const { text, duration } = variables;
  checkVariableNames(env, { refuse, warn });
  for (const name of ofBrokers) {
    if (env[name] || env[`${name}_FILE`]) warn(`${name} is for brokers; an edge does not need it: remove it`);
  }
  const configFile = text("LATCHKEY_CONFIG");
  const read =
    configFile === undefined ? emptyFile : readConfigFile({ path: configFile, files, refuse, reportEmpty: warn });
  const { file } = read;
  const refuseAt = withPlace(read, refuse);
  const ignored = Object.keys(file).filter((key) => !ownKeys.has(key));
  if (ignored.length > 0) warn(`an edge ignores these keys of the configuration file: ${ignored.join(", ")}`);
  const { doors, aliases } = doorsOf({
    variables: {
      address: (name, fallback) => (edgeDoors.has(name) ? variables.address(name, fallback) : undefined),
    },
    file,
    files,
    refuse: refuseAt,
  });
  const identities = edgeRulesOf({ file, files, refuse: refuseAt });
  const listening = withIdentitySockets({ file, doors, aliases, refuse: refuseAt });
  const config: EdgeConfig = {
    doors: { data: listening.doors.data, ops: doors.ops, forwardProxy: doors.forwardProxy },
    aliases,
    ...forwardProxyOf({ file, variables, refuse }),
    identities,
    identitySockets: listening.identitySockets,
    configFile,
    readIdentities: createEdgeRulesReader(configFile, { files }, identities),
    publicUrl: undefined,
    docsUrl: docsUrlOf({ text: text("LATCHKEY_DOCS_URL"), refuse }),
    allowPrivate: allowPrivateOf({ text: text("LATCHKEY_ALLOW_PRIVATE"), refuse }),
    providerCa: providerCaOf({ path: text("LATCHKEY_PROVIDER_CA"), files, refuse }),
    egressProxy: egressOf({ env, variables, secrets, files, file, refuse: refuseAt, warn }),
    relay: relayOf(file),
    proxy: proxyLimitsOf({ file, refuse: refuseAt }),
    allowedHosts: text("LATCHKEY_ALLOWED_HOSTS")
      ?.split(",")
      .map((host) => host.trim().toLowerCase())
      .filter((host) => host !== ""),
    fastLane: variables.choice("LATCHKEY_FAST_LANE", ["on", "off"], "on") === "on",
    graceMs: duration("LATCHKEY_GRACE", "25s"),
    streamGraceMs: duration("LATCHKEY_STREAM_GRACE", "10s"),
    drainDelayMs: duration("LATCHKEY_DRAIN_DELAY", "0s"),
    logLevel: variables.choice("LATCHKEY_LOG_LEVEL", logLevels, "info"),
    logFormat: variables.optionalChoice("LATCHKEY_LOG_FORMAT", logFormats),
    limits: limitsOf(file),
    tracing: tracingOf({ text: variables.mostSpecific, files, refuse, warn }),
    warnings,
    brokers: brokersOf({ env, files, variables, refuse }),
  };
  if (config.drainDelayMs > 0 && config.drainDelayMs >= config.graceMs) {
    refuse("LATCHKEY_DRAIN_DELAY must be shorter than LATCHKEY_GRACE, which includes it");
  }
  if (mistakes.length > 0) throw new ConfigMistakes(mistakes);
  return Object.freeze(config);
}

const edgeDoors: ReadonlySet<string> = new Set([
  "LATCHKEY_DATA_LISTEN",
  "LATCHKEY_OPS_LISTEN",
  "LATCHKEY_FORWARD_PROXY_LISTEN",
]);

interface BrokersSource extends ConfigSource {
  readonly variables: VariableReader;
  readonly refuse: Refuse;
}

function brokersOf({ env, files, variables, refuse }: BrokersSource): BrokersConfig {
  const { text, secret, isInFile } = variables;
  const urls = urlsOf("LATCHKEY_BROKERS", text("LATCHKEY_BROKERS"), refuse);
  if (text("LATCHKEY_BROKERS") === undefined) {
    refuse("LATCHKEY_BROKERS is required: the control listeners of the brokers, such as http://latchkey-brokers:3004");
  }
  const cert = text("LATCHKEY_BROKERS_CLIENT_CERT");
  const certKey = text("LATCHKEY_BROKERS_CLIENT_KEY");
  const tokenFile = text("LATCHKEY_BROKERS_TOKEN_FILE");
  if ((cert === undefined) !== (certKey === undefined)) {
    refuse("LATCHKEY_BROKERS_CLIENT_CERT and LATCHKEY_BROKERS_CLIENT_KEY must be set together");
  }
  const hasKey = Boolean(env["LATCHKEY_BROKERS_KEY"]) || isInFile("LATCHKEY_BROKERS_KEY");
  if (hasKey && tokenFile !== undefined) {
    refuse("LATCHKEY_BROKERS_KEY and LATCHKEY_BROKERS_TOKEN_FILE are both set; remove one of them");
  }
  if (!hasKey && tokenFile === undefined && cert === undefined) {
    refuse(
      "an identity is required: LATCHKEY_BROKERS_KEY_FILE with a key from `latchkey keys create --scope edge`, LATCHKEY_BROKERS_TOKEN_FILE with a service-account token, or LATCHKEY_BROKERS_CLIENT_CERT",
    );
  }
  if (cert !== undefined && urls.some((url) => url.startsWith("http:"))) {
    refuse("LATCHKEY_BROKERS: a client certificate needs https:// for every broker");
  }
  const credentials = createBrokerCredentials(
    {
      key: isInFile("LATCHKEY_BROKERS_KEY") ? undefined : secret("LATCHKEY_BROKERS_KEY"),
      keyFile: env["LATCHKEY_BROKERS_KEY_FILE"] || undefined,
      tokenFile,
      ca: text("LATCHKEY_BROKERS_CA"),
      cert,
      certKey,
    },
    files,
  );
  if (env["LATCHKEY_BROKERS_KEY"] && isInFile("LATCHKEY_BROKERS_KEY")) secret("LATCHKEY_BROKERS_KEY");
  else readOnce(credentials, refuse);
  return {
    urls,
    dataUrls: urlsOf("LATCHKEY_BROKERS_DATA", text("LATCHKEY_BROKERS_DATA"), refuse),
    credentials,
    environment: env["LATCHKEY_ENVIRONMENT"]?.trim() ?? "",
    maxConnections: countOf(text("LATCHKEY_EDGE_MAX_CONNECTIONS") ?? "10000", refuse),
    maxAwayMs: variables.duration("LATCHKEY_EDGE_MAX_AWAY", "1h"),
  };
}

/** Mistakes that can be found now are better than those of the first connection. */
function readOnce(credentials: BrokerCredentialsSource, refuse: Refuse): void {
  try {
    const { tls } = credentials.read();
    if (tls.cert !== undefined && tls.key !== undefined) createSecureContext({ cert: tls.cert, key: tls.key });
  } catch (error) {
    const { code, message } = error as NodeJS.ErrnoException;
    const name = "LATCHKEY_BROKERS_CLIENT_CERT and LATCHKEY_BROKERS_CLIENT_KEY";
    refuse(
      code?.startsWith("ERR_") === true ? `${name}: they do not belong together, or are damaged (${code})` : message,
    );
  }
}

/** Messages do not quote a value, which may contain a password by mistake. */
function urlsOf(name: "LATCHKEY_BROKERS" | "LATCHKEY_BROKERS_DATA", list: string | undefined, refuse: Refuse) {
  const texts = (list ?? "").split(",").flatMap((part) => part.trim() || []);
  const urls = texts.map((text, i) => {
    const url = /^https?:\/\//.test(text) && URL.canParse(text) ? new URL(text) : undefined;
    const isPlain = url !== undefined && url.pathname === "/" && url.search + url.hash + url.username === "";
    if (!isPlain) refuse(`${name}: entry ${i + 1} must be http://host:port or https://host:port`);
    return url?.origin ?? "";
  });
  const isRepeated = urls.find((url, i) => urls.indexOf(url) !== i);
  if (isRepeated !== undefined && isRepeated !== "") refuse(`${name}: ${isRepeated} is there twice`);
  return urls;
}

function countOf(text: string, refuse: Refuse): number {
  const count = /^[1-9][0-9]{0,6}$/.test(text) ? Number(text) : 0;
  if (count === 0 || count > mostConnections) {
    refuse(`LATCHKEY_EDGE_MAX_CONNECTIONS must be a number from 1 to ${mostConnections}`);
  }
  return count;
}
