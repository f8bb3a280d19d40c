import { type ListenAddress, type ListenerTls, parseListenAddress } from "../base/listener.ts";
import type { LogLevel } from "../base/log.ts";
import type { Declared } from "../core/declared.ts";
import { declaredIn } from "./declare.ts";
import type { ConfigFile } from "./file.ts";
import { readConfigFile } from "./read-file.ts";
import { createSecretSource, type FileReader } from "./secrets.ts";
import {
  choice,
  durationOf,
  optionalChoice,
  pinned,
  publicUrlOf,
  type Refuse,
  type SealKeyConfig,
  type StoreConfig,
  sealKeysOf,
  storeOf,
} from "./values.ts";
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
  readonly store: StoreConfig;
  readonly sealKeys: readonly SealKeyConfig[];
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

function limitsOf({ limits = {} }: ConfigFile): Limits {
  return {
    jsonBodyBytes: limits.json_body_bytes ?? defaultLimits.jsonBodyBytes,
    rpcMessageBytes: limits.rpc_message_bytes ?? defaultLimits.rpcMessageBytes,
    headBytes: limits.head_bytes ?? defaultLimits.headBytes,
    headLines: limits.head_lines ?? defaultLimits.headLines,
    pathBytes: limits.path_bytes ?? defaultLimits.pathBytes,
  };
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
