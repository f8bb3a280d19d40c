import { createPublicKey, type JsonWebKey, verify } from "node:crypto";
import { createServer, type RequestListener, type Server } from "node:http";
import type { AddressInfo } from "node:net";
import Provider, { errors, type KoaContextWithOIDC } from "oidc-provider";

const tokenExchange = "urn:ietf:params:oauth:grant-type:token-exchange";
const jwtBearer = "urn:ietf:params:oauth:grant-type:jwt-bearer";

/** The parameters of a token request that was answered with a token. */
type Parameters = Readonly<Record<string, unknown>>;

/** What an access token stands for. */
export interface Granted {
  readonly sub: string;
  readonly parameters: Parameters;
}

/** The verified parts of a JWT. */
export interface ReadToken {
  readonly header: Readonly<Record<string, unknown>>;
  readonly claims: Readonly<Record<string, unknown>>;
}

interface ExchangeServerOptions {
  /** The keys (JWK Set) of who signs tokens and assertions that are exchanged. */
  readonly jwks: () => string;
  /** Checks a request whose token or assertion is signed well, and returns the user. Throws to refuse it. */
  readonly judge: (request: { readonly token: ReadToken; readonly parameters: Parameters; clientId: string }) => string;
  /** The answer, if not a bearer token. */
  readonly issue?: (granted: Granted, clientId: string) => Readonly<Record<string, unknown>>;
  readonly lifetimeS?: number | undefined;
}

/** An authorization server for exchanges of tokens: client authentication, parameters and errors are oidc-provider's. */
export interface ExchangeServer {
  readonly url: string;
  /** Access tokens that count, and what they stand for. */
  readonly granted: Map<string, Granted>;
  readonly requests: Parameters[];
  /** Waits for this before it answers. */
  delay: Promise<void>;
  lifetimeS: number | undefined;
  stop(): void;
}

export const { InvalidGrant, InvalidTarget, InvalidScope } = errors;

export const client = { id: "latchkey-app", secret: "the-secret-of-the-app-0123456789" };

export async function startExchangeServer(options: ExchangeServerOptions): Promise<ExchangeServer> {
  const { jwks, judge, issue } = options;
  let count = 0;
  const { url, server } = await listening((request, response) => void callback(request, response));
  const provider = new Provider(url, {
    features: { resourceIndicators: { enabled: false }, devInteractions: { enabled: false } },
    clients: [
      {
        client_id: client.id,
        client_secret: client.secret,
        grant_types: [tokenExchange, jwtBearer],
        response_types: [],
        redirect_uris: [],
      },
    ],
  });
  const running: ExchangeServer = {
    url,
    granted: new Map(),
    requests: [],
    delay: Promise.resolve(),
    lifetimeS: options.lifetimeS ?? 600,
    stop() {
      server.closeAllConnections();
      server.close();
    },
  };

  async function answer(ctx: KoaContextWithOIDC, name: string): Promise<void> {
    const given = ctx.oidc.params ?? {};
    const parameters = Object.fromEntries(Object.entries(given).filter(([, value]) => value !== undefined));
    running.requests.push(parameters);
    await running.delay;
    const token = readToken(String(given[name]), jwks());
    const clientId = ctx.oidc.client?.clientId ?? "";
    const granted = { sub: judge({ token, parameters, clientId }), parameters };
    count += 1;
    const accessToken = `access-${granted.sub}-${count}-${Buffer.from(`${Math.random()}`).toString("hex")}`;
    const { lifetimeS } = running;
    const issued = issue?.(granted, clientId) ?? {
      access_token: accessToken,
      token_type: "Bearer",
      issued_token_type: "urn:ietf:params:oauth:token-type:access_token",
      ...(lifetimeS !== undefined && { expires_in: lifetimeS }),
    };
    if (issue === undefined) running.granted.set(accessToken, granted);
    ctx.body = issued;
  }
  const common = ["audience", "resource", "scope", "requested_token_type"];
  provider.registerGrantType(tokenExchange, (ctx) => answer(ctx, "subject_token"), [
    ...["subject_token", "subject_token_type"],
    ...common,
  ]);
  provider.registerGrantType(jwtBearer, (ctx) => answer(ctx, "assertion"), ["assertion", ...common]);
  const callback = provider.callback();
  return running;
}

/** Starts an HTTP server on a free port of this machine. */
export async function listening(listener: RequestListener): Promise<{ readonly url: string; readonly server: Server }> {
  const server = createServer(listener);
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  return { url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`, server };
}

const parsed = (part = "") => JSON.parse(Buffer.from(part, "base64url").toString()) as Record<string, unknown>;

/** Reads a token that is signed with RS256 by one of the keys. */
function readToken(text: string, jwks: string): ReadToken {
  const [head, payload, signature = ""] = text.split(".");
  const header = parsed(head);
  const { keys } = JSON.parse(jwks) as { readonly keys: readonly (JsonWebKey & { readonly kid: string })[] };
  const key = keys.find(({ kid }) => kid === header["kid"]);
  const isSigned =
    key !== undefined &&
    header["alg"] === "RS256" &&
    verify(
      "sha256",
      Buffer.from(`${head}.${payload}`),
      createPublicKey({ key, format: "jwk" }),
      Buffer.from(signature, "base64url"),
    );
  if (!isSigned) throw new InvalidGrant("the token is not signed well");
  const claims = parsed(payload);
  if (Number(claims["exp"]) * 1_000 <= Date.now()) throw new InvalidGrant("the token has expired");
  return { header, claims };
}
