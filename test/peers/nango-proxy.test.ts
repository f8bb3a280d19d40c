import { Nango } from "@nangohq/node";
import { expect, it } from "vitest";
import { secretKey } from "../support/sidecar/harness.ts";
import { type Answered, type Asked, expectAllClean, startOrigin } from "./origin.ts";

/** The SDK's proxy, as its users call it. */

const at = { providerConfigKey: "here", connectionId: "ada" };

async function startNango(answer: (asked: Asked) => Answered) {
  const origin = await startOrigin(answer);
  return { origin, nango: new Nango({ host: origin.data, secretKey }) };
}

const echo = ({ method, url, body, headers }: Asked): Answered => ({
  headers: { "x-own": "kept" },
  body: { method, url, body, type: headers["content-type"] ?? null },
});

it("sends every verb with its path, parameters and body", async () => {
  const { origin, nango } = await startNango(echo);
  const data = { name: "ü", n: 1 };
  const get = await nango.get({ ...at, endpoint: "/drive/v3/files", params: { pageSize: 10, q: "a b" } });
  expect(get.data).toMatchObject({ method: "GET", url: "/drive/v3/files?pageSize=10&q=a+b", body: "" });
  expect(get.headers["x-own"]).toBe("kept");
  const json = { body: JSON.stringify(data), type: "application/json" };
  expect((await nango.post({ ...at, endpoint: "/v1/a", data })).data).toMatchObject({ method: "POST", ...json });
  expect((await nango.put({ ...at, endpoint: "/v1/a", data })).data).toMatchObject({ method: "PUT", ...json });
  expect((await nango.patch({ ...at, endpoint: "/v1/a", data })).data).toMatchObject({ method: "PATCH", ...json });
  expect((await nango.delete({ ...at, endpoint: "/v1/a?b=c" })).data).toMatchObject({
    method: "DELETE",
    url: "/v1/a?b=c",
  });
  const through = await nango.proxy({
    ...at,
    method: "POST",
    endpoint: "v1/a",
    data: "raw",
    headers: { "X-Mine": "m" },
  });
  expect(through.data).toMatchObject({ method: "POST", url: "/v1/a", body: "raw" });
  expect(origin.asked.at(-1)?.headers).toMatchObject({ "x-mine": "m" });
  expectAllClean(origin);
});

it("hands on the caller's fields, and none that would speak for latchkey or the connection", async () => {
  const { origin, nango } = await startNango(echo);
  await nango.get({
    ...at,
    endpoint: "/v1",
    headers: { Accept: "text/csv", Host: "evil.example", "Transfer-Encoding": "chunked", Authorization: "Bearer mine" },
  });
  const { headers } = origin.asked[0] as Asked;
  expect(headers.accept).toBe("text/csv");
  expect(headers.host).toMatch(/^127\.0\.0\.1:\d+$/);
  expect(headers).not.toHaveProperty("transfer-encoding");
  expectAllClean(origin);
});

it("retries on request, on the caller's statuses", async () => {
  let count = 0;
  const { origin, nango } = await startNango(() => {
    count += 1;
    return count < 3 ? { status: count === 1 ? 503 : 418, headers: { "retry-after": "0" } } : { body: { ok: true } };
  });
  const { data } = await nango.get({ ...at, endpoint: "/v1", retries: 5, retryOn: [418] });
  expect([data, origin.asked.length]).toEqual([{ ok: true }, 3]);
  expectAllClean(origin);
});

it("goes to another host of the provider's, and to no other", async () => {
  const { origin, nango } = await startNango(echo);
  const own = `${origin.config.allowPrivate[0]?.replace("http:", "https:")}/other/base`;
  expect((await nango.get({ ...at, endpoint: "/v1", baseUrlOverride: own })).data.url).toBe("/other/base/v1");
  const away = nango.get({ ...at, endpoint: "/v1", baseUrlOverride: "https://evil.example" });
  await expect(away).rejects.toMatchObject({
    response: { status: 403, headers: { "latchkey-error": "host_not_allowed" } },
  });
  expect(origin.asked).toHaveLength(1);
  expectAllClean(origin);
});

it("streams an answer of any type", async () => {
  const bytes = "\u0000binary\u0001".repeat(50_000);
  const { nango } = await startNango(() => ({ headers: { "content-type": "application/octet-stream" }, body: bytes }));
  const { data } = await nango.get({ ...at, endpoint: "/v1/file", responseType: "arraybuffer" });
  expect(Buffer.from(data as ArrayBuffer).toString()).toBe(bytes);
});

it("shows the provider's errors unchanged, and latchkey's as its own", async () => {
  const { nango } = await startNango(() => ({ status: 409, body: { error: "taken" } }));
  const failure = await nango.post({ ...at, endpoint: "/v1" }).catch((error) => error.response);
  expect([failure.status, failure.data]).toEqual([409, { error: "taken" }]);
  expect(failure.headers).not.toHaveProperty("latchkey-error");
  const unknown = await nango.get({ ...at, connectionId: "eve", endpoint: "/v1" }).catch((error) => error.response);
  expect([unknown.status, unknown.headers["latchkey-error"]]).toEqual([404, "unknown_connection"]);
});
