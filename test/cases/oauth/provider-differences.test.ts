import { expect, it } from "vitest";
import { ownProvider } from "../../support/sidecar/own-provider.ts";

const realm = { name: "realm", pattern: "[a-z0-9]{1,20}", automatic: true, required: true };

/** A provider that differs from RFC 6749 wherever real ones do. */
const peculiar = {
  oauth2: {
    authorization_url: "${ORIGIN}/authorize",
    token_url: "${ORIGIN}/${connectionConfig.realm}/token",
    refresh_url: "${ORIGIN}/renew",
    token_endpoint_auth_method: "client_secret_post",
    no_pkce: true,
    default_scopes: ["one"],
    callback_config: { realm: "realmId" },
    parameter_names: {
      client_id: "app_id",
      client_secret: "secret",
      code: "auth_code",
      callback_code: "auth_code",
      redirect_uri: "return_to",
    },
    omitted_params: ["response_type", "grant_type"],
    token_request_format: "query",
    refresh_request_method: "GET",
    renewal: { grant_type: "extend", parameter: "access_token", access_token: true, no_client_secret: true },
    exchanges: [
      {
        url: "${ORIGIN}/long",
        method: "GET",
        params: { grant: "long", secret: "${integration.clientSecret}", token: "${token}" },
      },
      {
        url: "${ORIGIN}/${connectionConfig.realm}/site",
        format: "json",
        params: { t: "${token}" },
        token_answer: { metadata: { site: "site" } },
      },
    ],
  },
  connection_fields: [realm],
  proxy: { base_url: "${ORIGIN}/${connectionConfig.realm}" },
};

it("takes part in a flow whose parameters, methods and steps are the provider's own", async () => {
  const own = await ownProvider({
    description: peculiar,
    answer({ path, query }) {
      if (path === "/acme/token") return { body: { access_token: "short-1", expires_in: 60 } };
      if (path === "/long") return { body: { access_token: `long-of-${query["token"]}`, expires_in: 5_000 } };
      if (path === "/acme/site") return { body: { site: "s-1" } };
      if (path === "/renew") return { body: { access_token: "renewed-1", expires_in: 5_000 } };
      return undefined;
    },
  });
  const at = await own.leave();
  expect(Object.fromEntries(at.searchParams)).toEqual({
    app_id: "client-1",
    return_to: expect.stringMatching(/[/]oauth[/]callback[/]/),
    scope: "one",
    state: expect.any(String),
  });
  const page = await own.comeBack(at, { auth_code: "code-1", realmId: "acme" });
  expect([page.status, page.text.includes("is connected")]).toEqual([200, true]);
  const connection = await own.connection();
  expect(connection).toMatchObject({
    connection_config: { realm: "acme" },
    metadata: { site: "s-1" },
    credentials: { access_token: "long-of-short-1", raw: { site: "s-1" } },
  });
  const [exchange, long, site] = own.seen;
  expect(exchange).toMatchObject({ method: "POST", path: "/acme/token", form: {} });
  expect(exchange?.query).toEqual({
    auth_code: "code-1",
    return_to: at.searchParams.get("return_to"),
    app_id: "client-1",
    secret: "secret-of-the-app",
  });
  expect(exchange?.headers["content-type"]).toBeUndefined();
  expect([long?.method, long?.query]).toEqual([
    "GET",
    { grant: "long", secret: "secret-of-the-app", token: "short-1" },
  ]);
  expect(site).toMatchObject({ method: "POST", form: { t: "long-of-short-1" } });

  const { connection_id: id } = connection as { connection_id?: string };
  await own.sidecar.rest("GET", `/connections/${id}?provider_config_key=own&force_refresh=true`);
  expect(own.seen.at(-1)).toMatchObject({ method: "GET", path: "/renew" });
  expect(own.seen.at(-1)?.query).toEqual({ access_token: "long-of-short-1", app_id: "client-1" });
  expect((await own.connection()).credentials).toMatchObject({ access_token: "renewed-1" });
  const logged = own.sidecar.logged.join("\n");
  for (const secret of ["code-1", "secret-of-the-app", "short-1", "renewed-1"]) expect(logged).not.toContain(secret);
});

it("sends no code to an address that the callback made up, and none without the callback's value", async () => {
  const own = await ownProvider({ description: peculiar, answer: () => undefined });
  for (const forged of [{ realmId: "evil.example/x" }, { realmId: "ACME" }, {}, { realm: "acme" }]) {
    const page = await own.comeBack(await own.leave(), { auth_code: "code-1", ...forged } as Record<string, string>);
    expect([page.status, page.text.includes("lacks a value, or has one that is not allowed")]).toEqual([400, true]);
  }
  expect([own.seen, await own.connections()]).toEqual([[], []]);
});

it("tells a failed step after the code was used up, and makes no connection", async () => {
  const own = await ownProvider({
    description: peculiar,
    answer: ({ path }) =>
      path === "/acme/token" ? { body: { access_token: "short-1" } } : { status: 503, body: { error: "busy" } },
  });
  const page = await own.comeBack(await own.leave(), { auth_code: "code-1", realmId: "acme" });
  expect([page.status, page.text.includes("could not be reached")]).toEqual([400, true]);
  expect(own.seen.map(({ path }) => path)).toEqual(["/acme/token", "/long"]);
  expect(await own.connections()).toEqual([]);
});
