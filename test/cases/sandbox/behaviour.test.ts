import { once } from "node:events";
import { connect } from "node:net";
import { expect, it } from "vitest";
import type { BehaviourChange } from "../../../src/dev/sandbox/behaviour.ts";
import { bearer, own, type Started, started } from "./started.ts";

type Missteps = NonNullable<NonNullable<BehaviourChange["answers"]>["token"]>;

const fields = { grant_type: "client_credentials" };
const ask = ({ send }: Started) => send("POST", "/oauth2/token", { headers: own, body: new URLSearchParams(fields) });
const misbehaving = (...token: Missteps) => started({ behaviour: { answers: { token } } });

/** The received bytes of a raw socket until it ends or is silent for half a second. */
async function rawToken({ origin }: Started, { withBody = true } = {}): Promise<{ text: string; ended: string }> {
  const socket = connect(Number(new URL(origin).port), "127.0.0.1");
  await once(socket, "connect");
  const body = new URLSearchParams(fields).toString();
  const head = [
    "POST /oauth2/token HTTP/1.1",
    "host: 127.0.0.1",
    `authorization: ${own.authorization}`,
    "content-type: application/x-www-form-urlencoded",
    `content-length: ${body.length}`,
  ];
  let text = "";
  socket.setEncoding("latin1");
  socket.on("data", (chunk: string) => {
    if (text.length < 1_000_000) text += chunk;
    else socket.pause();
  });
  const ended = new Promise<string>((resolve) => {
    socket.on("error", (error: NodeJS.ErrnoException) => resolve(error.code ?? "error"));
    socket.on("close", () => resolve("closed"));
    setTimeout(() => resolve("open"), 700);
  });
  socket.write(`${head.join("\r\n")}\r\n\r\n${withBody ? body : ""}`);
  const how = await ended;
  socket.destroy();
  return { text, ended: how };
}

it("fails the configured number of times, and then works again", async () => {
  const sandbox = await misbehaving(
    { kind: "error", status: 429, error: "temporarily_unavailable", headers: { "retry-after": "7" }, times: 2 },
    { kind: "error", status: 401, error: "invalid_client", description: "no", times: 1 },
  );
  for (let i = 0; i < 2; i += 1) {
    const response = await ask(sandbox);
    expect([response.status, response.headers.get("retry-after")]).toEqual([429, "7"]);
    expect(await response.json()).toEqual({ error: "temporarily_unavailable" });
  }
  expect(await (await ask(sandbox)).json()).toEqual({ error: "invalid_client", error_description: "no" });
  expect((await ask(sandbox)).status).toBe(200);
});

it("fails until the setting changes", async () => {
  const sandbox = await misbehaving({ kind: "error", status: 503, error: "server_error" });
  for (let i = 0; i < 5; i += 1) expect((await ask(sandbox)).status).toBe(503);
  sandbox.behave({ answers: { token: [] } });
  expect((await ask(sandbox)).status).toBe(200);
});

it("misbehaves for one grant type only, if configured", async () => {
  const sandbox = await misbehaving({ kind: "error", error: "invalid_grant", grantType: "refresh_token" });
  expect((await ask(sandbox)).status).toBe(200);
  const { refresh_token } = sandbox.grant();
  expect((await sandbox.token({ grant_type: "refresh_token", refresh_token })).body).toEqual({
    error: "invalid_grant",
  });
  // The request was not processed: the token still works.
  sandbox.behave({ answers: { token: [] } });
  expect((await sandbox.token({ grant_type: "refresh_token", refresh_token })).status).toBe(200);
});

it("answers 200 without a token: HTML, ok:false, a form with an error", async () => {
  const form = "application/x-www-form-urlencoded";
  const sandbox = await misbehaving(
    { kind: "raw", text: "<html>Log in</html>", times: 1 },
    { kind: "raw", contentType: "application/json", text: '{"ok":false,"error":"invalid_refresh_token"}', times: 1 },
    { kind: "raw", contentType: form, text: "error=bad_refresh_token", times: 1 },
  );
  const answers = [await ask(sandbox), await ask(sandbox), await ask(sandbox)];
  expect(answers.map(({ status, headers }) => [status, headers.get("content-type")])).toEqual([
    [200, "text/html; charset=utf-8"],
    [200, "application/json"],
    [200, form],
  ]);
  expect(await answers[1]?.json()).toEqual({ ok: false, error: "invalid_refresh_token" });
});

it.each([null, "", "abc", true, 0, "0", "3600", "3600.5", 3600.7, "1e9", -1, 1e13, [3600], {}])(
  "sends expires_in as configured: %j",
  async (expires_in) => {
    const sandbox = await started({ behaviour: { tokenAnswer: { fields: { expires_in } } } });
    const { body } = await sandbox.token(fields);
    expect(body.expires_in).toEqual(expires_in);
    expect((await sandbox.get("/api/me", bearer(body.access_token))).status).toBe(200);
  },
);

it("bends the answer's fields: left out, replaced, added, nested, as a form", async () => {
  const sandbox = await started({
    behaviour: {
      tokenAnswer: {
        omit: ["access_token", "expires_in"],
        fields: { token_type: "DPoP", instance_url: "https://x.example" },
      },
    },
  });
  const { body } = await sandbox.token(fields);
  expect(body).toEqual({ token_type: "DPoP", instance_url: "https://x.example", scope: "" });
  sandbox.behave({ tokenAnswer: { nestUnder: "authed_user" } });
  expect((await sandbox.token(fields)).body).toMatchObject({ ok: true, authed_user: { token_type: "Bearer" } });
  sandbox.behave({ tokenAnswer: { format: "form" } });
  const form = await ask(sandbox);
  expect(form.headers.get("content-type")).toContain("application/x-www-form-urlencoded");
  const token = new URLSearchParams(await form.text()).get("access_token") ?? "";
  expect((await sandbox.get("/api/me", bearer(token))).status).toBe(200);
});

it("redirects, and answers at length", async () => {
  const sandbox = await misbehaving(
    { kind: "redirect", location: "http://127.0.0.1:9/", times: 1 },
    { kind: "large", times: 1 },
  );
  const redirected = await ask(sandbox);
  expect([redirected.status, redirected.headers.get("location")]).toEqual([302, "http://127.0.0.1:9/"]);
  expect((await (await ask(sandbox)).arrayBuffer()).byteLength).toBe(5_242_880);
});

it("answers with bytes that no UTF-8 has", async () => {
  const response = await ask(await misbehaving({ kind: "invalid-utf8" }));
  const bytes = Buffer.from(await response.arrayBuffer());
  expect(() => new TextDecoder("utf-8", { fatal: true }).decode(bytes)).toThrow();
});

it("sends a body that never ends, and stops when the reader leaves", async () => {
  const sandbox = await misbehaving({ kind: "endless" });
  const { text, ended } = await rawToken(sandbox);
  expect(text.length).toBeGreaterThan(900_000);
  expect(ended).toBe("open");
  await expect.poll(() => sandbox.seen().last.token?.at(-1)?.outcome).toBe("left");
  sandbox.behave({ answers: { token: [] } });
  expect((await ask(sandbox)).status).toBe(200);
});

it("dribbles, stalls and is silent", async () => {
  const dribbling = await misbehaving({ kind: "trickle" });
  const dribble = await rawToken(dribbling);
  await expect.poll(() => dribbling.seen().last.token?.at(-1)?.outcome).toBe("left");
  expect([dribble.ended, dribble.text.split("\r\n\r\n")[1]]).toEqual(["open", "1\r\n \r\n"]);
  const stall = await rawToken(await misbehaving({ kind: "stall" }));
  expect([stall.ended, stall.text.split("\r\n\r\n")[1]]).toEqual(["open", '{"access_t']);
  expect(await rawToken(await misbehaving({ kind: "silent" }))).toEqual({ text: "", ended: "open" });
});

it("resets a connection before it has read the body, or after", async () => {
  const before = await misbehaving({ kind: "reset-before-reading" });
  expect(await rawToken(before, { withBody: false })).toEqual({ text: "", ended: "ECONNRESET" });
  const after = await misbehaving({ kind: "reset-after-reading" });
  expect(await rawToken(after, { withBody: false })).toEqual({ text: "", ended: "open" });
  expect(await rawToken(after)).toEqual({ text: "", ended: "ECONNRESET" });
  expect(after.seen().tallies.tokensIssued).toBe(0);
  expect(after.seen().last.token?.at(-1)).toMatchObject({
    outcome: "reset-after-reading",
    body: "grant_type=client_credentials",
  });
});

it("O15 rotates, and drops the answer: without grace the family ends, with grace one retry recovers", async () => {
  const answers = { token: [{ kind: "drop-answer" as const, times: 1 }] };
  for (const [graceS, error] of [
    [0, "invalid_grant"],
    [10, undefined],
  ] as const) {
    const sandbox = await started({ behaviour: { graceS, answers } });
    const { refresh_token } = sandbox.grant();
    const renewal = { grant_type: "refresh_token", refresh_token };
    await expect(sandbox.token(renewal)).rejects.toThrow("fetch failed");
    expect(sandbox.seen().tallies.refreshes).toBe(1);
    expect((await sandbox.token(renewal)).body.error).toBe(error);
  }
});

it("cuts an answer in the middle, so that it never looks complete", async () => {
  const { text, ended } = await rawToken(await misbehaving({ kind: "cut-answer" }));
  const [head = "", body = ""] = text.split("\r\n\r\n");
  const promised = Number(/content-length: (\d+)/i.exec(head)?.[1]);
  expect(body.length).toBe(Math.floor(promised / 2));
  expect(ended).toBe("ECONNRESET");
});

it("waits before it acts, or acts and waits before it answers", async () => {
  const sandbox = await misbehaving(
    { kind: "ordinary", delayMs: 400, times: 1 },
    { kind: "ordinary", holdMs: 400, times: 1 },
  );
  const issued = () => sandbox.seen().tallies.tokensIssued;
  const since = performance.now();
  const delayed = ask(sandbox);
  await new Promise((resolve) => setTimeout(resolve, 200));
  expect(issued()).toBe(0);
  expect((await delayed).status).toBe(200);
  expect(performance.now() - since).toBeGreaterThan(390);
  const held = ask(sandbox);
  let isAnswered = false;
  void held.then(() => {
    isAnswered = true;
  });
  await expect.poll(issued, { interval: 5 }).toBe(2);
  expect(isAnswered).toBe(false);
  expect((await held).status).toBe(200);
  expect(performance.now() - since).toBeGreaterThan(780);
});

it("misbehaves at any endpoint, in the shape of its errors", async () => {
  const sandbox = await started({
    behaviour: {
      answers: { watch: [{ kind: "error", status: 403, error: "rateLimitExceeded", description: "Slow down." }] },
    },
  });
  const { access_token } = sandbox.grant();
  const response = await sandbox.send("POST", "/v3/calendars/primary/events/watch", {
    headers: bearer(access_token),
    body: {},
  });
  expect(response.status).toBe(403);
  expect(await response.json()).toEqual({
    error: {
      code: 403,
      message: "Slow down.",
      errors: [{ domain: "global", reason: "rateLimitExceeded", message: "Slow down." }],
    },
  });
});

it("is configured and read over HTTP as well", async () => {
  const sandbox = await started();
  const put = (body: unknown) => sandbox.send("PUT", "/_sandbox/behaviour", { body });
  const changed = await put({ graceS: 30, answers: { token: [{ kind: "error", error: "invalid_grant", times: 2 }] } });
  expect(await changed.json()).toMatchObject({ graceS: 30, rotation: true, answers: { token: [{ left: 2 }] } });
  expect((await ask(sandbox)).status).toBe(400);
  // A change keeps the settings that it does not name.
  await put({ iss: "wrong" });
  expect(await (await sandbox.get("/_sandbox/behaviour")).json()).toMatchObject({
    graceS: 30,
    iss: "wrong",
    answers: { token: [{ left: 1 }] },
  });
  await sandbox.send("POST", "/_sandbox/reset");
  expect((await ask(sandbox)).status).toBe(200);
  expect(await (await sandbox.get("/_sandbox/behaviour")).json()).toMatchObject({ graceS: 0, iss: "right" });
});

it.each([
  [{ grace: 1 }, "grace"],
  [{ graceS: "1" }, "graceS"],
  [{ answers: { tokens: [] } }, "answers.tokens"],
  [{ answers: { token: [{ kind: "explode" }] } }, "answers.token.0.kind"],
  [{ answers: { token: [{ kind: "redirect", location: "a\r\nb" }] } }, "answers.token.0.location"],
  [[], "JSON object"],
])("refuses a change with an unknown setting, and changes nothing: %j", async (change, named) => {
  const sandbox = await started();
  const before = await (await sandbox.get("/_sandbox/behaviour")).json();
  const response = await sandbox.send("PUT", "/_sandbox/behaviour", { body: change });
  expect(response.status).toBe(400);
  expect(JSON.stringify(await response.json())).toContain(named);
  expect(await (await sandbox.get("/_sandbox/behaviour")).json()).toEqual(before);
});

it("counts requests and remembers the last ones", async () => {
  const sandbox = await started();
  for (let i = 0; i < 30; i += 1) await sandbox.get(`/drive/v3/files?pageSize=${i + 1}`);
  await sandbox.get("/nowhere");
  const seen = (await (await sandbox.get("/_sandbox/seen")).json()) as ReturnType<Started["seen"]>;
  expect(seen.requests).toMatchObject({ files: 30, unknown: 1 });
  expect(seen.last.files).toHaveLength(20);
  expect(seen.last.files?.at(-1)).toMatchObject({
    method: "GET",
    target: "/drive/v3/files?pageSize=30",
    outcome: "401",
  });
});

it("accepts commands from this machine, but not from foreign pages or by DNS rebinding", async () => {
  const { send, origin } = await started();
  const statusOf = async (headers: Readonly<Record<string, string>>) =>
    (await send("POST", "/_sandbox/reset", { headers })).status;
  expect(await statusOf({})).toBe(200);
  expect(await statusOf({ origin })).toBe(200);
  expect(await statusOf({ origin: "https://evil.example" })).toBe(403);
  expect(await statusOf({ origin: "null" })).toBe(403);
  expect(await statusOf({ "sec-fetch-site": "cross-site" })).toBe(403);
  const socket = connect(Number(new URL(origin).port), "127.0.0.1");
  socket.write("GET /_sandbox/seen HTTP/1.1\r\nhost: evil.example\r\nconnection: close\r\n\r\n");
  const [chunk] = await once(socket, "data");
  expect(String(chunk)).toMatch(/^HTTP\/1\.1 403 /);
});

it("shows its page, registers apps, and issues and revokes tokens", async () => {
  const sandbox = await started();
  const page = await (await sandbox.get("/_sandbox")).text();
  expect(page).toContain("prefers-color-scheme:dark");
  expect(await (await sandbox.get("/_sandbox/")).text()).toContain("<h1>The Latchkey sandbox</h1>");
  for (const text of ["sandbox-secret", "sandbox-api-key", "ada@example.com", `${sandbox.origin}/oauth2/token`]) {
    expect(page).toContain(text);
  }
  expect((await sandbox.get("/")).headers.get("location")).toBe("/_sandbox");
  const made = await sandbox.send("PUT", "/_sandbox/clients/mine", {
    body: { secret: "s", redirectUris: ["https://a.example/"] },
  });
  expect(await made.json()).toMatchObject({ id: "mine", secret: "s" });
  const granted = await sandbox.send("POST", "/_sandbox/grant", { body: { user: "bob@example.com", client: "mine" } });
  const { access_token } = (await granted.json()) as { access_token: string };
  expect(await (await sandbox.get("/api/me", bearer(access_token))).json()).toMatchObject({
    email: "bob@example.com",
    by: "bearer",
  });
  const revoked = await sandbox.send("POST", "/_sandbox/revoke", { body: { client: "mine" } });
  expect(await revoked.json()).toEqual({ revoked: 1 });
  expect((await sandbox.get("/api/me", bearer(access_token))).status).toBe(401);
  expect((await sandbox.send("POST", "/_sandbox/grant", { body: { user: "nobody@example.com" } })).status).toBe(400);
  expect((await sandbox.send("POST", "/_sandbox/revoke", { body: { who: "ada" } })).status).toBe(400);
});

it("a reset keeps only the apps", async () => {
  const sandbox = await started();
  sandbox.register({ id: "kept", secret: "s" });
  const { access_token, refresh_token } = sandbox.grant();
  sandbox.reset();
  expect((await sandbox.get("/drive/v3/files", bearer(access_token))).status).toBe(401);
  expect((await sandbox.token({ grant_type: "refresh_token", refresh_token })).body.error).toBe("invalid_grant");
  expect(sandbox.grant({ client: "kept" }).access_token).toBeTruthy();
});

it("closes while a request waits for an answer", async () => {
  const sandbox = await misbehaving({ kind: "silent" });
  const waiting = ask(sandbox);
  await expect.poll(() => sandbox.seen().requests.token).toBe(1);
  await sandbox.close();
  await expect(waiting).rejects.toThrow();
});
