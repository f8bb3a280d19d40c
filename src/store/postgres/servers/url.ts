import { readFileSync } from "node:fs";
import { isIPv4 } from "node:net";
import type { ConnectionOptions } from "node:tls";
import { parseConnectionUri } from "../../connection-uri.ts";
import { StoreRefused } from "../../contract.ts";

export interface PostgresServer {
  /** A name, an address, or the folder of a Unix socket. */
  readonly host: string;
  readonly port: number;
}

/** Location and credentials of a store, from its connection URI alone, never from the environment. */
export interface PostgresAddress {
  /** Where the primary may be: one of these is it at a time. */
  readonly servers: readonly PostgresServer[];
  readonly user: string;
  readonly password: string | undefined;
  readonly database: string;
  readonly schema: string;
  readonly applicationName: string;
  /** Undefined: no TLS. */
  readonly tls: ConnectionOptions | undefined;
}

const modes = ["disable", "require", "verify-ca", "verify-full"] as const;
type Mode = (typeof modes)[number];

/** The libpq parameters that are supported, and one of our own. */
const known = [
  ...["host", "port", "user", "password", "dbname", "application_name"],
  ...["sslmode", "sslrootcert", "sslcert", "sslkey", "schema", "target_session_attrs"],
];
/** Both mean the primary. libpq's other values would allow a standby, which cannot keep a store. */
const targets = ["read-write", "primary"];
/** Inserted into statements verbatim, so no name that would need quoting. */
const schemaPattern = /^[a-z_][a-z0-9_]{0,62}$/;

/**
 * Parses a URI and reads the certificates that it names. Throws `StoreRefused`, which never quotes the URI: it may hold
 * a password.
 */
export function parsePostgresUrl(text: string): PostgresAddress {
  const uri = parseConnectionUri(text);
  if (uri === undefined) throw new StoreRefused("the PostgreSQL address is not a connection URI");
  const { url } = uri;
  const parameters = parametersOf(url);
  const target = parameters.get("target_session_attrs");
  if (target !== undefined && !targets.includes(target)) {
    throw new StoreRefused(`target_session_attrs=${target} must be one of ${targets.join(", ")}`);
  }
  const servers = serversOf(uri.hosts, parameters);
  const user = parameters.get("user") ?? decoded(url.username);
  if (user === "") throw new StoreRefused("the PostgreSQL address names no user");
  const schema = parameters.get("schema") ?? "latchkey";
  if (!schemaPattern.test(schema)) {
    throw new StoreRefused(
      `schema=${schema} must consist of lower-case letters, digits and underscores, without a digit first`,
    );
  }
  return {
    servers,
    user,
    password: parameters.get("password") ?? (url.password === "" ? undefined : decoded(url.password)),
    database: parameters.get("dbname") ?? (decoded(url.pathname.slice(1)) || user),
    schema,
    applicationName: parameters.get("application_name") ?? "latchkey",
    tls: tlsOf(servers, parameters),
  };
}

/** Describes the address for messages. */
export const placeOf = ({ servers }: Pick<PostgresAddress, "servers">): string => servers.map(serverPlace).join(", ");

const serverPlace = ({ host, port }: PostgresServer): string =>
  host.startsWith("/") ? `${host}/.s.PGSQL.${port}` : `${host.includes(":") ? `[${host}]` : host}:${port}`;

/** As in libpq: parameters replace parts, and one port may be that of all hosts. */
function serversOf(parts: readonly string[], parameters: ReadonlyMap<string, string>): readonly PostgresServer[] {
  const named = parts.map((part) => {
    const [, host = "", port = ""] = /^(.*?)(?::([^:\]]*))?$/.exec(part) ?? [];
    return { host: decoded(host).replace(/^\[(.*)\]$/, "$1"), port };
  });
  const hosts = parameters.get("host")?.split(",") ?? named.map(({ host }) => host);
  if (hosts.includes("")) throw new StoreRefused("the PostgreSQL address names no host");
  const ports = parameters.get("port")?.split(",") ?? named.map(({ port }) => port);
  const [only = ""] = ports;
  if (ports.length !== 1 && ports.length !== hosts.length) {
    throw new StoreRefused(`the PostgreSQL address names ${hosts.length} hosts and ${ports.length} ports`);
  }
  return hosts.map((host, i) => ({ host, port: portOf(ports.length === 1 ? only : (ports[i] ?? "")) }));
}

function parametersOf({ search }: URL): ReadonlyMap<string, string> {
  const parameters = new Map<string, string>();
  // Percent-decoding only, as in libpq: parsing as a form would turn a plus into a blank.
  for (const pair of search.slice(1).split("&")) {
    if (pair === "") continue;
    const [name = "", ...value] = pair.split("=");
    if (!known.includes(name)) {
      throw new StoreRefused(`the PostgreSQL address has an unknown parameter; known are ${known.join(", ")}`);
    }
    parameters.set(name, decoded(value.join("=")));
  }
  return parameters;
}

function decoded(text: string): string {
  try {
    return decodeURIComponent(text);
  } catch {
    // No cause: it would quote what may be a password.
    throw new StoreRefused("the PostgreSQL address has an invalid percent sign; write it as %25");
  }
}

function portOf(text: string): number {
  if (text === "") return 5432;
  const port = Number(text);
  if (!/^\d+$/.test(text) || port < 1 || port > 65_535) throw new StoreRefused(`${text} is not a port`);
  return port;
}

/**
 * TLS modes as in libpq, except for the default: a server must be verified unless the connection cannot leave the
 * machine.
 */
function tlsOf(
  servers: readonly PostgresServer[],
  parameters: ReadonlyMap<string, string>,
): ConnectionOptions | undefined {
  const [rootcert, cert, key] = [parameters.get("sslrootcert"), parameters.get("sslcert"), parameters.get("sslkey")];
  const isPlainByDefault = servers.every(({ host }) => isLocal(host)) && rootcert === undefined && cert === undefined;
  const mode = modeOf(parameters.get("sslmode") ?? (isPlainByDefault ? "disable" : "verify-full"));
  if (mode === "disable") return undefined;
  if ((cert === undefined) !== (key === undefined)) throw new StoreRefused("sslcert and sslkey must be set together");
  const isVerified = mode !== "require" || rootcert !== undefined;
  return {
    rejectUnauthorized: isVerified,
    ...(mode === "verify-full" ? {} : { checkServerIdentity: () => undefined }),
    ...(rootcert === undefined || rootcert === "system" ? {} : { ca: read("sslrootcert", rootcert) }),
    ...(cert === undefined || key === undefined ? {} : { cert: read("sslcert", cert), key: read("sslkey", key) }),
  };
}

function modeOf(text: string): Mode {
  const mode = modes.find((one) => one === text);
  if (mode === undefined) throw new StoreRefused(`sslmode=${text} must be one of ${modes.join(", ")}`);
  return mode;
}

const isLocal = (host: string): boolean =>
  host.startsWith("/") || host === "localhost" || host === "::1" || (isIPv4(host) && host.startsWith("127."));

function read(parameter: string, path: string): Buffer {
  try {
    return readFileSync(path);
  } catch (cause) {
    throw new StoreRefused(`${parameter}=${path} cannot be read`, { cause });
  }
}
