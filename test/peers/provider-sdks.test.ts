import type { AddressInfo } from "node:net";
import { auth, calendar } from "@googleapis/calendar";
import { Octokit } from "@octokit/core";
import { Octokit as RestOctokit } from "@octokit/rest";
import { LogLevel, WebClient } from "@slack/web-api";
import Stripe from "stripe";
import { describe, expect, it } from "vitest";
import { secretKey } from "../support/sidecar/harness.ts";
import { type Answered, type Asked, connectionHeaders, expectAllClean, startOrigin } from "./origin.ts";

/** Providers' own SDKs, with latchkey's address as the provider's, and latchkey's key as the token. */

const lineOf = ({ method, url }: Asked) => `${method} ${url}`;

describe("@octokit/core", () => {
  const answer = ({ method, url }: Asked): Answered => {
    if (url.endsWith("/user")) return { body: { login: "ada" } };
    if (method === "POST") return { status: 201, body: { number: 7 } };
    if (url.includes("/missing")) return { status: 404, body: { message: "Not Found", documentation_url: "d" } };
    return { headers: { link: '<https://api.example/x?page=2>; rel="next"', etag: '"e1"' }, body: [{ number: 1 }] };
  };
  const clientFor = (baseUrl: string, headers: Readonly<Record<string, string>>) => {
    const octokit = new Octokit({ auth: secretKey, baseUrl });
    octokit.hook.before("request", (options) => void Object.assign(options.headers, headers));
    return octokit;
  };

  it("works under the prefix, with the path of an enterprise server behind it", async () => {
    const origin = await startOrigin(answer, "/api/v3");
    const octokit = clientFor(`${origin.data}/proxy`, connectionHeaders);
    expect((await octokit.request("GET /user")).data.login).toBe("ada");
    const { data, headers } = await octokit.request("GET /repos/{owner}/{repo}/issues", {
      owner: "a b",
      repo: "c",
      labels: "bug,ui",
      per_page: 2,
    });
    expect(data).toMatchObject([{ number: 1 }]);
    expect(headers).toMatchObject({ link: '<https://api.example/x?page=2>; rel="next"', etag: '"e1"' });
    const made = await octokit.request("POST /repos/{owner}/{repo}/issues", { owner: "a", repo: "b", title: "ü" });
    expect([made.status, made.data.number]).toEqual([201, 7]);
    expect(origin.asked.map(lineOf)).toEqual([
      "GET /api/v3/user",
      "GET /api/v3/repos/a%20b/c/issues?labels=bug%2Cui&per_page=2",
      "POST /api/v3/repos/a/b/issues",
    ]);
    expect(JSON.parse(origin.asked[2]?.body ?? "")).toEqual({ title: "ü" });
    expectAllClean(origin);
  });

  it("works through an alias, and distinguishes the provider's errors from latchkey's", async () => {
    const origin = await startOrigin(answer);
    const octokit = clientFor(origin.alias, {});
    await expect(octokit.request("GET /repos/{owner}/missing", { owner: "a" })).rejects.toMatchObject({
      status: 404,
      message: expect.stringContaining("Not Found"),
    });
    expectAllClean(origin);
    const stranger = new Octokit({ auth: "lk_wrong", baseUrl: origin.alias });
    await expect(stranger.request("GET /user")).rejects.toMatchObject({
      status: 401,
      response: { headers: { "latchkey-error": "unknown_key" } },
    });
    expect(origin.asked).toHaveLength(1);
  });
});

describe("@octokit/rest", () => {
  it.each(["the prefix", "an alias"])("pages through %s, and follows no link to the provider itself", async (way) => {
    const pages = 3;
    let at = "";
    const origin = await startOrigin(({ url }) => {
      const page = Number(new URL(url, at).searchParams.get("page") ?? "1");
      // GitHub links to its own address, with paths of another form than the request's.
      const to = (wanted: number, rel: string) =>
        `<${at}/repositories/7/issues?per_page=1&page=${wanted}>; rel="${rel}"`;
      const links = page < pages ? [to(page + 1, "next"), to(pages, "last")] : [to(1, "first"), to(page - 1, "prev")];
      return { headers: { link: links.join(", ") }, body: [{ number: page }] };
    });
    const { port } = origin.server.address() as AddressInfo;
    for (const scheme of ["http", "https"]) {
      at = `${scheme}://127.0.0.1:${port}`;
      const octokit = new RestOctokit({
        auth: secretKey,
        baseUrl: way === "an alias" ? origin.alias : `${origin.data}/proxy`,
      });
      if (way !== "an alias")
        octokit.hook.before("request", ({ headers }) => void Object.assign(headers, connectionHeaders));
      const found = await octokit.paginate("GET /repos/{owner}/{repo}/issues", { owner: "a", repo: "b", per_page: 1 });
      expect(found.map(({ number }) => number)).toEqual([1, 2, 3]);
      const listed = await octokit.paginate(octokit.rest.issues.listForRepo, { owner: "a", repo: "b", per_page: 1 });
      expect(listed).toHaveLength(pages);
    }
    expect(origin.asked).toHaveLength(4 * pages);
    expectAllClean(origin);
  });
});

describe("@slack/web-api", () => {
  it.each(["the prefix", "an alias"])("works through %s", async (way) => {
    let limited = 0;
    const origin = await startOrigin(({ url }) => {
      if (url.endsWith("auth.test")) return { body: { ok: true, user_id: "U1" } };
      if (url.endsWith("conversations.list")) return { body: { ok: true, channels: [], response_metadata: {} } };
      limited += 1;
      return limited === 1
        ? { status: 429, headers: { "retry-after": "1" }, body: "" }
        : { body: { ok: true, ts: "1.2", channel: "C1" } };
    });
    const address =
      way === "an alias"
        ? { slackApiUrl: `${origin.alias}/api/` }
        : { slackApiUrl: `${origin.data}/proxy/api/`, headers: { ...connectionHeaders } };
    const client = new WebClient(secretKey, { ...address, logLevel: LogLevel.ERROR });
    expect((await client.auth.test()).user_id).toBe("U1");
    expect((await client.chat.postMessage({ channel: "C1", text: "hello & ü" })).ts).toBe("1.2");
    for await (const page of client.paginate("conversations.list", { limit: 2 })) expect(page.ok).toBe(true);
    // It obeys the provider's limit, which it reads from the response.
    expect(origin.asked.map(({ url }) => url)).toEqual([
      "/api/auth.test",
      "/api/chat.postMessage",
      "/api/chat.postMessage",
      "/api/conversations.list",
    ]);
    const sent = new URLSearchParams(origin.asked[1]?.body);
    expect([sent.get("channel"), sent.get("text"), sent.get("token")]).toEqual(["C1", "hello & ü", null]);
    expectAllClean(origin);
  });
});

describe("@googleapis/calendar", () => {
  it("works through an alias: it uses only the origin of an address", async () => {
    const origin = await startOrigin(({ method, url }) => {
      if (method === "POST") return { body: { id: "e2", summary: "Tea" } };
      if (method === "DELETE") return { status: 204, body: "" };
      if (url.includes("/gone/")) return { status: 410, body: { error: { code: 410, message: "Gone" } } };
      return url.includes("pageToken=2")
        ? { body: { items: [{ id: "e1" }], nextSyncToken: "s" } }
        : { body: { items: [], nextPageToken: "2" } };
    });
    const user = new auth.OAuth2();
    user.setCredentials({ access_token: secretKey });
    const client = calendar({ version: "v3", rootUrl: `${origin.alias}/`, auth: user });
    const calendarId = "ada@example.com";
    const first = await client.events.list({ calendarId, singleEvents: true });
    const second = await client.events.list({ calendarId, pageToken: first.data.nextPageToken ?? "" });
    expect(second.data).toMatchObject({ items: [{ id: "e1" }], nextSyncToken: "s" });
    const made = await client.events.insert({ calendarId, requestBody: { summary: "Tea" } });
    expect(made.data.id).toBe("e2");
    expect((await client.events.delete({ calendarId, eventId: "e2" })).status).toBe(204);
    await expect(client.events.list({ calendarId: "gone" })).rejects.toMatchObject({ status: 410 });
    expect(origin.asked.map(lineOf)).toEqual([
      "GET /calendar/v3/calendars/ada%40example.com/events?singleEvents=true",
      "GET /calendar/v3/calendars/ada%40example.com/events?pageToken=2",
      "POST /calendar/v3/calendars/ada%40example.com/events",
      "DELETE /calendar/v3/calendars/ada%40example.com/events/e2",
      "GET /calendar/v3/calendars/gone/events",
    ]);
    expect(JSON.parse(origin.asked[2]?.body ?? "")).toEqual({ summary: "Tea" });
    expectAllClean(origin);
  });
});

describe("stripe", () => {
  it("works through an alias: it knows a host and a port, and no path before its own", async () => {
    let failed = 0;
    const origin = await startOrigin(({ method, url }) => {
      if (method === "POST") {
        failed += 1;
        return failed === 1
          ? { status: 503, body: { error: { type: "api_error", message: "busy" } } }
          : { body: { id: "cus_1", object: "customer" } };
      }
      if (url.includes("/nobody")) {
        return { status: 404, body: { error: { type: "invalid_request_error", message: "No such customer" } } };
      }
      const has_more = !url.includes("starting_after");
      return { body: { object: "list", url: "/v1/charges", has_more, data: [{ id: has_more ? "ch_1" : "ch_2" }] } };
    });
    const { hostname, port } = new URL(origin.alias);
    const stripe = new Stripe(secretKey, { host: hostname, port, protocol: "http", maxNetworkRetries: 1 });
    const ids: string[] = [];
    for await (const { id } of stripe.charges.list({ limit: 1 })) ids.push(id);
    expect(ids).toEqual(["ch_1", "ch_2"]);
    const customer = await stripe.customers.create({ name: "Ada & ü", metadata: { a: "b" } }, { idempotencyKey: "k1" });
    expect(customer.id).toBe("cus_1");
    await expect(stripe.customers.retrieve("nobody")).rejects.toMatchObject({ statusCode: 404 });
    expect(origin.asked.map(lineOf)).toEqual([
      "GET /v1/charges?limit=1",
      "GET /v1/charges?limit=1&starting_after=ch_1",
      "POST /v1/customers",
      "POST /v1/customers",
      "GET /v1/customers/nobody",
    ]);
    // The SDK retries with the same idempotency key, which is the provider's to interpret.
    for (const one of origin.asked.slice(2, 4)) {
      expect(one.headers["idempotency-key"]).toBe("k1");
      expect(Object.fromEntries(new URLSearchParams(one.body))).toEqual({ name: "Ada & ü", "metadata[a]": "b" });
    }
    expectAllClean(origin);
  });
});
