import { expect, it } from "vitest";
import { startHttp2Provider } from "../../support/peers/http2-provider.ts";
import { type Answering, startProvider, startProxied } from "../../support/peers/provider.ts";
import { secretKey } from "../../support/sidecar/harness.ts";
import { openSession, streamed } from "../../support/wire/http2-call.ts";
import { call, fieldOf } from "../../support/wire/proxy-call.ts";

/** Answers with the fields that the query holds, as lines. */
const saying: Answering = ({ line }, socket) => {
  const lines = decodeURIComponent(/\?fields=([^ &]*)/.exec(line)?.[1] ?? "");
  socket.write(`HTTP/1.1 200 OK\r\nContent-Length: 2\r\n${lines}\r\nok`, "latin1");
};

const query = (...fields: readonly string[]) =>
  `fields=${encodeURIComponent(fields.map((one) => `${one}\r\n`).join(""))}`;

async function started(basePath = "/v1") {
  const provider = await startProvider(saying);
  const own = `127.0.0.1:${provider.port}`;
  const running = await startProxied(provider.port, {
    provider: { proxy: { baseUrl: `https://${own}${basePath}` } },
    files: {
      "/config":
        "aliases: [{ name: ada, environment: dev, integration: here, connection: ada, listen: '127.0.0.1:0' }]",
    },
    env: { LATCHKEY_CONFIG: "/config" },
  });
  const answer = (headers: Record<string, string>, ...fields: readonly string[]) =>
    call(`${running.data}/proxy/from/here?${query(...fields)}`, { headers: { ...running.proxyHeaders, ...headers } });
  const linkOf = async (link: string, headers: Record<string, string> = {}) =>
    fieldOf(await answer(headers, `Link: ${link}`), "link");
  return { provider, own, running, answer, linkOf, alias: running.sidecar.aliases["ada"] ?? "" };
}

it("rewrites the provider's links to this listener, and keeps everything else of them", async () => {
  const { own, running, linkOf } = await started();
  const door = `${running.data}/proxy`;
  const base = `https://${own}/v1`;
  const odd = 'rel="next prev" ; title="a, <b>; \\"c\\", d";title*=UTF-8\'\'%e2%82%ac;foo';
  const kept: Readonly<Record<string, string>> = {
    [`<${base}/items?page=2>; rel="next"`]: `<${door}/items?page=2>; rel="next"`,
    [`<${base}/items?page=2&a=%2F>;rel=next`]: `<${door}/items?page=2&a=%2F>;rel=next`,
    [`<${base}/a,b;c?d,e>; rel="next"`]: `<${door}/a,b;c?d,e>; rel="next"`,
    [`<${base}/2>; ${odd}, <${base}/3>; rel=last`]: `<${door}/2>; ${odd}, <${door}/3>; rel=last`,
    [`<${base}/2>;rel=a,,  <https://else.test/v1/3>;rel=b`]: `<${door}/2>;rel=a,,  <https://else.test/v1/3>;rel=b`,
    [`<http://${own}/v1/2>; rel="next"`]: `<${door}/2>; rel="next"`,
    [`<HTTPS://${own}/v1/2#there>; rel="next"`]: `<${door}/2#there>; rel="next"`,
    // Forms in which clients accept the same address.
    [`<https://u@${own}/v1/2>; rel=next`]: `<${door}/2>; rel=next`,
    [`<https://u:p@${own}/v1/2>; rel=next`]: `<${door}/2>; rel=next`,
    [`<http:/${own}/v1/2>; rel=next`]: `<${door}/2>; rel=next`,
    [`<http:${own}/v1/2>; rel=next`]: `<${door}/2>; rel=next`,
    [`<https:\\\\${own}\\v1\\2>; rel=next`]: `<${door}/2>; rel=next`,
    // Relative to the address of the provider's request.
    "<?page=2>; rel=next": `<${door}/from/here?page=2>; rel=next`,
    "<there>; rel=next": `<${door}/from/there>; rel=next`,
    "</v1/there>; rel=next": `<${door}/there>; rel=next`,
    [`<//${own}/v1/there>; rel=next`]: `<${door}/there>; rel=next`,
    // A link never becomes one of latchkey's own routes.
    "</connections/ada>; rel=next": `<https://${own}/connections/ada>; rel=next`,
  };
  for (const [link, expected] of Object.entries(kept)) expect(await linkOf(link), link).toBe(expected);
  const left = [
    "<https://else.test/v1/2>; rel=next",
    `<https://127.0.0.1:1/v1/2>; rel=next`,
    `<https://${own}.else.test/v1/2>; rel=next`,
    "<https://u@else.test/v1/2>; rel=next",
    "<https:/else.test/v1/2>; rel=next",
    `<https://${own}/v2/x>; rel=next`,
    `<${base}/../connections/ada>; rel=next`,
    "<urn:x>; rel=type",
    "<mailto:a@b.test>; rel=author",
    "no link at all",
    `<${base}/2`,
  ];
  for (const link of left) expect(await linkOf(link), link).toBe(link);
});

it("rewrites each of several fields, and every other field with an address", async () => {
  const { own, running, answer } = await started();
  const door = `${running.data}/proxy`;
  const called = await answer(
    {},
    `Link: <https://${own}/v1/2>; rel=next`,
    "X-Between: 1",
    `link: <https://${own}/v1/3>; rel=last`,
    `Content-Location: https://${own}/v1/here?x`,
    `Refresh: 5; URL="https://${own}/v1/later"`,
  );
  expect(called.fields.filter(([name]) => name === "link").map(([, value]) => value)).toEqual([
    `<${door}/2>; rel=next`,
    `<${door}/3>; rel=last`,
  ]);
  expect(fieldOf(called, "x-between")).toBe("1");
  expect(fieldOf(called, "content-location")).toBe("/proxy/here?x");
  expect(fieldOf(called, "refresh")).toBe('5; URL="/proxy/later"');
  const others = await answer({}, "Content-Location: https://else.test/x", "Refresh: 5", "Location: there");
  expect(fieldOf(others, "content-location")).toBe("https://else.test/x");
  expect(fieldOf(others, "refresh")).toBe("5");
  expect(fieldOf(others, "location")).toBe("/proxy/from/there");
  expect(fieldOf(await answer({}, "Refresh: 0;url=there"), "refresh")).toBe("0;url=/proxy/from/there");
});

it("names this listener as the caller does: by its Host, and as https behind an ingress that says so", async () => {
  const { own, running, linkOf, alias } = await started();
  const link = `<https://${own}/v1/2>; rel=next`;
  const { host } = new URL(running.data);
  expect(await linkOf(link, { "x-forwarded-proto": "https" })).toBe(`<https://${host}/proxy/2>; rel=next`);
  expect(await linkOf(link, { forwarded: 'for=a;proto="https"' })).toBe(`<https://${host}/proxy/2>; rel=next`);
  expect(await linkOf(link, { "x-forwarded-proto": "http, https" })).toBe(`<http://${host}/proxy/2>; rel=next`);
  const byName = await linkOf(link, { host: `localhost:${new URL(running.data).port}` });
  expect(byName).toBe(`<http://localhost:${new URL(running.data).port}/proxy/2>; rel=next`);
  const throughAlias = await call(`${alias}/x?${query(`Link: ${link}`, `Content-Location: https://${own}/v1/c`)}`, {
    headers: { authorization: `Bearer ${secretKey}` },
  });
  expect(fieldOf(throughAlias, "link")).toBe(`<${alias}/2>; rel=next`);
  expect(fieldOf(throughAlias, "content-location")).toBe("/c");
});

it("keeps a response short although it lists many short references", async () => {
  const provider = await startProvider((_, socket) => {
    const fields = ["Link: <>,<?>,<x>\r\n", "Location: ?\r\n", "Content-Location: ?\r\n", "Refresh: 0;?\r\n"];
    socket.write(`HTTP/1.1 200 OK\r\nContent-Length: 2\r\n${fields.join("").repeat(200)}\r\nok`);
  });
  const running = await startProxied(provider.port);
  const long = "a".repeat(7_000);
  const answer = await running.raw(`GET /proxy/${long} HTTP/1.1\r\nHost: localhost\r\n${running.proxyLines}\r\n`);
  expect(answer).toMatch(/^HTTP\/1\.1 200 OK\r\n[\s\S]*\r\nok$/);
  expect(answer.length).toBeLessThan(120_000);
  expect(answer).toContain(`\r\nLink: <http://localhost/proxy/${long}>,`);
  // Above the limit, references are blanked: they lead neither to the provider nor to latchkey.
  expect(answer).toContain("\r\nLink: <about:blank>,<about:blank>,<about:blank>\r\n");
  expect(answer).toContain("\r\nLocation: about:blank\r\n");
});

it("answers a caller in absolute form with absolute links", async () => {
  const { own, running } = await started();
  const fields = query(
    `Link: <https://${own}/v1/2>; rel=next, <there>; rel=last, <https://else.test/x>; rel=about`,
    `Location: https://${own}/v2/far`,
    "Content-Location: near",
  );
  const head = (url: string) => `GET ${url} HTTP/1.1\r\nHost: ${own}\r\nConnection: close\r\n${running.proxyLines}\r\n`;
  const answer = await running.raw(head(`http://${own}/v1/x?${fields}`));
  expect(answer).toContain(
    `\r\nLink: <http://${own}/v1/2>; rel=next, <http://${own}/v1/there>; rel=last, <https://else.test/x>; rel=about\r\n`,
  );
  expect(answer).toContain(`\r\nLocation: http://${own}/v2/far\r\n`);
  expect(answer).toContain(`\r\nContent-Location: http://${own}/v1/near\r\n`);
  expect(await running.raw(head(`https://${own}/v1/x?${fields}`))).toContain(`<https://${own}/v1/2>; rel=next`);
});

it("leads back to the host that a path belongs to, where a provider has several", async () => {
  const provider = await startProvider(saying);
  const files = await startProvider(saying);
  const at = (port: number) => `https://127.0.0.1:${port}`;
  const running = await startProxied(provider.port, {
    provider: {
      proxy: { baseUrl: `${at(provider.port)}/v1`, hosts: [{ prefix: "/files/", origin: at(files.port) }] },
    },
    env: { LATCHKEY_ALLOW_PRIVATE: `http://127.0.0.1:${provider.port},http://127.0.0.1:${files.port}` },
  });
  const door = `${running.data}/proxy`;
  const linkFrom = async (path: string, target: string) => {
    const url = `${running.data}/proxy${path}?${query(`Link: <${target}>; rel=next`)}`;
    return fieldOf(await call(url, { headers: running.proxyHeaders }), "link");
  };
  expect(await linkFrom("/x", `${at(files.port)}/files/2`)).toBe(`<${door}/files/2>; rel=next`);
  expect(await linkFrom("/files/x", `${at(provider.port)}/v1/2`)).toBe(`<${door}/2>; rel=next`);
  expect(await linkFrom("/files/x", `${at(files.port)}/2`)).toBe(`<${at(files.port)}/2>; rel=next`);
  expect(await linkFrom("/x", `${at(provider.port)}/v1/files/2`)).toBe(`<${at(provider.port)}/v1/files/2>; rel=next`);
});

it("leads links back over HTTP/2, on both sides, in a hint and behind a body", async () => {
  const h1 = await startProvider(({ line }, socket) => {
    const own = `https://127.0.0.1:${h1.port}`;
    const early = line.includes("/hint") ? `HTTP/1.1 103 Early Hints\r\nLink: <${own}/h>; rel=next\r\n\r\n` : "";
    const head = `HTTP/1.1 200 OK\r\nLink: <${own}/2>; rel=next\r\nTransfer-Encoding: chunked\r\n\r\n`;
    const trailers = `Link: <${own}/t>; rel=next\r\nLocation: ${own}/t\r\nLatchkey-Error: x\r\nX-Sum: 1\r\n`;
    socket.write(`${early}${head}2\r\nok\r\n0\r\n${trailers}\r\n`);
  });
  const running = await startProxied(h1.port);
  const { host } = new URL(running.data);
  const session = await openSession(running.data);
  const over2 = await streamed(session, "/proxy/x", { headers: running.proxyHeaders });
  expect(over2.headers["link"]).toBe(`<http://${host}/proxy/2>; rel=next`);
  expect(over2.trailers).toMatchObject({ "x-sum": "1" });
  expect(Object.keys(over2.trailers)).toEqual(["x-sum"]);
  const over1 = await call(`${running.data}/proxy/x`, { headers: running.proxyHeaders });
  expect(fieldOf(over1, "link")).toBe(`<${running.data}/proxy/2>; rel=next`);
  expect(over1.trailers).toEqual(["X-Sum", "1"]);
  const hinted = await running.raw(`GET /proxy/hint HTTP/1.1\r\nHost: ${host}\r\n${running.proxyLines}\r\n`);
  expect(hinted).toContain(`103 Early Hints\r\nLink: <http://${host}/proxy/h>; rel=next\r\n`);

  const h2 = await startHttp2Provider((stream) => {
    stream.respond({ ":status": 200, link: `<https://127.0.0.1:${h2.port}/2>; rel=next` });
    stream.end("ok");
  });
  const other = await startProxied(h2.port, {
    provider: { proxy: { baseUrl: `https://127.0.0.1:${h2.port}`, http2Only: true } },
  });
  const answer = await call(`${other.data}/proxy/x`, { headers: other.proxyHeaders });
  expect(fieldOf(answer, "link")).toBe(`<${other.data}/proxy/2>; rel=next`);
});

it("shows no provider the key of a caller that follows its links", async () => {
  const { provider, own, running, linkOf, alias } = await started();
  for (const link of [`<https://${own}/v1/2>; rel=next`, `<http://${own}/v1/2>; rel=next`, "<two>; rel=next"]) {
    const [, next = ""] = /^<([^>]*)>/.exec((await linkOf(link)) ?? "") ?? [];
    expect((await call(next, { headers: running.proxyHeaders })).status).toBe(200);
    const first = await call(`${alias}/x?${query(`Link: ${link}`)}`, {
      headers: { authorization: `Bearer ${secretKey}` },
    });
    const [, second = ""] = /^<([^>]*)>/.exec(fieldOf(first, "link") ?? "") ?? [];
    expect((await call(second, { headers: { authorization: `Bearer ${secretKey}` } })).status).toBe(200);
  }
  expect(provider.received()).not.toContain(secretKey);
  expect(provider.connections.flatMap((one) => one.requests())).toHaveLength(12);
});
