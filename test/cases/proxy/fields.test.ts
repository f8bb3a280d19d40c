import { expect, it } from "vitest";
import { IntegrationService } from "../../../src/gen/latchkey/v1/integration_pb.ts";
import { type Answering, ok, startProvider, startProxied } from "../../support/peers/provider.ts";
import { secretKey } from "../../support/sidecar/harness.ts";
import { call, faultOf, fieldOf } from "../../support/wire/proxy-call.ts";

/** Fields that depend on the caller, and on how far they may be forwarded. */

const valuesOf = ({ fields }: { readonly fields: readonly (readonly [string, string])[] }, name: string) =>
  fields.filter(([one]) => one === name).map(([, value]) => value);

const setting: Answering = (_, socket) => {
  const cookies = Array.from({ length: 3 }, (_unused, i) => `Set-Cookie: c${i}=v; Domain=x.test; HttpOnly\r\n`).join(
    "",
  );
  socket.write(
    `HTTP/1.1 200 OK\r\n${cookies}set-cookie: last=1\r\nStrict-Transport-Security: max-age=1\r\nX-Other: 1\r\nTransfer-Encoding: chunked\r\n\r\n0\r\nSet-Cookie: trailing=1\r\n\r\n`,
  );
};

it("P30 leaves Set-Cookie out, unless the integration keeps it: then each as it came", async () => {
  const provider = await startProvider(setting);
  const { data, proxyHeaders, client } = await startProxied(provider.port);
  const ask = () => call(`${data}/proxy/x`, { headers: { ...proxyHeaders, cookie: "mine=1" } });
  const keep = (keepSetCookie: boolean) =>
    client(IntegrationService).updateIntegration({
      integration: { environment: "dev", key: "here", keepSetCookie },
      updateMask: { paths: ["keep_set_cookie"] },
    });

  expect(valuesOf(await ask(), "set-cookie")).toEqual([]);
  await keep(true);
  const kept = await ask();
  const each = [0, 1, 2].map((i) => `c${i}=v; Domain=x.test; HttpOnly`);
  expect(valuesOf(kept, "set-cookie")).toEqual([...each, "last=1"]);
  // No other field comes along: no dropped ones, no cookie in a trailer, none that the caller sent.
  expect(valuesOf(kept, "strict-transport-security")).toEqual([]);
  expect(valuesOf(kept, "x-other")).toEqual(["1"]);
  expect(kept.trailers).toEqual([]);
  expect(valuesOf(kept, "vary").join()).toContain("Connection-Id");
  expect(provider.received()).not.toMatch(/^cookie:/im);
  await keep(false);
  expect(valuesOf(await ask(), "set-cookie")).toEqual([]);
});

it("keeps Set-Cookie for the integrations that the configuration file names", async () => {
  const provider = await startProvider(setting);
  const file = `
environments: [{ name: prod, keys: [{ id: app, key: { env: APP_KEY } }] }]
integrations:
  - { environment: prod, key: kept, provider: there, keep_set_cookie: true }
  - { environment: prod, key: left, provider: there }
providers:
  - { name: there, display_name: There, api_key: { header: x-api-key }, proxy: { base_url: "https://127.0.0.1:${provider.port}" } }
`;
  const key = "lk_a-key-of-the-environment-prod";
  const { data, rest } = await startProxied(provider.port, {
    files: { "/latchkey.yaml": file },
    env: { LATCHKEY_CONFIG: "/latchkey.yaml", APP_KEY: key },
  });
  for (const [integration, count] of [
    ["kept", 4],
    ["left", 0],
  ] as const) {
    const body = {
      provider_config_key: integration,
      connection_id: "ada",
      credentials: { type: "API_KEY", apiKey: "some-key" },
    };
    expect((await rest("POST", "/connections", { body, key })).status).toBe(201);
    const headers = { authorization: `Bearer ${key}`, "provider-config-key": integration, "connection-id": "ada" };
    expect(valuesOf(await call(`${data}/proxy/x`, { headers }), "set-cookie")).toHaveLength(count);
  }
});

it("sends an OPTIONS on with one hop less, and answers the one that has none left", async () => {
  const provider = await startProvider(ok);
  const { data, proxyHeaders, proxyLines, raw } = await startProxied(provider.port);
  const ask = (method: string, hops: string, more: Readonly<Record<string, string>> = {}) =>
    call(`${data}/proxy/x`, { method, headers: { ...proxyHeaders, "max-forwards": hops, ...more } });
  const hopsSeen = () =>
    provider.connections.flatMap((one) => one.requests()).map((one) => valuesOf(one, "max-forwards"));

  expect((await ask("OPTIONS", "7")).status).toBe(200);
  expect((await ask("OPTIONS", "1")).status).toBe(200);
  expect(hopsSeen()).toEqual([["6"], ["0"]]);

  const answered = await ask("OPTIONS", "0");
  expect([answered.status, answered.body, faultOf(answered)]).toEqual([204, "", undefined]);
  expect(fieldOf(answered, "allow")).toBe("GET, HEAD, POST, PUT, PATCH, DELETE, OPTIONS");
  expect(fieldOf(answered, "latchkey-version")).toBeDefined();
  // latchkey answers itself, and only to callers whose requests it would forward.
  expect(faultOf(await ask("OPTIONS", "0", { authorization: "Bearer lk_unknown" }))).toBe("unknown_key");
  expect(faultOf(await ask("OPTIONS", "0", { "connection-id": "nobody" }))).toBe("unknown_connection");
  expect(faultOf(await ask("OPTIONS", "some"))).toBe("invalid_headers");
  const twice = `OPTIONS /proxy/x HTTP/1.1\r\nHost: localhost\r\n${proxyLines}Max-Forwards: 5\r\nMax-Forwards: 0\r\n\r\n`;
  expect(await raw(twice)).toMatch(/latchkey-error: invalid_headers/i);
  const withBody = `OPTIONS /proxy/x HTTP/1.1\r\nHost: localhost\r\n${proxyLines}Max-Forwards: 0\r\nContent-Length: 4\r\n\r\nbody`;
  const again = `OPTIONS /proxy/x HTTP/1.1\r\nHost: localhost\r\n${proxyLines}Max-Forwards: 0\r\n\r\n`;
  const both = await raw(withBody + again);
  expect(both.match(/^HTTP\/1\.1 204 /gm)).toHaveLength(1);
  expect(both).toMatch(/^connection: close\r$/im);
  expect((await raw(again + again)).match(/^HTTP\/1\.1 204 /gm)).toHaveLength(2);
  expect(hopsSeen()).toHaveLength(2);

  // Other methods ignore the field (RFC 9110, 7.6.2).
  expect((await ask("GET", "0")).status).toBe(200);
  expect((await ask("POST", "many")).status).toBe(200);
  expect(hopsSeen().slice(2)).toEqual([["0"], ["many"]]);
  expect((await ask("TRACE", "0")).status).toBe(405);
  expect(provider.received()).not.toContain(secretKey);
});
