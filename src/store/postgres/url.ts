import { readFileSync } from "node:fs";
import { isIPv4 } from "node:net";
import type { ConnectionOptions } from "node:tls";
import { StoreRefused } from "../contract.ts";

/** Location and credentials of a store, from its connection URI alone, never from the environment. */
export interface PostgresAddress {
  /** A name, an address, or the folder of a Unix socket. */
  readonly host: string;
  readonly port: number;
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
  ...["sslmode", "sslrootcert", "sslcert", "sslkey", "schema"],
];
/** Inserted into statements verbatim, so no name that would need quoting. */
const schemaPattern = /^[a-z_][a-z0-9_]{0,62}$/;

/**
 * Parses a URI and reads the certificates that it names. Throws `StoreRefused`, which never quotes the URI: it may hold
 * a password.
 */
export function parsePostgresUrl(text: string): PostgresAddress {
  if (!URL.canParse(text)) throw new StoreRefused("the PostgreSQL address is not a connection URI");
  const url = new URL(text);
  const parameters = parametersOf(url);
  const host = parameters.get("host") ?? decoded(url.hostname).replace(/^\[(.*)\]$/, "$1");
  if (host === "") throw new StoreRefused("the PostgreSQL address names no host");
  if (host.includes(",")) {
    throw new StoreRefused("the PostgreSQL address names several hosts; name only the host of the primary");
  }
  const user = parameters.get("user") ?? decoded(url.username);
  if (user === "") throw new StoreRefused("the PostgreSQL address names no user");
  const schema = parameters.get("schema") ?? "latchkey";
  if (!schemaPattern.test(schema)) {
    throw new StoreRefused(
      `schema=${schema} must consist of lower-case letters, digits and underscores, without a digit first`,
    );
  }
  return {
    host,
    port: portOf(parameters.get("port") ?? url.port),
    user,
    password: parameters.get("password") ?? (url.password === "" ? undefined : decoded(url.password)),
    database: parameters.get("dbname") ?? (decoded(url.pathname.slice(1)) || user),
    schema,
    applicationName: parameters.get("application_name") ?? "latchkey",
    tls: tlsOf(host, parameters),
  };
}

/** Describes the address for messages. */
export const placeOf = ({ host, port }: PostgresAddress): string =>
  host.startsWith("/") ? `${host}/.s.PGSQL.${port}` : `${host.includes(":") ? `[${host}]` : host}:${port}`;

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
function tlsOf(host: string, parameters: ReadonlyMap<string, string>): ConnectionOptions | undefined {
  const [rootcert, cert, key] = [parameters.get("sslrootcert"), parameters.get("sslcert"), parameters.get("sslkey")];
  const isPlainByDefault = isLocal(host) && rootcert === undefined && cert === undefined;
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
