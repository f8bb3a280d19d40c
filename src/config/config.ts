import { type ListenAddress, type ListenerTls, parseListenAddress } from "../base/http/listener.ts";
import type { LogLevel } from "../base/log.ts";
import type { DeclaredSetup } from "../core/declared.ts";
import type { UpstreamLimits } from "../relay/upstream.ts";
import type { StoreLocation } from "../store/location.ts";
import type { TracingConfig } from "../tracing/tracing.ts";
import { refuseSharedKeys } from "./check-keys.ts";
import { checkNames, type UndeclaredAlias, undeclaredAliases } from "./check-names.ts";
import { declaredIn } from "./declare.ts";
import type { ConfigFile } from "./file.ts";
import { forwardSecretOf, forwardUrlOf, refuseForwardTwice } from "./forward.ts";
import { ConfigMistakes } from "./mistakes.ts";
import { type ProxyLimits, proxyLimitsOf } from "./proxy.ts";
import { emptyFile, readConfigFile } from "./read-file.ts";
import { type RetentionConfig, retentionOf } from "./retention.ts";
import { type ScriptsConfig, scriptsOf } from "./scripts.ts";
import { createSecretSource, type FileReader } from "./secrets.ts";
import { type TracingVariable, tracingOf } from "./tracing.ts";
import { describeUnreadable } from "./unreadable.ts";
import {
  allowPrivateOf,
  choice,
  durationOf,
  optionalChoice,
  originsOf,
  pinned,
  publicUrlOf,
  type Refuse,
  type SealKeyConfig,
  sealKeysOf,
  storeOf,
} from "./values.ts";
import { checkVariableNames } from "./variable-names.ts";
import { type VariableName, variables } from "./variables.ts";
import { type WebhookConfig, webhooksOf } from "./webhooks.ts";

export { ConfigMistakes } from "./mistakes.ts";

export type DoorName = "data" | "public" | "control" | "ops";

export interface DoorConfig {
  readonly address: ListenAddress;
  readonly tls: ListenerTls | undefined;
}

/** An address of its own for one connection, for programs that can set neither headers nor a path. */
export interface AliasConfig {
  readonly name: string;
  readonly environment: string;
  readonly integration: string;
  readonly connection: string;
  /** Beside `<name>.localhost` on the data door. */
  readonly address: ListenAddress | undefined;
}

export interface SizeLimits {
  readonly jsonBodyBytes: number;
  /** Of a webhook that comes in. */
  readonly webhookBodyBytes: number;
  readonly rpcMessageBytes: number;
  readonly headBytes: number;
  readonly headLines: number;
  readonly pathBytes: number;
  /** Open at once, at each door. */
  readonly connections: Readonly<Record<DoorName, number>>;
}

export interface Config {
  readonly doors: {
    readonly data: DoorConfig;
    readonly public: DoorConfig | undefined;
    readonly control: DoorConfig;
    readonly ops: DoorConfig;
  };
  /** Without a slash at its end; undefined: the data door's address. */
  readonly publicUrl: string | undefined;
  readonly store: StoreLocation;
  readonly sealKeys: readonly SealKeyConfig[];
  readonly secretKey: string | undefined;
  readonly adminKey: string | undefined;
  /** Of the environment `dev`: where its forwards go, and what signs them. */
  readonly forwardUrl: string | undefined;
  readonly forwardSecret: string | undefined;
  /** Of the same environment: whose pages may use the browser routes. */
  readonly allowedOrigins: readonly string[] | undefined;
  /** `host:port` and `http://host:port` of providers that are private. */
  readonly allowPrivate: readonly string[];
  /** PEM. */
  readonly providerCa: string | undefined;
  readonly aliases: readonly AliasConfig[];
  readonly undeclaredAliases: readonly UndeclaredAlias[];
  readonly relay: UpstreamLimits;
  readonly proxy: ProxyLimits;
  readonly webhooks: WebhookConfig;
  readonly retention: RetentionConfig;
  /** Undefined: what is listened on, `localhost` and the public URL's host. */
  readonly allowedHosts: readonly string[] | undefined;
  /** Ordinary requests to providers do without `node:http`. */
  readonly fastLane: boolean;
  readonly graceMs: number;
  /** Of the grace period: how long WebSockets and event streams may go on. */
  readonly streamGraceMs: number;
  /** Of the grace period: how long everything is served though we are not ready. */
  readonly drainDelayMs: number;
  readonly logLevel: LogLevel;
  readonly logFormat: "json" | "pretty" | undefined;
  readonly limits: SizeLimits;
  /** Undefined: no spans. */
  readonly tracing: TracingConfig | undefined;
  readonly configFile: string | undefined;
  /** Where the customer's scripts lie; undefined: there are none. */
  readonly scriptsFolder: string | undefined;
  readonly scripts: ScriptsConfig;
  readonly declared: DeclaredSetup;
  /** What is allowed and probably not meant. */
  readonly warnings: readonly string[];
}

interface ConfigSource {
  readonly env: Readonly<Record<string, string | undefined>>;
  readonly files: FileReader;
}

export const defaultLimits: SizeLimits = {
  jsonBodyBytes: 512 * 1024,
  rpcMessageBytes: 4 * 1024 * 1024,
  headBytes: 16 * 1024,
  headLines: 200,
  pathBytes: 8 * 1024,
  webhookBodyBytes: 5 * 1024 * 1024,
  connections: { data: 10_000, public: 2_000, control: 1_000, ops: 256 },
};

/** The whole configuration, or every mistake in it. */
export function parseConfig({ env, files }: ConfigSource): Config {
  const mistakes: string[] = [];
  const warnings: string[] = [];
  const refuse = (message: string) => void mistakes.push(message);
  const secrets = createSecretSource({ env, files });
  const text = (name: VariableName) => env[name]?.trim() || undefined;

  function withTwin(name: TracingVariable) {
    const row = variables.find((one) => one.name === name);
    const twin = row !== undefined && "twin" in row ? row.twin : undefined;
    const ofTwin = twin === undefined ? undefined : env[twin]?.trim() || undefined;
    return ofTwin === undefined ? { name, value: text(name) } : { name: twin ?? name, value: ofTwin };
  }

  function secret(name: VariableName): string | undefined {
    const file = env[`${name}_FILE`];
    if (file === undefined || file === "") return env[name] || undefined;
    if (env[name]) refuse(`${name} and ${name}_FILE are both set; one of them must go`);
    const outcome = secrets.fromFile(file);
    if ("value" in outcome) return outcome.value;
    refuse(`${name}_FILE: ${outcome.mistake}`);
    return undefined;
  }

  function door(name: VariableName, fallback: string | undefined): ListenAddress | undefined {
    // Not trimmed: `8080 ` is a mistake to be told of, not to be guessed at.
    const written = env[name] || fallback;
    if (written === undefined || written === "off") return undefined;
    const address = parseListenAddress(written);
    if (address === undefined) refuse(`${name}: ${JSON.stringify(written)} must be host:port, :port or unix:/path`);
    return address;
  }

  const duration = (name: VariableName, fallback: string) => durationOf({ name, text: text(name) ?? fallback, refuse });

  checkVariableNames(env, { refuse, warn: (message) => void warnings.push(message) });
  const addresses = {
    data: door("LATCHKEY_DATA_LISTEN", "127.0.0.1:3003"),
    public: door("LATCHKEY_PUBLIC_LISTEN", undefined),
    control: door("LATCHKEY_CONTROL_LISTEN", "127.0.0.1:3004"),
    ops: door("LATCHKEY_OPS_LISTEN", "127.0.0.1:3005"),
  };
  const configFile = text("LATCHKEY_CONFIG");
  const read = configFile === undefined ? emptyFile : readConfigFile({ path: configFile, files, refuse });
  const { file } = read;
  checkNames({ ...read, refuse });
  const declared = declaredIn({ file, secrets, refuse });
  refuseSharedKeys({ declared, env, secrets, refuse });
  refuseForwardTwice({ declared, env, refuse });
  const aliases = aliasesOf({ file, refuse });
  checkSamePort(
    [
      ...Object.entries(addresses).map(([name, address]) => ({ name: `the ${name} door`, address })),
      ...aliases.map(({ name, address }) => ({ name: `the alias "${name}"`, address })),
    ],
    refuse,
  );
  const doors = Object.fromEntries(
    Object.entries(addresses).map(([name, address]) => [
      name,
      address && { address, tls: tlsOf({ file, door: name as DoorName, files, refuse }) },
    ]),
  ) as unknown as Config["doors"];

  const config: Config = {
    doors,
    publicUrl: publicUrlOf({
      text: text("LATCHKEY_PUBLIC_URL"),
      refuse,
      warn: (message) => void warnings.push(message),
    }),
    store: storeOf({ text: secret("LATCHKEY_STORE")?.trim() ?? "level:./.latchkey", refuse }),
    sealKeys: sealKeysOf({ text: secret("LATCHKEY_SEAL_KEYS"), refuse }),
    secretKey: pinned({ name: "LATCHKEY_SECRET_KEY", value: secret("LATCHKEY_SECRET_KEY"), refuse }),
    adminKey: pinned({ name: "LATCHKEY_ADMIN_KEY", value: secret("LATCHKEY_ADMIN_KEY"), refuse }),
    forwardUrl: forwardUrlOf({ name: "LATCHKEY_FORWARD_URL", value: text("LATCHKEY_FORWARD_URL"), refuse }),
    allowedOrigins: originsOf({ text: text("LATCHKEY_ALLOWED_ORIGINS"), refuse }),
    forwardSecret: forwardSecretOf({
      name: "LATCHKEY_FORWARD_SECRET",
      value: secret("LATCHKEY_FORWARD_SECRET"),
      refuse,
    }),
    allowPrivate: allowPrivateOf({ text: text("LATCHKEY_ALLOW_PRIVATE"), refuse }),
    providerCa: providerCaOf({ path: text("LATCHKEY_PROVIDER_CA"), files, refuse }),
    aliases,
    undeclaredAliases: undeclaredAliases(read),
    relay: relayOf(file),
    proxy: proxyLimitsOf({ file, refuse }),
    webhooks: webhooksOf({ file, refuse }),
    retention: retentionOf({ file, refuse }),
    allowedHosts: text("LATCHKEY_ALLOWED_HOSTS")
      ?.split(",")
      .map((host) => host.trim().toLowerCase())
      .filter((host) => host !== ""),
    fastLane:
      choice({ name: "LATCHKEY_FAST_LANE", text: text("LATCHKEY_FAST_LANE") ?? "on", of: ["on", "off"], refuse }) ===
      "on",
    graceMs: duration("LATCHKEY_GRACE", "25s"),
    streamGraceMs: duration("LATCHKEY_STREAM_GRACE", "10s"),
    drainDelayMs: duration("LATCHKEY_DRAIN_DELAY", "0s"),
    logLevel: choice({ name: "LATCHKEY_LOG_LEVEL", text: text("LATCHKEY_LOG_LEVEL") ?? "info", of: logLevels, refuse }),
    logFormat: optionalChoice({
      name: "LATCHKEY_LOG_FORMAT",
      text: text("LATCHKEY_LOG_FORMAT"),
      of: logFormats,
      refuse,
    }),
    limits: limitsOf(file),
    tracing: tracingOf({ text: withTwin, files, refuse, warn: (message) => void warnings.push(message) }),
    configFile,
    scriptsFolder: text("LATCHKEY_SCRIPTS"),
    scripts: scriptsOf({ file, refuse }),
    declared,
    warnings,
  };
  if (config.store.kind === "postgres" && config.adminKey === undefined) {
    refuse("LATCHKEY_ADMIN_KEY is required with PostgreSQL: replicas have no folder in common to keep one in");
  }
  if (config.drainDelayMs > 0 && config.drainDelayMs >= config.graceMs) {
    refuse("LATCHKEY_DRAIN_DELAY must be shorter than LATCHKEY_GRACE, of which it is a part");
  }
  if (mistakes.length > 0) throw new ConfigMistakes(mistakes);
  return Object.freeze(config);
}

/** What of the configuration file is applied when it changes while the sidecar runs. */
export interface Changeable {
  readonly declared: DeclaredSetup;
  readonly proxy: ProxyLimits;
  readonly webhooks: WebhookConfig;
  readonly retention: RetentionConfig;
  readonly undeclaredAliases: readonly UndeclaredAlias[];
}

export function parseChangeable({ path, env, files }: ConfigSource & { readonly path: string }): Changeable {
  const mistakes: string[] = [];
  const refuse = (message: string) => void mistakes.push(message);
  const read = readConfigFile({ path, files, refuse });
  const { file } = read;
  checkNames({ ...read, refuse });
  const secrets = createSecretSource({ env, files });
  const declared = declaredIn({ file, secrets, refuse });
  refuseSharedKeys({ declared, env, secrets, refuse });
  refuseForwardTwice({ declared, env, refuse });
  const proxy = proxyLimitsOf({ file, refuse });
  const webhooks = webhooksOf({ file, refuse });
  const retention = retentionOf({ file, refuse });
  if (mistakes.length > 0) throw new ConfigMistakes(mistakes);
  return { declared, proxy, webhooks, retention, undeclaredAliases: undeclaredAliases(read) };
}

const logLevels = ["debug", "info", "warn", "error"] as const;
const logFormats = ["json", "pretty"] as const;

interface Listening {
  readonly name: string;
  readonly address: ListenAddress | undefined;
}

function checkSamePort(all: readonly Listening[], refuse: Refuse): void {
  const taken = new Map<string, string>();
  for (const { name, address } of all) {
    if (address === undefined || (address.kind === "tcp" && address.port === 0)) continue;
    const at = address.kind === "tcp" ? `${address.host}:${address.port}` : address.path;
    const other = taken.get(at);
    if (other !== undefined) refuse(`${other} and ${name} would both listen on ${at}`);
    taken.set(at, name);
  }
}

function limitsOf({ limits = {} }: ConfigFile): SizeLimits {
  return {
    jsonBodyBytes: limits.json_body_bytes ?? defaultLimits.jsonBodyBytes,
    rpcMessageBytes: limits.rpc_message_bytes ?? defaultLimits.rpcMessageBytes,
    headBytes: limits.head_bytes ?? defaultLimits.headBytes,
    headLines: limits.head_lines ?? defaultLimits.headLines,
    pathBytes: limits.path_bytes ?? defaultLimits.pathBytes,
    webhookBodyBytes: limits.webhook_body_bytes ?? defaultLimits.webhookBodyBytes,
    connections: {
      data: limits.connections?.data ?? defaultLimits.connections.data,
      public: limits.connections?.public ?? defaultLimits.connections.public,
      control: limits.connections?.control ?? defaultLimits.connections.control,
      ops: limits.connections?.ops ?? defaultLimits.connections.ops,
    },
  };
}

export const defaultRelay: UpstreamLimits = {
  connectMs: 10_000,
  answerMs: 120_000,
  idleMs: 300_000,
  perOrigin: 1_024,
  waitingPerOrigin: 1_024,
};

const relayOf = ({ proxy = {} }: ConfigFile): UpstreamLimits => ({
  connectMs: proxy.connect_ms ?? defaultRelay.connectMs,
  answerMs: proxy.answer_ms ?? defaultRelay.answerMs,
  idleMs: proxy.idle_ms ?? defaultRelay.idleMs,
  perOrigin: proxy.requests_per_host ?? defaultRelay.perOrigin,
  waitingPerOrigin: proxy.waiting_per_host ?? defaultRelay.waitingPerOrigin,
});

function aliasesOf({ file, refuse }: { file: ConfigFile; refuse: Refuse }): AliasConfig[] {
  const aliases = file.aliases ?? [];
  return aliases.map(({ name, environment, integration, connection, listen }, i) => {
    const address = listen === undefined ? undefined : parseListenAddress(listen);
    if (listen !== undefined && address === undefined) {
      refuse(`aliases.${i}.listen: ${JSON.stringify(listen)} must be host:port, :port or unix:/path`);
    }
    return { name, environment, integration, connection, address };
  });
}

interface CaSource {
  readonly path: string | undefined;
  readonly files: FileReader;
  readonly refuse: Refuse;
}

function providerCaOf({ path, files, refuse }: CaSource): string | undefined {
  if (path === undefined) return undefined;
  try {
    const { text } = files.read(path);
    if (text.includes("-----BEGIN CERTIFICATE-----")) return text;
    refuse(`LATCHKEY_PROVIDER_CA: ${path} holds no certificate in PEM`);
  } catch (error) {
    refuse(`LATCHKEY_PROVIDER_CA: ${describeUnreadable(path, error)}`);
  }
  return undefined;
}

interface TlsSource {
  readonly file: ConfigFile;
  readonly door: DoorName;
  readonly files: FileReader;
  readonly refuse: Refuse;
}

function tlsOf({ file, door, files, refuse }: TlsSource): ListenerTls | undefined {
  const paths = file.tls?.[door];
  if (paths === undefined) return undefined;
  const read = (field: keyof typeof paths & string, path: string): string => {
    try {
      return files.read(path).text;
    } catch (error) {
      refuse(`tls.${door}.${field}: ${describeUnreadable(path, error)}`);
      return "";
    }
  };
  return {
    cert: read("cert", paths.cert),
    key: read("key", paths.key),
    clientCa: paths.client_ca === undefined ? undefined : read("client_ca", paths.client_ca),
    clientNames: paths.client_names,
  };
}
