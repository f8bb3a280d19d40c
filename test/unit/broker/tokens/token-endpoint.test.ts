import { createServer } from "node:net";
import { expect, it } from "vitest";
import type { TokenFailureKind } from "../../../../src/auth/oauth2/tokens.ts";
import { pollDevice } from "../../../../src/broker/connect/devices/device-polls.ts";
import type { TokenGrant, TokenParties } from "../../../../src/broker/tokens/token-endpoint.ts";
import type { BehaviourChange } from "../../../../src/dev/sandbox/behaviour.ts";
import { allowPrivateFor } from "../../../../src/dev/sandbox/providers.ts";
import {
  callback,
  challengeOf,
  codeFor,
  consentPage,
  newVerifier,
  type Started,
  started,
} from "../../../cases/sandbox/started.ts";
import { type Answering, startProvider } from "../../../support/peers/provider.ts";
import { startStopwatch } from "../../../support/runner/stopwatch.ts";
import { asking, expectFailure, failureOf, type OAuth2, oauth2, providerClient, secure } from "../asking.ts";

type WayOptions = Omit<Parameters<typeof providerClient>[0], "allow">;

/** A sandbox, and latchkey's own way to it. */
async function toSandbox(
  behaviour: BehaviourChange = {},
  { rules = {}, ...way }: WayOptions & { rules?: OAuth2 } = {},
) {
  const sandbox = await started({ behaviour, ...(way.now === undefined ? {} : { now: way.now }) });
  const here = providerClient({ allow: [allowPrivateFor(sandbox.origin)], ...way });
  const at = secure(sandbox.origin);
  const who = asking({ provider: oauth2({ tokenUrl: `${at}/oauth2/token`, ...rules }) });
  const refresh = (refreshToken: string) => here.tokens.ask({ ...who, grant: { type: "refresh_token", refreshToken } });
  return { sandbox, ...here, at, who, refresh };
}

const requestsTo = (sandbox: Started, endpoint: "token" | "metadata" = "token") =>
  sandbox.seen().requests[endpoint] ?? 0;

it("O20: exchanges a code with its verifier, and neither is ever logged", async () => {
  const { sandbox, tokens, who, logged } = await toSandbox();
  const codeVerifier = newVerifier();
  const more = { code_challenge: challengeOf(codeVerifier), code_challenge_method: "S256", access_type: "offline" };
  const code = await codeFor(sandbox, more);
  const before = Date.now();
  const grant: TokenGrant = { type: "authorization_code", code, redirectUri: callback, codeVerifier, nonce: undefined };
  const got = await tokens.ask({ ...who, grant });
  expect(got.accessToken).toMatch(/^sbx_at_/);
  expect(got.refreshToken).toMatch(/^sbx_rt_/);
  expect(got.scopes).toEqual(["openid", "email", "drive"]);
  expect(got.expiresAtMs).toBeGreaterThanOrEqual(before + 3_600_000);
  expect(got.expiresAtMs).toBeLessThanOrEqual(Date.now() + 3_600_000);
  expect(got.dpopKey).toBeUndefined();
  expect(got.idToken).toMatch(/^ey/);

  // A code is good once, and a wrong verifier for nothing.
  const again = await failureOf(tokens.ask({ ...who, grant }));
  const other = await codeFor(sandbox, more);
  const wrong = await failureOf(tokens.ask({ ...who, grant: { ...grant, code: other, codeVerifier: newVerifier() } }));
  expect([again.kind, wrong.kind]).toEqual(["grant_dead", "grant_dead"]);
  const said = JSON.stringify([logged, again, again.message, again.stack, wrong.message, wrong.stack]);
  for (const secret of [codeVerifier, code, other, "sandbox-secret"]) expect(said).not.toContain(secret);
});

it("O20: sends each code over its own connection, since no code can be sent again", async () => {
  const provider = await startProvider((_, socket) => {
    const body = '{"access_token":"at","expires_in":60}';
    socket.write(`HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: ${body.length}\r\n\r\n${body}`);
  });
  const { tokens } = providerClient({ allow: [allowPrivateFor(`http://127.0.0.1:${provider.port}`)] });
  const who = asking({ provider: oauth2({ tokenUrl: `https://127.0.0.1:${provider.port}/token` }) });
  const refresh: TokenGrant = { type: "refresh_token", refreshToken: "rt" };
  for (let i = 0; i < 2; i += 1) await tokens.ask({ ...who, grant: refresh, mayFollow: true });
  const without = { codeVerifier: undefined, nonce: undefined };
  for (const code of ["a", "b"]) {
    await tokens.ask({ ...who, grant: { type: "authorization_code", code, redirectUri: callback, ...without } });
  }
  expect(provider.connections.map((one) => one.requests().length)).toEqual([2, 1, 1]);
});

it("O20: sends no verifier to a provider that cannot do PKCE", async () => {
  const { sandbox, tokens, who } = await toSandbox({ pkce: "refused" });
  const code = await codeFor(sandbox);
  const without = { codeVerifier: undefined, nonce: undefined };
  const grant: TokenGrant = { type: "authorization_code", code, redirectUri: callback, ...without };
  expect((await tokens.ask({ ...who, grant })).accessToken).toMatch(/^sbx_at_/);
});

it("refreshes, and reports when no new refresh token came", async () => {
  const { sandbox, refresh } = await toSandbox();
  const { refresh_token: first } = sandbox.grant();
  const { refreshToken: second } = await refresh(first);
  expect(second).toMatch(/^sbx_rt_/);
  expect(second).not.toBe(first);
  await expectFailure(refresh(first), "grant_dead", "invalid_grant");
  sandbox.behave({ rotation: false });
  const { refresh_token: kept } = sandbox.grant();
  expect((await refresh(kept)).refreshToken).toBeUndefined();
});

it("counts a token's lifetime from its request", async () => {
  const { sandbox, refresh } = await toSandbox({ answers: { token: [{ kind: "ordinary", holdMs: 700 }] } });
  const { refresh_token } = sandbox.grant();
  const before = Date.now();
  const elapsed = startStopwatch();
  const { expiresAtMs = 0 } = await refresh(refresh_token);
  expect(Date.now() - before).toBeGreaterThanOrEqual(700);
  expect(expiresAtMs - before - 3_600_000 - elapsed.lateMs).toBeLessThan(500);
});

it("asks for a token of the application's own, and exchanges one for another", async () => {
  const { sandbox, tokens, who, at } = await toSandbox();
  const own = await tokens.ask({ ...who, grant: { type: "client_credentials", scopes: ["drive", "calendar"] } });
  expect(own.scopes).toEqual(["drive", "calendar"]);
  // Without requested scopes: those of the integration, or else of the provider.
  const provider = oauth2({ tokenUrl: `${at}/oauth2/token`, defaultScopes: ["gmail"] });
  const none: TokenGrant = { type: "client_credentials", scopes: [] };
  const usual = await tokens.ask({ ...asking({ provider }), grant: none });
  const integrations = await tokens.ask({ ...asking({ provider, scopes: ["drive"] }), grant: none });
  expect([usual.scopes, integrations.scopes]).toEqual([["gmail"], ["drive"]]);

  const { access_token: subjectToken } = sandbox.grant();
  const subjectTokenType = "urn:ietf:params:oauth:token-type:access_token";
  const exchanged = await tokens.ask({ ...who, grant: { type: "token_exchange", subjectToken, subjectTokenType } });
  expect(exchanged.accessToken).toMatch(/^sbx_at_/);
  expect(exchanged.refreshToken).toBeUndefined();
});

interface Trouble {
  readonly behaviour: BehaviourChange["answers"];
  readonly kind: TokenFailureKind;
  readonly code: string;
}

const token = (...missteps: NonNullable<NonNullable<BehaviourChange["answers"]>["token"]>) => ({ token: missteps });
const troubles: Readonly<Record<string, Trouble>> = {
  "HTML with a 200": { behaviour: token({ kind: "raw", text: "<html>Sorry</html>" }), kind: "unusable", code: "html" },
  "ok false with a 200": {
    behaviour: token({ kind: "raw", contentType: "application/json", text: '{"ok":false,"error":"token_revoked"}' }),
    kind: "passing",
    code: "token_revoked",
  },
  "no token": {
    behaviour: token({ kind: "raw", contentType: "application/json", text: '{"token_type":"bearer"}' }),
    kind: "unusable",
    code: "no_token",
  },
  "a 302": { behaviour: token({ kind: "redirect", location: "/elsewhere" }), kind: "misconfigured", code: "http_302" },
  "a 307": {
    behaviour: token({ kind: "redirect", status: 307, location: "/elsewhere" }),
    kind: "misconfigured",
    code: "http_307",
  },
  "5 MiB": { behaviour: token({ kind: "large" }), kind: "unusable", code: "too_large" },
  "invalid UTF-8": { behaviour: token({ kind: "invalid-utf8" }), kind: "uncertain", code: "invalid_utf8" },
  "no end": { behaviour: token({ kind: "endless" }), kind: "unusable", code: "too_large" },
  "a byte a second": { behaviour: token({ kind: "trickle" }), kind: "uncertain", code: "deadline" },
  "a head and then nothing": { behaviour: token({ kind: "stall" }), kind: "uncertain", code: "deadline" },
  "no answer at all": { behaviour: token({ kind: "silent" }), kind: "uncertain", code: "deadline" },
  "a reset before it was read": {
    behaviour: token({ kind: "reset-before-reading" }),
    kind: "uncertain",
    code: "closed",
  },
  "a reset after it was read": { behaviour: token({ kind: "reset-after-reading" }), kind: "uncertain", code: "closed" },
  "what was asked, and no answer": { behaviour: token({ kind: "drop-answer" }), kind: "uncertain", code: "closed" },
  "what was asked, and half an answer": {
    behaviour: token({ kind: "cut-answer" }),
    kind: "uncertain",
    code: "cut_off",
  },
  "a 500": {
    behaviour: token({ kind: "raw", status: 500, text: "<h1>Oops</h1>" }),
    kind: "passing",
    code: "http_500",
  },
  "a 504": { behaviour: token({ kind: "raw", status: 504, text: "" }), kind: "uncertain", code: "http_504" },
  invalid_client: {
    behaviour: token({ kind: "error", status: 401, error: "invalid_client" }),
    kind: "client_refused",
    code: "invalid_client",
  },
  invalid_scope: {
    behaviour: token({ kind: "error", error: "invalid_scope" }),
    kind: "misconfigured",
    code: "invalid_scope",
  },
};

it.each(Object.entries(troubles))("O09: gets %s, and reports what that means", async (_, trouble) => {
  const { sandbox, refresh } = await toSandbox({ answers: trouble.behaviour }, { deadlineMs: 600 });
  const { refresh_token } = sandbox.grant();
  const failure = await failureOf(refresh(refresh_token));
  expect([failure.kind, failure.code]).toEqual([trouble.kind, trouble.code]);
  expect(failure.message).not.toContain(refresh_token);
  expect(requestsTo(sandbox)).toBe(1);
});

it("O09: reads a form, and nested fields", async () => {
  const nested = await toSandbox(
    { tokenAnswer: { nestUnder: "authed_user" } },
    { rules: { tokenAnswer: { accessToken: "authed_user.access_token", refreshToken: "authed_user.refresh_token" } } },
  );
  expect((await nested.refresh(nested.sandbox.grant().refresh_token)).refreshToken).toMatch(/^sbx_rt_/);
  const form = await toSandbox({ tokenAnswer: { format: "form" } });
  expect((await form.refresh(form.sandbox.grant().refresh_token)).expiresAtMs).toBeGreaterThan(Date.now());
});

it("O09: reads no more than a mebibyte", async () => {
  let written = 0;
  const answer: Answering = (_, socket) => {
    const chunk = Buffer.alloc(65_536, 0x20);
    socket.write("HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n\r\n");
    const go = () => {
      while (!socket.destroyed && written < 64 * 1024 * 1024) {
        written += chunk.length;
        if (!socket.write(chunk)) return;
      }
    };
    socket.on("drain", go);
    go();
  };
  const { port } = await startProvider(answer);
  const { tokens } = providerClient({ allow: [`http://127.0.0.1:${port}`] });
  const who = asking({ provider: oauth2({ tokenUrl: `https://127.0.0.1:${port}/token` }) });
  await expectFailure(
    tokens.ask({ ...who, grant: { type: "refresh_token", refreshToken: "rt" } }),
    "unusable",
    "too_large",
  );
  // Beyond what the two sockets buffer.
  expect(written).toBeLessThan(16 * 1024 * 1024);
});

it("O09: accepts an unrequested compression, within the size limit", async () => {
  const { gzipSync } = await import("node:zlib");
  const bodies = [
    gzipSync(JSON.stringify({ access_token: "at" })),
    gzipSync(Buffer.alloc(8 * 1024 * 1024, 0x20)),
    Buffer.from("not gzip"),
  ];
  const seen: string[] = [];
  const { port } = await startProvider(({ fields }, socket, count) => {
    seen.push(fields.find(([name]) => name === "accept-encoding")?.[1] ?? "");
    const body = bodies[seen.length - 1] ?? Buffer.alloc(0);
    socket.write(`HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\nContent-Length: ${body.length}\r\n\r\n`);
    socket.write(body);
    expect(count).toBe(0);
  });
  const { tokens } = providerClient({ allow: [`http://127.0.0.1:${port}`] });
  const who = asking({ provider: oauth2({ tokenUrl: `https://127.0.0.1:${port}/token` }) });
  const ask = () => tokens.ask({ ...who, grant: { type: "refresh_token", refreshToken: "rt" } });
  expect((await ask()).accessToken).toBe("at");
  await expectFailure(ask(), "unusable", "too_large");
  await expectFailure(ask(), "uncertain", "malformed");
  expect(seen).toEqual(["identity", "identity", "identity"]);
});

it.each([
  ["with CR and LF", "a\r\nx-evil: 1"],
  ["of blanks", " "],
  ["of 64 KiB", "a".repeat(65_536)],
  ["with other letters", "töken"],
])("O10: refuses tokens %s", async (_, text) => {
  for (const name of ["access_token", "refresh_token"]) {
    const { sandbox, refresh } = await toSandbox({ tokenAnswer: { fields: { [name]: text } } });
    await expectFailure(refresh(sandbox.grant().refresh_token), "unusable");
  }
});

it.each([
  ["MAC", "unusable"],
  ["DPoP", "unusable"],
  ["bearer", "ok"],
  [undefined, "ok"],
])("O18: a token of the type %s is %s", async (token_type, outcome) => {
  const { sandbox, refresh } = await toSandbox({
    tokenAnswer: token_type === undefined ? { omit: ["token_type"] } : { fields: { token_type } },
  });
  const asked = refresh(sandbox.grant().refresh_token);
  if (outcome === "ok") expect((await asked).accessToken).toMatch(/^sbx_at_/);
  else await expectFailure(asked, "unusable", "token_type");
});

it("knows when nothing was sent, and when that is uncertain", async () => {
  const closed = createServer();
  await new Promise<void>((resolve) => closed.listen(0, "127.0.0.1", resolve));
  const { port } = closed.address() as { port: number };
  await new Promise((resolve) => closed.close(resolve));
  const at = (url: string, way: Partial<Parameters<typeof providerClient>[0]> = {}) => {
    const { tokens } = providerClient({ allow: [`http://127.0.0.1:${port}`], ...way });
    const grant: TokenGrant = { type: "refresh_token", refreshToken: "rt" };
    return tokens.ask({ ...asking({ provider: oauth2({ tokenUrl: url }) }), grant });
  };
  await expectFailure(at(`https://127.0.0.1:${port}/t`), "passing", "refused");
  const nowhere = async () => {
    throw Object.assign(new Error("x"), { code: "ENOTFOUND" });
  };
  await expectFailure(at("https://nowhere.example/t", { resolve: nowhere }), "passing", "unknown_host");
  // Only the operator can correct an address that leads inside.
  await expectFailure(at("https://inside.example/t"), "misconfigured", "address_forbidden");
  await expectFailure(at("https://127.0.0.1:1/t"), "misconfigured", "address_forbidden");
  // Plain HTTP where TLS is expected: not a byte of the request is sent.
  const plain = await startProvider();
  await expectFailure(
    at(`https://127.0.0.1:${plain.port}/t`, { allow: [`127.0.0.1:${plain.port}`], limits: { connectMs: 300 } }),
    "passing",
    "connect_timeout",
  );
  expect(plain.received()).not.toContain("POST");
});

it("does not use an idle connection, on which the outcome could be uncertain", async () => {
  const body = JSON.stringify({ access_token: "at" });
  const provider = await startProvider((_, socket) => {
    socket.write(`HTTP/1.1 200 OK\r\nContent-Length: ${body.length}\r\n\r\n${body}`);
    // Closed without notice, as a provider does after a while: the next request finds it closed.
    setTimeout(() => socket.destroy(), 50);
  });
  const { tokens, send } = providerClient({ allow: [`http://127.0.0.1:${provider.port}`] });
  const who = asking({ provider: oauth2({ tokenUrl: `https://127.0.0.1:${provider.port}/token` }) });
  const grant: TokenGrant = { type: "refresh_token", refreshToken: "rt" };
  for (let i = 0; i < 5; i += 1) expect((await tokens.ask({ ...who, grant })).accessToken).toBe("at");
  expect(provider.connections).toHaveLength(5);
  // A request that may be repeated uses the existing connection.
  await send({ url: `https://127.0.0.1:${provider.port}/x`, method: "GET", headers: {} });
  expect(provider.connections).toHaveLength(5);
});

it("stops when no caller waits any more, and reports whether the request was sent", async () => {
  const { sandbox, tokens, who } = await toSandbox({ answers: token({ kind: "silent" }) });
  const leaving = new AbortController();
  const grant: TokenGrant = { type: "refresh_token", refreshToken: sandbox.grant().refresh_token };
  const asked = tokens.ask({ ...who, grant, signal: leaving.signal });
  setTimeout(() => leaving.abort(), 200);
  await expectFailure(asked, "uncertain", "left");
  await expectFailure(tokens.ask({ ...who, grant, signal: leaving.signal }), "passing", "left");
});

it("passes on how long a provider wants to be left alone", async () => {
  const answers = token({ kind: "error", status: 429, error: "slow_down", headers: { "retry-after": "17" } });
  const { sandbox, refresh } = await toSandbox({ answers });
  const failure = await failureOf(refresh(sandbox.grant().refresh_token));
  expect([failure.kind, failure.code, failure.retryAfterMs]).toEqual(["passing", "slow_down", 17_000]);
});

it("applies the error codes of a provider's description", async () => {
  const rules = { deadGrantErrors: ["Token_Gone"], deadClientErrors: ["app_suspended"] };
  for (const [error, kind] of [
    ["token_gone", "grant_dead"],
    ["APP_SUSPENDED", "client_refused"],
    ["other", "passing"],
  ] as const) {
    const text = JSON.stringify({ ok: false, error });
    const answers = token({ kind: "raw", contentType: "application/json", text });
    const { sandbox, refresh } = await toSandbox({ answers }, { rules });
    await expectFailure(refresh(sandbox.grant().refresh_token), kind, error);
  }
});

it("repeats nothing that a provider echoes", async () => {
  const { sandbox, tokens, who } = await toSandbox();
  const { refresh_token: refreshToken } = sandbox.grant();
  for (const error of [refreshToken, `bad.${refreshToken}`, "sandbox-secret", refreshToken.slice(0, 20)]) {
    sandbox.behave({ answers: token({ kind: "error", error, description: refreshToken, times: 1 }) });
    const failure = await failureOf(tokens.ask({ ...who, grant: { type: "refresh_token", refreshToken } }));
    expect(failure.code).toBe("http_400");
    expect(`${failure.message}${failure.stack}${JSON.stringify(failure)}`).not.toContain(error);
  }
});

it("takes an address from an answer only as far as its field allows", async () => {
  const rules: OAuth2 = {
    tokenAnswer: { connectionConfig: { instance_url: "instance_url" }, metadata: { who: "id" } },
  };
  const tried = async (instance_url: unknown) => {
    const { sandbox, tokens, at } = await toSandbox({ tokenAnswer: { fields: { instance_url, id: { n: 1 } } } });
    const provider = {
      ...oauth2({ tokenUrl: `${at}/oauth2/token`, ...rules }),
      connectionFields: [{ name: "instance_url", suffixes: ["salesforce.com"], required: true }],
    };
    const grant: TokenGrant = { type: "refresh_token", refreshToken: sandbox.grant().refresh_token };
    return tokens.ask({ ...asking({ provider }), grant });
  };
  const good = await tried("https://acme.my.salesforce.com");
  expect(good.connectionConfig).toEqual({ instance_url: "https://acme.my.salesforce.com" });
  expect(good.metadata).toEqual({ who: { n: 1 } });
  for (const bad of [
    "https://evil.example",
    "https://salesforce.com.evil.example",
    "http://a.salesforce.com",
    {},
    true,
  ]) {
    await expectFailure(tried(bad), "unusable", "connection_config");
  }
  expect((await tried(undefined)).connectionConfig).toEqual({});
});

it("keeps no answer that could not be read again, and loses no token for it", async () => {
  const deep = JSON.parse(`${'{"a":'.repeat(60)}1${"}".repeat(60)}`);
  for (const junk of [deep, "\ud800", "x".repeat(300_000)]) {
    const { sandbox, refresh } = await toSandbox(
      { tokenAnswer: { fields: { junk } } },
      { rules: { tokenAnswer: { metadata: { junk: "junk" } } } },
    );
    const got = await refresh(sandbox.grant().refresh_token);
    expect([got.raw, got.metadata]).toEqual([{}, {}]);
    expect(got.refreshToken).toMatch(/^sbx_rt_/);
  }
});

it("fills in addresses with a connection's own values, and sends nothing if they do not match", async () => {
  const { sandbox, tokens, at } = await toSandbox();
  const provider = {
    ...oauth2({ tokenUrl: `${at}/\${connectionConfig.version}/token` }),
    connectionFields: [{ name: "version", pattern: "oauth[0-9]" }],
  };
  const grant: TokenGrant = { type: "refresh_token", refreshToken: sandbox.grant().refresh_token };
  const from = (who: Partial<Parameters<typeof asking>[0]>): TokenParties => asking({ provider, ...who });
  const own = await tokens.ask({ ...from({ connectionConfig: { version: "oauth2" } }), grant });
  expect(own.accessToken).toMatch(/^sbx_at_/);
  const before = requestsTo(sandbox);
  for (const version of ["../x", "oauth2/../..", "other", ""]) {
    const asked = tokens.ask({ ...from({ connectionConfig: { version } }), grant });
    await expectFailure(asked, "misconfigured", "address_unbound");
  }
  expect(requestsTo(sandbox)).toBe(before);
  const defaults = from({ connectionDefaults: { version: "oauth2" } });
  await tokens.ask({ ...defaults, grant: { type: "client_credentials", scopes: [] } });
});

it("refreshes at another address, with another grant and parameter, and extra fields", async () => {
  const asked: URLSearchParams[] = [];
  const provider = await startProvider(({ line, body }, socket) => {
    const parameters = new URLSearchParams(body);
    parameters.set("at", line.split(" ")[1] ?? "");
    asked.push(parameters);
    const text = JSON.stringify({ access_token: "longer", expires_in: 5_184_000 });
    socket.write(`HTTP/1.1 200 OK\r\nContent-Length: ${text.length}\r\n\r\n${text}`);
  });
  const at = `https://127.0.0.1:${provider.port}`;
  const { tokens } = providerClient({ allow: [`http://127.0.0.1:${provider.port}`] });
  const who = asking({
    provider: oauth2({
      tokenUrl: `${at}/token`,
      refreshUrl: `${at}/renew`,
      tokenParams: { audience: "api", grant_type: "never", code: "never" },
      refreshParams: { flavour: "long", fb_exchange_token: "never" },
      tokenEndpointAuthMethod: "client_secret_post",
      renewal: { grantType: "fb_exchange_token", parameter: "fb_exchange_token", accessToken: true },
    }),
  });
  const got = await tokens.ask({ ...who, grant: { type: "renewal", accessToken: "short" } });
  expect(got.accessToken).toBe("longer");
  const without = { codeVerifier: undefined, nonce: undefined };
  const grant: TokenGrant = { type: "authorization_code", code: "c", redirectUri: callback, ...without };
  await tokens.ask({ ...who, grant });
  expect(asked.map((one) => Object.fromEntries(one))).toEqual([
    {
      at: "/renew",
      grant_type: "fb_exchange_token",
      fb_exchange_token: "short",
      flavour: "long",
      client_id: "sandbox",
      client_secret: "sandbox-secret",
    },
    {
      at: "/token",
      grant_type: "authorization_code",
      code: "c",
      redirect_uri: callback,
      audience: "api",
      client_id: "sandbox",
      client_secret: "sandbox-secret",
    },
  ]);
});

it("sends JSON where the provider wants it", async () => {
  const seen: (readonly [type: string | undefined, body: unknown])[] = [];
  const provider = await startProvider(({ fields, body }, socket) => {
    seen.push([fields.find(([name]) => name === "content-type")?.[1], JSON.parse(body)]);
    socket.write('HTTP/1.1 200 OK\r\nContent-Length: 21\r\n\r\n{"access_token":"at"}');
  });
  const { tokens } = providerClient({ allow: [`http://127.0.0.1:${provider.port}`] });
  const rules = { tokenUrl: `https://127.0.0.1:${provider.port}/token`, tokenRequestFormat: "json" };
  const grant: TokenGrant = { type: "refresh_token", refreshToken: "rt" };
  await tokens.ask({ ...asking({ provider: oauth2(rules) }), grant });
  const posting = oauth2({ ...rules, tokenEndpointAuthMethod: "client_secret_post" });
  await tokens.ask({ ...asking({ provider: posting }), grant });
  const asked = { grant_type: "refresh_token", refresh_token: "rt" };
  expect(seen).toEqual([
    ["application/json", asked],
    ["application/json", { ...asked, client_id: "sandbox", client_secret: "sandbox-secret" }],
  ]);
  // With a server that accepts it.
  const { sandbox, refresh } = await toSandbox({}, { rules: { tokenRequestFormat: "json" } });
  expect((await refresh(sandbox.grant().refresh_token)).accessToken).toMatch(/^sbx_at_/);
});

it.each([
  ["500 Oops", "passing"],
  ["504 Late", "uncertain"],
  ["404 Nowhere", "misconfigured"],
  ["400 Bad", "passing"],
  ["302 Found", "misconfigured"],
  ["200 OK", "uncertain"],
] as const)("judges a truncated answer of %s by its start", async (line, kind) => {
  const provider = await startProvider(
    (_, socket) => void socket.end(`HTTP/1.1 ${line}\r\nContent-Length: 9\r\n\r\n{"er`),
  );
  const { tokens } = providerClient({ allow: [`http://127.0.0.1:${provider.port}`] });
  const who = asking({ provider: oauth2({ tokenUrl: `https://127.0.0.1:${provider.port}/token` }) });
  await expectFailure(tokens.ask({ ...who, grant: { type: "refresh_token", refreshToken: "rt" } }), kind, "cut_off");
});

it("authenticates in one way, and with any characters", async () => {
  const secret = "s p+c%&:=/ö🙂'\"~*-_.!()";
  const id = "a client:with 100% +ö";
  for (const authMethod of ["client_secret_basic", "client_secret_post"] as const) {
    const sandbox = await started({ clients: [{ id, secret, authMethod }] });
    const { tokens } = providerClient({ allow: [allowPrivateFor(sandbox.origin)] });
    const tokenUrl = `${secure(sandbox.origin)}/oauth2/token`;
    const provider = oauth2({ tokenUrl, tokenEndpointAuthMethod: authMethod });
    const grant: TokenGrant = { type: "client_credentials", scopes: [] };
    const got = await tokens.ask({ ...asking({ provider, clientId: id, clientSecret: secret }), grant });
    expect(got.accessToken).toMatch(/^sbx_at_/);
    // A connection's own app counts for more than its integration's.
    const own = { id, secret };
    expect((await tokens.ask({ ...asking({ provider }), client: own, grant })).accessToken).toMatch(/^sbx_at_/);
    const other = authMethod === "client_secret_basic" ? "client_secret_post" : "client_secret_basic";
    const wrongly = oauth2({ tokenUrl, tokenEndpointAuthMethod: other });
    const asked = tokens.ask({ ...asking({ provider: wrongly, clientId: id, clientSecret: secret }), grant });
    await expectFailure(asked, "client_refused", "invalid_client");
  }
});

it("does not encode the ordinary characters of a client's name, for servers that do not decode", async () => {
  const seen: string[] = [];
  const provider = await startProvider(({ fields }, socket) => {
    seen.push(fields.find(([name]) => name === "authorization")?.[1] ?? "");
    socket.write('HTTP/1.1 200 OK\r\nContent-Length: 21\r\n\r\n{"access_token":"at"}');
  });
  const { tokens } = providerClient({ allow: [`http://127.0.0.1:${provider.port}`] });
  const tokenUrl = `https://127.0.0.1:${provider.port}/token`;
  const who = asking({ provider: oauth2({ tokenUrl }), clientId: "my-app_1.test*", clientSecret: "s-e_c.r*t" });
  await tokens.ask({ ...who, grant: { type: "client_credentials", scopes: [] } });
  // Where the secret is the user name, no other name is sent.
  const asUser = oauth2({ tokenUrl, tokenEndpointAuthMethod: "client_secret_user" });
  const other = asking({ provider: asUser, clientId: "ca_1", clientSecret: "sk_live_1" });
  await tokens.ask({ ...other, grant: { type: "client_credentials", scopes: [] } });
  expect(seen).toEqual([`Basic ${btoa("my-app_1.test*:s-e_c.r*t")}`, `Basic ${btoa("sk_live_1:")}`]);
});

it("is a public client without a secret, and reports a missing one", async () => {
  const { sandbox, tokens, at } = await toSandbox();
  const tokenUrl = `${at}/oauth2/token`;
  const codeVerifier = newVerifier();
  const code = await codeFor(sandbox, {
    client_id: "sandbox-public",
    code_challenge: challengeOf(codeVerifier),
    code_challenge_method: "S256",
  });
  const publicly = asking({ provider: oauth2({ tokenUrl }), clientId: "sandbox-public", clientSecret: "" });
  const grant: TokenGrant = { type: "authorization_code", code, redirectUri: callback, codeVerifier, nonce: undefined };
  expect((await tokens.ask({ ...publicly, grant })).accessToken).toMatch(/^sbx_at_/);
  for (const tokenEndpointAuthMethod of [
    "client_secret_basic",
    "client_secret_post",
    "client_secret_user",
    "client_secret_jwt",
    "private_key_jwt",
    "tls_client_auth",
  ]) {
    const provider = oauth2({ tokenUrl, tokenEndpointAuthMethod });
    const asked = tokens.ask({ ...asking({ provider, clientSecret: "" }), grant });
    await expectFailure(asked, "misconfigured", "client_unusable");
  }
  const nobody = tokens.ask({ ...asking({ provider: oauth2({ tokenUrl }), clientId: "" }), grant });
  await expectFailure(nobody, "misconfigured", "client_id_missing");
  const nowhere = tokens.ask({ ...asking({ provider: oauth2({}) }), grant });
  await expectFailure(nowhere, "misconfigured", "token_url_missing");
});

it("O21: polls at the device's interval, five seconds longer with each slow_down, and stops", async () => {
  let time = Date.now();
  const now = () => time;
  const { sandbox, tokens, who, at } = await toSandbox({ deviceLifetimeS: 60 }, { now });
  const rules = { tokenUrl: `${at}/oauth2/token`, deviceAuthorizationUrl: `${at}/oauth2/device_authorization` };
  const device = asking({ provider: oauth2(rules) });
  const waits: number[] = [];
  const polling = (onWait: (count: number) => Promise<void> | void) => ({
    tokens,
    now,
    async wait(ms: number) {
      waits.push(ms);
      time += ms;
      await onWait(waits.length);
    },
  });
  const allow = async (userCode: string) => {
    const page = await consentPage(sandbox, await sandbox.get(`/oauth2/device?user_code=${userCode}`));
    await page.answer("allow");
  };

  const begun = await tokens.beginDevice({ ...device, scopes: ["drive"] });
  expect(begun).toMatchObject({ intervalMs: 5_000, expiresAtMs: time + 60_000 });
  expect(begun.verificationUriComplete).toContain(begun.userCode);
  sandbox.behave({ answers: token({ kind: "error", error: "slow_down", times: 2 }) });
  const got = await pollDevice(
    polling((count) => (count === 4 ? allow(begun.userCode) : undefined)),
    device,
    begun,
  );
  expect(got.scopes).toEqual(["drive"]);
  // slow_down, slow_down, pending, allowed.
  expect(waits).toEqual([5_000, 10_000, 15_000, 15_000]);

  // The user never decides: polling ends in time.
  waits.length = 0;
  const ignored = await tokens.beginDevice({ ...device, scopes: [] });
  await expectFailure(
    pollDevice(
      polling(() => {}),
      device,
      ignored,
    ),
    "grant_dead",
    "expired_token",
  );
  expect(waits.reduce((sum, ms) => sum + ms, 0)).toBeLessThan(60_000);
  // If asked anyway, the provider reports it itself.
  time += 60_000;
  await expectFailure(
    tokens.ask({ ...device, grant: { type: "device_code", deviceCode: ignored.deviceCode } }),
    "grant_dead",
    "expired_token",
  );
  // A client without permission is refused at once.
  const denied = await tokens.beginDevice({ ...device, scopes: [] });
  const page = await consentPage(sandbox, await sandbox.get(`/oauth2/device?user_code=${denied.userCode}`));
  await page.answer("deny");
  await expectFailure(
    pollDevice(
      polling(() => {}),
      device,
      denied,
    ),
    "grant_dead",
    "access_denied",
  );
  await expectFailure(tokens.beginDevice({ ...who, scopes: [] }), "misconfigured", "device_url_missing");
  // At the provider's interval, or at the default one.
  for (const [deviceIntervalS, intervalMs] of [
    [7, 7_000],
    [0, 5_000],
  ] as const) {
    sandbox.behave({ deviceIntervalS });
    expect(await tokens.beginDevice({ ...device, scopes: [] })).toMatchObject({ intervalMs });
  }
});

it("O21: polls less often on request, and stops when no caller waits", async () => {
  const { tokens, sandbox, at } = await toSandbox();
  const rules = { tokenUrl: `${at}/oauth2/token`, deviceAuthorizationUrl: `${at}/oauth2/device_authorization` };
  const device = asking({ provider: oauth2(rules) });
  const begun = await tokens.beginDevice({ ...device, scopes: [] });
  sandbox.behave({
    answers: token(
      { kind: "error", status: 503, error: "temporarily_unavailable", headers: { "retry-after": "30" }, times: 1 },
      { kind: "reset-after-reading", times: 1 },
      { kind: "error", error: "access_denied" },
    ),
  });
  const waits: number[] = [];
  const polling = {
    tokens,
    now: Date.now,
    async wait(ms: number) {
      waits.push(ms);
    },
  };
  await expectFailure(pollDevice(polling, device, begun), "grant_dead", "access_denied");
  expect(waits).toEqual([5_000, 30_000, 60_000]);
  const leaving = new AbortController();
  const before = requestsTo(sandbox);
  const polled = pollDevice({ tokens, now: Date.now }, { ...device, signal: leaving.signal }, begun);
  leaving.abort();
  await expectFailure(polled, "passing", "left");
  expect(requestsTo(sandbox)).toBe(before);
});

it("hides an invalid link of a device", async () => {
  const { tokens, sandbox, at } = await toSandbox();
  const device = asking({
    provider: oauth2({ tokenUrl: `${at}/oauth2/token`, deviceAuthorizationUrl: `${at}/oauth2/device_authorization` }),
  });
  const text = JSON.stringify({ device_code: "d", user_code: "u", verification_uri: "javascript:alert(1)" });
  sandbox.behave({ answers: { device: [{ kind: "raw", contentType: "application/json", text }] } });
  await expectFailure(tokens.beginDevice({ ...device, scopes: [] }), "unusable", "no_device_code");
});

it("revokes, and reports if it cannot", async () => {
  const { sandbox, tokens, who, at } = await toSandbox();
  const rules = { tokenUrl: `${at}/oauth2/token`, revocationUrl: `${at}/oauth2/revoke` };
  const revoking = asking({ provider: oauth2(rules) });
  const { refresh_token, access_token } = sandbox.grant();
  expect(await tokens.revoke({ ...revoking, token: refresh_token, kind: "refresh_token" })).toBe(true);
  expect((await sandbox.get("/oauth2/userinfo", { authorization: `Bearer ${access_token}` })).status).toBe(401);
  expect(await tokens.revoke({ ...revoking, token: "unknown", kind: "access_token" })).toBe(true);
  expect(await tokens.revoke({ ...who, token: refresh_token, kind: "refresh_token" })).toBe(false);
  sandbox.behave({ answers: { revocation: [{ kind: "error", error: "invalid_token", times: 1 }] } });
  expect(await tokens.revoke({ ...revoking, token: "gone", kind: "access_token" })).toBe(true);
  sandbox.behave({ answers: { revocation: [{ kind: "error", status: 503, error: "temporarily_unavailable" }] } });
  await expectFailure(
    tokens.revoke({ ...revoking, token: "x", kind: "access_token" }),
    "passing",
    "temporarily_unavailable",
  );
});

it("O24: takes endpoints from metadata of the issuer that was named, and once", async () => {
  const { sandbox, tokens, at } = await toSandbox();
  const rules = { metadataUrl: `${at}/.well-known/oauth-authorization-server`, issuer: sandbox.origin };
  const who = asking({ provider: oauth2(rules) });
  const grant: TokenGrant = { type: "client_credentials", scopes: [] };
  const all = await Promise.all([1, 2, 3].map(() => tokens.ask({ ...who, grant })));
  expect(all).toHaveLength(3);
  await tokens.ask({ ...who, grant });
  expect(requestsTo(sandbox, "metadata")).toBe(1);
  expect(await tokens.authorization(who)).toEqual({
    url: `${sandbox.origin}/oauth2/auth`,
    pushedUrl: "",
    issuer: sandbox.origin,
    issuerAlways: true,
  });
});

it("O24: refuses metadata whose issuer differs, even by a slash, and never sends the client's secret", async () => {
  const { sandbox, tokens, at } = await toSandbox();
  const metadataUrl = `${at}/.well-known/openid-configuration`;
  const grant: TokenGrant = { type: "client_credentials", scopes: [] };
  for (const issuer of [`${sandbox.origin}/`, sandbox.origin.toUpperCase(), "https://another.example"]) {
    const asked = tokens.ask({ ...asking({ provider: oauth2({ metadataUrl, issuer }) }), grant });
    await expectFailure(asked, "misconfigured", "issuer_mismatch");
  }
  sandbox.behave({ metadataIssuer: "wrong" });
  const who = asking({ provider: oauth2({ metadataUrl, issuer: sandbox.origin }) });
  await expectFailure(tokens.ask({ ...who, grant }), "misconfigured", "issuer_mismatch");
  const unheld = asking({ provider: oauth2({ metadataUrl }) });
  await expectFailure(tokens.ask({ ...unheld, grant }), "misconfigured", "issuer_missing");
  expect(requestsTo(sandbox)).toBe(0);
  // A failure is not kept.
  sandbox.behave({ metadataIssuer: "right" });
  expect((await tokens.ask({ ...who, grant })).accessToken).toMatch(/^sbx_at_/);
  // An endpoint that the description gives needs no metadata.
  sandbox.behave({ metadataIssuer: "wrong" });
  const own = asking({
    provider: oauth2({ metadataUrl, issuer: "https://other.example", tokenUrl: `${at}/oauth2/token` }),
  });
  expect((await tokens.ask({ ...own, grant })).accessToken).toMatch(/^sbx_at_/);
});

it("counts requests by grant and outcome", async () => {
  const { sandbox, refresh, metrics } = await toSandbox();
  await refresh(sandbox.grant().refresh_token);
  await expectFailure(refresh("nonsense"), "grant_dead");
  const text = await metrics();
  expect(text).toContain('latchkey_token_requests_total{grant="refresh_token",outcome="ok"} 1');
  expect(text).toContain('latchkey_token_requests_total{grant="refresh_token",outcome="grant_dead"} 1');
  expect(text).toContain('latchkey_token_seconds_count{grant="refresh_token"} 2');
});

it("reports that a provider without OAuth 2 has no token endpoint", async () => {
  const { tokens } = providerClient({ allow: [] });
  const who = asking({ provider: { auth: { case: "apiKey", value: {} } } });
  await expectFailure(
    tokens.ask({ ...who, grant: { type: "refresh_token", refreshToken: "x" } }),
    "misconfigured",
    "not_oauth2",
  );
});
