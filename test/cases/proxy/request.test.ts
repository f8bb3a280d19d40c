import { once } from "node:events";
import { connect } from "node:net";
import { expect, it } from "vitest";
import {
  apiKey,
  ok,
  type ProxiedSidecar,
  type RecordedRequest,
  startProvider,
  startProxied,
} from "../../support/peers/provider.ts";
import { openWire } from "../../support/sidecar/door.ts";
import { secretKey } from "../../support/sidecar/harness.ts";

const statusOf = (answer: string) => Number(/^HTTP\/1\.1 (\d{3})/.exec(answer)?.[1]);
const statusesOf = (answers: string) =>
  [...answers.matchAll(/HTTP\/1\.[01] (\d{3}) /g)].map(([, status]) => Number(status));
const codeOf = (answer: string) => /^latchkey-error: (.*)$/m.exec(answer)?.[1]?.trim();
const valuesOf = ({ fields }: RecordedRequest, name: string) =>
  fields.filter(([one]) => one === name).map(([, value]) => value);

/** A provider, a connection to it, and a way to send requests. */
async function startBoth(options: Parameters<typeof startProxied>[1] = {}) {
  const provider = await startProvider();
  const sidecar = await startProxied(provider.port, options);
  const requests = () => provider.connections.flatMap((one) => one.requests());
  /** Sends one request with these field lines, each with its line break. */
  const ask = (fields = "", { line = "GET /proxy/x HTTP/1.1", body = "", lines = sidecar.proxyLines } = {}) =>
    sidecar.raw(`${line}\r\nHost: localhost\r\nConnection: close\r\n${lines}${fields}\r\n${body}`);
  return { ...sidecar, provider, requests, ask };
}

const secondRequest = "GET /admin/hidden HTTP/1.1\r\nHost: a\r\nX-Pad: ";
const chunk = (text: string) => `${text.length.toString(16)}\r\n${text}\r\n0\r\n\r\n`;

// Libraries that forward these methods without a length take their bodies to be empty, and send them unframed.
it.each(["DELETE", "OPTIONS", "GET", "HEAD", "POST", "PATCH", "PROPFIND", "QUERY", "PURGE"])(
  "P01 P02 frames the chunked body of %s, so that it cannot become another request",
  async (method) => {
    const provider = await startProvider((request, socket, count) => {
      // An answer to HEAD has no body (RFC 9110, 9.3.2).
      if (!request.line.startsWith("HEAD")) ok(request, socket, count);
      else socket.write("HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\n");
    });
    const { raw, proxyLines } = await startProxied(provider.port);
    const requests = () => provider.connections.flatMap((one) => one.requests());
    const head = `${method} /proxy/x HTTP/1.1\r\nHost: localhost\r\n${proxyLines}Transfer-Encoding: chunked\r\n\r\n`;
    const [attacker, victim] = [
      await raw(head + chunk(secondRequest)),
      await raw(`GET /proxy/mine HTTP/1.1\r\nHost: localhost\r\n${proxyLines}\r\n`),
    ];
    expect(statusOf(attacker)).toBe(200);
    expect(victim).toContain('{"line":"GET /mine HTTP/1.1","body":""}');
    expect(requests().map(({ line, body }) => [line, body])).toEqual([
      [`${method} /x HTTP/1.1`, secondRequest],
      ["GET /mine HTTP/1.1", ""],
    ]);
    // Both used one connection, which carried nothing else.
    expect(provider.connections.map(({ rest }) => rest())).toEqual([""]);
    expect(valuesOf(requests()[0] ?? { line: "", fields: [], body: "" }, "transfer-encoding")).toEqual(["chunked"]);
  },
);

it.each(["DELETE", "OPTIONS", "GET", "POST"])(
  "P02 refuses a length beside a coding on %s, in any order and of any value",
  async (method) => {
    const { probe, proxyLines, provider } = await startBoth();
    const coding = "Transfer-Encoding: chunked\r\n";
    for (const framing of [
      `Content-Length: 0\r\n${coding}`,
      `${coding}Content-Length: 0\r\n`,
      `Content-Length: ${chunk(secondRequest).length}\r\n${coding}`,
      `${coding}Content-Length: 4\r\n`,
    ]) {
      const head = `${method} /proxy/x HTTP/1.1\r\nHost: localhost\r\n${proxyLines}${framing}\r\n`;
      const { text, isClosed } = await probe(head + chunk(secondRequest), { silentMs: 1_500 });
      expect([framing, statusesOf(text), isClosed]).toEqual([framing, [400], true]);
    }
    expect(provider.connections).toHaveLength(0);
  },
);

it("P02 refuses a method that HTTP does not know", async () => {
  const { probe, proxyLines, provider } = await startBoth();
  const head = `SMUGGLE /proxy/x HTTP/1.1\r\nHost: localhost\r\n${proxyLines}Transfer-Encoding: chunked\r\n\r\n`;
  const { text, isClosed } = await probe(head + chunk(secondRequest));
  expect([statusesOf(text), isClosed]).toEqual([[400], true]);
  expect(provider.connections).toHaveLength(0);
});

it("reads nothing more from a connection after refusing a request's framing", async () => {
  const { probe, proxyLines, provider } = await startBoth();
  const refused = `POST /proxy/x HTTP/1.1\r\nHost: localhost\r\n${proxyLines}Content-Length: 05\r\n\r\nhello`;
  const next = `GET /proxy/y HTTP/1.1\r\nHost: localhost\r\n${proxyLines}\r\n`;
  expect(await probe(refused + next, { silentMs: 1_500 })).toMatchObject({ isClosed: true });
  expect(provider.connections).toHaveLength(0);
});

it("answers valid requests before a malformed one, and then closes the connection", async () => {
  const provider = await startProvider((_request, socket) => {
    setTimeout(() => socket.write("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"), 100);
  });
  const { probe, proxyLines } = await startProxied(provider.port);
  const good = `GET /proxy/y HTTP/1.1\r\nHost: localhost\r\n${proxyLines}\r\n`;
  const { text, isClosed } = await probe(`${good}${good}BAD\r\n\r\n`, { silentMs: 1_500 });
  expect([statusesOf(text), isClosed]).toEqual([[200, 200, 400], true]);
  expect(text.indexOf("ok")).toBeLessThan(text.indexOf("400"));
});

// Half a connection is a whole descriptor.
it.each([
  ["what is not HTTP", "NONSENSE\r\n\r\n"],
  ["a tunnel", "CONNECT x:1 HTTP/1.1\r\nHost: x:1\r\n\r\n"],
  ["a body in pieces that are none", "POST /proxy/x HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: x\r\n\r\n"],
])("closes the connection of a peer that requested %s and keeps it open", async (_, bytes) => {
  const { data } = await startBoth();
  const { hostname, port } = new URL(data);
  const socket = connect({ host: hostname, port: Number(port), allowHalfOpen: true });
  const failed = once(socket, "error");
  socket.resume().write(bytes);
  await once(socket, "end");
  // A write to a closed connection fails, so that the client notices.
  const writing = setInterval(() => socket.write("more\r\n"), 100);
  expect(((await failed)[0] as NodeJS.ErrnoException).code).toMatch(/^(?:ECONNRESET|EPIPE)$/);
  clearInterval(writing);
});

it("writes no response of its own into one of the provider's", async () => {
  const provider = await startProvider();
  const { data, probe, proxyLines } = await startProxied(provider.port);
  const upload = `POST /proxy/x HTTP/1.1\r\nHost: localhost\r\n${proxyLines}Transfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n`;
  const wire = await openWire(data);
  wire.send(upload);
  await expect.poll(() => provider.received()).toContain("hello");
  provider.connections[0]?.socket.write("HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\nthe beginning");
  await wire.until((text) => text.includes("the beginning"));
  wire.send("zz\r\n");
  expect(await wire.ended).toMatch(/the beginning$/);
  // If no response has started, the caller gets one.
  const { text, isClosed } = await probe(`${upload}zz\r\n`, { silentMs: 1_500 });
  expect([statusesOf(text), isClosed]).toEqual([[400], true]);
});

/**
 * For each kind of credentials: the provider's rules, the connection's credentials, and what a request carries of them.
 */
const schemes: readonly {
  readonly name: string;
  readonly auth: Record<string, unknown>;
  readonly credentials: Record<string, unknown>;
  readonly integration?: Record<string, unknown>;
  readonly carried: RegExp;
}[] = [
  {
    name: "a bearer token",
    auth: { case: "oauth2", value: {} },
    credentials: { type: "OAUTH2", access_token: "the-token" },
    carried: /^authorization: Bearer the-token$/i,
  },
  {
    name: "basic",
    auth: { case: "basic", value: {} },
    credentials: { type: "BASIC", username: "ada", password: "pass" },
    carried: /^authorization: Basic YWRhOnBhc3M=$/i,
  },
  {
    name: "a key in a header of its own",
    auth: { case: "apiKey", value: { header: "x-api-key" } },
    credentials: { type: "API_KEY", apiKey },
    carried: /^x-api-key: the-key-of-ada$/i,
  },
  {
    name: "a key in the query",
    auth: { case: "apiKey", value: { query: "api_key" } },
    credentials: { type: "API_KEY", apiKey },
    carried: /^[A-Z]+ \/x\?api_key=the-key-of-ada HTTP\/1\.1$/,
  },
  {
    name: "OAuth 1",
    auth: { case: "oauth1", value: {} },
    credentials: { type: "OAUTH1", oauth_token: "token", oauth_token_secret: "secret" },
    integration: { credentials: { type: "OAUTH1", client_id: "consumer", client_secret: "shared" } },
    carried: /^authorization: OAuth .*oauth_signature=/i,
  },
  {
    name: "a signature over everything",
    auth: { case: "awsSigv4", value: { service: "execute-api" } },
    credentials: { type: "AWS_SIGV4", region: "eu-west-1", access_key_id: "AKIA", secret_access_key: "secret" },
    carried: /^authorization: AWS4-HMAC-SHA256 .*Signature=[0-9a-f]{64}$/i,
  },
  {
    name: "a signature over all but the body",
    auth: { case: "awsSigv4", value: { service: "s3" } },
    credentials: { type: "AWS_SIGV4", region: "eu-west-1", access_key_id: "AKIA", secret_access_key: "secret" },
    carried: /^authorization: AWS4-HMAC-SHA256 .*Signature=[0-9a-f]{64}$/i,
  },
  {
    name: "a token that was exchanged for",
    auth: { case: "twoStep", value: { placement: { header: "x-session" } } },
    credentials: { type: "TWO_STEP", token: "the-token" },
    carried: /^x-session: the-token$/i,
  },
  { name: "none", auth: { case: "none", value: {} }, credentials: { type: "NONE" }, carried: /^via: / },
];

const startWith = ({ auth, credentials, integration = {} }: (typeof schemes)[number]) =>
  startBoth({ provider: { auth }, credentials, integration });

it.each(schemes)("P07 sends $name to the provider, and nothing of the caller's own credentials", async (scheme) => {
  const { ask, provider, requests } = await startWith(scheme);
  const text = await ask();
  expect([statusOf(text), codeOf(text)]).toEqual([200, undefined]);
  const [request] = requests();
  const lines = [request?.line ?? "", ...(request?.fields ?? []).map(([name, value]) => `${name}: ${value}`)];
  expect(lines.filter((line) => scheme.carried.test(line))).toHaveLength(1);
  expect(lines.filter((line) => /^authorization:/.test(line)).length).toBeLessThan(2);
  expect(provider.received()).not.toContain(secretKey);
  expect(provider.received()).not.toMatch(/provider-config-key|connection-id/i);
});

// A body that waits for 100-continue is easily mistaken for one that was already sent.
it.each(schemes)("P05 asks for the body itself, once, and attaches $name to it once", async (scheme) => {
  const { data, proxyLines, provider, requests } = await startWith(scheme);
  for (const framing of ["Content-Length: 5", "Transfer-Encoding: chunked"]) {
    for (const more of ["", "Retries: 1\r\n"]) {
      const before = requests().length;
      const head = `POST /proxy/x HTTP/1.1\r\nHost: localhost\r\n${proxyLines}${more}Expect: 100-continue\r\n${framing}\r\n\r\n`;
      const wire = await openWire(data);
      wire.send(head);
      expect(await wire.until((text) => text.endsWith("\r\n\r\n"))).toBe("HTTP/1.1 100 Continue\r\n\r\n");
      wire.send(framing.startsWith("Content") ? "hello" : chunk("hello"));
      const text = await wire.until((all) => all.includes('"body":"hello"'));
      wire.socket.destroy();
      expect(statusesOf(text)).toEqual([100, 200]);
      expect(
        requests()
          .slice(before)
          .map(({ body }) => body),
      ).toEqual(["hello"]);
      const [request] = requests().slice(before);
      const lines = [request?.line ?? "", ...(request?.fields ?? []).map(([name, value]) => `${name}: ${value}`)];
      expect(lines.filter((line) => scheme.carried.test(line))).toHaveLength(1);
    }
  }
  expect(provider.received()).not.toContain(secretKey);
  expect(provider.received()).not.toMatch(/^expect:/im);
});

it("P05 asks for no body that there is not, and for none that it refuses", async () => {
  const { ask, data, proxyLines, provider } = await startBoth();
  expect(statusesOf(await ask("Expect: 100-continue\r\n"))).toEqual([200]);
  expect(
    statusesOf(await ask("Expect: 100-continue\r\nContent-Length: 0\r\n", { line: "POST /proxy/x HTTP/1.1" })),
  ).toEqual([200]);
  const before = provider.connections.flatMap((one) => one.requests()).length;
  const refusals = [
    ["POST /proxy/../x HTTP/1.1", "", "invalid_path"],
    ["TRACE /proxy/x HTTP/1.1", "", "method_not_allowed"],
    ["POST /proxy/x HTTP/1.1", "Base-Url-Override: https://evil.test\r\n", "host_not_allowed"],
    ["POST /proxy/x HTTP/1.1", "Retries: many\r\n", "invalid_headers"],
    ["POST /proxy/x HTTP/1.1", "Latchkey-Key: nobody\r\n", "unknown_key"],
  ] as const;
  await Promise.all(
    refusals.map(async ([line, more, code]) => {
      const wire = await openWire(data);
      wire.send(`${line}\r\nHost: localhost\r\n${proxyLines}${more}Expect: 100-continue\r\nContent-Length: 5\r\n\r\n`);
      const text = await wire.ended;
      expect([line, statusesOf(text).length, codeOf(text)]).toEqual([line, 1, code]);
      expect(text).toMatch(/^connection: close\r$/im);
    }),
  );
  expect(provider.connections.flatMap((one) => one.requests())).toHaveLength(before);
});

it("refuses any other expectation itself", async () => {
  const { ask, provider } = await startBoth();
  for (const expectation of ["foo", "101-continue"]) {
    const text = await ask(`Expect: ${expectation}\r\nContent-Length: 5\r\n`, { line: "POST /proxy/x HTTP/1.1" });
    expect([expectation, statusOf(text) >= 400, codeOf(text)]).toEqual([expectation, true, "invalid_headers"]);
  }
  expect(provider.connections).toHaveLength(0);
});

it("P06 drops hop-by-hop fields, and fields for other hosts", async () => {
  const { raw, proxyLines, requests } = await startBoth();
  const dropped = [
    "Connection: close, X-Drop , x-DROP-2",
    "X-Drop: 1",
    "X-Drop-2: 2",
    "TE: trailers",
    "Trailer: X",
    "Keep-Alive: 5",
    "Proxy-Connection: keep-alive",
    "Proxy-Authenticate: x",
    "Cookie: session=1",
    "X-Forwarded-For: 10.0.0.1",
    "X-Forwarded-Host: inside.test",
    "X-Forwarded-Anything: x",
    "Forwarded: for=10.0.0.1",
    "X-Real-IP: 10.0.0.1",
    "Upgrade: h2c",
    "HTTP2-Settings: AAMAAABk",
  ];
  const answer = await raw(
    `GET /proxy/x HTTP/1.1\r\nHost: localhost\r\n${proxyLines}${dropped.join("\r\n")}\r\nX-Kept: yes\r\n\r\n`,
  );
  expect(statusOf(answer)).toBe(200);
  expect(requests().map(({ fields }) => fields.map(([name]) => name).toSorted())).toEqual([
    ["host", "via", "x-api-key", "x-kept"],
  ]);
  expect(requests()[0]?.fields).toContainEqual(["via", "1.1 latchkey"]);
});

it("sends on everything else, as it was written and in its order", async () => {
  const { ask, requests } = await startBoth();
  const sent = [
    ["Accept", "text/html;q=0.9, */*"],
    ["accept-ENCODING", "gzip, br"],
    ["Range", "bytes=0-9"],
    ["If-None-Match", 'W/"x"'],
    ["X-Twice", "a"],
    ["X-Between", ""],
    ["X-Twice", "b, c"],
    ["X-High", "caf\xe9"],
    ["X-Blanks", "a \t b"],
    ["Via", "1.0 before"],
    ["User-Agent", "x/1"],
    ["Date", "Tue, 01 Jan 2030 00:00:00 GMT"],
    ["X_Under", "x"],
    ["constructor", "x"],
    ["__proto__", "x"],
  ];
  const text = await ask(sent.map(([name, value]) => `${name}: ${value}\r\n`).join(""));
  expect(statusOf(text)).toBe(200);
  const own = new Set(["host", "x-api-key"]);
  const came = requests()[0]?.fields.filter(([name]) => !own.has(name));
  expect(came).toEqual([...sent.map(([name = "", value]) => [name.toLowerCase(), value]), ["via", "1.1 latchkey"]]);
});

it("does not let a caller nominate a field that the provider must get", async () => {
  const { raw, proxyLines, requests } = await startBoth();
  const nominated = "Host, Via, X-Api-Key, Content-Length, Transfer-Encoding, Authorization, Connection-Id";
  const head = `POST /proxy/x HTTP/1.1\r\nHost: localhost\r\n${proxyLines}Connection: ${nominated}\r\n`;
  expect(statusOf(await raw(`${head}Content-Length: 5\r\n\r\nhello`))).toBe(200);
  expect(statusOf(await raw(`${head}Transfer-Encoding: chunked\r\n\r\n${chunk("hello")}`))).toBe(200);
  for (const request of requests()) {
    expect(request.body).toBe("hello");
    expect(valuesOf(request, "x-api-key")).toEqual([apiKey]);
    expect(valuesOf(request, "host")).toHaveLength(1);
    expect(valuesOf(request, "via")).toHaveLength(1);
  }
});

it("P06 keeps latchkey's own fields from the provider", async () => {
  const { ask, requests } = await startBoth();
  const own = [
    "Base-Url-Override: ",
    "Retries: 2",
    "Retry-On: 418",
    "Decompress: true",
    "Forward-Headers-On-Redirect: true",
    "Nango-Activity-Log-Id: ",
    "Nango-Is-Sync: true",
    "Nango-Is-Script: true",
    "Nango-Is-Dry-Run: false",
    `Latchkey-Key: ${secretKey}`,
    "Latchkey-Whatever: x",
    "latchkey-error: x",
  ];
  expect(statusOf(await ask(own.map((line) => `${line}\r\n`).join("")))).toBe(200);
  expect(
    requests()[0]
      ?.fields.map(([name]) => name)
      .toSorted(),
  ).toEqual(["host", "via", "x-api-key"]);
});

it("takes the prefix from a field in disguise, puts it in its twin's place, and judges it as any other", async () => {
  const { ask, requests, provider } = await startBoth();
  const fields = [
    "Nango-Proxy-Accept: text/csv",
    "Accept: text/html",
    "Nango-Proxy-X-New: a",
    "Nango-Proxy-X-New: b",
    "Nango-Proxy-Host: evil.test",
    "Nango-Proxy-Transfer-Encoding: chunked",
    "Nango-Proxy-Content-Length: 5",
    "Nango-Proxy-Connection: close",
    "Nango-Proxy-Authorization: Bearer mine",
    "Nango-Proxy-X-Api-Key: mine",
    "Nango-Proxy-Cookie: a=b",
    "Nango-Proxy-X-Forwarded-For: 10.0.0.1",
    "Nango-Proxy-Latchkey-Key: x",
    "Nango-Proxy-Connection-Id: x",
    "Nango-Proxy-Expect: 100-continue",
    "Nango-Proxy-: x",
  ];
  expect(statusOf(await ask(fields.map((line) => `${line}\r\n`).join("")))).toBe(200);
  const [request] = requests();
  expect(request?.fields.toSorted()).toEqual(
    [
      ["accept", "text/csv"],
      ["host", `127.0.0.1:${provider.port}`],
      ["via", "1.1 latchkey"],
      ["x-api-key", apiKey],
      ["x-new", "b"],
    ].toSorted(),
  );
});

it("takes an underscore for the hyphen that it becomes behind CGI", async () => {
  const { ask, requests } = await startBoth();
  const fields =
    "X_Api_Key: mine\r\nTransfer_Encoding: chunked\r\nContent_Length: 9\r\nX_Forwarded_For: x\r\nLatchkey_Key: x\r\n";
  expect(statusOf(await ask(fields))).toBe(200);
  expect(
    requests()[0]
      ?.fields.map(([name]) => name)
      .toSorted(),
  ).toEqual(["host", "via", "x-api-key"]);
});

it("P08 replaces the caller's key by the connection's, once", async () => {
  const { ask, requests } = await startBoth();
  await ask("X-Api-Key: mine\r\nx-api-key: mine too\r\nX-API-KEY:\r\n");
  expect(requests().map((one) => valuesOf(one, "x-api-key"))).toEqual([[apiKey]]);
  const query = await startBoth({ provider: { auth: { case: "apiKey", value: { query: "key" } } } });
  await query.ask("", { line: "GET /proxy/x?key=mine&a=b&k%65y=mine&key HTTP/1.1" });
  expect(query.requests().map(({ line }) => line)).toEqual([`GET /x?a=b&key=${apiKey} HTTP/1.1`]);
  const bearer = await startBoth({
    provider: { auth: { case: "apiKey", value: {} } },
    credentials: { type: "API_KEY", apiKey },
  });
  await bearer.ask(`Latchkey-Key: ${secretKey}\r\nAuthorization: Bearer mine\r\n`, {
    lines: "Provider-Config-Key: here\r\nConnection-Id: ada\r\n",
  });
  expect(bearer.requests().map((one) => valuesOf(one, "authorization"))).toEqual([[`Bearer ${apiKey}`]]);
});

it("sends the provider's required fields, unless the caller sets them", async () => {
  const provider = await startProvider();
  const { raw, proxyLines } = await startProxied(provider.port, {
    provider: {
      proxy: {
        baseUrl: `https://127.0.0.1:${provider.port}`,
        headers: { "x-version": "2", "X-Api-Key": "never" },
        query: { format: "json" },
      },
    },
  });
  const ask = (target: string, fields = "") =>
    raw(`GET /proxy${target} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n${proxyLines}${fields}\r\n`);
  await ask("/x");
  await ask("/x?a=b&format=xml", "X-Version: 3\r\n");
  await ask("/x?", "Nango-Proxy-X-Version: 4\r\n");
  const requests = provider.connections.flatMap((one) => one.requests());
  expect(requests.map(({ line }) => line)).toEqual([
    "GET /x?format=json HTTP/1.1",
    "GET /x?a=b&format=xml HTTP/1.1",
    "GET /x?format=json HTTP/1.1",
  ]);
  expect(requests.map((one) => valuesOf(one, "x-version"))).toEqual([["2"], ["3"], ["4"]]);
  expect(requests.map((one) => valuesOf(one, "x-api-key"))).toEqual([[apiKey], [apiKey], [apiKey]]);
});

const basic = (pair: string) => `Basic ${Buffer.from(pair).toString("base64")}`;

it("takes the caller's key wherever an SDK may put it, and the first of several", async () => {
  const { ask, provider } = await startBoth();
  const lines = "Provider-Config-Key: here\r\nConnection-Id: ada\r\n";
  const codeFor = async (...fields: readonly string[]) => {
    const text = await ask(fields.map((field) => `${field}\r\n`).join(""), { lines });
    return codeOf(text) ?? statusOf(text);
  };
  for (const field of [
    `Latchkey-Key: ${secretKey}`,
    `Proxy-Authorization: Bearer ${secretKey}`,
    `Proxy-Authorization: ${basic(`${secretKey}:`)}`,
    `Proxy-Authorization: ${basic(`any:${secretKey}`)}`,
    `Authorization: Bearer ${secretKey}`,
    `Authorization: bEARER  ${secretKey}`,
    `Authorization: token ${secretKey}`,
    `Authorization: ${basic(secretKey)}`,
    `Authorization: ${basic(`${secretKey}:`)}`,
    `Authorization: ${basic(`${secretKey}:X`)}`,
    `Authorization: ${basic(`:${secretKey}`)}`,
    `Authorization: ${basic(`api:${secretKey}`)}`,
  ]) {
    expect([field, await codeFor(field)]).toEqual([field, 200]);
  }
  // The first one counts, even if it is wrong.
  const right = `Bearer ${secretKey}`;
  expect(
    await codeFor(`Latchkey-Key: ${secretKey}`, "Proxy-Authorization: Bearer no", "Authorization: Bearer no"),
  ).toBe(200);
  expect(await codeFor(`Proxy-Authorization: ${right}`, "Authorization: Bearer no")).toBe(200);
  expect(await codeFor("Latchkey-Key: no", `Authorization: ${right}`)).toBe("unknown_key");
  expect(await codeFor("Proxy-Authorization: Bearer no", `Authorization: ${right}`)).toBe("unknown_key");
  expect(await codeFor("Latchkey-Key:", `Authorization: ${right}`)).toBe(200);
  for (const malformed of [
    "Bearer",
    "Bearer ",
    secretKey,
    `Digest ${secretKey}`,
    "Basic !!!",
    basic(""),
    "Bearer a b",
  ]) {
    expect([malformed, await codeFor(`Authorization: ${malformed}`)]).toEqual([malformed, "malformed_auth_header"]);
  }
  expect(await codeFor()).toBe("missing_auth_header");
  expect(await codeFor("Authorization:")).toBe("missing_auth_header");
  expect(provider.received()).not.toContain(secretKey);
  expect(provider.received()).not.toMatch(/authorization|latchkey-key|token|basic/i);
});

it("refuses a repeated field that may occur once", async () => {
  const { ask, provider } = await startBoth();
  for (const field of [
    `Authorization: Bearer ${secretKey}`,
    "Connection-Id: bob",
    "Provider-Config-Key: there",
    "Host: localhost",
    "Base-Url-Override: \r\nBase-Url-Override: ",
    "Retries: 0\r\nRetries: 1",
    "Retry-On: 500\r\nRetry-On: 500",
    "Latchkey-Key: x\r\nLatchkey-Key: x",
    "Proxy-Authorization: x\r\nProxy-Authorization: x",
    "Content-Type: a/b\r\ncontent-type: a/b",
  ]) {
    const text = await ask(`${field}\r\n`);
    expect([field, statusOf(text), codeOf(text)]).toEqual([field, 400, "duplicate_header"]);
  }
  expect(provider.connections).toHaveLength(0);
});

it("names the missing ones of the three headers", async () => {
  const { ask } = await startBoth();
  const key = `Authorization: Bearer ${secretKey}\r\n`;
  for (const lines of [key, `${key}Connection-Id: ada\r\n`, `${key}Provider-Config-Key: here\r\nConnection-Id: \r\n`]) {
    const text = await ask("", { lines });
    expect([statusOf(text), codeOf(text)]).toEqual([400, "invalid_headers"]);
  }
});

it("P35 never reads half a head", async () => {
  const { raw, proxyLines, provider } = await startBoth();
  const filler = (count: number, width = 0) =>
    Array.from({ length: count }, (_, i) => `X${i}:${"y".repeat(width)}\r\n`).join("");
  const ask = async (fields: string) =>
    codeOf(await raw(`GET /proxy/x HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n${fields}${proxyLines}\r\n`));
  expect(await ask(filler(1_100))).toBe("headers_too_large");
  expect(await ask(filler(2_500))).toBe("headers_too_large");
  expect(await ask(filler(201))).toBe("headers_too_large");
  expect(await ask(filler(4, 5_000))).toBe("headers_too_large");
  expect(provider.connections).toHaveLength(0);
  expect(await ask(filler(195))).toBe(undefined);
});

it("P36 lists in Vary what a response depends on, so that no cache gives it to another caller", async () => {
  const provider = await startProvider((_request, socket, count) => {
    const vary = ["", "Vary: Accept\r\n", "Vary: *\r\n", "Vary: A\r\nvary: B\r\n"][count] ?? "";
    socket.write(`HTTP/1.1 200 OK\r\nCache-Control: public, max-age=60\r\n${vary}Content-Length: 0\r\n\r\n`);
  });
  const { raw, proxyLines } = await startProxied(provider.port);
  const varies: string[] = [];
  for (let i = 0; i < 4; i += 1) {
    const text = await raw(`GET /proxy/x HTTP/1.1\r\nHost: localhost\r\n${proxyLines}\r\n`);
    const found = [...text.matchAll(/^Vary: (.*)\r$/gim)].map(([, value]) => value ?? "");
    expect(found).toHaveLength(1);
    varies.push(found[0] ?? "");
  }
  const [bare = "", accepts = "", any, both = ""] = varies;
  const names = (value: string) => value.toLowerCase().split(/, */);
  // Fields that decide the response or its origin.
  const deciding = [
    "authorization",
    "proxy-authorization",
    "latchkey-key",
    "connection-id",
    "provider-config-key",
    "base-url-override",
  ];
  expect(names(bare)).toEqual(expect.arrayContaining(deciding));
  expect(names(accepts)).toEqual(expect.arrayContaining([...deciding, "accept"]));
  expect(any).toBe("*");
  expect(names(both)).toEqual(expect.arrayContaining([...deciding, "a", "b"]));
});

it("P41 opens tunnels only for WebSockets", async () => {
  const { raw, proxyLines, provider, requests } = await startBoth();
  const frames = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
  for (const [method, protocol] of [
    ["GET", "h2c"],
    ["GET", "h2c, websocket"],
    ["GET", "TLS/1.0"],
    ["GET", "x"],
    ["POST", "websocket"],
    ["OPTIONS", "h2c"],
  ]) {
    const head = `${method} /proxy/x HTTP/1.1\r\nHost: localhost\r\n${proxyLines}Connection: Upgrade, HTTP2-Settings\r\nUpgrade: ${protocol}\r\nHTTP2-Settings: AAMAAABk\r\n`;
    const answers = statusesOf(await raw(`${head}\r\n${frames}`));
    // The upgrade is refused or ignored, and no other protocol follows.
    expect([protocol, answers[0] === 501 || answers[0] === 200]).toEqual([protocol, true]);
    expect(answers).not.toContain(101);
  }
  // Named but not requested: the connection stays HTTP/1.1.
  const named = await raw(
    `GET /proxy/named HTTP/1.1\r\nHost: localhost\r\n${proxyLines}Upgrade: websocket\r\nConnection: close\r\n\r\n`,
  );
  expect(statusOf(named)).toBe(200);
  expect(provider.received()).not.toMatch(/^(?:upgrade|connection|http2-settings):|PRI|SM\r\n/im);
  expect(requests().every(({ line }) => line.endsWith(" HTTP/1.1"))).toBe(true);
});

it("P43 lets no trailer change the meaning of a request", async () => {
  const { raw, proxyLines, provider, requests } = await startBoth();
  const trailers = [
    "Authorization: Bearer mine",
    "Host: evil.test",
    "Connection: close",
    "Expect: 100-continue",
    "Content-Type: text/html",
    "Connection-Id: bob",
    "Latchkey-Key: x",
    "Cookie: a=b",
    "X-Forwarded-For: 10.0.0.1",
    "X-Api-Key: mine",
    "X-Checksum: kept",
  ];
  const head = `POST /proxy/x HTTP/1.1\r\nHost: localhost\r\n${proxyLines}Transfer-Encoding: chunked\r\nTrailer: X-Checksum\r\n\r\n`;
  const text = await raw(`${head}5\r\nhello\r\n0\r\n${trailers.join("\r\n")}\r\n\r\n`);
  expect(statusOf(text)).toBe(200);
  expect(requests().map(({ body }) => body)).toEqual(["hello"]);
  expect(provider.received()).toMatch(/\r\n0\r\nX-Checksum: kept\r\n\r\n$/);
  // Framing fields as trailers are refused or dropped.
  for (const trailer of [
    "Content-Length: 1",
    "Transfer-Encoding: chunked",
    "Transfer-Encoding: x",
    "Content-Length: x",
  ]) {
    const before = provider.received().length;
    const answer = await raw(`${head}5\r\nhello\r\n0\r\n${trailer}\r\n\r\n`, { silentMs: 1_300 });
    expect([trailer, statusesOf(answer).length]).toEqual([trailer, 1]);
    expect(provider.received().slice(before)).not.toContain(`\r\n0\r\n${trailer}`);
  }
});

it("P44 answers HTTP/1.0 requests with HTTP/1.0", async () => {
  const provider = await startProvider((request, socket) => {
    if (request.line.startsWith("GET /chunked")) {
      socket.write("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\nX: y\r\n\r\n");
    } else if (request.line.startsWith("GET /hint")) {
      socket.write("HTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello");
    } else {
      socket.write("HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello");
    }
  });
  const { probe, proxyLines } = await startProxied(provider.port);
  const ask = (path: string, fields = "", body = "") =>
    probe(
      `${body === "" ? "GET" : "POST"} /proxy${path} HTTP/1.0\r\nHost: localhost\r\n${proxyLines}${fields}\r\n${body}`,
    );
  for (const [path, fields] of [
    ["/length", ""],
    ["/chunked", ""],
    ["/chunked", "Connection: keep-alive\r\n"],
    ["/hint", ""],
  ] as const) {
    const { text, isClosed } = await ask(path, fields);
    expect([path, statusesOf(text), isClosed]).toEqual([path, [200], true]);
    expect(text).toMatch(/\r\n\r\nhello$/);
    expect(text).not.toMatch(/^(?:transfer-encoding|trailer):/im);
  }
  // With a length and on request, the connection is kept.
  const kept = await ask("/length", "Connection: keep-alive\r\n");
  expect([statusesOf(kept.text), kept.isClosed]).toEqual([[200], false]);
  expect(kept.text).toMatch(/^connection: keep-alive\r$/im);
  // HTTP/1.0 defines no expectations (RFC 9110, 10.1.1), and no codings.
  expect(statusesOf((await ask("/x", "Expect: 100-continue\r\nContent-Length: 5\r\n", "hello")).text)).toEqual([200]);
  expect(statusesOf((await ask("/x", "Transfer-Encoding: chunked\r\n", chunk("hello"))).text)).toEqual([400]);
  // A request without a length has no body.
  const lines = provider.connections.flatMap((one) => one.requests());
  expect(lines.map(({ line }) => line).every((line) => line.endsWith("HTTP/1.1"))).toBe(true);
  expect(lines.at(-1)?.body).toBe("hello");
});

it("marks its own errors, as the error table promises", async () => {
  const { raw, proxyLines } = await startBoth();
  for (const bytes of [
    "GET /proxy/x HTTP/1.1\r\n\r\n",
    "GET /proxy/x\r\n\r\n",
    "NONSENSE\r\n\r\n",
    `GET /proxy/x HTTP/1.1\r\nHost: localhost\r\n${proxyLines}Expect: x\r\n\r\n`,
    `GET /proxy/x HTTP/1.1\r\nHost: localhost\r\n${proxyLines}X: ${"y".repeat(20_000)}\r\n\r\n`,
    `POST /proxy/x HTTP/1.1\r\nHost: localhost\r\n${proxyLines}Transfer-Encoding: chunked\r\n\r\n5;${"y".repeat(20_000)}\r\n`,
    "CONNECT x:1 HTTP/1.1\r\nHost: x:1\r\n\r\n",
  ]) {
    const text = await raw(bytes);
    expect([bytes.slice(0, 40), statusOf(text) >= 400, codeOf(text)]).toEqual([
      bytes.slice(0, 40),
      true,
      expect.any(String),
    ]);
  }
});

it("leaves no connection open and no failure unlogged, whatever callers do", async () => {
  const { probe, proxyLines, metric, logged, data }: ProxiedSidecar = await startBoth();
  await probe(`POST /proxy/x HTTP/1.1\r\nHost: localhost\r\n${proxyLines}Content-Length: 9\r\n\r\nhalf`, {
    silentMs: 1,
  });
  await probe(`POST /proxy/x HTTP/1.1\r\nHost: localhost\r\n${proxyLines}Retries: 2\r\nContent-Length: 9\r\n\r\nhalf`, {
    silentMs: 1,
  });
  const wire = await openWire(data);
  wire.send(`POST /proxy/x HTTP/1.1\r\nHost: localhost\r\n${proxyLines}Retries: 2\r\nContent-Length: 9\r\n\r\nhalf`);
  await new Promise((resolve) => setTimeout(resolve, 50));
  wire.socket.resetAndDestroy();
  await expect.poll(() => metric('latchkey_http_requests_open{door="data"}')).toBe(0);
  await expect.poll(() => metric("latchkey_proxy_open")).toBe(0);
  expect(logged.filter((line) => line.includes('"level":"error"'))).toEqual([]);
});

it("P07 keeps the caller's key from the provider, in every field", async () => {
  const { raw, proxyLines, requests } = await startBoth();
  const lines = `X-Authorization: Bearer ${secretKey}\r\nX-Other: kept\r\n`;
  expect(statusOf(await raw(`GET /proxy/x HTTP/1.1\r\nHost: localhost\r\n${proxyLines}${lines}\r\n`))).toBe(200);
  const [request] = requests();
  expect(request?.fields).toContainEqual(["x-other", "kept"]);
  expect(JSON.stringify(request)).not.toContain(secretKey);
});
