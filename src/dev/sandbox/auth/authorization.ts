import type { BehaviourSettings } from "../behaviour.ts";
import { type Call, formOf, type SandboxAnswer } from "../call.ts";
import { errorPage, redirect } from "../page/page.ts";
import type { SandboxRoute } from "../router.ts";
import { mayRedirect, type SandboxClient, type SandboxClients } from "./clients.ts";
import type { Codes } from "./codes.ts";
import type { Consent } from "./consent.ts";

interface AuthorizationOptions {
  readonly origin: () => string;
  readonly settings: () => BehaviourSettings;
  readonly clients: SandboxClients;
  readonly codes: Codes;
  readonly consent: Consent;
}

/** The authorization endpoint (RFC 6749, section 4.1.1), and the consent page's form. */
export function authorizationRoutes(options: AuthorizationOptions): readonly SandboxRoute[] {
  const { origin, settings, clients, codes, consent } = options;

  function authorize(parameters: URLSearchParams): SandboxAnswer {
    const client = clients.get(parameters.get("client_id") ?? "");
    if (client === undefined) return errorPage(400, "The app that sent you here is unknown.");
    const redirectUri = parameters.get("redirect_uri") ?? soleRedirect(client);
    // Never redirects to an address that is not the client's, not even with an error (section 4.1.2.1).
    if (redirectUri === undefined || !mayRedirect(client, redirectUri)) {
      return errorPage(400, "The app has not registered this redirect_uri.");
    }
    const back = (fields: Readonly<Record<string, string | null>>) =>
      redirect(
        withFields(redirectUri, { ...fields, state: parameters.get("state"), iss: issuerOf(settings(), origin()) }),
      );
    const mistake = mistakeIn(parameters, client, settings());
    if (mistake !== undefined) return back(mistake);
    const scopes = (parameters.get("scope") ?? "").split(" ").filter((scope) => scope !== "");
    return consent.ask({
      clientName: client.name,
      scopes: [...new Set(scopes)],
      hint: parameters.get("login_hint"),
      formActions: [new URL(redirectUri).origin],
      denied: () => back({ error: "access_denied", error_description: "the user denied access" }),
      allowed({ person, scopes: granted }) {
        const code = codes.make(
          {
            client,
            person,
            scopes: granted,
            redirectUri,
            namedRedirectUri: parameters.has("redirect_uri"),
            challenge: parameters.get("code_challenge") ?? undefined,
            nonce: parameters.get("nonce") ?? undefined,
            isOffline: parameters.get("access_type") === "offline" || granted.includes("offline_access"),
          },
          settings().codeLifetimeS,
        );
        return back({ code });
      },
    });
  }

  return [
    { method: "GET", path: "/oauth2/auth", endpoint: "authorization", answer: ({ query }) => authorize(query) },
    {
      method: "POST",
      path: "/oauth2/auth",
      endpoint: "authorization",
      bodyLimit: 65_536,
      answer: (call) => authorize(formOf(call)),
    },
    {
      method: "POST",
      path: "/consent",
      endpoint: "authorization",
      answer: (call: Call) => consent.decide(call),
    },
  ];
}

const soleRedirect = ({ redirectUris }: SandboxClient) => (redirectUris.length === 1 ? redirectUris[0] : undefined);

function mistakeIn(
  parameters: URLSearchParams,
  client: SandboxClient,
  { pkce }: BehaviourSettings,
): Record<string, string> | undefined {
  const invalid = (error_description: string) => ({ error: "invalid_request", error_description });
  for (const name of new Set(parameters.keys())) {
    if (parameters.getAll(name).length > 1) return invalid(`${name} must not be repeated`);
  }
  if (parameters.get("response_type") !== "code") return { error: "unsupported_response_type" };
  const challenge = parameters.get("code_challenge");
  if (challenge === null) {
    // RFC 9700, section 2.1.1: public clients must.
    return pkce === "required" || client.secret === undefined ? invalid("code_challenge is required") : undefined;
  }
  if (pkce === "refused") return invalid("code_challenge is not supported");
  if (parameters.get("code_challenge_method") !== "S256") return invalid("code_challenge_method must be S256");
  return /^[A-Za-z0-9_-]{43}$/.test(challenge) ? undefined : invalid("code_challenge is malformed");
}

/** RFC 9207: names the issuer, so that the client does not mix up the answers of two providers. */
function issuerOf({ iss }: BehaviourSettings, origin: string): string | null {
  if (iss === "missing") return null;
  return iss === "right" ? origin : "https://another-issuer.example";
}

/** Adds fields to the query that the address may already have. */
export function withFields(address: string, fields: Readonly<Record<string, string | null>>): string {
  const url = new URL(address);
  for (const [name, value] of Object.entries(fields)) {
    if (value !== null) url.searchParams.append(name, value);
  }
  return url.href;
}
