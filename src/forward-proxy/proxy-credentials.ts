import { Fault } from "../base/fault.ts";
import type { ProxyConnectionName } from "../data-plane/proxy/forwarding/forward-target.ts";

/** The key of a caller of the forward proxy, and the connection that it names beside it. */
export interface ProxyCredentials {
  readonly key: string;
  readonly named: ProxyConnectionName | undefined;
}

/** Keys and access sessions, and tokens of an issuer (JWT). */
const ownPrefix = /^(?:lks?_|eyJ[\w-]*\.[\w-]*\.)/;

/**
 * Reads `Proxy-Authorization`: `Bearer <key>`, or Basic, as programs make it of `HTTPS_PROXY`. In Basic, the key is the
 * user name (`http://KEY@host`), or the password of a user name that names a connection
 * (`http://github%2Fada:KEY@host`) or says nothing (`http://latchkey:KEY@host`). Throws for anything else.
 */
export function proxyCredentials(value: string | undefined): ProxyCredentials {
  if (value === undefined || value === "") {
    throw new Fault("proxy_key_required", "send a key with the proxy's address: http://latchkey:<key>@host:port");
  }
  const [, scheme = "", rest = ""] = /^([A-Za-z]+) +(\S+)$/.exec(value) ?? [];
  switch (scheme.toLowerCase()) {
    case "bearer":
      return credentialsOf("", rest);
    case "basic": {
      const text = Buffer.from(rest, "base64").toString();
      const at = text.indexOf(":");
      const [user, password] = at === -1 ? [text, ""] : [text.slice(0, at), text.slice(at + 1)];
      const isKey = password === "" || (ownPrefix.test(user) && !ownPrefix.test(password));
      return isKey ? credentialsOf("", user) : credentialsOf(user, password);
    }
    default:
      throw malformed();
  }
}

function credentialsOf(user: string, key: string): ProxyCredentials {
  if (!/^[\x21-\x7e]+$/.test(key)) throw malformed();
  return { key, named: namedIn(user) };
}

/** `integration/connection`; any other user name says nothing. Some programs leave it percent-encoded. */
function namedIn(user: string): ProxyConnectionName | undefined {
  const written = user.replaceAll(/%2f/gi, "/");
  const at = written.indexOf("/");
  if (at <= 0) return undefined;
  const name = decoded(written);
  return { integration: name.slice(0, at), id: name.slice(at + 1) };
}

function decoded(text: string): string {
  try {
    return decodeURIComponent(text);
  } catch {
    // A percent sign that encodes nothing is a part of the name.
    return text;
  }
}

const malformed = () =>
  new Fault("proxy_key_required", "Proxy-Authorization must hold a key: Basic, with the key as user name or password");
