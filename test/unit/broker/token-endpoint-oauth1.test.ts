import { expect, it } from "vitest";
import type { TokenParties } from "../../../src/broker/tokens/token-endpoint.ts";
import type { BehaviourChange } from "../../../src/dev/sandbox/behaviour.ts";
import { allowPrivateFor } from "../../../src/dev/sandbox/providers.ts";
import { broughtBack, callback, consentPage, started } from "../../cases/sandbox/started.ts";
import { startProvider } from "../../support/peers/provider.ts";
import { asking, expectFailure, providerClient, secure } from "./asking.ts";

async function toSandbox(signatureMethod: string, kind: "oauth1" | "tba" = "oauth1", behaviour: BehaviourChange = {}) {
  const sandbox = await started({ behaviour });
  const { tokens } = providerClient({ allow: [allowPrivateFor(sandbox.origin)] });
  const at = secure(sandbox.origin);
  const value = {
    requestTokenUrl: `${at}/oauth/request_token?b=2&a=1%20x`,
    accessTokenUrl: `${at}/oauth/access_token`,
    signatureMethod,
  };
  const who = asking({ provider: { auth: { case: kind, value } } });
  async function decided(token: string): Promise<string> {
    const page = await consentPage(sandbox, await sandbox.get(`/oauth/authorize?oauth_token=${token}`));
    return broughtBack(await page.answer("allow")).get("oauth_verifier") ?? "";
  }
  return { sandbox, tokens, who, decided };
}

it.each([
  ["", "oauth1"],
  ["HMAC-SHA1", "oauth1"],
  ["HMAC-SHA256", "oauth1"],
  ["PLAINTEXT", "oauth1"],
  ["", "tba"],
] as const)("goes both legs of OAuth 1.0a, signed with %j as %s", async (method, kind) => {
  const { tokens, who, decided } = await toSandbox(method, kind);
  const temporary = await tokens.requestToken({ ...who, callback });
  expect(temporary.token).toMatch(/^sbx_tt_/);
  const verifier = await decided(temporary.token);
  const got = await tokens.accessToken({ ...who, temporary, verifier });
  expect(got.token).toMatch(/^sbx_ot_/);
  expect(got.secret).not.toBe("");
  expect(got.raw).toMatchObject({ screen_name: expect.any(String) });
  // Temporary credentials are good once.
  await expectFailure(tokens.accessToken({ ...who, temporary, verifier }), "grant_dead", "token_rejected");
});

it("reports what is wrong, and on which side", async () => {
  const { tokens, who, decided, sandbox } = await toSandbox("");
  const stranger: TokenParties = { ...who, client: { id: "nobody", secret: "x" } };
  await expectFailure(tokens.requestToken({ ...stranger, callback }), "client_refused", "consumer_key_unknown");
  const wrong: TokenParties = { ...who, client: { id: "sandbox", secret: "x" } };
  await expectFailure(tokens.requestToken({ ...wrong, callback }), "client_refused", "signature_invalid");
  const elsewhere = tokens.requestToken({ ...who, callback: "https://elsewhere.example/" });
  await expectFailure(elsewhere, "misconfigured", "parameter_rejected");
  const temporary = await tokens.requestToken({ ...who, callback });
  await decided(temporary.token);
  await expectFailure(tokens.accessToken({ ...who, temporary, verifier: "wrong" }), "grant_dead", "verifier_invalid");
  sandbox.behave({ answers: { oauth1: [{ kind: "raw", text: "<html>" }] } });
  await expectFailure(tokens.requestToken({ ...who, callback }), "unusable", "no_token");
  sandbox.behave({ answers: { oauth1: [{ kind: "reset-after-reading" }] } });
  await expectFailure(tokens.accessToken({ ...who, temporary, verifier: "x" }), "uncertain", "closed");
});

it("stops without a confirmed callback (RFC 5849, section 2.1)", async () => {
  const { tokens, who } = await toSandbox("", "oauth1", { callbackConfirmed: false });
  await expectFailure(tokens.requestToken({ ...who, callback }), "unusable", "callback_unconfirmed");
});

it("sends the realm, and nothing in the body", async () => {
  const body = "oauth_token=t&oauth_token_secret=s&oauth_callback_confirmed=true";
  const provider = await startProvider((_, socket) => {
    socket.write(`HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nContent-Length: ${body.length}\r\n\r\n${body}`);
  });
  const { tokens } = providerClient({ allow: [`http://127.0.0.1:${provider.port}`] });
  const requestTokenUrl = `https://127.0.0.1:${provider.port}/initiate`;
  const value = { requestTokenUrl, realm: "${connectionConfig.account}" };
  const connectionConfig = { account: "ACME_SB1" };
  const who = asking({ provider: { auth: { case: "tba", value } }, connectionConfig });
  expect(await tokens.requestToken({ ...who, callback: "oob" })).toMatchObject({ token: "t", secret: "s" });
  const [request] = provider.connections[0]?.requests() ?? [];
  const authorization = request?.fields.find(([name]) => name === "authorization")?.[1];
  expect(authorization).toMatch(/^OAuth realm="ACME_SB1", oauth_consumer_key="sandbox", /);
  expect(authorization).toContain('oauth_callback="oob"');
  expect(authorization).toContain('oauth_signature_method="HMAC-SHA256"');
  expect(request?.body).toBe("");
  await expectFailure(
    tokens.accessToken({ ...who, temporary: { token: "t", secret: "s" }, verifier: "v" }),
    "misconfigured",
    "token_url_missing",
  );
  await expectFailure(tokens.ask({ ...who, grant: { type: "refresh_token", refreshToken: "x" } }), "misconfigured");
});
