import type { LogLevel } from "../base/log.ts";
import type { DeclaredSetup } from "../core/declared.ts";
import type { StoreLocation } from "../store/location.ts";
import type { TracingConfig } from "../tracing/tracing.ts";
import { refuseSharedKeys } from "./check-keys.ts";
import { checkNames, type UndeclaredAlias, undeclaredAliases } from "./check-names.ts";
import { type DashboardConfig, dashboardOf } from "./dashboard.ts";
import { declaredIn } from "./declare.ts";
import { doorsOf } from "./doors.ts";
import { type EgressProxySettings, egressOf } from "./egress/egress.ts";
import { forwardSecretOf, forwardUrlOf, refuseForwardTwice } from "./forward.ts";
import {
  type IdentityConfig,
  identityConfigOf,
  type ListeningConfig,
  listeningWithIdentities,
} from "./identities/identity-config.ts";
import {
  type AccessSessionTimes,
  limitsOf,
  type McpListing,
  mcpListingOf,
  relayOf,
  type SizeLimits,
  sessionTimesOf,
  type UpstreamLimits,
} from "./limits.ts";
import { ConfigMistakes } from "./mistakes.ts";
import { forwardProxyOf, type ProxyLimits, proxyLimitsOf } from "./proxy.ts";
import { emptyFile, readConfigFile, withPlace } from "./read-file.ts";
import { type RetentionConfig, retentionOf } from "./retention.ts";
import { type ScriptsConfig, scriptsOf } from "./scripts.ts";
import { createSecretSource, type FileReader } from "./secrets.ts";
import { tracingOf } from "./tracing.ts";
import {
  allowPrivateOf,
  docsUrlOf,
  logFormats,
  logLevels,
  mebibytesOf,
  originsOf,
  pinned,
  providerCaOf,
  publicUrlOf,
  type Refuse,
  type SealKeyConfig,
  sealKeysOf,
  storeOf,
} from "./values.ts";
import { checkVariableNames } from "./variable-names.ts";
import { createVariableReader, type VariableReader } from "./variable-reader.ts";
import type { VariableName } from "./variables.ts";
import { type WebhookConfig, webhooksOf } from "./webhooks.ts";

export { ConfigMistakes } from "./mistakes.ts";

export interface Config extends IdentityConfig, ListeningConfig {
  readonly dashboard: DashboardConfig;
  /** Without a trailing slash; undefined: the address of the data door. */
  readonly publicUrl: string | undefined;
  /** Base of the links in errors; undefined: the public URL. */
  readonly docsUrl: string | undefined;
  readonly store: StoreLocation;
  readonly sealKeys: readonly SealKeyConfig[];
  readonly secretKey: string | undefined;
  readonly adminKey: string | undefined;
  /** Forward URL and signing secret of the environment `dev`. */
  readonly forwardUrl: string | undefined;
  readonly forwardSecret: string | undefined;
  /** Origins whose pages may use the browser routes of the environment `dev`. */
  readonly allowedOrigins: readonly string[] | undefined;
  /** `host:port` and `http://host:port` of providers with a private address. */
  readonly allowPrivate: readonly string[];
  /** PEM. */
  readonly providerCa: string | undefined;
  /** Undefined: everything is dialed directly. */
  readonly egressProxy: EgressProxySettings | undefined;
  readonly undeclaredAliases: readonly UndeclaredAlias[];
  readonly relay: UpstreamLimits;
  readonly proxy: ProxyLimits;
  /** Hosts that the forward proxy passes on without looking inside. */
  readonly forwardProxyTunnels: readonly string[];
  /** Where the certificates are written that programs behind the forward proxy must trust. */
  readonly forwardProxyCaFile: string | undefined;
  readonly webhooks: WebhookConfig;
  readonly retention: RetentionConfig;
  readonly mcpListing: McpListing;
  /** Lifetimes of access sessions. */
  readonly accessSessions: AccessSessionTimes;
  /** Undefined: the listeners' hosts, `localhost` and the public URL's host. */
  readonly allowedHosts: readonly string[] | undefined;
  /** Ordinary requests to providers skip `node:http`. */
  readonly fastLane: boolean;
  /** Above this size of their index, connections are looked up in the store. */
  readonly lookupBytes: number;
  /** The last requests to providers are kept in memory. */
  readonly keepsRequests: boolean;
  readonly graceMs: number;
  /** The part of the grace period in which WebSockets and event streams may continue. */
  readonly streamGraceMs: number;
  /** The part of the grace period in which all requests are served although we are not ready. */
  readonly drainDelayMs: number;
  readonly logLevel: LogLevel;
  readonly logFormat: "json" | "pretty" | undefined;
  readonly limits: SizeLimits;
  /** Undefined: no spans. */
  readonly tracing: TracingConfig | undefined;
  readonly configFile: string | undefined;
  /** The folder of the customer's scripts; undefined if there is none. */
  readonly scriptsFolder: string | undefined;
  readonly scripts: ScriptsConfig;
  readonly declared: DeclaredSetup;
  /** Settings that are allowed, but probably not intended. */
  readonly warnings: readonly string[];
  readonly source: ConfigOrigin;
}

/** What a configuration was read from. Kept to show where its values come from. */
export interface ConfigOrigin {
  readonly env: Readonly<Record<string, string | undefined>>;
  /** Text of the configuration file; undefined if there is none. */
  readonly text: string | undefined;
}

export interface ConfigSource {
  readonly env: Readonly<Record<string, string | undefined>>;
  readonly files: FileReader;
}

/** Returns the whole configuration. Throws a `ConfigMistakes` with every mistake in it. */
export function parseConfig({ env, files }: ConfigSource): Config {
  const mistakes: string[] = [];
  const warnings: string[] = [];
  const refuse = (message: string) => void mistakes.push(message);
  const warn = (message: string) => void warnings.push(message);
  const secrets = createSecretSource({ env, files });
  const variables = createVariableReader({ env, secrets, refuse });
  const { text, secret, duration } = variables;

  checkVariableNames(env, { refuse, warn });
  const configFile = text("LATCHKEY_CONFIG");
  // A start may have an empty file. A reload refuses one: it may have been cut off while it was written.
  const read =
    configFile === undefined ? emptyFile : readConfigFile({ path: configFile, files, refuse, reportEmpty: warn });
  const { file } = read;
  const refuseAt = withPlace(read, refuse);
  checkNames({ ...read, refuse });
  const declared = declaredIn({ ...read, secrets, refuse });
  refuseSharedKeys({ ...read, declared, env, secrets, refuse });
  refuseForwardTwice({ declared, env, refuse });
  const ofFile = { file, files, refuse: refuseAt };
  const listening = listeningWithIdentities(ofFile, doorsOf({ variables, ...ofFile }));
  const config: Config = {
    ...listening,
    ...identityConfigOf(ofFile),
    dashboard: dashboardOf({ variables, secrets, ...listening, file, refuse: refuseAt }),
    ...pinnedSetup(variables, refuse),
    publicUrl: publicUrlOf({ text: text("LATCHKEY_PUBLIC_URL"), refuse, warn }),
    docsUrl: docsUrlOf({ text: text("LATCHKEY_DOCS_URL"), refuse }),
    store: storeOf({ text: secret("LATCHKEY_STORE")?.trim() ?? "level:./.latchkey", refuse }),
    sealKeys: sealKeysOf({
      text: secret("LATCHKEY_SEAL_KEYS"),
      isInFile: variables.isInFile("LATCHKEY_SEAL_KEYS"),
      refuse,
    }),
    allowPrivate: allowPrivateOf({ text: text("LATCHKEY_ALLOW_PRIVATE"), refuse }),
    providerCa: providerCaOf({ path: text("LATCHKEY_PROVIDER_CA"), files, refuse }),
    egressProxy: egressOf({ env, variables, secrets, files, file, refuse: refuseAt, warn }),
    undeclaredAliases: undeclaredAliases(read),
    relay: relayOf(file),
    proxy: proxyLimitsOf({ file, refuse: refuseAt }),
    ...forwardProxyOf({ file, variables, refuse }),
    webhooks: webhooksOf({ file, refuse: refuseAt }),
    retention: retentionOf({ file, refuse: refuseAt }),
    mcpListing: mcpListingOf(file),
    accessSessions: sessionTimesOf({ file, refuse: refuseAt }),
    allowedHosts: text("LATCHKEY_ALLOWED_HOSTS")
      ?.split(",")
      .map((host) => host.trim().toLowerCase())
      .filter((host) => host !== ""),
    lookupBytes: mebibytesOf({ name: "LATCHKEY_LOOKUP_MEMORY", text: text("LATCHKEY_LOOKUP_MEMORY") ?? "128", refuse }),
    keepsRequests: variables.choice("LATCHKEY_RECENT_REQUESTS", ["on", "off"], "on") === "on",
    fastLane: variables.choice("LATCHKEY_FAST_LANE", ["on", "off"], "on") === "on",
    graceMs: duration("LATCHKEY_GRACE", "25s"),
    streamGraceMs: duration("LATCHKEY_STREAM_GRACE", "10s"),
    drainDelayMs: duration("LATCHKEY_DRAIN_DELAY", "0s"),
    logLevel: variables.choice("LATCHKEY_LOG_LEVEL", logLevels, "info"),
    logFormat: variables.optionalChoice("LATCHKEY_LOG_FORMAT", logFormats),
    limits: limitsOf(file),
    tracing: tracingOf({ text: variables.mostSpecific, files, refuse, warn }),
    configFile,
    scriptsFolder: text("LATCHKEY_SCRIPTS"),
    scripts: scriptsOf({ file, refuse: refuseAt }),
    declared,
    warnings,
    source: { env, text: read.text },
  };
  if (config.store.kind === "postgres" && config.adminKey === undefined && !variables.isInFile("LATCHKEY_ADMIN_KEY")) {
    refuse("LATCHKEY_ADMIN_KEY is required with PostgreSQL: replicas share no folder to keep a generated key in");
  }
  if (config.drainDelayMs > 0 && config.drainDelayMs >= config.graceMs) {
    refuse("LATCHKEY_DRAIN_DELAY must be shorter than LATCHKEY_GRACE, which includes it");
  }
  if (mistakes.length > 0) throw new ConfigMistakes(mistakes);
  return Object.freeze(config);
}

type PinnedSetup = Pick<Config, "secretKey" | "adminKey" | "forwardUrl" | "forwardSecret" | "allowedOrigins">;

/** Reads the variables that set keys, and settings of the environment `dev`. */
function pinnedSetup({ text, secret }: VariableReader, refuse: Refuse): PinnedSetup {
  const key = (name: VariableName) => pinned({ name, value: secret(name), refuse });
  return {
    secretKey: key("LATCHKEY_SECRET_KEY"),
    adminKey: key("LATCHKEY_ADMIN_KEY"),
    forwardUrl: forwardUrlOf({ name: "LATCHKEY_FORWARD_URL", value: text("LATCHKEY_FORWARD_URL"), refuse }),
    forwardSecret: forwardSecretOf({
      name: "LATCHKEY_FORWARD_SECRET",
      value: secret("LATCHKEY_FORWARD_SECRET"),
      refuse,
    }),
    allowedOrigins: originsOf({ text: text("LATCHKEY_ALLOWED_ORIGINS"), refuse }),
  };
}

/** The parts of the configuration file that are applied without a restart when the file changes. */
export interface Changeable extends IdentityConfig {
  readonly declared: DeclaredSetup;
  readonly proxy: ProxyLimits;
  readonly webhooks: WebhookConfig;
  readonly retention: RetentionConfig;
  readonly mcpListing: McpListing;
  readonly undeclaredAliases: readonly UndeclaredAlias[];
  /** Text of the file. */
  readonly text: string | undefined;
}

export function parseChangeable({ path, env, files }: ConfigSource & { readonly path: string }): Changeable {
  const mistakes: string[] = [];
  const refuse = (message: string) => void mistakes.push(message);
  const read = readConfigFile({ path, files, refuse });
  const { file } = read;
  const refuseAt = withPlace(read, refuse);
  checkNames({ ...read, refuse });
  const secrets = createSecretSource({ env, files });
  const declared = declaredIn({ ...read, secrets, refuse });
  refuseSharedKeys({ ...read, declared, env, secrets, refuse });
  refuseForwardTwice({ declared, env, refuse });
  const proxy = proxyLimitsOf({ file, refuse: refuseAt });
  const webhooks = webhooksOf({ file, refuse: refuseAt });
  const retention = retentionOf({ file, refuse: refuseAt });
  const identities = identityConfigOf({ file, files, refuse: refuseAt });
  if (mistakes.length > 0) throw new ConfigMistakes(mistakes);
  return {
    declared,
    proxy,
    webhooks,
    retention,
    mcpListing: mcpListingOf(file),
    ...identities,
    undeclaredAliases: undeclaredAliases(read),
    text: read.text,
  };
}
