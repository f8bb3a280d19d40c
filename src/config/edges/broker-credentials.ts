import { isDeepStrictEqual } from "node:util";
import { createSecretSource, type FileReader } from "../secrets.ts";
import { describeUnreadable } from "../unreadable.ts";

/** What an edge shows to brokers, and trusts them by. */
export interface BrokerCredentials {
  /** A key or the token of a service account; undefined: the client certificate is the identity. */
  readonly secret: string | undefined;
  /** When the token ends, as it says itself; undefined: without an end that is known. */
  readonly endsAtMs: number | undefined;
  /** PEM. */
  readonly tls: {
    readonly ca: string | undefined;
    readonly cert: string | undefined;
    readonly key: string | undefined;
  };
}

/** Credentials whose files may be replaced at any time. */
export interface BrokerCredentialsSource {
  /** Reads all files. Throws an error that names the variable and the file. */
  read(): BrokerCredentials;
  /** What was last read. */
  last(): BrokerCredentials;
  readonly files: readonly string[];
}

interface CredentialPlaces {
  readonly key: string | undefined;
  readonly keyFile: string | undefined;
  readonly tokenFile: string | undefined;
  readonly ca: string | undefined;
  readonly cert: string | undefined;
  readonly certKey: string | undefined;
}

export function createBrokerCredentials(places: CredentialPlaces, files: FileReader): BrokerCredentialsSource {
  const { key, keyFile, tokenFile, ca, cert, certKey } = places;
  let last: BrokerCredentials | undefined;

  function secret(): string | undefined {
    if (tokenFile !== undefined) return tokenIn(tokenFile, files);
    if (keyFile === undefined) return key;
    const outcome = createSecretSource({ env: {}, files }).fromFile(keyFile);
    if ("value" in outcome) return outcome.value;
    throw new Error(`LATCHKEY_BROKERS_KEY_FILE: ${outcome.mistake}`);
  }

  function read(): BrokerCredentials {
    const found = secret();
    const tls = {
      ca: pemIn({ name: "LATCHKEY_BROKERS_CA", what: "CERTIFICATE", path: ca, files }),
      cert: pemIn({ name: "LATCHKEY_BROKERS_CLIENT_CERT", what: "CERTIFICATE", path: cert, files }),
      key: pemIn({ name: "LATCHKEY_BROKERS_CLIENT_KEY", what: "PRIVATE KEY", path: certKey, files }),
    };
    last = {
      secret: found,
      endsAtMs: tokenFile === undefined || found === undefined ? undefined : endOf(found),
      // The same object until a file changes: connections are kept for it.
      tls: last !== undefined && isDeepStrictEqual(last.tls, tls) ? last.tls : tls,
    };
    return last;
  }

  return {
    read,
    last: () => last ?? read(),
    files: [keyFile, tokenFile, ca, cert, certKey].filter((path) => path !== undefined),
  };
}

/** Kubernetes makes the file readable for all users of the container, unlike other secrets. */
function tokenIn(path: string, files: FileReader): string {
  const name = "LATCHKEY_BROKERS_TOKEN_FILE";
  let token: string;
  try {
    token = files.read(path).text.trim();
  } catch (error) {
    throw new Error(`${name}: ${describeUnreadable(path, error)}`);
  }
  if (!/^[\w-]+\.[\w-]+\.[\w-]+$/.test(token)) {
    throw new Error(`${name}: ${path} holds no token (JWT); mount one with a serviceAccountToken projection`);
  }
  return token;
}

/** Reads the end of a token without verifying it: brokers do that. */
function endOf(token: string): number | undefined {
  try {
    const claims: unknown = JSON.parse(Buffer.from(token.split(".")[1] ?? "", "base64url").toString());
    const { exp } = claims as { readonly exp?: unknown };
    return typeof exp === "number" ? exp * 1_000 : undefined;
  } catch {
    // Brokers say what is wrong with it.
    return undefined;
  }
}

interface PemSource {
  readonly name: "LATCHKEY_BROKERS_CA" | "LATCHKEY_BROKERS_CLIENT_CERT" | "LATCHKEY_BROKERS_CLIENT_KEY";
  readonly what: string;
  readonly path: string | undefined;
  readonly files: FileReader;
}

function pemIn({ name, what, path, files }: PemSource): string | undefined {
  if (path === undefined) return undefined;
  let text: string;
  try {
    ({ text } = files.read(path));
  } catch (error) {
    throw new Error(`${name}: ${describeUnreadable(path, error)}`);
  }
  if (new RegExp(`-----BEGIN [A-Z ]*${what}-----`).test(text)) return text;
  throw new Error(`${name}: ${path} holds no ${what.toLowerCase()} in PEM`);
}
