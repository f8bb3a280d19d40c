import { createHmac, generateKeyPairSync } from "node:crypto";
import { once } from "node:events";
import { request as httpRequest, type IncomingMessage } from "node:http";
import { text } from "node:stream/consumers";
import type { JsonObject } from "@bufbuild/protobuf";
import { IntegrationService } from "../../../src/gen/latchkey/v1/integration_pb.ts";
import type { Provider } from "../../../src/gen/latchkey/v1/provider_pb.ts";
import { createTestBrowser } from "../sidecar/connecting.ts";
import type { TestSidecar } from "../sidecar/harness.ts";
import type { PlayedAnswer, ProviderFixture } from "./fixture.ts";
import type { PlayedProvider, PlayedRequest, PlayRequest } from "./played-provider.ts";

export const clientId = "client-id";
export const clientSecret = "client-secret";
export const code = "code-1";
let key: string | undefined;

/** A private key for providers that sign with one: `${privateKey}` in the credentials of a fixture. */
export function privateKey(): string {
  key ??= generateKeyPairSync("rsa", { modulusLength: 2048 }).privateKey.export({
    type: "pkcs8",
    format: "pem",
  }) as string;
  return key;
}

/** Turns a URL of a description into a pattern for the addresses that it stands for. */
const patternOf = (url: string): RegExp =>
  new RegExp(
    `^${url
      .replace(/\?.*$/, "")
      .split(/(\$\{[^}]*\})/)
      .map((part) => (part.startsWith("${") ? "[^?]+" : part.replace(/[.*+?^${}()|[\]\\]/g, "\\$&")))
      .join("")
      .replace("https://[^?]+", "(https://)?[^?]+")}([?].*)?$`,
  );

/** Answers what a provider is asked while an account is connected: tokens, exchanges, details. */
export function connectAnswers(
  provider: Provider,
  fixture: ProviderFixture,
  token: PlayedAnswer | undefined,
): PlayRequest {
  const exchanges = exchangesOf(provider).map((url, i) => [patternOf(url), fixture.exchanges?.[i]] as const);
  const tokens = tokenUrlsOf(provider).map(patternOf);
  const requestToken = provider.auth.case === "oauth1" ? patternOf(provider.auth.value.requestTokenUrl) : undefined;
  const metadata = metadataOf(provider);
  let codes = 0;
  return (request) => {
    if (metadata?.url === request.url) return { body: metadata.answer };
    if (requestToken?.test(request.url)) return fixture.request_token;
    const exchange = exchanges.find(([url, answer]) => url.test(request.url) && answer !== undefined && codes > 0);
    if (exchange !== undefined) return exchange[1];
    if (tokens.some((url) => url.test(request.url))) {
      codes += 1;
      return token;
    }
    return detailOf(fixture, request);
  };
}

/** What the provider publishes about itself (RFC 8414): nothing that its description does not say. */
function metadataOf({ auth }: Provider) {
  if (auth.case !== "oauth2" || auth.value.metadataUrl === "") return undefined;
  const { issuer, authorizationUrl, tokenUrl, jwksUrl, metadataUrl } = auth.value;
  const answer = {
    issuer,
    authorization_endpoint: authorizationUrl,
    token_endpoint: tokenUrl,
    jwks_uri: jwksUrl || `${issuer}/jwks`,
    response_types_supported: ["code"],
    subject_types_supported: ["public"],
    id_token_signing_alg_values_supported: ["RS256"],
  };
  return { url: metadataUrl, answer };
}

/** The answer to a request for a detail: by method, path and query, else without the query. */
export function detailOf({ describe = [] }: ProviderFixture, { method, url }: PlayedRequest): PlayedAnswer | undefined {
  const { pathname, search } = new URL(url);
  return (
    describe.find(({ request }) => request === `${method} ${pathname}${search}`) ??
    describe.find(({ request }) => request === `${method} ${pathname}`)
  );
}

const exchangesOf = ({ auth }: Provider): readonly string[] =>
  auth.value !== undefined && "exchanges" in auth.value ? auth.value.exchanges.map(({ url }) => url) : [];

export function tokenUrlsOf({ auth }: Provider): readonly string[] {
  if (auth.value === undefined) return [];
  const value = auth.value as { tokenUrl?: string; refreshUrl?: string; accessTokenUrl?: string };
  return [value.tokenUrl, value.refreshUrl, value.accessTokenUrl].filter(
    (url) => url !== undefined && url !== "",
  ) as string[];
}

/** The hosts that a provider's description and its fixture lead to. */
export function hostsOf(provider: JsonObject, fixture: ProviderFixture): readonly string[] {
  const defaults = ((provider["connection_fields"] ?? []) as { name: string; default_value?: string }[]).map(
    ({ name, default_value = "" }) => [name, default_value] as const,
  );
  const values: Record<string, unknown> = {
    ...Object.fromEntries(defaults),
    ...fixture.connection_config,
    ...fixture.expect?.connection_config,
  };
  const text = JSON.stringify([provider, fixture]).replace(/\$\{connectionConfig\.([A-Za-z0-9_]+)\}/g, (whole, name) =>
    values[name] === undefined ? whole : String(values[name]),
  );
  const found = text.replaceAll("https://https://", "https://").matchAll(/https:\/\/([A-Za-z0-9.-]+)/g);
  return [...new Set([...found].map(([, host = ""]) => host.toLowerCase()))];
}

/** A parameter of a token request, wherever it is. */
export function paramsOf({ url, headers, body }: PlayedRequest): Record<string, unknown> {
  const query = Object.fromEntries(new URL(url).searchParams);
  if (headers["content-type"]?.includes("json")) return { ...query, ...JSON.parse(body || "{}") };
  return { ...query, ...Object.fromEntries(new URLSearchParams(body)) };
}

interface ConnectOptions {
  readonly sidecar: TestSidecar;
  readonly played: PlayedProvider;
  readonly provider: Provider;
  readonly fixture: ProviderFixture;
}

/** What the provider saw of an end user who authorized. */
export interface Authorized {
  readonly page: { readonly status: number; readonly text: string };
  readonly authorization: URL;
  readonly callback: URL;
}

/** What a page says, without its markup. */
export const textOf = (page: string): string =>
  page
    .replace(/<(style|script|head)[\s\S]*?<\/\1>/g, "")
    .replace(/<[^>]*>/g, " ")
    .replace(/\s+/g, " ")
    .trim();

/** A GET without header fields of its own. */
export async function get(url: string, headers: Readonly<Record<string, string>>) {
  const request = httpRequest(url, { headers });
  request.end();
  const [response] = (await once(request, "response")) as [IncomingMessage];
  return { status: response.statusCode, headers: response.headers, text: await text(response) };
}

/** Walks an end user's browser through the authorization, up to the page that says that it is connected. */
export async function authorize({ sidecar, played, provider, fixture }: ConnectOptions): Promise<Authorized> {
  const { name } = provider;
  const made = await sidecar.rest("POST", "/connect/sessions", { body: { end_user: { id: `user-of-${name}` } } });
  const token = made.body.data.token as string;
  const params = Object.entries(fixture.connection_config ?? {}).map(([key, value]) => [`params[${key}]`, value]);
  const start = `${sidecar.data}/oauth/connect/${name}?${new URLSearchParams([["connect_session_token", token], ...params] as [string, string][])}`;
  played.play(connectAnswers(provider, fixture, fixture.token));
  const browser = createTestBrowser();
  const authorization = new URL(await browser.until(start, "https://"));
  const back = authorization.searchParams.get(redirectParam(provider));
  const state = authorization.searchParams.get("state");
  // A provider that knows the redirect URI by an ID, such as eBay, sends the browser there.
  const known = back !== null && URL.canParse(back) ? back : undefined;
  const callback = new URL(known ?? (await callbackOf({ sidecar, played, provider, fixture })));
  const names = parametersOf(provider);
  const query = {
    ...(state !== null && { state }),
    ...(provider.auth.case === "oauth1"
      ? { oauth_token: authorization.searchParams.get("oauth_token") ?? "", oauth_verifier: code }
      : provider.auth.case === "app"
        ? {}
        : { [names?.callbackCode || "code"]: code }),
    ...fixture.callback,
  };
  for (const [key, value] of Object.entries(query)) callback.searchParams.set(key, String(value));
  signCallback(provider, callback);
  const page = await browser.go(callback.href);
  return { page, authorization, callback };
}

/** Where a provider sends the user back whom the authorization URL does not tell. */
async function callbackOf({ sidecar, played, provider: { name, auth } }: ConnectOptions): Promise<string> {
  if (auth.case === "oauth1") return oauth1Callback(played);
  const named = { environment: "dev", key: name };
  const { integration } = await sidecar.client(IntegrationService).getIntegration(named);
  return integration?.callbackUrl ?? "";
}

/** Signs the query of a callback, where the provider does. */
function signCallback({ auth }: Provider, { searchParams }: URL): void {
  const rules = auth.case === "oauth2" ? auth.value.callbackSignature : undefined;
  if (rules === undefined) return;
  const content = [...searchParams]
    .map(([name, value]) => `${name}=${value}`)
    .sort()
    .join("&");
  const encoding = rules.encoding === "base64" ? "base64" : "hex";
  const signature = createHmac(rules.hash || "sha256", clientSecret)
    .update(content)
    .digest(encoding);
  searchParams.set(rules.parameter, signature);
}

const parametersOf = ({ auth }: Provider) => (auth.case === "oauth2" ? auth.value.parameterNames : undefined);
const redirectParam = (provider: Provider) => parametersOf(provider)?.redirectUri || "redirect_uri";

/** OAuth 1 tells the callback in the signed request for a temporary token. */
function oauth1Callback({ requests }: PlayedProvider): string {
  const signed = requests.map(({ headers }) => /oauth_callback="([^"]+)"/.exec(headers.authorization ?? "")?.[1]);
  return decodeURIComponent(signed.find((one) => one !== undefined) ?? "");
}
