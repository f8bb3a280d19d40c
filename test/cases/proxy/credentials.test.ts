import { createHmac } from "node:crypto";
import { expect, it } from "vitest";
import { type RecordedRequest, startProvider, startProxied } from "../../support/peers/provider.ts";
import { openWire } from "../../support/sidecar/door.ts";
import { secretKey } from "../../support/sidecar/harness.ts";
import { call, faultOf } from "../../support/wire/proxy-call.ts";

const urls = { authorizationUrl: "https://a.example/auth", tokenUrl: "https://a.example/token" };
const oauth1 = {
  requestTokenUrl: "https://a.example/request",
  authorizationUrl: "https://a.example/auth",
  accessTokenUrl: "https://a.example/token",
};
const token = { tokenUrl: "https://a.example/token" };
const app = { client_id: "the-consumer", client_secret: "the-consumer-secret" };

interface Kind {
  readonly auth: { readonly case: string; readonly value: object };
  readonly credentials: { readonly type: string } & Readonly<Record<string, unknown>>;
  readonly integration?: Readonly<Record<string, unknown>>;
  /** What the provider must receive: one header or one parameter, with a value. */
  readonly header?: readonly [string, string | RegExp];
  readonly query?: readonly [string, string];
}

const kinds: Readonly<Record<string, Kind>> = {
  "an OAuth 2 token": {
    auth: { case: "oauth2", value: urls },
    credentials: { type: "OAUTH2", access_token: "their-token" },
    header: ["authorization", "Bearer their-token"],
  },
  "a token of client credentials": {
    auth: { case: "oauth2Client", value: urls },
    credentials: { type: "OAUTH2_CC", client_id: "i", client_secret: "s", token: "their-token" },
    header: ["authorization", "Bearer their-token"],
  },
  "a key in a header": {
    auth: { case: "apiKey", value: { header: "x-api-key" } },
    credentials: { type: "API_KEY", apiKey: "their-key" },
    header: ["x-api-key", "their-key"],
  },
  "a key in the authorization header": {
    auth: { case: "apiKey", value: { header: "authorization", prefix: "Token token=" } },
    credentials: { type: "API_KEY", apiKey: "their-key" },
    header: ["authorization", "Token token=their-key"],
  },
  "a key in a parameter": {
    auth: { case: "apiKey", value: { query: "api_key" } },
    credentials: { type: "API_KEY", apiKey: "their key&=#" },
    query: ["api_key", "their key&=#"],
  },
  "a user name and a password": {
    auth: { case: "basic", value: {} },
    credentials: { type: "BASIC", username: "ada", password: "l:ve" },
    header: ["authorization", `Basic ${btoa("ada:l:ve")}`],
  },
  "an app's token": {
    auth: { case: "app", value: token },
    credentials: { type: "APP", installation_id: "2", access_token: "their-token" },
    header: ["authorization", "Bearer their-token"],
  },
  "a JWT": {
    auth: { case: "jwt", value: token },
    credentials: { type: "JWT", token: "their-token" },
    header: ["authorization", "Bearer their-token"],
  },
  "a token that fields were exchanged for": {
    auth: { case: "twoStep", value: { ...token, placement: { header: "x-session" } } },
    credentials: { type: "TWO_STEP", token: "their-token" },
    header: ["x-session", "their-token"],
  },
  "a signature's token": {
    auth: { case: "signature", value: token },
    credentials: { type: "SIGNATURE", username: "u", password: "p", token: "their-token" },
    header: ["authorization", "Bearer their-token"],
  },
  "OAuth 1": {
    auth: { case: "oauth1", value: oauth1 },
    credentials: { type: "OAUTH1", oauth_token: "their-token", oauth_token_secret: "s" },
    integration: { credentials: { type: "OAUTH1", ...app } },
    header: ["authorization", /^OAuth .*oauth_token="their-token"/],
  },
  "OAuth 1 with a realm": {
    auth: { case: "tba", value: oauth1 },
    credentials: { type: "TBA", token_id: "their-token", token_secret: "s", config_override: app },
    header: ["authorization", /^OAuth .*oauth_token="their-token"/],
  },
  "AWS Signature Version 4": {
    auth: { case: "awsSigv4", value: {} },
    credentials: {
      type: "AWS_SIGV4",
      access_key_id: "AKIA",
      secret_access_key: "s",
      region: "eu-central-1",
      service: "sqs",
    },
    header: ["authorization", /^AWS4-HMAC-SHA256 Credential=AKIA\//],
  },
  nothing: { auth: { case: "none", value: {} }, credentials: { type: "NONE" } },
};

const valuesOf = ({ fields }: RecordedRequest, name: string) =>
  fields.filter(([one]) => one === name).map(([, value]) => value);

for (const [what, { auth, credentials, integration = {}, header, query }] of Object.entries(kinds)) {
  it(`P05, P07, P08: a provider that requires ${what} gets it once, and nothing of the caller's`, async () => {
    const provider = await startProvider();
    const running = await startProxied(provider.port, { provider: { auth }, credentials, integration });
    const at = (path: string) => `${running.data}/proxy${path}`;
    const headers = { ...running.proxyHeaders, "x-kept": "kept" };
    const theirs = header?.[0] ?? "connection-id";
    const own = header === undefined || theirs === "authorization" ? {} : { [theirs.toUpperCase()]: "mine" };
    const parameter = query === undefined ? "" : `&${query[0]}=mine&${query[0].replace("_", "%5F")}=mine`;
    const plain = await call(at(`/plain?a=b${parameter}`), { headers: { ...headers, ...own } });
    const disguised = await call(at("/disguised"), {
      headers: {
        ...headers,
        [`Nango-Proxy-${theirs}`]: "mine",
        "Nango-Proxy-Authorization": "Bearer mine",
        "Nango-Proxy-Connection-Id": "mine",
        "Nango-Proxy-Cookie": "mine=mine",
      },
    });
    const nominated = await call(at("/nominated"), {
      headers: { ...headers, connection: `keep-alive, ${theirs}, x-drop`, "x-drop": "mine", cookie: "mine=mine" },
    });
    for (const answer of [plain, disguised, nominated]) expect(answer.status, answer.body).toBe(200);

    const wire = await openWire(running.data);
    const body = "the body";
    wire.send(
      `POST /proxy/expected HTTP/1.1\r\nHost: localhost\r\n${running.proxyLines}Expect: 100-continue\r\nX-Kept: kept\r\nContent-Length: ${body.length}\r\n\r\n`,
    );
    await wire.until((text) => text.startsWith("HTTP/1.1 100 Continue\r\n\r\n"));
    wire.send(body);
    await wire.until((text) => text.includes("HTTP/1.1 200 ") && text.endsWith("}"));
    wire.socket.destroy();

    const requests = provider.connections.flatMap((one) => one.requests());
    expect(requests).toHaveLength(4);
    for (const request of requests) {
      const { line } = request;
      const [, target = ""] = line.split(" ");
      if (header !== undefined) expect(valuesOf(request, header[0]), line).toEqual([expect.stringMatching(header[1])]);
      if (header?.[0] !== "authorization") expect(valuesOf(request, "authorization"), line).toEqual([]);
      const asked = new URL(target, "https://host.test").searchParams;
      if (query !== undefined) expect(asked.getAll(query[0]), line).toEqual([query[1]]);
      for (const name of ["connection-id", "provider-config-key", "expect", "cookie", "x-drop"]) {
        expect(valuesOf(request, name), `${line}: ${name}`).toEqual([]);
      }
      expect(valuesOf(request, "x-kept"), line).toEqual(["kept"]);
      expect(valuesOf(request, "via"), line).toEqual(["1.1 latchkey"]);
    }
    expect(requests.at(-1)?.body).toBe(body);
    const all = provider.received();
    expect(all).not.toContain(secretKey);
    expect(all.replaceAll(/ "?mine=mine/g, "")).not.toContain("mine");
    expect(all).not.toContain("nango-proxy");
  });
}

/** RFC 5849, 3.4, implemented again and for form bodies: a provider's check of a received request. */
function signatureOf(request: RecordedRequest, origin: string): { readonly sent: string; readonly expected: string } {
  const [method = "", target = ""] = request.line.split(" ");
  const encode = (text: string) =>
    encodeURIComponent(text).replace(/[!'()*]/g, (one) => `%${one.charCodeAt(0).toString(16).toUpperCase()}`);
  const [authorization = ""] = valuesOf(request, "authorization");
  const own = [...authorization.matchAll(/(\w+)="([^"]*)"/g)].map(([, name = "", value = ""]): [string, string] => [
    name,
    decodeURIComponent(value),
  ]);
  const url = new URL(target, origin);
  const [type = ""] = valuesOf(request, "content-type");
  const form = type.startsWith("application/x-www-form-urlencoded") ? [...new URLSearchParams(request.body)] : [];
  const parameters = [
    ...url.searchParams,
    ...form,
    ...own.filter(([name]) => name.startsWith("oauth_") && name !== "oauth_signature"),
  ]
    .map(([name, value]) => `${encode(name)}=${encode(value)}`)
    .sort()
    .join("&");
  const base = [method, encode(`${url.origin}${url.pathname}`), encode(parameters)].join("&");
  const expected = createHmac("sha1", "the-consumer-secret&the-token-secret").update(base).digest("base64");
  return { sent: own.find(([name]) => name === "oauth_signature")?.[1] ?? "", expected };
}

it("P38: signs a form with its body, up to a bound, and anything else without", async () => {
  const provider = await startProvider();
  const running = await startProxied(provider.port, {
    provider: { auth: { case: "oauth1", value: oauth1 } },
    credentials: { type: "OAUTH1", oauth_token: "their-token", oauth_token_secret: "the-token-secret" },
    integration: { credentials: { type: "OAUTH1", ...app } },
  });
  const form = { "content-type": "application/x-www-form-urlencoded; charset=utf-8" };
  const send = (body: string, headers: Readonly<Record<string, string>>) =>
    call(`${running.data}/proxy/post?b=2%20x&a=1`, {
      method: "POST",
      headers: { ...running.proxyHeaders, ...headers },
      body,
    });
  const mib = 1024 * 1024;
  const bodies: readonly (readonly [string, Readonly<Record<string, string>>])[] = [
    ["status=Hello+Ladies+%26+Gentlemen%21&a=2&empty=", form],
    ["status=in+chunks", { ...form, "transfer-encoding": "chunked" }],
    [`status=${"x".repeat(mib - 7)}`, form],
    ['{"status":"not a form"}', { "content-type": "application/json" }],
    ["x".repeat(2 * mib), { "content-type": "application/octet-stream" }],
  ];
  for (const [body, headers] of bodies) {
    expect((await send(body, headers)).status, body.slice(0, 30)).toBe(200);
    const request = provider.connections.flatMap((one) => one.requests()).at(-1);
    expect(request?.body === body, body.slice(0, 30)).toBe(true);
    const { sent, expected } = signatureOf(request as RecordedRequest, `http://127.0.0.1:${provider.port}`);
    // The signature covers https, as in the description, unless the operator allows plain HTTP.
    const secure = signatureOf(request as RecordedRequest, `https://127.0.0.1:${provider.port}`).expected;
    expect([expected, secure], body.slice(0, 30)).toContain(sent);
  }
  const before = provider.received().length;
  for (const more of [{}, { "transfer-encoding": "chunked" }]) {
    const refused = await send(`status=${"x".repeat(mib)}`, { ...form, ...more });
    expect([refused.status, faultOf(refused)]).toEqual([413, "payload_too_large"]);
  }
  expect(provider.received().length).toBe(before);
});

it("P33: names the missing connection or why it cannot be used, and that latchkey answered", async () => {
  const provider = await startProvider();
  const running = await startProxied(provider.port, {
    provider: { auth: { case: "oauth2", value: urls } },
    credentials: { type: "OAUTH2", access_token: "their-token" },
  });
  await running.rest("POST", "/integrations", { body: { unique_key: "other", provider: "here" } });
  const importing = (connection_id: string, credentials: object) =>
    running.rest("POST", "/connections", { body: { provider_config_key: "here", connection_id, credentials } });
  const expires_at = new Date(Date.now() - 60_000).toISOString();
  await importing("deleted", { type: "OAUTH2", access_token: "their-token" });
  await importing("expired", { type: "OAUTH2", access_token: "their-token", expires_at });
  await importing("due", { type: "OAUTH2", access_token: "their-token", refresh_token: "theirs", expires_at });
  const ask = async (id: string, integration = "here") => {
    const headers = { ...running.proxyHeaders, "connection-id": id, "provider-config-key": integration };
    const answer = await call(`${running.data}/proxy/x`, { headers });
    return [answer.status, faultOf(answer)];
  };
  expect(await ask("deleted")).toEqual([200, undefined]);
  await running.rest("DELETE", "/connections/deleted?provider_config_key=here");
  const before = provider.received().length;
  expect(await ask("deleted")).toEqual([404, "unknown_connection"]);
  expect(await ask("nobody")).toEqual([404, "unknown_connection"]);
  expect(await ask("ada", "other")).toEqual([404, "unknown_connection"]);
  expect((await ask("ada", "nothing"))[0]).toBe(404);
  expect(await ask("expired")).toEqual([424, "reauthorization_required"]);
  // The integration has no OAuth app to refresh them, and expired tokens are not sent.
  const due = await Promise.all(Array.from({ length: 200 }, () => ask("due")));
  expect(new Set(due.map(String))).toEqual(new Set(["424,integration_misconfigured"]));
  expect(provider.received().length).toBe(before);
  expect(await ask("ada")).toEqual([200, undefined]);
});

it("uses new credentials as soon as they are imported, and no others", async () => {
  const provider = await startProvider();
  const running = await startProxied(provider.port, { credentials: { type: "API_KEY", apiKey: "the-first-key" } });
  const importing = (connection_id: string, apiKey: string) =>
    running.rest("POST", "/connections", {
      body: { provider_config_key: "here", connection_id, credentials: { type: "API_KEY", apiKey } },
    });
  const keysOf = () =>
    provider.connections.flatMap((one) => one.requests()).map((one) => valuesOf(one, "x-api-key").join());
  const ask = (id: string) =>
    call(`${running.data}/proxy/${id}`, { headers: { ...running.proxyHeaders, "connection-id": id } });
  await ask("ada");
  await importing("ada", "the-second-key");
  await ask("ada");
  expect(keysOf()).toEqual(["the-first-key", "the-second-key"]);
  const ids = Array.from({ length: 50 }, (_, i) => `c${i}`);
  for (const id of ids) await importing(id, `key-of-${id}`);
  await Promise.all([...ids, ...ids, ...ids].map(ask));
  const requests = provider.connections.flatMap((one) => one.requests());
  for (const request of requests) {
    const [, id = ""] = /^GET \/(c\d+) /.exec(request.line) ?? [];
    if (id !== "") expect(valuesOf(request, "x-api-key"), id).toEqual([`key-of-${id}`]);
  }
  expect(requests.filter(({ line }) => line.startsWith("GET /c"))).toHaveLength(150);
});
