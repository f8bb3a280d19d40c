import { describe, expect, it } from "vitest";
import { LogService } from "../../src/gen/latchkey/v1/log_pb.ts";
import { createAuthority, pem } from "../cases/control-plane/certificates.ts";
import { createTestBrowser } from "../support/sidecar/connecting.ts";
import { startTestSidecar, temporaryFolder } from "../support/sidecar/harness.ts";
import { lacks } from "../support/sidecar/needs.ts";
import { serve } from "../unit/broker/asking.ts";
import { oauth1Service } from "./oauth1-server.ts";

// A signature covers the scheme, so that the service uses TLS; browsers use a listener without.
describe.skipIf(lacks("openssl"))("an independent OAuth 1.0a service", () => {
  const secret = "secret of the app: %&+=/ü";

  async function connected({ method = "", appSecret = secret } = {}) {
    const ca = createAuthority(await temporaryFolder(), "authority");
    const here = ca.issue("here", { names: "IP:127.0.0.1" });
    const { listener, seen } = oauth1Service({ key: "app key", secret });
    const { origin: open } = await serve(listener);
    const { origin, port } = await serve(listener, { cert: pem(here.cert), key: pem(here.key) });
    const config = {
      environments: [{ name: "dev" }],
      providers: [
        {
          name: "foreign",
          oauth1: {
            request_token_url: `${origin}/request_token?scope=read%20all`,
            authorization_url: `${open}/authorize`,
            access_token_url: `${origin}/access_token`,
            signature_method: method,
          },
          proxy: { base_url: origin },
        },
      ],
      integrations: [
        {
          environment: "dev",
          key: "foreign",
          provider: "foreign",
          oauth: { client_id: "app key", client_secret: { env: "APP_SECRET" } },
        },
      ],
    };
    const sidecar = await startTestSidecar({
      env: {
        APP_SECRET: appSecret,
        LATCHKEY_ALLOW_PRIVATE: `127.0.0.1:${port}`,
        LATCHKEY_PROVIDER_CA: "/ca.pem",
        LATCHKEY_CONFIG: "/latchkey.yaml",
      },
      files: { "/latchkey.yaml": JSON.stringify(config), "/ca.pem": pem(ca.cert).toString() },
    });
    const browser = createTestBrowser();
    const leave = async () => {
      const { body } = await sidecar.rest("POST", "/connect/sessions", { body: { end_user: { id: "ada" } } });
      return browser.go(`${sidecar.data}/oauth/connect/foreign?connect_session_token=${body.data.token}`);
    };
    /** Submits the form of the service's page, and returns the result. */
    const decide = async (page: { readonly text: string; readonly url: string }, more: Record<string, string> = {}) => {
      const [, transaction = ""] = /name="transaction_id" value="([^"]+)"/.exec(page.text) ?? [];
      const form = new URLSearchParams({ transaction_id: transaction, ...more });
      return (await browser.post(new URL("/decision", page.url).href, form)).headers.get("location") ?? "";
    };
    const reasons = async () => {
      const { logs } = await sidecar.client(LogService).listLogs({ environment: "dev", operation: "auth.authorize" });
      return logs.flatMap(({ lines }) => lines.map(({ fields }) => [fields?.["reason"], fields?.["code"]]));
    };
    const connections = async () => (await sidecar.rest("GET", "/connections")).body.connections;
    return { sidecar, seen, browser, leave, decide, reasons, connections };
  }

  // Without PLAINTEXT: the service compares the decoded signature with one that it has encoded twice (RFC 5849, section
  // 3.4.4).
  it.each(["", "HMAC-SHA1", "HMAC-SHA256"])(
    "takes all three legs, and every request after them, signed with %o",
    async (method) => {
      const { sidecar, seen, browser, leave, decide, connections } = await connected({ method });
      const done = await browser.go(await decide(await leave()));
      expect([done.status, done.text]).toEqual([200, expect.stringContaining("is connected")]);
      expect(seen).toEqual(["POST /request_token", "GET /authorize", "POST /decision", "POST /access_token"]);
      const [{ connection_id: id }] = await connections();
      const headers = { "provider-config-key": "foreign", "connection-id": id };
      const query = { b: "2", a: "1 + 1", "odd!*'()~": "ü%&=/ ", empty: "" };
      const asked = `${new URLSearchParams(query)}`.replaceAll("+", "%20");
      const got = await sidecar.rest("GET", `/proxy/api?${asked}`, { headers });
      expect([got.status, got.body]).toEqual([200, { method: "GET", user: "ada", query, body: {} }]);
      const form = { status: "hello & goodbye: ü+%", "a b": "c" };
      const posted = await sidecar.rest("POST", "/proxy/api?x=y", {
        headers: { ...headers, "content-type": "application/x-www-form-urlencoded" },
        body: `${new URLSearchParams(form)}`,
      });
      expect(posted).toMatchObject({ status: 200, body: { user: "ada", query: { x: "y" }, body: form } });
      // Each with its own nonce: the service accepts none twice.
      for (let i = 0; i < 5; i += 1) {
        expect((await sidecar.rest("GET", "/proxy/api", { headers })).status).toBe(200);
      }
    },
  );

  it("refuses another's secret or verifier, and logs it", async () => {
    const wrong = await connected({ appSecret: "another" });
    expect((await wrong.leave()).status).toBe(424);
    expect([await wrong.reasons(), wrong.seen]).toEqual([
      [["misconfigured", "signature_invalid"]],
      ["POST /request_token"],
    ]);

    const { browser, leave, decide, reasons, connections } = await connected();
    const back = new URL(await decide(await leave()));
    back.searchParams.set("oauth_verifier", "made up");
    expect((await browser.go(back.href)).status).toBe(400);
    expect([await reasons(), await connections()]).toEqual([[["token_refused", "verifier_invalid"]], []]);
  });

  it("reports a refusal without its account", async () => {
    const { browser, leave, decide, connections } = await connected();
    const back = await decide(await leave(), { cancel: "1" });
    // Without the token the authorization cannot be found (OAuth 1.0a does not define refusals).
    expect(new URL(back).search).toBe("?oauth_problem=user_refused");
    const page = await browser.go(back);
    expect([page.status, page.headers.get("latchkey-error")]).toEqual([400, "unknown_authorization"]);
    expect(await connections()).toEqual([]);
  });
});
