import type { Call } from "../call.ts";
import { refuse } from "../call.ts";
import { type Person, people, robot } from "../people.ts";
import type { SandboxTraffic } from "../seen.ts";
import { basicPair, isSame } from "./clients.ts";
import type { OAuth1 } from "./oauth1.ts";
import type { SandboxTokens } from "./tokens.ts";

/** An authenticated caller of an API, and its scopes. */
export interface SandboxCaller {
  readonly person: Person;
  /** The app that calls for the user. */
  readonly clientId: string;
  /** The last path segment of each scope (`drive.readonly`, whatever its base URL), or all. */
  readonly scopes: ReadonlySet<string> | "all";
}

/** Authenticates callers by bearer token or OAuth 1 signature, and on `/api` also by API key or password. */
export interface AccessCheck {
  /** Throws 401 without good credentials, 403 without one of the scopes. */
  require(call: Call, scopes: readonly string[]): SandboxCaller;
  /** Accepts what `require` does, and an API key or a password. */
  requireAny(call: Call): SandboxCaller & { readonly by: "bearer" | "oauth1" | "api_key" | "basic" };
}

/** Fixed values that are printed; they open nothing but the sandbox. */
export const readyApiKey = "sandbox-api-key";
export const readyUser = { name: "sandbox", password: "sandbox-password" } as const;

interface AccessCheckOptions {
  readonly tokens: SandboxTokens;
  readonly oauth1: OAuth1;
  readonly seen: SandboxTraffic;
}

export function createAccessCheck({ tokens, oauth1, seen }: AccessCheckOptions): AccessCheck {
  function require(call: Call, scopes: readonly string[]): SandboxCaller {
    const { authorization = "" } = call.headers;
    if (/^oauth\s/i.test(authorization)) {
      return { person: oauth1.authenticate(call), clientId: "oauth1", scopes: "all" };
    }
    const [, token] = /^bearer +(\S+)$/i.exec(authorization) ?? [];
    if (token === undefined) {
      throw refuse(401, "required", "Login Required.", { "www-authenticate": 'Bearer realm="sandbox"' });
    }
    const found = tokens.find(token);
    if (found === undefined) {
      seen.count("accessTokensRefused");
      // RFC 6750, section 3.1: tells the client to refresh.
      const challenge = 'Bearer realm="sandbox", error="invalid_token"';
      throw refuse(401, "authError", "Invalid Credentials", { "www-authenticate": challenge });
    }
    const held = new Set(found.scopes.map((scope) => scope.slice(scope.lastIndexOf("/") + 1)));
    if (scopes.length > 0 && !scopes.some((scope) => held.has(scope))) {
      const challenge = `Bearer realm="sandbox", error="insufficient_scope", scope="${scopes.join(" ")}"`;
      throw refuse(403, "insufficientPermissions", `One of these scopes is needed: ${scopes.join(", ")}.`, {
        "www-authenticate": challenge,
      });
    }
    return { person: found.grant.person, clientId: found.grant.clientId, scopes: held };
  }

  return {
    require,
    requireAny(call) {
      const { authorization = "", "x-api-key": header } = call.headers;
      const key = typeof header === "string" ? header : call.query.get("api_key");
      if (key !== null) {
        if (!isSame(key, readyApiKey)) throw refuse(401, "keyInvalid", "The API key is not valid.");
        return { person: robot, clientId: "api_key", scopes: "all", by: "api_key" };
      }
      const pair = basicPair(authorization, "none");
      if (pair !== undefined) {
        const [name, password] = pair;
        if (name !== readyUser.name || !isSame(password, readyUser.password)) {
          throw refuse(401, "authError", "Wrong user name or password.", {
            "www-authenticate": 'Basic realm="sandbox"',
          });
        }
        return { person: people[0] ?? robot, clientId: "basic", scopes: "all", by: "basic" };
      }
      return { ...require(call, []), by: /^oauth\s/i.test(authorization) ? "oauth1" : "bearer" };
    },
  };
}
