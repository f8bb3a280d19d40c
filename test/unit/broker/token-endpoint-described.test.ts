import { createPublicKey, generateKeyPairSync, verify } from "node:crypto";
import type { JsonObject, MessageInitShape } from "@bufbuild/protobuf";
import { expect, it } from "vitest";
import type { TokenRulesSchema } from "../../../src/gen/latchkey/v1/provider_pb.ts";
import { type Answering, type RecordedRequest, startProvider } from "../../support/peers/provider.ts";
import { asking, expectFailure, providerClient } from "./asking.ts";

type Rules = Extract<MessageInitShape<typeof TokenRulesSchema>, { $typeName?: never }>;

interface Setting {
  readonly kind?: "app" | "twoStep" | "signature";
  readonly rules: (at: string) => Rules;
  readonly fields: JsonObject;
  readonly answer?: Answering;
  readonly privateKey?: string;
  readonly connectionConfig?: JsonObject;
}

const saying =
  (status: number, body: object): Answering =>
  (_, socket) => {
    const text = JSON.stringify(body);
    socket.write(
      `HTTP/1.1 ${status} Said\r\nContent-Type: application/json\r\nContent-Length: ${text.length}\r\n\r\n${text}`,
    );
  };
const good = saying(201, { access_token: "at" });

/** Sends a token request that the provider's description defines, and returns what arrived. */
async function described({ kind = "twoStep", rules, fields, answer = good, privateKey, connectionConfig }: Setting) {
  const provider = await startProvider(answer);
  const at = `https://127.0.0.1:${provider.port}`;
  const { tokens } = providerClient({ allow: [`http://127.0.0.1:${provider.port}`] });
  const who = asking({
    provider: { auth: { case: kind, value: rules(at) } },
    ...(privateKey === undefined ? {} : { privateKey }),
    ...(connectionConfig === undefined ? {} : { connectionConfig }),
  });
  const asked = tokens.ask({ ...who, grant: { type: "described", fields } });
  // A test that expects a failure handles it itself.
  asked.catch(() => {});
  const requests = (): readonly RecordedRequest[] => provider.connections.flatMap((one) => one.requests());
  await asked.catch(() => {});
  return { asked, requests, request: requests()[0] };
}

const fieldOf = (request: RecordedRequest | undefined, name: string) =>
  request?.fields.find(([one]) => one === name)?.[1];

const key = generateKeyPairSync("rsa", { modulusLength: 2_048 });
const pem = key.privateKey.export({ type: "pkcs8", format: "pem" }).toString();

const githubApp = (at: string): Rules => ({
  tokenUrl: `${at}/app/installations/\${credentials.installation_id}/access_tokens`,
  fields: ["app_id", "installation_id"],
  tokenAnswer: { accessToken: "token", expiresAt: "expires_at", expiresAtUnit: "iso" },
  jwt: {
    algorithm: "RS256",
    keyField: "private_key",
    claims: { iss: "${credentials.app_id}" },
    lifetime: { seconds: 540n },
  },
  request: {
    authorization: "jwt",
    format: "json",
    headers: { accept: "application/vnd.github+json", "x-github-api-version": "2022-11-28" },
  },
});

it("exchanges an app's own JWT for an installation's token, as GitHub wants it", async () => {
  const expires = new Date(Date.now() + 3_600_000);
  const answer = saying(201, {
    token: "ghs_1",
    expires_at: expires.toISOString().replace(/\.\d+/, ""),
    permissions: {},
  });
  const fields = { app_id: "12", installation_id: "34", private_key: pem };
  const { asked, request } = await described({ kind: "app", rules: githubApp, fields, answer });
  const got = await asked;
  expect(got.accessToken).toBe("ghs_1");
  expect(Math.abs((got.expiresAtMs ?? 0) - expires.getTime())).toBeLessThan(1_001);
  expect(request?.line).toBe("POST /app/installations/34/access_tokens HTTP/1.1");
  expect(fieldOf(request, "accept")).toBe("application/vnd.github+json");
  expect(fieldOf(request, "x-github-api-version")).toBe("2022-11-28");
  expect(fieldOf(request, "user-agent")).toMatch(/^latchkey\//);
  expect(request?.body).toBe("{}");
  const [head = "", claims = "", signature = ""] = (fieldOf(request, "authorization") ?? "")
    .replace("Bearer ", "")
    .split(".");
  const isSigned = verify(
    "sha256",
    Buffer.from(`${head}.${claims}`),
    createPublicKey(pem),
    Buffer.from(signature, "base64url"),
  );
  expect(isSigned).toBe(true);
  expect(JSON.parse(Buffer.from(claims, "base64url").toString())).toMatchObject({ iss: "12" });
});

it("knows whose fault it is that an app gets no token", async () => {
  const own = { app_id: "12", installation_id: "34", private_key: pem };
  const { private_key: _, ...without } = own;
  const to = async (status: number, fields: JsonObject, privateKey?: string) => {
    const answer = saying(status, { message: "Bad credentials" });
    const setting = { kind: "app" as const, rules: githubApp, fields, answer };
    return (await described(privateKey === undefined ? setting : { ...setting, privateKey })).asked;
  };
  await expectFailure(to(401, own), "grant_dead", "http_401");
  await expectFailure(to(401, without, pem), "client_refused", "http_401");
  await expectFailure(to(404, own), "grant_dead", "http_404");
  await expectFailure(to(403, own), "passing", "http_403");
  await expectFailure(to(500, own), "passing", "http_500");
  await expectFailure(to(201, own), "unusable", "no_token");
  await expectFailure(to(201, without), "misconfigured", "client_unusable");
  await expectFailure(to(201, { ...own, private_key: "nonsense" }), "misconfigured", "client_unusable");
});

it("sends all fields as a form by default, or filled into the described texts", async () => {
  const plain = await described({
    rules: (at) => ({ tokenUrl: `${at}/login`, fields: ["user", "pass word"] }),
    fields: { user: "ada", "pass word": "a&b=c +%", other: "not sent" },
  });
  expect((await plain.asked).accessToken).toBe("at");
  expect(plain.request?.line).toBe("POST /login HTTP/1.1");
  expect(fieldOf(plain.request, "content-type")).toBe("application/x-www-form-urlencoded");
  expect(Object.fromEntries(new URLSearchParams(plain.request?.body))).toEqual({
    user: "ada",
    "pass word": "a&b=c +%",
  });

  const json = await described({
    kind: "signature",
    rules: (at) => ({
      tokenUrl: `${at}/login`,
      request: {
        method: "PUT",
        format: "json",
        params: { who: "${credentials.username}", scope: "all of ${connectionConfig.tenant}", n: "${credentials.n}" },
        headers: { "X-Tenant": "${connectionConfig.tenant}" },
        authorization: "basic",
      },
      tokenAnswer: { accessToken: "data.0.session" },
    }),
    fields: { username: "ada", password: "p:w", n: 7 },
    connectionConfig: { tenant: "acme" },
    answer: saying(200, { data: [{ session: "s-1" }] }),
  });
  expect((await json.asked).accessToken).toBe("s-1");
  expect(json.request?.line).toBe("PUT /login HTTP/1.1");
  expect(JSON.parse(json.request?.body ?? "")).toEqual({ who: "ada", scope: "all of acme", n: 7 });
  expect(fieldOf(json.request, "x-tenant")).toBe("acme");
  expect(fieldOf(json.request, "authorization")).toBe(`Basic ${btoa("ada:p:w")}`);

  const get = await described({
    rules: (at) => ({
      tokenUrl: `${at}/t?v=1`,
      request: { method: "GET", format: "json", params: { k: "${credentials.k}" } },
    }),
    fields: { k: "a b&c" },
  });
  await get.asked;
  expect(get.request?.line).toBe("GET /t?v=1&k=a+b%26c HTTP/1.1");
  expect(get.request?.body).toBe("");
});

it("sends nothing if a field is missing, or fits into no header or address", async () => {
  const rules = (at: string): Rules => ({
    tokenUrl: `${at}/t/\${credentials.id}`,
    request: { headers: { "x-key": "${credentials.key}" } },
  });
  for (const [fields, kind, code] of [
    [{ id: "1" }, "misconfigured", "client_unusable"],
    [{ id: "../..", key: "k" }, "misconfigured", "address_unbound"],
    [{ id: "a/b", key: "k" }, "misconfigured", "address_unbound"],
    [{ key: "k" }, "misconfigured", "address_unbound"],
    [{ id: "1", key: "k\r\nx-evil: 1" }, "misconfigured", "unsendable"],
  ] as const) {
    const { asked, requests } = await described({ rules, fields });
    await expectFailure(asked, kind, code);
    expect(requests()).toEqual([]);
  }
});

it("repeats nothing of a connection's fields", async () => {
  const fields = { username: "ada", password: "correct-horse", nested: { deep: "battery-staple" } };
  for (const code of ["correct-horse", "battery-staple"]) {
    const answer = saying(400, { error: code });
    const { asked } = await described({
      rules: (at) => ({ tokenUrl: `${at}/t`, fields: ["password"] }),
      fields,
      answer,
    });
    await expectFailure(asked, "passing", "http_400");
  }
});
