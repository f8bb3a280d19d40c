import { randomBytes } from "node:crypto";
import { signLeg } from "../../auth/oauth1/request.ts";
import { oauth1KindOf } from "../../auth/oauth2/token-failures.ts";
import type { NameValue } from "../../auth/scheme.ts";
import type { SendSmallRequest } from "../../base/small-requests.ts";
import type { World } from "../../base/world.ts";
import { filledFor } from "./authorization-server.ts";
import { certificateOf } from "./client-certificates.ts";
import { parseAnswer } from "./token-answer.ts";
import type { AccessTokenRequest, OAuth1Pair, RequestTokenRequest, TokenParties } from "./token-endpoint.ts";
import { misconfigured, refused, unusable } from "./token-failure.ts";

/** The two OAuth 1.0a requests that do not requestPair through the browser (RFC 5849, sections 2.1 and 2.3). */
export interface OAuth1Legs {
  requestToken(request: RequestTokenRequest): Promise<OAuth1Pair>;
  accessToken(request: AccessTokenRequest): Promise<OAuth1Pair>;
}

interface LegsOptions {
  readonly send: SendSmallRequest;
  readonly world: World;
}

interface Leg {
  readonly parties: TokenParties;
  readonly which: "requestTokenUrl" | "accessTokenUrl";
  readonly temporary: { readonly token: string; readonly secret: string } | undefined;
  readonly parameter: NameValue;
}

const what = "the token endpoint";

export function createOAuth1Legs({ send, world }: LegsOptions): OAuth1Legs {
  async function requestPair({ parties, which, temporary, parameter }: Leg): Promise<OAuth1Pair> {
    const { provider, integration, secrets, client: own, connectionConfig, signal } = parties;
    const { auth } = provider;
    if (auth.case !== "oauth1" && auth.case !== "tba")
      throw misconfigured("not_oauth1", "the provider does not support OAuth 1");
    const rules = auth.value;
    const described = rules[which];
    if (described === "") throw misconfigured("token_url_missing", "the provider has no such endpoint");
    const url = new URL(filledFor(parties, described));
    const client = {
      id: own?.id ?? integration.oauth?.clientId ?? "",
      secret: own === undefined ? (secrets?.clientSecret ?? "") : own.secret,
      privateKey: own?.privateKey ?? secrets?.privateKey ?? "",
    };
    const authorization = signLeg(
      {
        rules,
        defaultMethod: auth.case === "tba" ? "HMAC-SHA256" : "HMAC-SHA1",
        client,
        temporary,
        connectionConfig: { ...integration.connectionDefaults, ...connectionConfig },
        parameter,
      },
      {
        method: "POST",
        scheme: url.protocol === "http:" ? "http" : "https",
        host: url.host,
        path: url.pathname,
        query: url.search.slice(1),
        headers: [],
        body: undefined,
        nowMs: world.now(),
        nonce: randomBytes(16).toString("hex"),
      },
    );
    const clientCertificate = certificateOf(parties);
    const request = { url: url.href, method: "POST", headers: { authorization }, body: "", clientCertificate };
    const answer = await send(request, { signal });
    const parsed = parseAnswer({ contentType: answer.header("content-type"), body: answer.body });
    const raw = parsed.is === "object" ? parsed.answer : {};
    const { oauth_problem: problem } = raw;
    const { status } = answer;
    if (status < 200 || status >= 300 || typeof problem === "string") {
      const code = typeof problem === "string" ? problem : problemIn(answer.header("www-authenticate") ?? "");
      const kind = oauth1KindOf({ status, code });
      const sent = [client.secret, temporary?.token ?? "", temporary?.secret ?? "", parameter[1]];
      throw refused({ what, answer, kind, code, secrets: sent, nowMs: world.now() });
    }
    const { oauth_token: token, oauth_token_secret: secret } = raw;
    if (!isSafe(token) || !isSafe(secret)) throw unusable("no_token", `${what}'s answer has no token`);
    return { token, secret, raw };
  }

  return {
    async requestToken(request) {
      const parameter = ["oauth_callback", request.callback] as const;
      const pair = await requestPair({ parties: request, which: "requestTokenUrl", temporary: undefined, parameter });
      // Section 2.1: without this confirmation the provider speaks OAuth 1.0, which allows injecting another user's
      // authorization.
      if (pair.raw["oauth_callback_confirmed"] !== "true") {
        throw unusable("callback_unconfirmed", `${what} did not confirm the callback`);
      }
      return pair;
    },
    accessToken: (request) =>
      requestPair({
        parties: request,
        which: "accessTokenUrl",
        temporary: request.temporary,
        parameter: ["oauth_verifier", request.verifier],
      }),
  };
}

/**
 * Reads the error from the header where the Problem Reporting extension also puts it: `OAuth
 * realm="Clients",oauth_problem="signature_invalid"`.
 */
const problemIn = (challenge: string): string | undefined =>
  /(?:^|[\s,])oauth_problem\s*=\s*"?([^\s",]+)/i.exec(challenge)?.[1];

/** Checks a value that is put into headers and into a URL. */
const isSafe = (value: unknown): value is string => typeof value === "string" && /^[\x21-\x7e]{1,16384}$/.test(value);
