import type { ClientHttp2Session } from "node:http2";
import { expect, it } from "vitest";
import { Integration_Reflection, IntegrationService } from "../../../src/gen/latchkey/v1/integration_pb.ts";
import { type Doorway, type DoorwayName, type DoorwaySidecar, startDoorways } from "../../support/peers/doorways.ts";
import { askRaw, sendConnect } from "../../support/peers/forward-proxied.ts";
import { apiKey, type RecordingProvider, startProvider } from "../../support/peers/provider.ts";
import { head, openWire, statusOf } from "../../support/sidecar/door.ts";
import { expectSentAway } from "../../support/wire/flooding.ts";
import { contradictions, dial, opening } from "../../support/wire/hostile-http2.ts";
import { openSession, streamed } from "../../support/wire/http2-call.ts";
import { malformedHeads, usual } from "../../support/wire/malformed-http2.ts";
import { isOverHttp2, oddOverHttp2 } from "../../support/wire/odd-over-http2.ts";
import { answeringOddly, type OddRequest, oddRequests } from "../../support/wire/odd-requests.ts";
import { climbing, faithful, unsafe, wrongBaseUrls } from "../../support/wire/path-corpus.ts";
import { leftOver } from "../../support/wire/smuggling-run.ts";
import { type FramesPeer, flags, frame, literal, openFrames, uint32 } from "../control-plane/frames.ts";

/** The corpus of `/proxy`, over the other ways to a provider. Smuggling: cases/proxy/smuggling.test.ts. */

const names: readonly DoorwayName[] = ["/proxy", "alias", "absolute form", "tunnel"];

const codeIn = (answer: string) => /^latchkey-error: (.*)$/m.exec(answer)?.[1]?.trim();
const linesAt = ({ connections }: RecordingProvider) =>
  connections.flatMap(({ requests }) => requests()).map(({ line }) => line);

/** The status and the code of one request over HTTP/1.1. */
async function askHttp1({ address, target, host, lines }: Doorway, path: string, more = ""): Promise<string> {
  const wire = await openWire(address);
  const bytes = `GET ${target(path)} HTTP/1.1\r\nHost: ${host}\r\nConnection: close\r\n${lines}${more}\r\n`;
  wire.socket.write(bytes, "latin1");
  const answer = await wire.ended;
  return [statusOf(answer), codeIn(answer)].join(" ").trim();
}

/** The same over HTTP/2. */
async function askHttp2({ http2Address = "", target, host, headers }: Doorway, path: string): Promise<string> {
  const session = await openSession(http2Address);
  const answer = await streamed(session, target(path), { headers: { ...headers, ":authority": host } });
  session.destroy();
  return [answer.status, answer.headers["latchkey-error"]].join(" ").trim();
}

async function started(): Promise<DoorwaySidecar & { readonly provider: RecordingProvider }> {
  const provider = await startProvider();
  return { ...(await startDoorways(provider.port)), provider };
}

async function expectUnharmed({ metric, logged, doorways }: DoorwaySidecar): Promise<void> {
  expect(await askHttp1(doorways.tunnel, "/fine")).toBe("200");
  expect(await askHttp2(doorways.tunnel, "/fine")).toBe("200");
  expect((await metric("latchkey_unhandled_errors_total")) ?? 0).toBe(0);
  expect(logged.filter((line) => line.includes('"level":"error"'))).toEqual([]);
}

it("P11, P16 lets no path climb, and no line break through, on any way", async () => {
  const { doorways, provider } = await started();
  const paths = [...climbing, ...unsafe];
  const outcomes = await Promise.all(
    names.flatMap((name) =>
      paths.flatMap((path) => {
        const door = doorways[name];
        const first = askHttp1(door, path).then((outcome) => [name, path, outcome]);
        if (door.http2Address === undefined) return [first];
        return [first, askHttp2(door, path).then((outcome) => [`${name}, HTTP/2`, path, outcome])];
      }),
    ),
  );
  expect(outcomes.filter(([, , outcome]) => outcome !== "400 invalid_path")).toEqual([]);
  expect(outcomes).toHaveLength(7 * paths.length);
  expect(linesAt(provider)).toEqual([]);
});

it("P18 hands on the path and the query byte for byte, on any way", async () => {
  const { doorways, provider } = await started();
  const timesOf = (path: string) => linesAt(provider).filter((line) => line === `GET ${path} HTTP/1.1`).length;
  let times = 0;
  for (const name of names) {
    const door = doorways[name];
    const asks = door.http2Address === undefined ? [askHttp1] : [askHttp1, askHttp2];
    const outcomes = await Promise.all(asks.flatMap((ask) => faithful.map((path) => ask(door, path))));
    expect([name, new Set(outcomes)]).toEqual([name, new Set(["200"])]);
    times += asks.length;
    expect([name, faithful.map(timesOf)]).toEqual([name, faithful.map(() => times)]);
  }
});

it("P14, P19 opens no tunnel to a host by another spelling, and names none inside of a tunnel", async () => {
  const sidecar = await started();
  const { doorways, provider, proxy } = sidecar;
  const elsewhere = await startProvider();
  const own = `127.0.0.1:${provider.port}`;
  const spellings = wrongBaseUrls({ own, port: provider.port, elsewhere: elsewhere.port });
  const hosts = new Set([...spellings, ...spellings.map((one) => one.replace(/^[a-z]+:[/\\]*/, ""))]);
  hosts.delete(own);
  // Longer than any head may be.
  for (const host of hosts) if (host.length > 1_000) hosts.delete(host);
  const tunnels = await Promise.all([...hosts].map(async (host) => [host, (await sendConnect(proxy, host)).status]));
  expect(tunnels.filter(([, status]) => status !== 400 && status !== 403)).toEqual([]);
  const within = await Promise.all(
    [...hosts].map(async (host) => {
      const wire = await openWire(doorways.tunnel.address);
      wire.socket.write(head("GET /x HTTP/1.1", `Host: ${host}`), "latin1");
      return [host, statusOf(await wire.ended)];
    }),
  );
  expect(within.filter(([, status]) => status !== 400 && status !== 421)).toEqual([]);
  const overrides = await Promise.all(
    spellings.map(async (url) => [url, await askHttp1(doorways.tunnel, "/x", `Base-Url-Override: ${url}\r\n`)]),
  );
  expect(overrides.filter(([, outcome]) => !/^40[03] /.test(outcome ?? ""))).toEqual([]);
  expect(linesAt(provider)).toEqual([]);
  expect(elsewhere.connections).toHaveLength(0);
  await expectUnharmed(sidecar);
});

it("survives requests over HTTP/2 that contradict themselves, in a tunnel", async () => {
  const sidecar = await started();
  const { doorways, provider } = sidecar;
  const { http2Address: address = "", host } = doorways.tunnel;
  await Promise.all(
    contradictions.map(async ({ writes }) => {
      const { socket } = await dial({ address });
      const [first = Buffer.alloc(0), ...later] = writes({ path: "/contradicted", authority: host });
      socket.write(Buffer.concat([opening, first]));
      for (const bytes of later) {
        // What comes later is another packet.
        await new Promise((resolve) => setTimeout(resolve, 20));
        socket.write(bytes);
      }
      socket.end();
    }),
  );
  await expect.poll(() => sidecar.metric("latchkey_proxy_open")).toBe(0);
  await expectUnharmed(sidecar);
  // Nothing that a strict reader would not take for a request.
  await expect.poll(() => leftOver(provider)).toEqual([]);
});

it("sends no malformed head of HTTP/2 to a provider, on any way", async () => {
  const sidecar = await started();
  const { doorways, provider } = sidecar;
  const doors = names.map((name) => doorways[name]).filter(({ http2Address }) => http2Address !== undefined);
  const heads = Object.entries({ right: usual, ...malformedHeads });
  const send = async ({ http2Address = "", host, headers }: Doorway, headOf: typeof usual, path: string) => {
    const fields = headOf({ path, authority: host, more: Object.entries(headers) });
    const peer = await openFrames(http2Address);
    const payload = Buffer.concat(fields.map(([field, value]) => literal(field, value)));
    peer.send(frame("headers", { stream: 1, flags: flags.endHeaders | flags.endStream, payload }));
    await peer.until(() => peer.count("headers") > 0 || peer.reset(1) !== undefined || peer.goaway() !== undefined);
    peer.socket.destroy();
  };
  await Promise.all(
    doors.flatMap((door, way) => heads.map(([, headOf], n) => send(door, headOf, door.target(`/head-${way}-${n}`)))),
  );
  expect(linesAt(provider).toSorted()).toEqual(doors.map((_, way) => `GET /head-${way}-0 HTTP/1.1`));
  expect(doors).toHaveLength(3);
  await expectUnharmed(sidecar);
});

/** What one way answered, without what differs on purpose: the time, and addresses of the listener. */
async function outcomeOf({ address, target, host, lines }: Doorway, request: OddRequest): Promise<string> {
  const { method = "GET", path = "/x", version = "1.1", lines: more = [], body = "" } = request;
  const isKept = more.some((line) => line.startsWith("Connection:"));
  const all = [
    `${method} ${target(path)} HTTP/${version}`,
    `Host: ${host}`,
    ...more,
    ...(isKept ? [] : ["Connection: close"]),
  ];
  const wire = await openWire(address);
  const late = setTimeout(() => wire.socket.destroy(), 10_000);
  const bytes = `${all.join("\r\n")}\r\n${lines}\r\n${body}`;
  const text = await askRaw(wire.socket, bytes, (came) => isWholeAnswer(came, method));
  clearTimeout(late);
  wire.socket.destroy();
  const isOurs = /^latchkey-error: /m.test(text);
  const [head = "", ...rest] = text.split("\r\n\r\n");
  const [status = "", ...fields] = head.split("\r\n");
  const kept = fields
    .filter((field) => !isOurs || /^latchkey-error:/.test(field))
    .filter((field) => !/^date:/i.test(field));
  // A link of the provider leads to the way that it came by.
  const whole = [status, ...kept, ...(isOurs ? [] : rest)].join("\n");
  return whole.replace(/^Link: <.*\//m, "Link: </");
}

function isWholeAnswer(text: string, method: string): boolean {
  const [head = "", ...rest] = text.split("\r\n\r\n");
  if (rest.length === 0 || /^HTTP\/1\.1 10[03] /.test(head)) return false;
  if (method === "HEAD" || /^HTTP\/1\.1 101 /.test(head)) return true;
  const length = /\r\ncontent-length: (\d+)/i.exec(head)?.[1];
  return length !== undefined && rest.join("\r\n\r\n").length >= Number(length);
}

it("answers odd requests, upgrades and echoed credentials alike on any way", async () => {
  const provider = await startProvider(answeringOddly(apiKey));
  const { doorways, client, metric } = await startDoorways(provider.port);
  const streaming = names.map((name) => doorways[name]).filter(({ http2Address }) => http2Address !== undefined);
  const sessions = await Promise.all(streaming.map(({ http2Address = "" }) => openSession(http2Address)));
  /** The ways over HTTP/2 differ in nothing, and from HTTP/1.1 neither in the status nor in the code. */
  const answersOverHttp2 = async (request: OddRequest) => {
    const pairs = streaming.map((door, i) => [door, sessions[i] as ClientHttp2Session] as const);
    const all = await Promise.all(pairs.map(([door, session]) => oddOverHttp2(session, door, request)));
    expect(all.map(({ whole }) => whole)).toEqual(all.map(() => all[0]?.whole));
    return all.map(({ status, error }) => [status, error].join(" ").trim());
  };
  expect(Object.values(oddRequests).filter(isOverHttp2).length).toBeGreaterThan(25);
  const same = (text: string) => {
    const last = text
      .match(/^HTTP\/1\.1 \d{3}/gm)
      ?.at(-1)
      ?.slice(9);
    return streaming.map(() => [last, codeIn(text)].join(" ").trim());
  };
  for (const how of ["OFF", "MASK", "REFUSE"] as const) {
    await client(IntegrationService).updateIntegration({
      integration: { environment: "dev", key: "here", reflection: Integration_Reflection[how] },
      updateMask: { paths: ["reflection"] },
    });
    const seen = new Set<number>();
    // What answers are looked at for changes nothing else.
    const left = Object.entries(oddRequests).filter(
      ([what]) => how === "OFF" || /echo|credential|WebSocket$/.test(what),
    );
    const work = async () => {
      for (let next = left.shift(); next !== undefined; next = left.shift()) {
        const [what, request] = next;
        const [first = "", ...others] = await Promise.all(names.map((name) => outcomeOf(doorways[name], request)));
        expect([how, what, others]).toEqual([how, what, others.map(() => first)]);
        if (isOverHttp2(request)) expect([what, ...(await answersOverHttp2(request))]).toEqual([what, ...same(first)]);
        if (how !== "OFF") expect([how, what, first.includes(apiKey)]).toEqual([how, what, false]);
        seen.add(statusOf(first));
      }
    };
    await Promise.all([work(), work(), work()]);
    const statuses = {
      ...{ OFF: [100, 101, 103, 200, 204, 302, 400, 403, 405, 501, 502], MASK: [103, 200, 302, 501] },
      REFUSE: [103, 200, 501, 502],
    };
    expect([how, [...seen].toSorted((a, b) => a - b)]).toEqual([how, statuses[how]]);
  }
  await expect.poll(() => metric("latchkey_proxy_open")).toBe(0);
});

/** Whether the request itself names the provider's host. */
const namesHost = (name: DoorwayName): boolean => name === "absolute form" || name === "tunnel";

it("reads the fields for Latchkey alike on any way, and hands on none of them", async () => {
  const [provider, other] = [await startProvider(), await startProvider()];
  const at = ({ port }: RecordingProvider) => `https://127.0.0.1:${port}`;
  const hosts = [{ origin: at(other) }];
  const { doorways } = await startDoorways(provider.port, {
    provider: { proxy: { baseUrl: at(provider), hosts } },
    env: { LATCHKEY_ALLOW_PRIVATE: [provider, other].map(({ port }) => `http://127.0.0.1:${port}`).join() },
  });
  const contradicts = "400 invalid_headers";
  /** Field, value, the outcome where the path alone is the provider's, and where the request names the host. */
  const cases: readonly (readonly [name: string, value: string, outcome: string, whereHostIsNamed?: string])[] = [
    ["Base-Url-Override", "", "200"],
    ["Base-Url-Override", at(provider), "200"],
    ["Base-Url-Override", at(other), "200", contradicts],
    ["Base-Url-Override", `${at(provider)}/v9`, "200", contradicts],
    ["Base-Url-Override", "https://evil.test", "403 host_not_allowed"],
    ["Base-Url-Override", at(provider).replace("https:", "http:"), "403 host_not_allowed"],
    ["Base-Url-Override", `https://a.test/${"x".repeat(2_048)}`, "403 host_not_allowed"],
    ["Retries", "2", "200"],
    ["Retries", "11", "400 invalid_headers"],
    ["Retry-On", "500, 502", "200"],
    ["Retry-On", "all", "400 invalid_headers"],
    ["Latchkey-Token", "", "200"],
    ["Latchkey-Token", "Not A Name", "400 invalid_headers"],
    ["Latchkey-Token", "user", "400 invalid_headers"],
    ["Latchkey-Subject-Token", "a.b.c", "400 invalid_headers"],
    ["Latchkey-Priority", "background", "200"],
    ["Decompress", "true", "200"],
    ["Forward-Headers-On-Redirect", "true", "200"],
    ["Nango-Is-Sync", "true", "200"],
  ];
  const seen = await Promise.all(
    names.flatMap((name) =>
      cases.map(async ([field, value, plain, named = plain]) => {
        const door = doorways[name];
        const http1 = await askHttp1(door, "/steered", `${field}: ${value}\r\n`);
        const headers = { ...door.headers, [field.toLowerCase()]: value };
        const http2 = door.http2Address === undefined ? http1 : await askHttp2({ ...door, headers }, "/steered");
        const expected = namesHost(name) ? named : plain;
        return [
          [name, field, value, http1, http2],
          [name, field, value, expected, expected],
        ] as const;
      }),
    ),
  );
  expect(seen.map(([got]) => got)).toEqual(seen.map(([, expected]) => expected));
  const arrived = [provider, other].flatMap(({ connections }) => connections.flatMap(({ requests }) => requests()));
  const own = new Set(cases.map(([name]) => name.toLowerCase()));
  expect(arrived.flatMap(({ fields }) => fields).filter(([name]) => own.has(name))).toEqual([]);
  // HTTP/1.1 and HTTP/2 of `/proxy` and of the alias.
  expect(linesAt(other)).toEqual(Array(4).fill("GET /steered HTTP/1.1"));
});

it("takes the connection that a request names, except where the listener has one", async () => {
  const { doorways } = await started();
  const naming = (integration: string, id: string) => `Provider-Config-Key: ${integration}\r\nConnection-Id: ${id}\r\n`;
  const ask = (name: DoorwayName, lines: string) => {
    const door = doorways[name];
    const key = door.lines.split("\r\n").filter((line) => line.startsWith("authorization:"));
    return askHttp1({ ...door, lines: "" }, "/named", [...key, lines].join("\r\n"));
  };
  const outcomes = async (lines: string) => Promise.all(names.map((name) => ask(name, lines)));
  const missing = "404 unknown_connection";
  expect(await outcomes(naming("here", "ada"))).toEqual(["200", "200", "200", "200"]);
  expect(await outcomes(naming("here", "bob"))).toEqual([missing, "200", missing, missing]);
  const half = "400 invalid_headers";
  expect(await outcomes("Connection-Id: ada\r\n")).toEqual([half, "200", half, half]);
  expect(await outcomes("Provider-Config-Key: here\r\n")).toEqual([half, "200", half, half]);
});

const floods: Readonly<Record<string, (peer: FramesPeer, head: Buffer) => void>> = {
  "opens and resets streams"(peer, payload) {
    for (let i = 0; i < 5_000; i += 1) {
      const stream = 2 * i + 1;
      peer.send(
        frame("headers", { stream, flags: flags.endHeaders | flags.endStream, payload }),
        frame("reset", { stream, payload: uint32(8) }),
      );
    }
  },
  "never ends a header block"(peer, payload) {
    peer.send(frame("headers", { stream: 1, flags: flags.endStream, payload }));
    for (let i = 0; i < 2_000; i += 1) {
      peer.send(frame("continuation", { stream: 1, payload: literal("x", "y".repeat(100)) }));
    }
  },
  "sends PING without end"(peer) {
    for (let i = 0; i < 20_000; i += 1) peer.send(frame("ping", { payload: Buffer.alloc(8) }));
  },
  "sends SETTINGS without end"(peer) {
    for (let i = 0; i < 20_000; i += 1) peer.send(frame("settings"));
  },
};

it.each(Object.entries(floods))("G13, G14 closes a tunnel whose client %s", async (_, flood) => {
  const sidecar = await started();
  const { http2Address = "", host } = sidecar.doorways.tunnel;
  const peer = await openFrames(http2Address);
  const payload = Buffer.concat([
    // `:method: GET` and `:scheme: http` of the static table.
    Buffer.from([0x82, 0x86]),
    literal(":path", "/flooded"),
    literal(":authority", host),
  ]);
  await expectSentAway(sidecar, peer, () => flood(peer, payload));
  await expect.poll(() => sidecar.metric("latchkey_proxy_open")).toBe(0);
  await expectUnharmed(sidecar);
});
