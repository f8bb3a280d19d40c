import { execFile } from "node:child_process";
import { fileURLToPath } from "node:url";
import { promisify } from "node:util";
import { expect, it } from "vitest";
import type { Plain } from "../cases/control-plane/foreign.ts";
import { methods } from "../cases/control-plane/services.ts";
import { sidecarOfFile } from "../support/sidecar/door.ts";
import { keyedConnection, secretKey } from "../support/sidecar/harness.ts";

/** `buf curl`, which learns the API from the server's reflection. */

const running = sidecarOfFile();
const buf = fileURLToPath(new URL("../../node_modules/.bin/buf", import.meta.url));
const list = "latchkey.v1.ConnectionService/ListConnections";

async function curl(method: string, ...args: readonly string[]): Promise<string> {
  const url = method === "" ? running().control : `${running().control}/${method}`;
  const { stdout } = await promisify(execFile)(buf, ["curl", ...args, url], { timeout: 25_000 });
  return stdout;
}

const asKey = ["--header", `Authorization: Bearer ${secretKey}`];

it.each(["grpc", "grpcweb", "connect"])("serves buf curl over %s, by reflection", async (protocol) => {
  await running().rest("POST", "/connections", { body: keyedConnection(`by-${protocol}`) });
  // Without TLS, HTTP/2 requires prior knowledge.
  const speak = ["--protocol", protocol, "--http2-prior-knowledge"];
  const answer = await curl(list, ...speak, ...asKey, "--data", `{"filter":{"id":"by-${protocol}"}}`);
  expect((JSON.parse(answer) as Plain)["connections"]).toMatchObject([{ ref: { id: `by-${protocol}` } }]);
});

it.each(["grpc-v1", "grpc-v1alpha"])(
  "lists every method to buf curl by the reflection protocol %s",
  async (version) => {
    const listed = await curl("", "--list-methods", "--reflect-protocol", version, "--http2-prior-knowledge");
    for (const { parent, name } of methods) expect(listed).toContain(`${parent.typeName}/${name}`);
    expect(listed).toContain("grpc.health.v1.Health/Check");
  },
);

it("serves buf curl over HTTP/1.1", async () => {
  const schema = fileURLToPath(new URL("../../proto", import.meta.url));
  const answer = await curl(list, "--protocol", "connect", "--schema", schema, ...asKey, "--data", "{}");
  expect(JSON.parse(answer)).toHaveProperty("connections");
});

it("reports errors to buf curl", async () => {
  const failed = curl(list, "--protocol", "grpc", "--http2-prior-knowledge", "--data", "{}");
  await expect(failed).rejects.toThrow(/unauthenticated/);
});

it("answers a plain POST of JSON", async () => {
  const answer = await fetch(`${running().control}/${list}`, {
    method: "POST",
    headers: { authorization: `Bearer ${secretKey}`, "content-type": "application/json" },
    body: "{}",
  });
  expect(answer.status).toBe(200);
  expect(answer.headers.get("content-type")).toBe("application/json");
  expect(await answer.json()).toHaveProperty("connections");
});

it.each(["0", "1"])("answers a GET of a reading method (base64=%s)", async (base64) => {
  const request = JSON.stringify({ filter: { id: "nobody" } });
  const message = base64 === "1" ? Buffer.from(request).toString("base64url") : request;
  const query = new URLSearchParams({ connect: "v1", encoding: "json", base64, message });
  const answer = await fetch(`${running().control}/${list}?${query}`, {
    headers: { authorization: `Bearer ${secretKey}` },
  });
  expect(answer.status).toBe(200);
  expect(await answer.json()).toEqual({});
});
