import type { MessageInitShape } from "@bufbuild/protobuf";
import { create } from "@bufbuild/protobuf";
import * as v from "valibot";
import { parse as parseYaml, YAMLParseError } from "yaml";
import { type ListenAddress, type ListenerTls, parseListenAddress } from "../base/listener.ts";
import type { LogLevel } from "../base/log.ts";
import type { Declared } from "../core/declared.ts";
import { defaultScopes, scopesByName } from "../core/scopes.ts";
import {
  Integration_Callback,
  Integration_Reflection,
  IntegrationSchema,
  OAuthApp_Publishing,
} from "../gen/latchkey/v1/integration_pb.ts";
import { ProviderMistake, readProvider } from "../providers/read.ts";
import { type ConfigFile, fileSchema, type SecretReference } from "./file.ts";
import { createSecretSource, type FileReader, type SecretSource } from "./secrets.ts";
import { clientVariables, type VariableName, variables } from "./variables.ts";

export type DoorName = "data" | "public" | "control" | "ops";

export interface DoorConfig {
  readonly address: ListenAddress;
  readonly tls: ListenerTls | undefined;
}

export interface Limits {
  readonly jsonBodyBytes: number;
  readonly rpcMessageBytes: number;
  readonly headBytes: number;
  readonly headLines: number;
  readonly pathBytes: number;
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
  readonly store: { readonly kind: "level"; readonly folder: string };
  readonly sealKeys: readonly { readonly id: string; readonly secret: Uint8Array }[];
  readonly secretKey: string | undefined;
  readonly adminKey: string | undefined;
  /** Undefined: what is listened on, `localhost` and the public URL's host. */
  readonly allowedHosts: readonly string[] | undefined;
  readonly graceMs: number;
  readonly logLevel: LogLevel;
  readonly logFormat: "json" | "pretty" | undefined;
  readonly limits: Limits;
  readonly configFile: string | undefined;
  readonly declared: Declared;
  /** What is allowed and probably not meant. */
  readonly warnings: readonly string[];
}

/** Everything that is wrong with a configuration, at once. No message quotes a secret. */
export class ConfigMistakes extends Error {
  override readonly name = "ConfigMistakes";
  readonly mistakes: readonly string[];

  constructor(mistakes: readonly string[]) {
    super(mistakes.join("\n"));
    this.mistakes = mistakes;
  }
}

interface ConfigSource {
  readonly env: Readonly<Record<string, string | undefined>>;
  readonly files: FileReader;
}

export const defaultLimits: Limits = {
  jsonBodyBytes: 512 * 1024,
  rpcMessageBytes: 4 * 1024 * 1024,
  headBytes: 16 * 1024,
  headLines: 200,
  pathBytes: 8 * 1024,
};

/** Announced for later rooms: refused with a word of explanation, rather than ignored. */
const notYet = ["LATCHKEY_FORWARD_URL", "LATCHKEY_FORWARD_SECRET", "LATCHKEY_SCRIPTS", "LATCHKEY_ALLOW_PRIVATE"];

/** The whole configuration, or every mistake in it. */
export function parseConfig({ env, files }: ConfigSource): Config {
  const mistakes: string[] = [];
  const warnings: string[] = [];
  const refuse = (message: string) => void mistakes.push(message);
  const secrets = createSecretSource({ env, files });
  const text = (name: VariableName) => env[name]?.trim() || undefined;

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

  checkVariableNames(env, refuse);
  const addresses = {
    data: door("LATCHKEY_DATA_LISTEN", "127.0.0.1:3003"),
    public: door("LATCHKEY_PUBLIC_LISTEN", undefined),
    control: door("LATCHKEY_CONTROL_LISTEN", "127.0.0.1:3004"),
    ops: door("LATCHKEY_OPS_LISTEN", "127.0.0.1:3005"),
  };
  checkSamePort(addresses, refuse);
  const configFile = text("LATCHKEY_CONFIG");
  const file = configFile === undefined ? {} : readConfigFile({ path: configFile, files, refuse });
  const declared = declaredIn({ file, secrets, refuse });
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
    store: storeOf({ text: text("LATCHKEY_STORE") ?? "level:./.latchkey", refuse }),
    sealKeys: sealKeysOf({ text: secret("LATCHKEY_SEAL_KEYS"), refuse }),
    secretKey: pinned({ name: "LATCHKEY_SECRET_KEY", value: secret("LATCHKEY_SECRET_KEY"), refuse }),
    adminKey: pinned({ name: "LATCHKEY_ADMIN_KEY", value: secret("LATCHKEY_ADMIN_KEY"), refuse }),
    allowedHosts: text("LATCHKEY_ALLOWED_HOSTS")
      ?.split(",")
      .map((host) => host.trim().toLowerCase())
      .filter((host) => host !== ""),
    graceMs: durationOf({ text: text("LATCHKEY_GRACE") ?? "25s", refuse }),
    logLevel: choice({ name: "LATCHKEY_LOG_LEVEL", text: text("LATCHKEY_LOG_LEVEL") ?? "info", of: logLevels, refuse }),
    logFormat: optionalChoice({
      name: "LATCHKEY_LOG_FORMAT",
      text: text("LATCHKEY_LOG_FORMAT"),
      of: logFormats,
      refuse,
    }),
    limits: limitsOf(file),
    configFile,
    declared,
    warnings,
  };
  if (mistakes.length > 0) throw new ConfigMistakes(mistakes);
  return Object.freeze(config);
}

/** The declared part alone, for a file that changed while the sidecar runs. */
export function parseDeclared({ path, env, files }: ConfigSource & { readonly path: string }): Declared {
  const mistakes: string[] = [];
  const refuse = (message: string) => void mistakes.push(message);
  const file = readConfigFile({ path, files, refuse });
  const declared = declaredIn({ file, secrets: createSecretSource({ env, files }), refuse });
  if (mistakes.length > 0) throw new ConfigMistakes(mistakes);
  return declared;
}

type Refuse = (message: string) => void;

const logLevels = ["debug", "info", "warn", "error"] as const;
const logFormats = ["json", "pretty"] as const;

function checkVariableNames(env: ConfigSource["env"], refuse: Refuse): void {
  const known = new Set<string>([
    ...variables.flatMap((row) => ("secret" in row ? [row.name, `${row.name}_FILE`] : [row.name])),
    ...clientVariables,
  ]);
  for (const name of Object.keys(env)) {
    if (!name.startsWith("LATCHKEY_") || known.has(name)) continue;
    refuse(
      notYet.includes(name) ? `${name}: this version cannot do that yet` : `${name} is not a variable of latchkey's`,
    );
  }
}

function checkSamePort(addresses: Readonly<Record<DoorName, ListenAddress | undefined>>, refuse: Refuse): void {
  const taken = new Map<string, string>();
  for (const [name, address] of Object.entries(addresses)) {
    if (address === undefined || (address.kind === "tcp" && address.port === 0)) continue;
    const at = address.kind === "tcp" ? `${address.host}:${address.port}` : address.path;
    const other = taken.get(at);
    if (other !== undefined) refuse(`the ${other} and the ${name} door would both listen on ${at}`);
    taken.set(at, name);
  }
}

function publicUrlOf({
  text,
  refuse,
  warn,
}: {
  text: string | undefined;
  refuse: Refuse;
  warn: Refuse;
}): string | undefined {
  if (text === undefined) return undefined;
  const valid = /^https?:\/\//.test(text) && URL.canParse(text);
  const url = valid ? new URL(text) : undefined;
  if (url === undefined || url.search + url.hash + url.username !== "") {
    refuse("LATCHKEY_PUBLIC_URL must be https://host, and may have a path");
    return undefined;
  }
  if (url.protocol === "http:" && !["localhost", "127.0.0.1", "[::1]"].includes(url.hostname)) {
    warn("LATCHKEY_PUBLIC_URL is http: providers refuse such redirect URIs, and what they send can be read on the way");
  }
  return url.href.replace(/\/+$/, "");
}

function storeOf({ text, refuse }: { text: string; refuse: Refuse }): Config["store"] {
  const folder = text.startsWith("level:") ? text.slice("level:".length) : "";
  if (folder === "") refuse("LATCHKEY_STORE must be level:<folder>");
  return { kind: "level", folder };
}

function sealKeysOf({ text, refuse }: { text: string | undefined; refuse: Refuse }): Config["sealKeys"] {
  if (text === undefined) {
    refuse("LATCHKEY_SEAL_KEYS is required: id:base64 of 32 random bytes, such as from `openssl rand -base64 32`");
    return [];
  }
  const keys = text.split(",").flatMap((part, i) => {
    const [, id, encoded = ""] = /^([A-Za-z0-9_.-]{1,64}):(.*)$/.exec(part.trim()) ?? [];
    if (id === undefined) {
      refuse(`LATCHKEY_SEAL_KEYS: entry ${i + 1} must be id:base64`);
      return [];
    }
    const secret = Buffer.from(encoded, "base64");
    if (secret.toString("base64").replaceAll("=", "") !== encoded.replaceAll("=", "")) {
      refuse(`LATCHKEY_SEAL_KEYS: the key "${id}" is not base64`);
      return [];
    }
    if (secret.length !== 32) {
      refuse(`LATCHKEY_SEAL_KEYS: the key "${id}" has ${secret.length} bytes; it must have 32`);
      return [];
    }
    return [{ id, secret }];
  });
  const ids = keys.map(({ id }) => id);
  for (const id of ids.filter((one, i) => ids.indexOf(one) !== i))
    refuse(`LATCHKEY_SEAL_KEYS: the key id "${id}" is there twice`);
  return keys;
}

const minKeyLength = 16;

function pinned({
  name,
  value,
  refuse,
}: {
  name: string;
  value: string | undefined;
  refuse: Refuse;
}): string | undefined {
  if (value === undefined) return undefined;
  if (value.length < minKeyLength) refuse(`${name} must have at least ${minKeyLength} characters`);
  if (!/^[\x21-\x7e]+$/.test(value)) refuse(`${name} must be printable ASCII without blanks`);
  return value;
}

const unitsMs: Readonly<Record<string, number>> = { ms: 1, s: 1_000, m: 60_000 };

function durationOf({ text, refuse }: { text: string; refuse: Refuse }): number {
  const [, amount, unit = ""] = /^(\d{1,6})(ms|s|m)$/.exec(text) ?? [];
  if (amount === undefined) {
    refuse("LATCHKEY_GRACE must be a duration such as 25s");
    return 0;
  }
  return Number(amount) * (unitsMs[unit] ?? 0);
}

interface Choice<T extends string> {
  readonly name: string;
  readonly of: readonly T[];
  readonly refuse: Refuse;
}

function optionalChoice<T extends string>({
  name,
  text,
  of,
  refuse,
}: Choice<T> & { text: string | undefined }): T | undefined {
  const chosen = of.find((one) => one === text);
  if (text !== undefined && chosen === undefined) refuse(`${name} must be one of ${of.join(", ")}`);
  return chosen;
}

function choice<T extends string>(asked: Choice<T> & { text: string }): T {
  const [first] = asked.of;
  const chosen = optionalChoice(asked) ?? first;
  if (chosen === undefined) throw new Error("a choice has options");
  return chosen;
}

function limitsOf({ limits = {} }: ConfigFile): Limits {
  return {
    jsonBodyBytes: limits.json_body_bytes ?? defaultLimits.jsonBodyBytes,
    rpcMessageBytes: limits.rpc_message_bytes ?? defaultLimits.rpcMessageBytes,
    headBytes: limits.head_bytes ?? defaultLimits.headBytes,
    headLines: limits.head_lines ?? defaultLimits.headLines,
    pathBytes: limits.path_bytes ?? defaultLimits.pathBytes,
  };
}

function readConfigFile({ path, files, refuse }: { path: string; files: FileReader; refuse: Refuse }): ConfigFile {
  let written: unknown;
  try {
    written = parseYaml(files.read(path).text);
  } catch (error) {
    const reason =
      error instanceof YAMLParseError ? error.message.split("\n")[0] : (error as NodeJS.ErrnoException).code;
    refuse(`${path} cannot be read: ${reason}`);
    return {};
  }
  const result = v.safeParse(fileSchema, written ?? {});
  if (result.success) return result.output;
  for (const issue of result.issues) refuse(`${path}: ${v.getDotPath(issue) ?? "the file"}: ${sayIssue(issue)}`);
  return {};
}

/** Valibot quotes what it received; a secret written where none belongs must not be shown. */
function sayIssue(issue: v.BaseIssue<unknown>): string {
  if (issue.type === "strict_object" && issue.expected === "never") return "is not a key of latchkey's configuration";
  if (issue.kind === "schema" && issue.message.startsWith("Invalid"))
    return `must be ${issue.expected ?? "something else"}`;
  return issue.message.startsWith("Invalid")
    ? `must be ${issue.requirement ?? issue.expected ?? "something else"}`
    : issue.message;
}

function declaredIn({ file, secrets, refuse }: { file: ConfigFile; secrets: SecretSource; refuse: Refuse }): Declared {
  const resolve = (at: string, reference: SecretReference | undefined): string | undefined => {
    if (reference === undefined) return undefined;
    const outcome = "env" in reference ? secrets.fromVariable(reference.env) : secrets.fromFile(reference.file);
    if ("value" in outcome) return outcome.value;
    refuse(`${at}: ${outcome.mistake}`);
    return undefined;
  };
  const { environments = [], integrations = [], providers = [] } = file;
  const names = new Set(environments.map(({ name }) => name));
  if (names.size < environments.length) refuse("environments: a name is there twice");
  const keys = environments.flatMap(({ name, keys: own = [] }) => own.map((key) => ({ ...key, environment: name })));
  const ids = keys.map(({ id }) => id);
  for (const id of ids.filter((one, i) => ids.indexOf(one) !== i))
    refuse(`environments: the key id "${id}" is there twice`);

  return {
    environments: environments.map(({ name, forward, allowed_origins: allowedOrigins = [] }) => ({
      name,
      forwardUrl: forward?.url ?? "",
      secondaryForwardUrl: forward?.secondary ?? "",
      allowedOrigins,
    })),
    keys: keys.flatMap(({ id, environment, key, scopes = [] }) => {
      const secret = resolve(`the key "${id}"`, key);
      if (scopes.includes("admin")) refuse(`the key "${id}": admin is not a scope of an environment's key`);
      pinned({ name: `the key "${id}"`, value: secret, refuse });
      const known = scopes.flatMap((scope) => scopesByName.get(scope) ?? []);
      return secret === undefined
        ? []
        : [{ id, environment, secret, scopes: scopes.length === 0 ? defaultScopes : known }];
    }),
    integrations: integrations.map((one) => {
      if (!names.has(one.environment))
        refuse(`the integration "${one.key}": the environment "${one.environment}" is not declared`);
      return create(
        IntegrationSchema,
        integrationOf(one, (name, reference) => resolve(`the integration "${one.key}": ${name}`, reference)),
      );
    }),
    providers: providers.flatMap((description) => {
      try {
        return [readProvider(description)];
      } catch (error) {
        if (!(error instanceof ProviderMistake)) throw error;
        refuse(`the provider "${description.name}": ${error.message}`);
        return [];
      }
    }),
  };
}

type FileIntegration = NonNullable<ConfigFile["integrations"]>[number];
type Resolve = (name: string, reference: SecretReference | undefined) => string | undefined;

function integrationOf(one: FileIntegration, resolve: Resolve): MessageInitShape<typeof IntegrationSchema> {
  const { oauth } = one;
  const secrets = {
    clientSecret: resolve("client_secret", oauth?.client_secret) ?? "",
    privateKey: resolve("private_key", oauth?.private_key) ?? "",
    webhookSecret: resolve("webhook_secret", one.webhook_secret) ?? "",
  };
  return {
    environment: one.environment,
    key: one.key,
    provider: one.provider,
    displayName: one.display_name ?? "",
    ...(oauth === undefined
      ? {}
      : {
          oauth: {
            clientId: oauth.client_id ?? "",
            scopes: oauth.scopes ?? [],
            publishing: publishing[oauth.publishing ?? ""] ?? 0,
          },
        }),
    ...(Object.values(secrets).some((value) => value !== "") ? { secrets } : {}),
    callback: callbacks[one.callback ?? ""] ?? 0,
    hosts: (one.hosts ?? []).map(({ prefix = "", origin }) => ({ prefix, origin })),
    ...(one.channels === undefined ? {} : { channels: { automatic: one.channels.automatic ?? false } }),
    reflection: reflections[one.reflection ?? ""] ?? 0,
    noForward: one.forward === false,
    connectionDefaults: one.connection_defaults ?? {},
  };
}

const publishing: Readonly<Record<string, OAuthApp_Publishing>> = {
  testing: OAuthApp_Publishing.TESTING,
  production: OAuthApp_Publishing.PRODUCTION,
};
const callbacks: Readonly<Record<string, Integration_Callback>> = {
  shared: Integration_Callback.SHARED,
  bound: Integration_Callback.BOUND,
};
const reflections: Readonly<Record<string, Integration_Reflection>> = {
  off: Integration_Reflection.OFF,
  mask: Integration_Reflection.MASK,
  refuse: Integration_Reflection.REFUSE,
};

interface TlsSource {
  readonly file: ConfigFile;
  readonly door: DoorName;
  readonly files: FileReader;
  readonly refuse: Refuse;
}

function tlsOf({ file, door, files, refuse }: TlsSource): ListenerTls | undefined {
  const paths = file.tls?.[door];
  if (paths === undefined) return undefined;
  const read = (path: string): string => {
    try {
      return files.read(path).text;
    } catch (error) {
      refuse(`tls.${door}: ${path} cannot be read (${(error as NodeJS.ErrnoException).code ?? "unknown error"})`);
      return "";
    }
  };
  return {
    cert: read(paths.cert),
    key: read(paths.key),
    clientCa: paths.client_ca === undefined ? undefined : read(paths.client_ca),
    clientNames: paths.client_names,
  };
}
