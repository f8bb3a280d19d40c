import { type ListenAddress, type ListenerTls, parseListenAddress } from "../base/http/listener.ts";
import type { ConfigFile } from "./file.ts";
import type { FileReader } from "./secrets.ts";
import { describeUnreadable } from "./unreadable.ts";
import type { Refuse } from "./values.ts";
import type { VariableReader } from "./variable-reader.ts";

export type DoorName = "data" | "public" | "control" | "ops" | "ui" | "forwardProxy";

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
  /** A listener of its own, in addition to `<name>.localhost` on the data door. */
  readonly address: ListenAddress | undefined;
}

/** The listeners of each kind. The public door and that of the dashboard can be switched off. */
export interface DoorsConfig {
  readonly data: DoorConfig;
  readonly public: DoorConfig | undefined;
  readonly control: DoorConfig;
  readonly ops: DoorConfig;
  /** Undefined: the control door serves the dashboard, if any door does. */
  readonly ui: DoorConfig | undefined;
  /** Without TLS: callers send `CONNECT`, and speak TLS inside of their tunnel. */
  readonly forwardProxy: DoorConfig | undefined;
}

interface DoorsSource {
  readonly variables: Pick<VariableReader, "address">;
  readonly file: ConfigFile;
  readonly files: FileReader;
  readonly refuse: Refuse;
}

/** Reads the addresses of all listeners, which must differ, and their certificates. */
export function doorsOf({ variables, file, files, refuse }: DoorsSource): {
  readonly doors: DoorsConfig;
  readonly aliases: readonly AliasConfig[];
} {
  const addresses = {
    data: variables.address("LATCHKEY_DATA_LISTEN", "127.0.0.1:3003"),
    public: variables.address("LATCHKEY_PUBLIC_LISTEN", undefined),
    control: variables.address("LATCHKEY_CONTROL_LISTEN", "127.0.0.1:3004"),
    ops: variables.address("LATCHKEY_OPS_LISTEN", "127.0.0.1:3005"),
    ui: variables.address("LATCHKEY_UI_LISTEN", file.dashboard?.listen),
    forwardProxy: variables.address("LATCHKEY_FORWARD_PROXY_LISTEN", undefined),
  };
  const aliases = aliasesOf({ file, refuse });
  checkSamePort(
    [
      ...Object.entries(addresses).map(([name, address]) => ({ name: `the ${doorWords(name)}`, address })),
      ...aliases.map(({ name, address }) => ({ name: `the alias "${name}"`, address })),
    ],
    refuse,
  );
  const doors = Object.fromEntries(
    Object.entries(addresses).map(([name, address]) => [
      name,
      address && { address, tls: tlsOf({ file, door: name as DoorName, files, refuse }) },
    ]),
  );
  // A mandatory door without an address was refused: the configuration is not used then.
  return { doors: doors as unknown as DoorsConfig, aliases };
}

const doorWords = (name: string) => (name === "forwardProxy" ? "forward proxy" : `${name} door`);

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

interface TlsSource {
  readonly file: ConfigFile;
  readonly door: DoorName;
  readonly files: FileReader;
  readonly refuse: Refuse;
}

function tlsOf({ file, door, files, refuse }: TlsSource): ListenerTls | undefined {
  const paths = door === "forwardProxy" ? undefined : file.tls?.[door];
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
    isClientOptional: paths.client_optional,
  };
}
