import { createPublicKey, generateKeyPairSync, verify } from "node:crypto";
import { expect, it } from "vitest";
import { type OwnProvider, ownProvider, type SeenRequest } from "../../support/sidecar/own-provider.ts";

const { privateKey, publicKey } = generateKeyPairSync("rsa", { modulusLength: 2048 });
const pem = privateKey.export({ type: "pkcs8", format: "pem" }) as string;

const installable = {
  app: {
    install_url: "https://git.example/apps/${integration.slug}/new",
    callback_fields: { installation_id: "installation_id" },
    installation_proof: {
      token_url: "${ORIGIN}/user-token",
      list_url: "${ORIGIN}/user/installations?per_page=1",
      items: "installations",
      value: "id",
      field: "installation_id",
      connection_config: { installation_id: "id" },
      metadata: { account: "account.login" },
    },
    token_url: "${ORIGIN}/app/installations/${credentials.installation_id}/access_tokens",
    request: { authorization: "jwt" },
    jwt: { algorithm: "RS256", claims: { iss: "${credentials.app_id}" } },
    token_answer: { access_token: "token", expires_at: "expires_at", expires_at_unit: "iso" },
  },
  integration_settings: [{ name: "slug", pattern: "[a-z\\-]+", required: true }],
  proxy: { base_url: "${ORIGIN}/api" },
};

interface AppOptions {
  readonly pages?: readonly (readonly number[])[];
  /** The `Link` of the first page, after the path of the second. */
  readonly next?: string;
  readonly settings?: object;
}

async function installing({ pages = [[11], [77]], next, settings = { slug: "my-app" } }: AppOptions = {}) {
  let origin = "";
  const own: OwnProvider = await ownProvider({
    description: installable,
    integration: {
      oauth: {
        client_id: "Iv1.app",
        client_secret: { env: "APP_SECRET" },
        private_key: { env: "APP_KEY" },
      },
      settings,
    },
    env: { APP_KEY: pem },
    answer({ path, query, form, headers }: SeenRequest) {
      origin = `https://${headers.host}`;
      if (path === "/user-token") {
        return form["code"] === "code-1"
          ? { body: { access_token: "user-token-1" } }
          : { body: { error: "bad_verification_code" } };
      }
      if (path === "/user/installations") {
        const page = Number(query["page"] ?? "1");
        const link = next ?? `${origin}/user/installations?per_page=1&page=${page + 1}`;
        return {
          headers: page < pages.length ? { link: `<${link}>; rel="next"` } : {},
          body: { installations: pages[page - 1]?.map((id) => ({ id, account: { login: `org-${id}` } })) },
        };
      }
      if (path.endsWith("/access_tokens")) {
        const jwt = (headers.authorization ?? "").replace("Bearer ", "");
        const [head = "", claims = "", signature = ""] = jwt.split(".");
        const isGood = verify(
          "sha256",
          Buffer.from(`${head}.${claims}`),
          createPublicKey(publicKey.export({ type: "spki", format: "pem" })),
          Buffer.from(signature, "base64url"),
        );
        const { iss } = JSON.parse(Buffer.from(claims, "base64url").toString());
        return isGood && iss === "Iv1.app"
          ? {
              body: {
                token: `ghs-of-${path.split("/")[3]}`,
                expires_at: new Date(Date.now() + 3_600_000).toISOString(),
              },
            }
          : { status: 401 };
      }
      return { body: { as: headers.authorization } };
    },
  });
  return own;
}

it("installs an app: proves the installation, and calls with its token", async () => {
  const own = await installing();
  const at = await own.leave();
  expect(at.href).toMatch(/^https:\/\/git\.example\/apps\/my-app\/new\?state=[\w-]{43}$/);
  const page = await own.comeBack(at, { code: "code-1", installation_id: "77", setup_action: "install" });
  expect([page.status, page.text.includes("is connected")]).toEqual([200, true]);
  const connection = await own.connection();
  expect(connection).toMatchObject({
    connection_config: { installation_id: "77" },
    metadata: { account: "org-77" },
    credentials: { type: "APP", app_id: "Iv1.app", installation_id: "77", access_token: "ghs-of-77" },
  });
  const [asked] = own.seen;
  expect(asked?.form).toEqual({
    grant_type: "authorization_code",
    code: "code-1",
    client_id: "Iv1.app",
    client_secret: "secret-of-the-app",
  });
  const [{ connection_id: id = "" } = {}] = await own.connections();
  const headers = { "provider-config-key": "own", "connection-id": id };
  expect((await own.sidecar.rest("GET", "/proxy/me", { headers })).body).toEqual({ as: "Bearer ghs-of-77" });
  // The end user's token only read the list.
  const said = JSON.stringify(connection) + own.sidecar.logged.join("\n");
  for (const secret of ["user-token-1", "code-1", "BEGIN PRIVATE"]) expect(said).not.toContain(secret);
});

it.each([
  ["another customer's installation", { code: "code-1", installation_id: "12" }, "does not list this installation"],
  ["no code", { installation_id: "77" }, "did not say who you are"],
  ["a used code", { code: "code-2", installation_id: "77" }, "could not be reached"],
  ["a request for approval", { code: "code-1", setup_action: "request" }, "named no installation"],
  ["a path", { code: "code-1", installation_id: "77/../78" }, "named no installation"],
])("makes no connection from %s", async (_, parameters, message) => {
  const own = await installing();
  const page = await own.comeBack(await own.leave(), parameters as Record<string, string>);
  expect([page.status, page.text.includes(message)]).toEqual([400, true]);
  expect(await own.connections()).toEqual([]);
  expect(own.seen.some(({ path }) => path.startsWith("/app/"))).toBe(false);
});

it("reads the end user's list from its own host alone", async () => {
  const own = await installing({ next: "https://evil.example/user/installations?page=2" });
  const page = await own.comeBack(await own.leave(), { code: "code-1", installation_id: "77" });
  expect([page.status, page.text.includes("does not list")]).toEqual([400, true]);
});

it("says which setting the page of the app lacks", async () => {
  const own = await installing({ settings: {} });
  await expect(own.leave()).rejects.toThrow("slug");
});
