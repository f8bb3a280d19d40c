import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { expect, it, onTestFinished } from "vitest";
import { ProviderService } from "../../../src/gen/latchkey/v1/provider_pb.ts";
import { startIssuer } from "../../support/identities/issuer.ts";
import { client, startExchangeServer } from "../../support/peers/exchange-server.ts";
import {
  apiHost,
  askRaw,
  openSecure,
  otherHost,
  startForwardProxied,
  startTlsProvider,
} from "../../support/peers/forward-proxied.ts";

it("exchanges the token of the user that a program sends through a tunnel", async () => {
  const issuer = await startIssuer();
  const server = await startExchangeServer({
    jwks: issuer.jwks,
    judge: ({ token }) => String(token.claims["sub"]),
  });
  const provider = await startTlsProvider({
    answer: (_, response) => void response.writeHead(200, { "content-length": "2" }).end("ok"),
  });
  const folder = await mkdtemp(join(tmpdir(), "latchkey-forward-"));
  const own = await startForwardProxied(provider, {
    folder,
    integrations: { other: { baseUrl: `https://${otherHost}:${provider.port}` } },
    env: { LATCHKEY_ALLOW_PRIVATE: [`${apiHost}:${provider.port}`, server.url, issuer.url].join() },
  });
  onTestFinished(async () => {
    await own.stop();
    server.stop();
    provider.close();
    await rm(folder, { recursive: true, force: true });
  });
  const secure = (url: string) => url.replace("http:", "https:");
  await own.client(ProviderService).createProvider({
    provider: {
      name: "users",
      auth: {
        case: "onBehalf",
        value: {
          grant: "jwt_bearer",
          authorizationServer: { tokenUrl: `${secure(server.url)}/token` },
          identityProvider: { issuer: issuer.url, jwksUrl: `${secure(issuer.url)}/openid/v1/jwks` },
          subjectAudience: "the-app",
        },
      },
      proxy: { baseUrl: `https://${apiHost}:${provider.port}` },
    },
  });
  const app = { type: "ON_BEHALF", client_id: client.id, client_secret: client.secret };
  const integration = { unique_key: "users", provider: "users", credentials: app };
  expect((await own.rest("POST", "/integrations", { body: integration })).status).toBe(200);
  const connection = { provider_config_key: "users", connection_id: "all", credentials: { type: "ON_BEHALF" } };
  expect((await own.rest("POST", "/connections", { body: connection })).status).toBe(201);

  const authority = `${apiHost}:${provider.port}`;
  const send = async (lines: string) => {
    const tunnel = await openSecure(own.proxy, authority, { ca: own.ca });
    return askRaw(tunnel, `GET /files HTTP/1.1\r\nHost: ${authority}\r\n${lines}\r\n`);
  };
  const token = issuer.token({ sub: "ada", aud: "the-app" });
  expect(await send(`Latchkey-Subject-Token: ${token}\r\n`)).toContain("200 OK");
  expect(provider.seen.map(({ headers }) => headers.authorization)).toEqual([
    expect.stringMatching(/^Bearer access-ada-/),
  ]);
  expect(JSON.stringify(provider.seen)).not.toContain(token);
  expect(await send("")).toContain("subject_token_required");
});
