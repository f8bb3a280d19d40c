import { expect, it } from "vitest";
import { ConnectionService } from "../../../src/gen/latchkey/v1/connection_pb.ts";
import { IntegrationService } from "../../../src/gen/latchkey/v1/integration_pb.ts";
import { type OwnProvider, ownProvider, type SeenRequest } from "../../support/sidecar/own-provider.ts";

/** A provider that gives a bot and a user a token each, both with rotation. */
const twofold = {
  oauth2: {
    authorization_url: "${ORIGIN}/authorize",
    token_url: "${ORIGIN}/token",
    token_endpoint_auth_method: "client_secret_post",
    scope_separator: ",",
    default_scopes: ["bot:read"],
    further_tokens: {
      user: {
        token_answer: { access_token: "authed_user.access_token" },
        scope_parameter: "user_scope",
        scope_notes: [{ scope: "search:read", meaning: "Search." }],
      },
    },
  },
  proxy: { base_url: "${ORIGIN}/api" },
};

const lifeS = 3_600;

function answers() {
  let issued = 0;
  let refused = "";
  const refuse = (token: string) => {
    refused = token;
  };
  const answer = ({ path, form, headers }: SeenRequest) => {
    if (path === "/api/echo") return { body: { sent: headers.authorization, hidden: "xoxp-secret-user-0" } };
    if (path.startsWith("/api/")) {
      return headers.authorization === `Bearer ${refused}` ? { status: 401 } : { body: { as: headers.authorization } };
    }
    if (form["grant_type"] === "authorization_code") {
      return {
        body: {
          access_token: "xoxb-secret-bot-0",
          refresh_token: "xoxe-bot-0",
          expires_in: lifeS,
          scope: "bot:read",
          authed_user: {
            id: "U1",
            access_token: "xoxp-secret-user-0",
            refresh_token: "xoxe-user-0",
            expires_in: lifeS,
            scope: "search:read",
          },
        },
      };
    }
    issued += 1;
    const given = form["refresh_token"] ?? "";
    if (given === "xoxe-dead") return { status: 400, body: { error: "invalid_grant" } };
    const who = given.includes("user") ? "user" : "bot";
    return {
      body: {
        access_token: `xox${who[0]}-secret-${who}-${issued}`,
        refresh_token: `xoxe-${who}-${issued}`,
        expires_in: lifeS,
      },
    };
  };
  return { answer, refuse };
}

async function connected(options: { readonly now?: () => number; readonly integration?: object } = {}) {
  const { answer, refuse } = answers();
  const own = await ownProvider({
    description: twofold,
    answer,
    integration: {
      oauth: {
        client_id: "client-1",
        client_secret: { env: "APP_SECRET" },
        further_scopes: { user: ["search:read", "users:read"] },
      },
      ...options.integration,
    },
    ...(options.now === undefined ? {} : { now: options.now }),
  });
  const at = await own.leave();
  const page = await own.comeBack(at, { code: "code-1" });
  expect(page.status).toBe(200);
  const [{ connection_id: id = "" } = {}] = await own.connections();
  return { own, at, id, refuse, call: callerOf(own, id) };
}

const callerOf =
  ({ sidecar }: OwnProvider, id: string) =>
  (path: string, token?: string) =>
    sidecar.rest("GET", `/proxy${path}`, {
      headers: {
        "provider-config-key": "own",
        "connection-id": id,
        ...(token === undefined ? {} : { "latchkey-token": token }),
      },
    });

const refreshesOf = ({ seen }: OwnProvider) =>
  seen.flatMap(({ path, form }) => (path === "/token" ? (form["refresh_token"] ?? []) : []));

it("requests, stores and shows two tokens, and sends the one that a request names", async () => {
  const { own, at, id, call } = await connected();
  expect([at.searchParams.get("scope"), at.searchParams.get("user_scope")]).toEqual([
    "bot:read",
    "search:read,users:read",
  ]);
  for (let i = 0; i < 3; i += 1) {
    expect((await call("/me")).body).toEqual({ as: "Bearer xoxb-secret-bot-0" });
    expect((await call("/me", "user")).body).toEqual({ as: "Bearer xoxp-secret-user-0" });
  }
  expect(own.seen.at(-1)?.headers["latchkey-token"]).toBeUndefined();
  const unknown = await call("/me", "admin");
  expect([unknown.status, unknown.body.error]).toEqual([
    400,
    expect.objectContaining({
      code: "invalid_headers",
      message: 'Latchkey-Token: the connection has no token "admin"; it has user',
    }),
  ]);
  expect((await call("/me", "../x")).status).toBe(400);

  const { credentials } = await own.connection();
  expect(credentials).toMatchObject({
    access_token: "xoxb-secret-bot-0",
    raw: { authed_user: { id: "U1", access_token: "xoxp-secret-user-0" } },
    further_tokens: { user: { access_token: "xoxp-secret-user-0", scope: "search:read" } },
  });
  expect(JSON.stringify(credentials)).not.toContain("xoxe-");
  const explained = await own.sidecar
    .client(ConnectionService)
    .explainRequest({ ref: { environment: "dev", integration: "own", id }, path: "/me", token: "user" });
  expect(explained.injected).toEqual(["authorization"]);
  const { setup } = await own.sidecar
    .client(IntegrationService)
    .getIntegrationSetup({ environment: "dev", provider: "own", key: "own" });
  const field = setup?.fields.find(({ path }) => path === "oauth.further_scopes.user");
  expect([field?.hasValue, field?.options.map(({ value }) => value)]).toEqual([true, ["search:read"]]);
});

it("refreshes each token on its own, and ends only the one that is refused", async () => {
  let now = Date.now();
  const { own, call, refuse } = await connected({ now: () => now });
  now += lifeS * 1_000;
  const both = await Promise.all([call("/me", "user"), call("/me", "user"), call("/me")]);
  const [user, same, bot] = both.map(({ body }) => body.as);
  expect([user, bot]).toEqual([expect.stringContaining("-user-"), expect.stringContaining("-bot-")]);
  expect(same).toBe(user);
  expect(refreshesOf(own).sort()).toEqual(["xoxe-bot-0", "xoxe-user-0"]);
  const { credentials } = await own.connection();
  expect(`Bearer ${(credentials["raw"] as { authed_user: { access_token: string } }).authed_user.access_token}`).toBe(
    user,
  );

  // Refused before its time: it is refreshed once, and not at each call.
  refuse(String(user).slice(7));
  const replaced = (await call("/me", "user")).body.as;
  expect(replaced).not.toBe(user);
  refuse(replaced.slice(7));
  expect((await call("/me", "user")).status).toBe(401);
  expect(refreshesOf(own)).toHaveLength(3);
  expect((await call("/me")).body.as).toBe(bot);
});

it("keeps the connection when a further token is dead", async () => {
  let now = Date.now();
  const { answer } = answers();
  const own = await ownProvider({ description: twofold, answer, now: () => now });
  const body = {
    provider_config_key: "own",
    connection_id: "imported",
    credentials: {
      type: "OAUTH2",
      access_token: "xoxb-secret-bot-0",
      raw: { authed_user: { access_token: "xoxp-secret-user-0", refresh_token: "xoxe-dead" } },
    },
  };
  expect((await own.sidecar.rest("POST", "/connections", { body })).status).toBe(201);
  const call = callerOf(own, "imported");
  expect((await call("/me", "user")).body).toEqual({ as: "Bearer xoxp-secret-user-0" });
  const further = {
    user: { access_token: "xoxp-1", refresh_token: "xoxe-dead", expires_at: new Date(now).toISOString() },
  };
  const again = { ...body, credentials: { ...body.credentials, further_tokens: further } };
  expect((await own.sidecar.rest("POST", "/connections", { body: again })).status).toBe(201);
  now += 1_000;
  for (let i = 0; i < 2; i += 1) {
    const dead = await call("/me", "user");
    expect(dead.body.error).toMatchObject({
      code: "reauthorization_required",
      message: expect.stringContaining("invalid_grant"),
    });
  }
  expect(refreshesOf(own)).toEqual(["xoxe-dead"]);
  expect((await call("/me")).body).toEqual({ as: "Bearer xoxb-secret-bot-0" });
  const { connections } = (await own.sidecar.rest("GET", "/connections")).body;
  expect(connections[0].errors).toEqual([]);
});

it("hides every token of a connection from the callers of a guarded integration", async () => {
  const { call } = await connected({ integration: { reflection: "mask" } });
  for (const token of [undefined, "user"]) {
    const { body } = await call("/echo", token);
    expect(JSON.stringify(body)).not.toContain("secret");
    expect(body.hidden).toMatch(/^\*+$/);
  }
});
