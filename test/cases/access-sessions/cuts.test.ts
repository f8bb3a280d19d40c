import { once } from "node:events";
import http from "node:http";
import { expect, it, onTestFinished } from "vitest";
import { WebSocket } from "ws";
import { parseChangeable } from "../../../src/config/config.ts";
import { Scope } from "../../../src/gen/latchkey/v1/access_pb.ts";
import { EnvironmentService } from "../../../src/gen/latchkey/v1/environment_pb.ts";
import { startTestEdge } from "../../support/edges/test-edge.ts";
import { openSession } from "../../support/wire/http2-call.ts";
import { aliases, type SessionSidecar, startForSessions, unhurried } from "./faces.ts";

type Place = Pick<SessionSidecar, "data" | "config"> & { readonly alias: string };

const namedWith = (secret: string | undefined) => ({
  "provider-config-key": "here",
  "connection-id": "ada",
  ...(secret !== undefined && { authorization: `Bearer ${secret}` }),
});

type Opening = (place: Place, secret: string | undefined, onEnd: () => void) => Promise<unknown>;

/** Asks for the event stream, and resolves once its first event is there. */
async function eventsAt(address: string, options: http.RequestOptions, onEnd: () => void): Promise<unknown> {
  const request = http.request(address, { ...options, agent: false }).end();
  const [response] = (await once(request, "response")) as [http.IncomingMessage];
  expect(response.statusCode).toBe(200);
  response.on("error", () => {}).once("close", onEnd);
  return once(response, "data");
}

/** What lasts, over each way that leads to a provider. */
const ways: Readonly<Record<string, Opening>> = {
  "an event stream": ({ data }, secret, onEnd) =>
    eventsAt(`${data}/proxy/events`, { headers: namedWith(secret) }, onEnd),
  "an event stream of an alias": ({ alias }, secret, onEnd) => {
    const headers = secret === undefined ? {} : { authorization: `Bearer ${secret}` };
    return eventsAt(`${alias}/events`, { headers }, onEnd);
  },
  "an event stream in absolute form": ({ data, config }, secret, onEnd) => {
    const path = `${config.allowPrivate[0] ?? ""}/events`;
    return eventsAt(data, { path, headers: namedWith(secret) }, onEnd);
  },
  "an event stream over HTTP/2": async ({ data }, secret, onEnd) => {
    const client = await openSession(data);
    const stream = client.request({ ":path": "/proxy/events", ...namedWith(secret) });
    stream.on("error", () => {}).once("close", onEnd);
    return once(stream, "data");
  },
  "a WebSocket": async ({ data }, secret, onEnd) => {
    const socket = new WebSocket(`${data.replace("http", "ws")}/proxy/x`, { headers: namedWith(secret) });
    onTestFinished(() => socket.terminate());
    socket.once("close", onEnd);
    return once(socket, "open");
  },
};

/** Opens everything, and returns what is still open. */
async function openAll(place: Place, secret: string | undefined): Promise<() => readonly string[]> {
  const open = new Set(Object.keys(ways));
  for (const [name, begin] of Object.entries(ways)) await begin(place, secret, () => open.delete(name));
  return () => [...open];
}

const path = "/config";
const declared = { id: "declared", key: { env: "DECLARED_KEY" } };
const declaredSecret = "lk_a-secret-of-the-key-in-the-file-001";
const uid = process.getuid?.() ?? -1;
const byUser = { unix: { uid }, environment: "dev" };

interface Declared {
  readonly keys?: readonly object[];
  readonly rules?: readonly object[];
}

async function start() {
  const fileOf = ({ keys = [], rules = [] }: Declared) =>
    JSON.stringify({ aliases, ...unhurried, environments: [{ name: "dev", keys }], identities: { rules } });
  const env = { LATCHKEY_CONFIG: path, DECLARED_KEY: declaredSecret };
  const all = { keys: [declared], rules: [byUser] };
  const running = await startForSessions({ env, files: { [path]: fileOf(all) } });
  const declare = (what: Declared) =>
    running.sidecar.reload(() =>
      parseChangeable({ path, env, files: { read: () => ({ text: fileOf(what), mode: 0o600 }) } }),
    );
  return { running, declare, all, place: { ...running, alias: running.sidecar.aliases["ada"] ?? "" } };
}

const soon = { interval: 20 };

it("cuts what is open of a key that is revoked, and of no other key", async () => {
  const { running, place } = await start();
  const keys = running.client(EnvironmentService);
  const [first, second] = [await keys.createKey({ environment: "dev" }), await keys.createKey({ environment: "dev" })];
  const openOfFirst = await openAll(place, first.secret);
  const openOfSecond = await openAll(place, second.secret);
  await keys.revokeKey({ id: first.key?.id ?? "" });
  await expect.poll(openOfFirst, soon).toEqual([]);
  // Rotated with an overlap, a key still counts.
  await keys.rotateKey({ id: second.key?.id ?? "", overlap: { seconds: 60n } });
  const openOfThird = await openAll(place, (await keys.createKey({ environment: "dev", id: "third" })).secret);
  await keys.revokeKey({ id: "third" });
  await expect.poll(openOfThird, soon).toEqual([]);
  expect(openOfSecond()).toEqual(Object.keys(ways));
});

it("cuts what a key in the file may not have any more, and all of it once the key is gone", async () => {
  const { declare, all, place } = await start();
  const open = await openAll(place, declaredSecret);
  await declare({ ...all, keys: [{ ...declared, limits: { paths: ["/events"] } }] });
  await expect.poll(open, soon).toEqual(Object.keys(ways).filter((name) => name !== "a WebSocket"));
  await declare({ ...all, keys: [] });
  await expect.poll(open, soon).toEqual([]);
});

it.skipIf(process.platform !== "linux")("cuts what is open of an identity that no rule fits any more", async () => {
  const { declare, all, place } = await start();
  const open = await openAll(place, undefined);
  const others = { unix: { uid: uid + 1 }, environment: "dev" };
  await declare({ ...all, rules: [others, { ...byUser, limits: { paths: ["/x"] } }] });
  await expect.poll(open, soon).toEqual(["a WebSocket"]);
  await declare({ ...all, rules: [others] });
  await expect.poll(open, soon).toEqual([]);
});

it("cuts on an edge what is open of a key that is revoked at its broker", async () => {
  const { running } = await start();
  const keys = running.client(EnvironmentService);
  const { secret: edgeSecret } = await keys.createKey({ environment: "dev", scopes: [Scope.EDGE] });
  const edge = await startTestEdge({
    brokers: [running.control],
    env: {
      LATCHKEY_BROKERS_KEY: edgeSecret,
      LATCHKEY_ALLOW_PRIVATE: running.config.allowPrivate.join(","),
      LATCHKEY_CONFIG: path,
    },
    files: { [path]: JSON.stringify({ aliases, ...unhurried }) },
  });
  const place = { config: running.config, data: edge.data, alias: edge.aliases["ada"] ?? "" };
  const { key, secret } = await keys.createKey({ environment: "dev" });
  const other = await keys.createKey({ environment: "dev" });
  const [open, openOfOther] = [await openAll(place, secret), await openAll(place, other.secret)];
  await keys.revokeKey({ id: key?.id ?? "" });
  await expect.poll(open, soon).toEqual([]);
  expect(openOfOther()).toEqual(Object.keys(ways));
});
