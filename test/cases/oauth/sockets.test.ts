import { once } from "node:events";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { expect, it, onTestFinished } from "vitest";
import { WebSocket } from "ws";
import { createBrowserCookies } from "../../../src/data-plane/connect/browser-cookie.ts";
import { createConnectSockets } from "../../../src/data-plane/connect/connect-sockets.ts";
import { EnvironmentService } from "../../../src/gen/latchkey/v1/environment_pb.ts";
import { appOrigin, broughtBackTo, type Connecting, connecting, departure } from "../../support/sidecar/connecting.ts";

async function listening({ sidecar }: Connecting, origin?: string) {
  const socket = new WebSocket(`${sidecar.data.replace("http:", "ws:")}/`, origin === undefined ? {} : { origin });
  const heard: Record<string, unknown>[] = [];
  socket.on("message", (text) => void heard.push(JSON.parse(String(text))));
  await once(socket, "message");
  return { socket, heard, id: String(heard[0]?.["ws_client_id"]) };
}

it("sends the outcome to the waiting page, in the messages of the frontend SDK", async () => {
  const all = await connecting();
  const page = await listening(all, appOrigin);
  expect(page.heard).toEqual([
    { message_type: "connection_ack", ws_client_id: expect.stringMatching(/^[A-Za-z0-9_-]{22}$/) },
  ]);
  const shown = await all.browser().go(departure(all, await all.session(), { ws_client_id: page.id }));
  const [item] = await all.connections();
  expect(page.heard[1]).toEqual({
    message_type: "success",
    provider_config_key: "sandbox-files",
    connection_id: item?.connection_id,
    is_pending: false,
  });
  // The window that opened tells its opener as well: that origin alone.
  expect(shown.text).toContain(`data-to="${appOrigin}"`);
  page.socket.close();
});

it("sends it what went wrong, on the way there and on the way back", async () => {
  const all = await connecting({ sandbox: { behaviour: { consent: "deny" } } });
  const page = await listening(all);
  await all.browser().go(departure(all, await all.session(), { ws_client_id: page.id }));
  await all.browser().go(departure(all, "lk_connect_x", { ws_client_id: page.id }));
  expect(page.heard.slice(1).map((one) => [one["message_type"], one["error_type"]])).toEqual([
    ["error", "denied"],
    ["error", "unknown_session"],
  ]);
  page.socket.close();
});

it("sends the outcome to no other page", async () => {
  const all = await connecting();
  const [mine, theirs] = [await listening(all), await listening(all)];
  expect(mine.id).not.toBe(theirs.id);
  await all.browser().go(departure(all, await all.session(), { ws_client_id: mine.id }));
  expect([mine.heard.length, theirs.heard.length]).toEqual([2, 1]);
  for (const { socket } of [mine, theirs]) socket.close();
});

it.each(["https://evil.test", "null", `${appOrigin}.evil.test`])(
  "K02 opens no WebSocket to a page of %s",
  async (origin) => {
    const all = await connecting();
    const socket = new WebSocket(`${all.sidecar.data.replace("http:", "ws:")}/`, { origin });
    const [error] = await once(socket, "error");
    expect(String(error)).toContain("403");
  },
);

it("tells a refused page the reason, and the operator its origin", async () => {
  const all = await connecting();
  const base = all.sidecar.data.replace("http:", "ws:");
  const headers = { "user-agent": "Mozilla/5.0 (X11; Linux x64)" };
  for (let i = 0; i < 2; i += 1) {
    const socket = new WebSocket(`${base}/`, { origin: "https://forgotten.example", headers });
    const [text] = await once(socket, "message");
    expect(JSON.parse(String(text))).toMatchObject({
      message_type: "error",
      error_type: "origin_not_allowed",
      error_desc: expect.stringContaining("https://forgotten.example"),
    });
    expect((await once(socket, "close"))[0]).toBe(1008);
  }
  const lines = all.sidecar.logged
    .map((line) => JSON.parse(line))
    .filter(({ reason }) => reason === "origin_not_allowed");
  // One log line a minute for each origin.
  expect(lines).toHaveLength(1);
  expect(lines[0]).toMatchObject({ origin: "https://forgotten.example", environment: "dev", door: "data" });
  expect(await all.sidecar.metric('latchkey_refused_total{door="data",reason="origin_not_allowed"}')).toBe(2);
  expect(await all.sidecar.metric("latchkey_connect_sockets_open")).toBe(0);
});

it("gives the page of another environment's origin the same answer before anything starts", async () => {
  const all = await connecting();
  const other = "https://other.example";
  await all.sidecar.client(EnvironmentService).createEnvironment({ name: "other", allowedOrigins: [other] });
  const page = await listening(all, other);
  const answer = await all.browser().get(departure(all, await all.session(), { ws_client_id: page.id }));
  expect([answer.status, page.heard[1]?.["error_type"]]).toEqual([403, "origin_not_allowed"]);
  const line = all.sidecar.logged.map((one) => JSON.parse(one)).find(({ reason }) => reason === "origin_not_allowed");
  expect(line).toMatchObject({ origin: other, environment: "dev" });
  page.socket.close();
});

it("opens no socket for another host or path, and reads no messages", async () => {
  const all = await connecting();
  const base = all.sidecar.data.replace("http:", "ws:");
  const refused = async (url: string, headers = {}) =>
    String((await once(new WebSocket(url, { headers }), "error"))[0]);
  expect(await refused(`${base}/`, { host: "evil.test" })).toContain("421");
  expect(await refused(`${base}/connections`)).toContain("401");
  const { socket } = await listening(all);
  socket.send("hello");
  expect((await once(socket, "close"))[0]).toBe(1008);
  const large = await listening(all);
  large.socket.send("x".repeat(2_000));
  expect((await once(large.socket, "close"))[0]).toBe(1009);
});

it("blocks no authorization, however many sockets are open", {
  timeout: 30_000,
}, async () => {
  const all = await connecting();
  const early = await listening(all);
  const away = departure(all, await all.session(), { ws_client_id: early.id });
  const browser = all.browser();
  const back = await broughtBackTo(all, browser, away);
  const idle = await Promise.all(Array.from({ length: 1_999 }, () => listening(all)));
  const evicted = once(idle[0]?.socket ?? early.socket, "close");
  const late = await listening(all, appOrigin);
  expect((await evicted)[0]).toBe(1013);
  expect(await all.sidecar.metric("latchkey_connect_sockets_open")).toBe(2_000);
  await browser.go(back);
  expect(early.heard[1]).toMatchObject({ message_type: "success" });
  await all.browser().go(departure(all, await all.session(), { ws_client_id: late.id }));
  expect(late.heard[1]).toMatchObject({ message_type: "success" });
  for (const { socket } of [early, late, ...idle]) socket.terminate();
});

it("counts the open sockets, and closes them on stop", async () => {
  const all = await connecting();
  const { socket } = await listening(all);
  expect(await all.sidecar.metric("latchkey_connect_sockets_open")).toBe(1);
  const closed = once(socket, "close");
  await all.sidecar.stop();
  expect((await closed)[0]).toBe(1001);
  expect(await all.sidecar.metric("latchkey_connect_sockets_open")).toBe(0);
});

it("limits the sockets of one session's holder", async () => {
  const all = await connecting();
  const { sidecar, world, data } = all.sidecar;
  const cookies = createBrowserCookies(() => data);
  const sockets = createConnectSockets({ cookies, outcomes: sidecar.broker.outcomes, world, maxPages: 12 });
  const server = createServer().on("upgrade", (request, socket, early) => {
    try {
      sockets.join(request, socket, early);
    } catch {
      socket.end("HTTP/1.1 503 Service Unavailable\r\n\r\n");
    }
  });
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  onTestFinished(() => {
    sockets.close();
    server.close();
  });
  const open = async () => {
    const socket = new WebSocket(`ws://127.0.0.1:${(server.address() as AddressInfo).port}/`);
    const [text] = await once(socket, "message");
    return { socket, id: String(JSON.parse(String(text)).ws_client_id) };
  };
  const first = await open();
  sockets.nameBy(first.id, "of-somebody-else");
  for (let i = 0; i < 11; i += 1) sockets.nameBy((await open()).id, "of-one-holder");
  // Each one finds a slot, and takes none from other holders.
  for (let i = 0; i < 3; i += 1) sockets.nameBy((await open()).id, "of-one-holder");
  const late = await open();
  sockets.nameBy(late.id, "of-a-third");
  expect([first, late].map(({ id }) => sockets.send(id, denied))).toEqual([true, true]);
});

const denied = {
  message_type: "error",
  provider_config_key: "x",
  connection_id: "",
  error_type: "denied",
  error_desc: "",
} as const;
