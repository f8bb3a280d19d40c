import { Fault } from "../../base/fault.ts";
import { digestOf } from "../../base/ids.ts";
import type { Broker } from "../../broker/broker.ts";
import { requireUnlimited } from "../../broker/setup/caller.ts";
import type { SessionHolder } from "../../broker/sign-in/holders.ts";
import { scopeName } from "../../core/scopes.ts";
import { cookieNames, requireOwnPage, sessionProofOf } from "../server/session-proof.ts";
import { createSignInAttempts } from "./attempts.ts";
import { browserSecretOf, type SignInCookies } from "./cookies.ts";
import { type BrowserRequest, jsonAnswer, type PageResponse } from "./request.ts";

/** `/ui/session`: signs a browser in and out, and tells it who it is. */
export type SessionRoutes = (request: BrowserRequest) => Promise<PageResponse>;

interface SessionRoutesOptions {
  readonly broker: Broker;
  readonly cookies: SignInCookies;
  /** Name of the identity provider that people may sign in with; undefined if there is none. */
  readonly identityProvider: string | undefined;
}

export function createSessionRoutes({ broker, cookies, identityProvider }: SessionRoutesOptions): SessionRoutes {
  const { access, browserSessions, signInLinks } = broker;
  const attempts = createSignInAttempts();

  async function holderOf(body: Readonly<Record<string, unknown>>, request: BrowserRequest): Promise<SessionHolder> {
    const { key, link } = body;
    if (typeof key === "string" && link === undefined) {
      const caller = await access.authenticate(key.trim());
      requireUnlimited(caller);
      return { keyId: caller.keyId, keyDigest: digestOf(key.trim()) };
    }
    if (typeof link === "string" && key === undefined) return signInLinks.use(link, browserSecretOf(request.headers));
    throw new Fault("invalid_body", "the body must hold a key or a link");
  }

  async function signIn(request: BrowserRequest): Promise<PageResponse> {
    requireOwnPage(request.headers);
    const body = await request.json();
    const created = await attempts.run(request.address, async () =>
      browserSessions.create({
        holder: await holderOf(body, request),
        address: request.address,
        userAgent: request.headers.get("user-agent") ?? "",
      }),
    );
    // The previous session of this browser: its secrets are replaced, so no page could end it any more.
    await browserSessions.end(proofIn(request)).catch(() => {});
    const { secret, expiresAtMs } = created;
    return jsonAnswer(
      200,
      { secret, expires_at: new Date(expiresAtMs).toISOString() },
      { "set-cookie": [cookies.session(request, created.cookie), cookies.forgetBrowser(request)] },
    );
  }

  async function tell(request: BrowserRequest): Promise<PageResponse> {
    const waysIn = { key: true, identity_provider: identityProvider ?? null };
    if (!request.headers.has("latchkey-session")) return jsonAnswer(200, { sign_in: waysIn, session: null });
    const { session, callers } = await browserSessions.describe(sessionProofOf(request.headers));
    return jsonAnswer(200, {
      sign_in: waysIn,
      session: {
        id: session.id,
        key_id: session.keyId || null,
        person: session.person || null,
        access: callers.map(({ environment, scopes }) => ({
          environment: environment ?? null,
          scopes: [...scopes].map(scopeName),
        })),
      },
    });
  }

  async function signOut(request: BrowserRequest): Promise<PageResponse> {
    await browserSessions.end(sessionProofOf(request.headers));
    return { status: 204, headers: { "set-cookie": cookies.forgetSession(request), "cache-control": "no-store" } };
  }

  return (request) => {
    switch (request.method) {
      case "GET":
        return tell(request);
      case "POST":
        return signIn(request);
      case "DELETE":
        return signOut(request);
      default: {
        const allow = "GET, POST, DELETE";
        throw new Fault("method_not_allowed", `the method must be one of ${allow}`, { metadata: { allow } });
      }
    }
  };
}

function proofIn({ headers }: BrowserRequest) {
  const pairs = (headers.get("cookie") ?? "").split(";").map((pair) => pair.trim());
  const named = pairs.find((pair) => Object.values(cookieNames).some((name) => pair.startsWith(`${name}=`))) ?? "";
  return { cookie: named.slice(named.indexOf("=") + 1), secret: headers.get("latchkey-session") ?? "" };
}
