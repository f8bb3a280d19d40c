import { expect, it } from "vitest";
import { type Answering, startProvider, startProxied } from "../../support/peers/provider.ts";
import { openSession, streamed } from "../../support/wire/http2-call.ts";
import { call, fieldOf } from "../../support/wire/proxy-call.ts";

const say = (status: string, body: string, more = "") =>
  `HTTP/1.1 ${status}\r\nContent-Type: application/json\r\nContent-Length: ${body.length}\r\n${more}\r\n${body}`;

it("reports the state of an inactive connection, and the log with the reason", async () => {
  let isDead = false;
  const answering: Answering = ({ line }, socket) => {
    const forged = "Latchkey-Connection-State: active\r\nlatchkey-log-id: forged\r\n";
    if (line.startsWith("POST /token")) socket.write(say("400 Bad Request", '{"error":"invalid_grant"}'));
    else if (line.includes("/notable"))
      socket.write(say("200 OK", "[]", `${forged}Vary: Accept\r\nLink: <x>; rel=a\r\n`));
    else if (isDead && line.includes("/refused")) socket.write(say("401 Unauthorized", "{}", forged));
    else socket.write(say("200 OK", "[]"));
  };
  const provider = await startProvider(answering);
  const own = `https://127.0.0.1:${provider.port}`;
  const running = await startProxied(provider.port, {
    provider: { auth: { case: "oauth2", value: { authorizationUrl: `${own}/auth`, tokenUrl: `${own}/token` } } },
    integration: { credentials: { type: "OAUTH2", client_id: "app", client_secret: "the-secret" } },
    credentials: {
      type: "OAUTH2",
      access_token: "the-token",
      refresh_token: "the-refresh-token",
      expires_at: new Date(Date.now() + 3_600_000).toISOString(),
    },
  });
  const ask = (path: string, method = "GET") =>
    call(`${running.data}/proxy${path}`, { method, headers: running.proxyHeaders });
  const stateOf = (answer: Awaited<ReturnType<typeof ask>>) => [
    answer.status,
    fieldOf(answer, "latchkey-connection-state"),
    fieldOf(answer, "latchkey-log-id"),
  ];
  for (const path of ["/plain", "/notable"])
    expect(stateOf(await ask(path)), path).toEqual([200, undefined, undefined]);

  isDead = true;
  const first = await ask("/refused");
  const { body } = await running.rest("GET", "/connections/ada?provider_config_key=here");
  const logId = body.errors[0].log_id;
  expect(logId).toMatch(/^\w+$/);
  const dead = (status: number) => [status, "reauthorization_required", logId];
  expect(stateOf(first)).toEqual(dead(401));
  expect(stateOf(await ask("/refused"))).toEqual(dead(401));
  expect(stateOf(await ask("/refused", "DELETE"))).toEqual(dead(401));
  expect(stateOf(await ask("/plain"))).toEqual(dead(200));
  expect(stateOf(await ask("/notable"))).toEqual(dead(200));
  expect(stateOf(await ask("/plain", "HEAD"))).toEqual(dead(200));
  const over2 = await streamed(await openSession(running.data), "/proxy/plain", { headers: running.proxyHeaders });
  expect(over2.headers).toMatchObject({
    "latchkey-connection-state": "reauthorization_required",
    "latchkey-log-id": logId,
  });

  // With new credentials the warning is gone.
  const again = await running.rest("POST", "/connections", {
    body: {
      provider_config_key: "here",
      connection_id: "ada",
      credentials: { type: "OAUTH2", access_token: "another", refresh_token: "another-refresh" },
    },
  });
  expect(again.status).toBe(201);
  expect(stateOf(await ask("/plain"))).toEqual([200, undefined, undefined]);
});
