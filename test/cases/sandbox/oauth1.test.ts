import { createHmac, randomBytes } from "node:crypto";
import { expect, it } from "vitest";
import { readSignedRequest } from "../../../src/dev/sandbox/auth/oauth1-signature.ts";
import type { Call } from "../../../src/dev/sandbox/call.ts";
import { broughtBack, callback, consentPage, type Started, started } from "./started.ts";

/** An independent signer, so that the sandbox is not checked with its own code. */
interface Signing {
  readonly method?: string;
  readonly path: string;
  readonly query?: Readonly<Record<string, string>>;
  readonly form?: Readonly<Record<string, string>>;
  readonly consumer?: readonly [id: string, secret: string];
  readonly token?: readonly [token: string, secret: string];
  readonly oauth?: Readonly<Record<string, string>>;
  readonly algorithm?: "HMAC-SHA1" | "HMAC-SHA256" | "PLAINTEXT";
  readonly scheme?: "http" | "https";
}

const encode = (text: string) =>
  encodeURIComponent(text).replace(/[!'()*]/g, (c) => `%${c.charCodeAt(0).toString(16).toUpperCase()}`);

function authorizationOf(origin: string, signing: Signing): string {
  const { method = "POST", path, query = {}, form = {}, consumer = ["sandbox", "sandbox-secret"], token } = signing;
  const { algorithm = "HMAC-SHA1", oauth = {}, scheme = "http" } = signing;
  const protocol: Record<string, string> = {
    oauth_consumer_key: consumer[0],
    oauth_signature_method: algorithm,
    oauth_timestamp: String(Math.floor(Date.now() / 1_000)),
    oauth_nonce: randomBytes(8).toString("hex"),
    oauth_version: "1.0",
    ...(token === undefined ? {} : { oauth_token: token[0] }),
    ...oauth,
  };
  const key = `${encode(consumer[1])}&${encode(token?.[1] ?? "")}`;
  const parameters = Object.entries({ ...query, ...form, ...protocol })
    .map(([name, value]) => `${encode(name)}=${encode(value)}`)
    .sort()
    .join("&");
  const base = `${method}&${encode(`${scheme}://${new URL(origin).host}${path}`)}&${encode(parameters)}`;
  const signature =
    algorithm === "PLAINTEXT"
      ? key
      : createHmac(algorithm === "HMAC-SHA1" ? "sha1" : "sha256", key)
          .update(base)
          .digest("base64");
  const all = Object.entries({ ...protocol, oauth_signature: signature });
  return `OAuth realm="x", ${all.map(([name, value]) => `${name}="${encode(value)}"`).join(", ")}`;
}

function signed(sandbox: Started, signing: Signing): Promise<Response> {
  const { method = "POST", path, query = {}, form } = signing;
  const search = new URLSearchParams(query).toString();
  return sandbox.send(method, `${path}${search === "" ? "" : `?${search}`}`, {
    headers: { authorization: authorizationOf(sandbox.origin, signing) },
    ...(form === undefined ? {} : { body: new URLSearchParams(form) }),
  });
}

const temporaryFor = async (sandbox: Started, oauth_callback = callback, more: Partial<Signing> = {}) =>
  new URLSearchParams(
    await (await signed(sandbox, { path: "/oauth/request_token", oauth: { oauth_callback }, ...more })).text(),
  );
const pairOf = (fields: URLSearchParams): [string, string] => [
  fields.get("oauth_token") ?? "",
  fields.get("oauth_token_secret") ?? "",
];
const problemOf = async (response: Response) =>
  [response.status, new URLSearchParams(await response.text()).get("oauth_problem")] as const;

it.each(["HMAC-SHA1", "HMAC-SHA256", "PLAINTEXT"] as const)(
  "goes all three steps, and calls an API, with %s",
  async (algorithm) => {
    const sandbox = await started();
    const temporary = await temporaryFor(sandbox, callback, { algorithm });
    expect(temporary.get("oauth_callback_confirmed")).toBe("true");
    const oauth_token = temporary.get("oauth_token") ?? "";
    const page = await consentPage(sandbox, await sandbox.get(`/oauth/authorize?oauth_token=${oauth_token}`));
    const back = broughtBack(await page.answer("allow", { user: "grace@example.com" }));
    expect(back.get("oauth_token")).toBe(oauth_token);
    const oauth_verifier = back.get("oauth_verifier") ?? "";

    const exchange: Signing = {
      path: "/oauth/access_token",
      token: pairOf(temporary),
      oauth: { oauth_verifier },
      algorithm,
    };
    const token = pairOf(new URLSearchParams(await (await signed(sandbox, exchange)).text()));
    // Temporary credentials are good once.
    expect(await problemOf(await signed(sandbox, exchange))).toEqual([401, "token_rejected"]);

    const query = { pageSize: "3", q: "name contains 'a b'!*()" };
    const files = await signed(sandbox, { method: "GET", path: "/drive/v3/files", query, token, algorithm });
    expect(files.status).toBe(200);
    const me = await signed(sandbox, { method: "GET", path: "/api/me", token, algorithm });
    expect(await me.json()).toMatchObject({ email: "grace@example.com", by: "oauth1" });
  },
);

it("covers the form with the signature, and accepts one for https", async () => {
  const sandbox = await started();
  const { oauth_token, oauth_token_secret } = sandbox.grantOAuth1();
  const token: [string, string] = [oauth_token, oauth_token_secret];
  const form = { status: "Ladies + Gentlemen! it's 100% (ok)* ☃" };
  expect((await signed(sandbox, { path: "/api/echo/x", token, form, scheme: "https" })).status).toBe(200);
  const authorization = authorizationOf(sandbox.origin, { path: "/api/echo/x", token, form });
  const body = new URLSearchParams({ status: "other" });
  expect((await sandbox.send("POST", "/api/echo/x", { headers: { authorization }, body })).status).toBe(401);
});

it("refuses a wrong secret, a replayed nonce, an old timestamp, an unknown consumer, token or method", async () => {
  const sandbox = await started();
  const { oauth_token, oauth_token_secret } = sandbox.grantOAuth1();
  const token: [string, string] = [oauth_token, oauth_token_secret];
  const me = (more: Partial<Signing>) => signed(sandbox, { method: "GET", path: "/api/me", token, ...more });
  const at = (seconds: number) => ({ oauth_timestamp: String(Math.floor(Date.now() / 1_000) + seconds) });
  expect(await problemOf(await me({ consumer: ["sandbox", "wrong"] }))).toEqual([401, "signature_invalid"]);
  expect(await problemOf(await me({ token: [oauth_token, "wrong"] }))).toEqual([401, "signature_invalid"]);
  expect(await problemOf(await me({ token: ["x", "y"] }))).toEqual([401, "token_rejected"]);
  expect(await problemOf(await me({ consumer: ["nobody", "x"] }))).toEqual([401, "consumer_key_unknown"]);
  expect(await problemOf(await me({ oauth: at(-310) }))).toEqual([401, "timestamp_refused"]);
  expect(await problemOf(await me({ oauth: at(310) }))).toEqual([401, "timestamp_refused"]);
  expect(await problemOf(await me({ oauth: { oauth_version: "2.0" } }))).toEqual([400, "version_rejected"]);
  expect(await problemOf(await me({ oauth: { oauth_signature_method: "MD5" } }))).toEqual([
    400,
    "signature_method_rejected",
  ]);
  const once = { oauth: { oauth_nonce: "the-same", ...at(0) } };
  expect((await me(once)).status).toBe(200);
  expect(await problemOf(await me(once))).toEqual([401, "nonce_used"]);
  expect(sandbox.seen().tallies).toMatchObject({ noncesReplayed: 1, signaturesRefused: 2 });
  expect(sandbox.revoke({ user: "ada@example.com" })).toBe(1);
  expect(await problemOf(await me({}))).toEqual([401, "token_rejected"]);
});

it("issues nothing without a verifier, with a wrong one, or before a decision", async () => {
  const sandbox = await started();
  const temporary = await temporaryFor(sandbox);
  const exchange = async (oauth: Readonly<Record<string, string>>) =>
    problemOf(await signed(sandbox, { path: "/oauth/access_token", token: pairOf(temporary), oauth }));
  expect(await exchange({ oauth_verifier: "x" })).toEqual([401, "permission_unknown"]);
  const page = await consentPage(
    sandbox,
    await sandbox.get(`/oauth/authorize?oauth_token=${temporary.get("oauth_token")}`),
  );
  await page.answer("allow");
  expect(await exchange({})).toEqual([401, "verifier_invalid"]);
  expect(await exchange({ oauth_verifier: "x" })).toEqual([401, "verifier_invalid"]);
});

it("redirects with the refusal, and omits the confirmation if configured", async () => {
  const sandbox = await started({ behaviour: { callbackConfirmed: false } });
  const temporary = await temporaryFor(sandbox);
  expect(temporary.has("oauth_callback_confirmed")).toBe(false);
  const oauth_token = temporary.get("oauth_token") ?? "";
  const page = await consentPage(sandbox, await sandbox.get(`/oauth/authorize?oauth_token=${oauth_token}`));
  expect(Object.fromEntries(broughtBack(await page.answer("deny")))).toEqual({
    oauth_token,
    oauth_problem: "user_refused",
  });
  expect((await sandbox.get(`/oauth/authorize?oauth_token=${oauth_token}`)).status).toBe(400);
});

it("redirects to addresses on this machine alone, or shows the verifier", async () => {
  const sandbox = await started({ behaviour: { consent: "allow" } });
  const foreign = { path: "/oauth/request_token", oauth: { oauth_callback: "https://evil.example/" } };
  expect(await problemOf(await signed(sandbox, foreign))).toEqual([400, "parameter_rejected"]);
  const temporary = await temporaryFor(sandbox, "oob");
  const shown = await (await sandbox.get(`/oauth/authorize?oauth_token=${temporary.get("oauth_token")}`)).text();
  const [, oauth_verifier = ""] = /<code>([\w-]+)<\/code>/.exec(shown) ?? [];
  const exchanged = await signed(sandbox, {
    path: "/oauth/access_token",
    token: pairOf(temporary),
    oauth: { oauth_verifier },
  });
  expect(exchanged.status).toBe(200);
});

/** Vectors of RFC 5849 and others, with the signature that each must have. */
const vectors = [
  {
    name: "RFC 5849, section 3.4.1 (with erratum 2550)",
    call: {
      method: "POST",
      target: "/request?b5=%3D%253D&a3=a&c%40=&a2=r%20b",
      host: "EXAMPLE.COM",
      body: "c2&a3=2+q",
      oauth:
        'realm="Example", oauth_consumer_key="9djdj82h48djs9d2", oauth_token="kkk9d7dh3k39sjv7", oauth_signature_method="HMAC-SHA1", oauth_timestamp="137131201", oauth_nonce="7d8f3e4a", oauth_signature="r6%2FTJjbCOr97%2F%2BUU0NsvSne7s5g%3D"',
    },
    secrets: ["j49sk3j29djd", "dh893hdasih9"],
  },
  {
    name: "RFC 5849, section 1.2, with a callback",
    call: {
      method: "POST",
      target: "/initiate",
      host: "photos.example.net",
      body: "",
      oauth:
        'realm="Photos", oauth_consumer_key="dpf43f3p2l4k3l03", oauth_signature_method="HMAC-SHA1", oauth_timestamp="137131200", oauth_nonce="wIjqoS", oauth_callback="http%3A%2F%2Fprinter.example.com%2Fready", oauth_signature="74KNZJeDHnMBp0EMJ9ZHt%2FXKycU%3D"',
    },
    secrets: ["kd94hf93k423kf44", ""],
  },
  {
    name: "own vector V5: a path with an encoded slash",
    call: {
      method: "GET",
      target: "/v1/files/a%2Fb?x=%20y",
      host: "api.example.com",
      body: "",
      oauth:
        'oauth_consumer_key="ck-1", oauth_token="tk-1", oauth_signature_method="HMAC-SHA1", oauth_timestamp="1700000000", oauth_nonce="n0nce", oauth_version="1.0", oauth_signature="fUvkPSBXHE1SoPSbziKxeoqvAlc%3D"',
    },
    secrets: ["c&s", "t s"],
  },
  {
    name: "own vector V1: a port that goes without saying",
    call: {
      method: "GET",
      target: "/v1/items?b=2&a=1",
      host: "API.Example.com:443",
      body: "",
      oauth:
        'oauth_consumer_key="ck-1", oauth_token="tk-1", oauth_signature_method="HMAC-SHA1", oauth_timestamp="1700000000", oauth_nonce="n0nce", oauth_version="1.0", oauth_signature="A9QI6vJTGZRkBAJv7hYlyCCy8Hw%3D"',
    },
    secrets: ["c&s", "t s"],
  },
  {
    name: "own vector V3: a form",
    call: {
      method: "POST",
      target: "/v1/post",
      host: "api.example.com",
      body: new URLSearchParams({ status: "Ladies + Gentlemen! it's 100% (ok)* ☃" }).toString(),
      oauth:
        'oauth_consumer_key="ck-1", oauth_token="tk-1", oauth_signature_method="HMAC-SHA1", oauth_timestamp="1700000000", oauth_nonce="n0nce", oauth_version="1.0", oauth_signature="S2FTKt%2BcRW3BqGH3fHcCfn2EZtQ%3D"',
    },
    secrets: ["c&s", "t s"],
  },
] as const;

it.each(vectors)("P38 verifies $name", ({ call: { method, target, host, body, oauth }, secrets }) => {
  const contentType = body === "" ? {} : { "content-type": "application/x-www-form-urlencoded" };
  const call: Call = {
    method,
    target,
    params: {},
    query: new URLSearchParams(),
    headers: { host, authorization: `OAuth ${oauth}`, ...contentType },
    body: Buffer.from(body),
  };
  const [consumerSecret, tokenSecret] = secrets;
  expect(readSignedRequest(call).isSignedWith({ consumerSecret, tokenSecret })).toBe(true);
  expect(readSignedRequest(call).isSignedWith({ consumerSecret, tokenSecret: `${tokenSecret}x` })).toBe(false);
});
