import { readFile } from "node:fs/promises";
import { RequestFailed } from "../base/small-requests.ts";
import type { FetchKeySet } from "../broker/identities/issuer-keys.ts";
import type { Config } from "../config/config.ts";
import { isObject } from "../core/dialect/json-fields.ts";
import type { KeySetUrl } from "../core/identities/identity-rules.ts";
import { createTrustedEgress, type ResolveHost } from "../relay/egress.ts";
import type { EgressProxy } from "../relay/egress-proxy/egress-proxy.ts";
import { createSend } from "../relay/send.ts";
import { createUpstream } from "../relay/upstream.ts";
import { resolveHost } from "./upstreams.ts";

interface IssuerKeyFetchOptions {
  readonly relay: Config["relay"];
  readonly resolve: ResolveHost | undefined;
  readonly proxy: EgressProxy | undefined;
}

const limits = { deadlineMs: 10_000, maxBytes: 256 * 1024 };

/** Returns a function that fetches the keys of a tokens' issuer. The operator has configured it, so it may be private. */
export function createIssuerKeyFetch({ relay, resolve = resolveHost, proxy }: IssuerKeyFetchOptions): FetchKeySet {
  /** Fetches a document; the token is sent to the configured origin only. */
  async function get(url: string, { ca, tokenFile, ...place }: KeySetUrl): Promise<string> {
    const isOwn = new URL(url).origin === new URL(place.url ?? place.issuer).origin;
    const token = isOwn && tokenFile !== undefined ? (await textIn(tokenFile, "token_file")).trim() : undefined;
    const headers = {
      accept: "application/json, application/jwk-set+json",
      ...(token !== undefined && { authorization: `Bearer ${token}` }),
    };
    // Fetched every few minutes: a kept connection would only be in the way of a replaced authority.
    const upstream = createUpstream({ limits: relay, extraCa: ca, egress: createTrustedEgress({ resolve, proxy }) });
    try {
      const { status, body } = await createSend(upstream)({ url, method: "GET", headers }, limits);
      if (status === 200) return body.toString();
      const hint = status === 401 || status === 403 ? "; set token_file of the issuer" : "";
      throw new Error(`${url} was answered with the status ${status}${hint}`);
    } catch (error) {
      if (error instanceof RequestFailed) throw new Error(`${url} was not answered: ${error.reason}`);
      throw error;
    } finally {
      upstream.destroy();
    }
  }

  return async (place) => {
    if (place.kind === "file") return textIn(place.path, "jwks_file");
    if (place.url !== undefined) return get(place.url, place);
    const text = await get(`${place.issuer.replace(/\/$/, "")}/.well-known/openid-configuration`, place);
    return get(keySetUrlIn(text, place.issuer), place);
  };
}

function keySetUrlIn(text: string, issuer: string): string {
  let found: unknown;
  try {
    found = JSON.parse(text);
  } catch {
    throw new Error("the issuer's discovery document is not JSON");
  }
  const { issuer: named, jwks_uri: url } = isObject(found) ? found : {};
  if (named !== issuer) throw new Error("the issuer's discovery document names another issuer");
  const isSafe = typeof url === "string" && URL.canParse(url) && new URL(url).protocol === new URL(issuer).protocol;
  if (!isSafe) throw new Error("the issuer's discovery document has no usable `jwks_uri`");
  return url;
}

async function textIn(path: string, field: string): Promise<string> {
  try {
    return await readFile(path, "utf8");
  } catch (error) {
    throw new Error(`${field} ${path} cannot be read (${(error as NodeJS.ErrnoException).code})`);
  }
}
