import { randomBytes } from "node:crypto";
import { generateRandomCodeVerifier, generateRandomNonce } from "oauth4webapi";
import { Fault } from "../../base/fault.ts";
import { createPerSecond } from "../../base/per-second.ts";
import type { SendSmallRequest } from "../../base/small-requests.ts";
import type { World } from "../../base/world.ts";
import type { Broker } from "../../broker/broker.ts";
import type { IdentityProvider } from "../../core/identity-provider.ts";
import { requireOwnPage } from "../server/session-proof.ts";
import { browserSecretOf, type SignInCookies } from "./cookies.ts";
import { createOidcClient } from "./oidc-client.ts";
import { type BrowserRequest, jsonAnswer, type PageResponse } from "./request.ts";

/** `/ui/oidc/start` and `/ui/oidc/callback`: signs people in through the company's OpenID Connect provider. */
export interface OidcRoutes {
  /** Returns the address of the provider for the page to go to. */
  start(request: BrowserRequest): Promise<PageResponse>;
  /** The provider sends the browser back here. Leads on to the sign-in page, with a link or a problem. */
  callback(request: BrowserRequest): Promise<PageResponse>;
}

interface OidcOptions {
  readonly broker: Broker;
  readonly provider: IdentityProvider;
  /** Sends requests to the provider, to addresses that are allowed. */
  readonly send: SendSmallRequest;
  readonly cookies: SignInCookies;
  readonly world: World;
}

/** The problems that the sign-in page can tell. */
type SignInProblem = "no_access" | "refused" | "not_begun" | "failed";

const maxBegunPerSecond = 10;

export function createOidcRoutes({ broker, provider, send, cookies, world }: OidcOptions): OidcRoutes {
  const { pendingSignIns, signInLinks, sessionHolders } = broker;
  // Each one is stored for ten minutes, and any client may begin one.
  const mayBegin = createPerSecond(maxBegunPerSecond);
  const client = createOidcClient({ provider, send });

  return {
    async start(request) {
      requireOwnPage(request.headers);
      const origin = request.headers.get("origin");
      if (origin === null) throw new Fault("origin_not_allowed", "the sign-in must begin on the dashboard's own page");
      if (!mayBegin()) throw new Fault("too_many_requests", "too many sign-ins begin now", { retryAfterSeconds: 1 });
      const { return_to: returnTo } = await request.json();
      const browser = browserSecretOf(request.headers) ?? randomBytes(32).toString("base64url");
      const [codeVerifier, nonce] = [generateRandomCodeVerifier(), generateRandomNonce()];
      const begun = { codeVerifier, nonce, redirectUri: `${origin}/ui/oidc/callback` };
      const state = await pendingSignIns.begin({ ...begun, returnTo: pageOf(returnTo) }, browser);
      const url = await client.authorizationUrl({ ...begun, state }).catch((cause: unknown) => {
        world.log.warn("the identity provider cannot be used", { issuer: provider.issuer, err: cause });
        const message = "the identity provider cannot be reached; sign in with a key";
        throw new Fault("provider_unreachable", message, { cause });
      });
      return jsonAnswer(200, { url }, { "set-cookie": cookies.browser(request, browser) });
    },
    async callback(request) {
      const browser = browserSecretOf(request.headers);
      try {
        const pending = await pendingSignIns.take(request.query.get("state") ?? "", browser);
        const holder = { keyId: "", keyDigest: "", person: await client.personIn(request.query, pending) };
        if (sessionHolders.callersOf(holder).length === 0) return leadOn({ problem: "no_access" });
        const { token } = await signInLinks.create(holder, browser);
        return leadOn({ link: token, to: pending.returnTo });
      } catch (error) {
        const problem = problemOf(error, request);
        // Anyone can call this without having begun: that is no news.
        const level = problem === "not_begun" ? "debug" : "warn";
        world.log[level]("a sign-in through the identity provider failed", { problem, err: error });
        return leadOn({ problem });
      }
    },
  };
}

function problemOf(error: unknown, { query }: BrowserRequest): SignInProblem {
  if (error instanceof Fault && error.code === "signed_out") return "not_begun";
  return query.has("error") ? "refused" : "failed";
}

/** The page takes what is in the fragment, which is sent to no server. */
const leadOn = (parameters: Readonly<Record<string, string>>): PageResponse => ({
  status: 303,
  headers: { location: `/ui/sign-in#${new URLSearchParams(parameters)}`, "cache-control": "no-store" },
});

/** Returns a page of the dashboard: what a page sends is not trusted with other addresses. */
const pageOf = (path: unknown): string =>
  typeof path === "string" && /^\/ui\/(?!\/)/.test(path) && path.length <= 2_000 ? path : "/ui/";
