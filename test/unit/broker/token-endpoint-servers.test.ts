import { generateKeyPairSync, X509Certificate } from "node:crypto";
import { mkdtemp, rm } from "node:fs/promises";
import type { RequestListener } from "node:http";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { TLSSocket } from "node:tls";
import { create } from "@bufbuild/protobuf";
import { OAuth2Server } from "oauth2-mock-server";
import { type Configuration, Provider } from "oidc-provider";
import { afterAll, beforeAll, describe, expect, it, onTestFinished } from "vitest";
import { pollDevice } from "../../../src/broker/connect/devices/device-polls.ts";
import type { TokenGrant, TokenParties } from "../../../src/broker/tokens/token-endpoint.ts";
import { IntegrationSecretsSchema } from "../../../src/gen/latchkey/v1/integration_pb.ts";
import { type Authority, type Certificate, createAuthority, pem } from "../../cases/control-plane/certificates.ts";
import { challengeOf, newVerifier } from "../../cases/sandbox/started.ts";
import { temporaryFolder } from "../../support/sidecar/harness.ts";
import { lacks } from "../../support/sidecar/needs.ts";
import { asking, expectFailure, failureOf, type OAuth2, oauth2, providerClient, serve } from "./asking.ts";

const redirectUri = "https://app.example/callback";
const offline = "openid offline_access";

const keyOf = (type: "rsa" | "ec" | "ed25519", options: object = {}) => {
  const { privateKey, publicKey } = generateKeyPairSync(type as "rsa", options as { modulusLength: number });
  return {
    privateKey: privateKey.export({ type: "pkcs8", format: "pem" }).toString(),
    jwk: publicKey.export({ format: "jwk" }),
  };
};
const rsa = keyOf("rsa", { modulusLength: 2_048 });
const ec = keyOf("ec", { namedCurve: "P-256" });
const ed = keyOf("ed25519");

describe.skipIf(lacks("openssl"))("beside servers that others wrote", () => {
  let ca: Authority;
  let tls: { readonly cert: Buffer; readonly key: Buffer };
  let files: Certificate;
  let certificate: { readonly certificate: string; readonly privateKey: string };

  let folder: string;

  // Once for the whole file: creating certificates takes longer than any test.
  beforeAll(async () => {
    folder = await mkdtemp(join(tmpdir(), "latchkey-test-"));
    ca = createAuthority(folder, "authority");
    const own = ca.issue("here", { names: "IP:127.0.0.1" });
    files = own;
    tls = { cert: pem(own.cert), key: pem(own.key) };
    const client = ca.issue("client", { names: "DNS:client.example" });
    certificate = { certificate: pem(client.cert).toString(), privateKey: pem(client.key).toString() };
  });

  afterAll(() => rm(folder, { recursive: true, force: true }));

  type Client = NonNullable<Configuration["clients"]>[number];

  interface Opened {
    readonly client?: Partial<Client>;
    readonly features?: Configuration["features"];
    readonly rules?: OAuth2;
    readonly now?: () => number;
    readonly who?: Omit<Parameters<typeof asking>[0], "provider">;
  }

  /** `oidc-provider` with one client, and latchkey's own way to it. */
  async function opened({ client = {}, features = {}, rules = {}, now = Date.now, who = {} }: Opened = {}) {
    let listener: RequestListener | undefined;
    const requests: string[] = [];
    const { origin, port } = await serve(
      (request, response) => {
        requests.push(`${request.method} ${request.url}`);
        listener?.(request, response);
      },
      { ...tls, ca: pem(ca.cert), requestCert: true, rejectUnauthorized: false },
    );
    const provider = new Provider(origin, {
      clients: [
        {
          client_id: "app",
          client_secret: "the-secret-of-the-app",
          redirect_uris: [redirectUri],
          grant_types: [
            "authorization_code",
            "refresh_token",
            "client_credentials",
            "urn:ietf:params:oauth:grant-type:device_code",
          ],
          response_types: ["code"],
          ...client,
        },
      ],
      clientAuthMethods: [
        "none",
        "client_secret_basic",
        "client_secret_post",
        "client_secret_jwt",
        "private_key_jwt",
        ...(features.mTLS === undefined ? [] : (["tls_client_auth"] as const)),
      ],
      enabledJWA: {
        idTokenSigningAlgValues: ["RS256", "HS256"],
        clientAuthSigningAlgValues: ["HS256", "RS256", "ES256", "EdDSA", "Ed25519"],
      },
      scopes: ["openid", "offline_access"],
      pkce: { required: () => false },
      rotateRefreshToken: true,
      clockTolerance: 0,
      findAccount: (_, id) => ({ accountId: id, claims: () => ({ sub: id }) }),
      features: {
        devInteractions: { enabled: false },
        clientCredentials: { enabled: true },
        deviceFlow: { enabled: true },
        revocation: { enabled: true },
        pushedAuthorizationRequests: { enabled: true },
        ...features,
      },
      jwks: { keys: [signing] },
      cookies: { keys: ["one"] },
    });
    // It warns that it is not for production.
    listener = provider.callback();
    const way = providerClient({ allow: [`127.0.0.1:${port}`], extraCa: pem(ca.cert).toString(), now });
    const all: TokenParties = asking({
      provider: oauth2({
        metadataUrl: `${origin}/.well-known/openid-configuration`,
        issuer: origin,
        ...rules,
      }),
      clientId: "app",
      clientSecret: "the-secret-of-the-app",
      ...who,
    });

    /** Gets a code by a user's consent. */
    async function code(more: Record<string, unknown> = {}): Promise<string> {
      const grant = new provider.Grant({ accountId: "ada", clientId: "app" });
      grant.addOIDCScope(offline);
      const known = await provider.Client.find("app");
      if (known === undefined) throw new Error("has no client");
      const made = new provider.AuthorizationCode({
        client: known,
        accountId: "ada",
        grantId: await grant.save(),
        redirectUri,
        scope: offline,
        authTime: Math.floor(Date.now() / 1_000),
        ...more,
      } as unknown as ConstructorParameters<typeof provider.AuthorizationCode>[0]);
      return made.save();
    }
    return { ...way, provider, origin, port, who: all, code, requests };
  }

  const signing = {
    ...generateKeyPairSync("rsa", { modulusLength: 2_048 }).privateKey.export({ format: "jwk" }),
    use: "sig",
  };
  const exchange = (code: string, codeVerifier?: string, nonce?: string): TokenGrant => ({
    type: "authorization_code",
    code,
    redirectUri,
    codeVerifier,
    nonce,
  });
  const own: TokenGrant = { type: "client_credentials", scopes: [] };

  it("exchanges a code, believes its id_token, and goes along with rotation", async () => {
    const { tokens, who, code, requests } = await opened();
    const verifier = newVerifier();
    const given = await code({ codeChallenge: challengeOf(verifier), codeChallengeMethod: "S256", nonce: "the-nonce" });
    await expectFailure(tokens.ask({ ...who, grant: exchange(given, newVerifier()) }), "grant_dead", "invalid_grant");
    const got = await tokens.ask({ ...who, grant: exchange(given, verifier, "the-nonce") });
    expect(got.idToken).toMatch(/^ey/);
    expect(requests.filter((line) => line === "GET /jwks")).toHaveLength(1);
    const next = await tokens.ask({ ...who, grant: { type: "refresh_token", refreshToken: got.refreshToken ?? "" } });
    expect(next.refreshToken).not.toBe(got.refreshToken);
    // Also for a refresh, with the cached keys.
    expect([next.raw["id_token"], requests.filter((line) => line === "GET /jwks").length]).toEqual([next.idToken, 1]);
    const spent = tokens.ask({ ...who, grant: { type: "refresh_token", refreshToken: got.refreshToken ?? "" } });
    await expectFailure(spent, "grant_dead", "invalid_grant");
  });

  it("believes an id_token that is signed with the client's secret", async () => {
    const secret = "the-secret-of-the-app-of-32-bytes-or-more";
    const { tokens, who, code } = await opened({
      client: { id_token_signed_response_alg: "HS256", client_secret: secret } as Partial<Client>,
      who: { clientSecret: secret },
    });
    const got = await tokens.ask({ ...who, grant: exchange(await code()) });
    expect(Buffer.from(got.idToken?.split(".")[0] ?? "", "base64url").toString()).toContain("HS256");
  });

  it("believes no id_token of another nonce, or that is too old by the provider's clock", async () => {
    let time = Date.now();
    const { tokens, who, code } = await opened({ now: () => time });
    const ask = async (nonce: string | undefined) =>
      tokens.ask({ ...who, grant: exchange(await code({ nonce: "right" }), undefined, nonce) });
    expect((await ask("right")).idToken).toMatch(/^ey/);
    await expectFailure(ask("wrong"), "unusable", "id_token_nonce");
    await expectFailure(ask(undefined), "unusable", "id_token_nonce");
    time += 2 * 3_600_000;
    await expectFailure(ask("right"), "unusable", "id_token_expired");
  });

  it.each([
    ["RS256", rsa],
    ["ES256", ec],
    ["EdDSA", ed],
  ] as const)("O23: authenticates by a JWT signed with %s, with exactly the issuer as its audience", async (_, key) => {
    const { tokens, who } = await opened({
      client: { token_endpoint_auth_method: "private_key_jwt", jwks: { keys: [key.jwk] } } as Partial<Client>,
      rules: { tokenEndpointAuthMethod: "private_key_jwt" },
      who: { privateKey: key.privateKey, clientSecret: "" },
    });
    expect((await tokens.ask({ ...who, grant: own })).accessToken).not.toBe("");
  });

  it.each([-300_000, 300_000, -8_000, 8_000])(
    "O23: is accepted by a provider whose clock is %i ms off",
    async (skewMs) => {
      const { tokens, who, requests } = await opened({
        client: { token_endpoint_auth_method: "private_key_jwt", jwks: { keys: [ec.jwk] } } as Partial<Client>,
        rules: { tokenEndpointAuthMethod: "private_key_jwt" },
        who: { privateKey: ec.privateKey, clientSecret: "" },
        now: () => Date.now() + skewMs,
      });
      const toToken = () => requests.filter((line) => line === "POST /token").length;
      expect((await tokens.ask({ ...who, grant: own })).accessToken).not.toBe("");
      expect(toToken()).toBe(Math.abs(skewMs) > 60_000 ? 2 : 1);
      // The learned setting is kept.
      await tokens.ask({ ...who, grant: own });
      expect(toToken()).toBe(Math.abs(skewMs) > 60_000 ? 3 : 2);
    },
  );

  it("O23: asks once, and not twice, with a key that is not the client's", async () => {
    const { tokens, who, requests } = await opened({
      client: { token_endpoint_auth_method: "private_key_jwt", jwks: { keys: [ec.jwk] } } as Partial<Client>,
      rules: { tokenEndpointAuthMethod: "private_key_jwt" },
      who: { privateKey: rsa.privateKey, clientSecret: "" },
    });
    await expectFailure(tokens.ask({ ...who, grant: own }), "client_refused", "invalid_client");
    expect(requests.filter((line) => line === "POST /token")).toHaveLength(1);
  });

  it("O23: reports that the client cannot authenticate with a short key, or none", async () => {
    const { tokens, who, requests } = await opened({ rules: { tokenEndpointAuthMethod: "private_key_jwt" } });
    const weak = keyOf("rsa", { modulusLength: 1_024 }).privateKey;
    const odd = keyOf("ec", { namedCurve: "secp256k1" }).privateKey;
    for (const privateKey of [weak, odd, "no key", ""]) {
      const client = { id: "app", secret: "", privateKey };
      const failure = await failureOf(tokens.ask({ ...who, client, grant: own }));
      expect([failure.kind, failure.code]).toEqual(["misconfigured", "client_unusable"]);
    }
    expect(requests).not.toContain("POST /token");
  });

  it("O23: creates an assertion for the issuer only, for a minute, and never the same twice", async () => {
    const assertions: Record<string, unknown>[] = [];
    const { origin, port } = await serve((request, response) => {
      let body = "";
      request.on("data", (chunk) => {
        body += chunk;
      });
      request.on("end", () => {
        const parameters = new URLSearchParams(body);
        const [, claims = ""] = (parameters.get("client_assertion") ?? "").split(".");
        assertions.push({
          ...JSON.parse(Buffer.from(claims, "base64url").toString()),
          secret: parameters.has("client_secret"),
        });
        response.end('{"access_token":"at"}');
      });
    }, tls);
    const { tokens } = providerClient({ allow: [`127.0.0.1:${port}`], extraCa: pem(ca.cert).toString() });
    const rules = { tokenUrl: `${origin}/token`, tokenEndpointAuthMethod: "private_key_jwt" };
    const held = { clientId: "app", privateKey: ec.privateKey };
    await tokens.ask({
      ...asking({ provider: oauth2({ ...rules, issuer: "https://issuer.example/" }), ...held }),
      grant: own,
    });
    await tokens.ask({ ...asking({ provider: oauth2(rules), ...held }), grant: own });
    const [first, second] = assertions;
    // With an unknown issuer, the audience is exactly the endpoint.
    expect([first?.["aud"], second?.["aud"]]).toEqual(["https://issuer.example/", `${origin}/token`]);
    expect(first?.["jti"]).not.toBe(second?.["jti"]);
    expect(first).toMatchObject({ iss: "app", sub: "app", secret: false });
    const { iat, exp } = first as { iat: number; exp: number };
    const now = Date.now() / 1_000;
    expect(iat).toBeLessThan(now);
    expect([exp - iat <= 70, exp > now]).toEqual([true, true]);
  });

  it.each(["client_secret_basic", "client_secret_post", "client_secret_jwt"])("proves itself by %s", async (method) => {
    // HS256 wants 32 bytes at least.
    const secret = "the-secret-of-the-app-of-32-bytes-or-more";
    const { tokens, who } = await opened({
      client: { token_endpoint_auth_method: method, client_secret: secret } as Partial<Client>,
      rules: { tokenEndpointAuthMethod: method },
      who: { clientSecret: secret },
    });
    expect((await tokens.ask({ ...who, grant: own })).accessToken).not.toBe("");
    const wrong = { ...who, client: { id: "app", secret: "another-secret-of-32-bytes-or-more-at-least" } };
    await expectFailure(tokens.ask({ ...wrong, grant: own }), "client_refused", "invalid_client");
  });

  it("proves itself by a certificate (RFC 8705)", async () => {
    const peers: (string | undefined)[] = [];
    const { tokens, who } = await opened({
      client: {
        token_endpoint_auth_method: "tls_client_auth",
        tls_client_auth_san_dns: "client.example",
      } as Partial<Client>,
      features: {
        mTLS: {
          enabled: true,
          tlsClientAuth: true,
          getCertificate(ctx) {
            const peer = (ctx.socket as TLSSocket).getPeerX509Certificate();
            peers.push(peer?.subjectAltName);
            return peer?.toString();
          },
          certificateAuthorized: (ctx) => (ctx.socket as TLSSocket).authorized,
          certificateSubjectMatches: (ctx, _, expected) =>
            new X509Certificate((ctx.socket as TLSSocket).getPeerX509Certificate()?.raw ?? "").subjectAltName ===
            `DNS:${expected}`,
        },
      },
      rules: { tokenEndpointAuthMethod: "tls_client_auth" },
    });
    const client = { id: "app", secret: "", ...certificate };
    expect((await tokens.ask({ ...who, client, grant: own })).accessToken).not.toBe("");
    expect(peers).toEqual(["DNS:client.example"]);
    await expectFailure(tokens.ask({ ...who, grant: own }), "misconfigured", "client_unusable");
    const stranger = createAuthority(await temporaryFolder(), "stranger").issue("client", {
      names: "DNS:client.example",
    });
    const forged = {
      ...client,
      certificate: pem(stranger.cert).toString(),
      privateKey: pem(stranger.key).toString(),
    };
    await expectFailure(tokens.ask({ ...who, client: forged, grant: own }), "client_refused", "invalid_client");
    const unfit = { ...client, privateKey: forged.privateKey };
    await expectFailure(tokens.ask({ ...who, client: unfit, grant: own }), "misconfigured", "client_unusable");
  });

  it("sends the integration's certificate in every token request, or the connection's own", async () => {
    const shown: string[] = [];
    const { origin, port } = await serve(
      (request, response) => {
        const { subject } = (request.socket as TLSSocket).getPeerCertificate();
        shown.push(`${subject?.CN} ${request.url}`);
        response.setHeader("content-type", "application/json");
        if (request.url === "/metadata") {
          const mtls_endpoint_aliases = { token_endpoint: `${origin}/mtls`, revocation_endpoint: 1 };
          const plain = { token_endpoint: `${origin}/plain`, revocation_endpoint: `${origin}/revoke` };
          response.end(JSON.stringify({ issuer: origin, ...plain, mtls_endpoint_aliases }));
          return;
        }
        const pair = { oauth_token: "t", oauth_token_secret: "s", oauth_callback_confirmed: "true" };
        response.end(JSON.stringify({ access_token: "at", ...pair }));
      },
      { ...tls, ca: pem(ca.cert), requestCert: true, rejectUnauthorized: false },
    );
    const { tokens } = providerClient({ allow: [`127.0.0.1:${port}`], extraCa: pem(ca.cert).toString() });
    const secrets = create(IntegrationSecretsSchema, {
      clientSecret: "s",
      clientCertificate: certificate.certificate,
      clientPrivateKey: certificate.privateKey,
    });
    const as = (provider: Parameters<typeof asking>[0]["provider"]) => ({ ...asking({ provider }), secrets });
    const discovered = oauth2({ metadataUrl: `${origin}/metadata`, issuer: origin });
    await tokens.ask({ ...as(discovered), grant: own });
    await tokens.revoke({ ...as(discovered), token: "t", kind: "access_token" });
    const other = ca.issue("other", { names: "DNS:other.example" });
    const its = { certificate: pem(other.cert).toString(), privateKey: pem(other.key).toString() };
    await tokens.ask({ ...as(discovered), client: { id: "app", secret: "s", ...its }, grant: own });
    await tokens.ask({ ...as(discovered), secrets: undefined, client: { id: "app", secret: "s" }, grant: own });
    const twoStep = { auth: { case: "twoStep" as const, value: { tokenUrl: `${origin}/two-step`, tokenAnswer: {} } } };
    await tokens.ask({ ...as(twoStep), grant: { type: "described", fields: {} } });
    const oauth1 = { auth: { case: "oauth1" as const, value: { requestTokenUrl: `${origin}/oauth1` } } };
    await tokens.requestToken({ ...as(oauth1), callback: "oob" });
    expect(shown).toEqual([
      // The provider's metadata are public.
      "undefined /metadata",
      "client /mtls",
      "client /revoke",
      "other /mtls",
      "undefined /plain",
      "client /two-step",
      "client /oauth1",
    ]);
  });

  it("sends no certificate to a server that is not trusted, and reports one that requires it", async () => {
    const { origin, port } = await serve((_, response) => void response.end("{}"), {
      ...tls,
      ca: pem(ca.cert),
      requestCert: true,
      rejectUnauthorized: true,
    });
    const { tokens } = providerClient({ allow: [`127.0.0.1:${port}`], extraCa: pem(ca.cert).toString() });
    const who = asking({ provider: oauth2({ tokenUrl: `${origin}/token` }) });
    // With TLS 1.3 the server refuses only after the request is on its way.
    expect((await failureOf(tokens.ask({ ...who, grant: own }))).kind).toBe("uncertain");
    await expectFailure(
      tokens.ask({ ...who, client: { id: "app", secret: "s", ...certificate }, grant: own }),
      "unusable",
      "no_token",
    );
    const distrusting = providerClient({ allow: [`127.0.0.1:${port}`] });
    await expectFailure(distrusting.tokens.ask({ ...who, grant: own }), "passing", "untrusted");
  });

  it.each([false, true])("binds tokens to a key (RFC 9449), a nonce being wanted: %s", async (isNonceWanted) => {
    const { tokens, who, code, requests } = await opened({
      features: {
        dPoP: { enabled: true, nonceSecret: Buffer.alloc(32, 1), requireNonce: () => isNonceWanted },
      },
      rules: { dpop: true },
    });
    const toToken = () => requests.filter((line) => line === "POST /token").length;
    const got = await tokens.ask({ ...who, grant: exchange(await code()) });
    expect(got.raw["token_type"]).toBe("DPoP");
    expect(got.dpopKey).toMatch(/^-----BEGIN PRIVATE KEY-----/);
    expect(toToken()).toBe(isNonceWanted ? 2 : 1);
    const grant: TokenGrant = { type: "refresh_token", refreshToken: got.refreshToken ?? "" };
    const next = await tokens.ask({ ...who, grant, dpopKey: got.dpopKey });
    expect(next.dpopKey).toBe(got.dpopKey);
    expect(next.raw["token_type"]).toBe("DPoP");
    const unreadable = tokens.ask({ ...who, grant, dpopKey: "no key" });
    await expectFailure(unreadable, "misconfigured", "client_unusable");
  });

  it.each([-600_000, 600_000])("binds tokens to a key though the clocks are %i ms apart", async (skewMs) => {
    const { tokens, who, code, requests } = await opened({
      features: { dPoP: { enabled: true, nonceSecret: Buffer.alloc(32, 1), requireNonce: () => false } },
      rules: { dpop: true },
      now: () => Date.now() + skewMs,
    });
    const got = await tokens.ask({ ...who, grant: exchange(await code()) });
    expect(got.raw["token_type"]).toBe("DPoP");
    expect(requests.filter((line) => line === "POST /token")).toHaveLength(2);
  });

  it("asks for a public client's refresh bound to its key, and not with another", async () => {
    const { tokens, who, code } = await opened({
      client: { token_endpoint_auth_method: "none" } as Partial<Client>,
      features: { dPoP: { enabled: true, nonceSecret: Buffer.alloc(32, 1), requireNonce: () => false } },
      rules: { dpop: true, tokenEndpointAuthMethod: "none" },
    });
    const verifier = newVerifier();
    const more = { codeChallenge: challengeOf(verifier), codeChallengeMethod: "S256" };
    const got = await tokens.ask({ ...who, grant: exchange(await code(more), verifier) });
    const grant: TokenGrant = { type: "refresh_token", refreshToken: got.refreshToken ?? "" };
    await expectFailure(tokens.ask({ ...who, grant }), "grant_dead", "invalid_grant");
    expect((await tokens.ask({ ...who, grant, dpopKey: got.dpopKey })).accessToken).not.toBe("");
  });

  it("puts an authorization request down beforehand, and knows that answers name the issuer", async () => {
    const { tokens, who, origin } = await opened();
    const at = await tokens.authorization(who);
    expect(at).toEqual({ url: `${origin}/auth`, pushedUrl: `${origin}/request`, issuer: origin, issuerAlways: true });
    const parameters = { response_type: "code", redirect_uri: redirectUri, scope: "openid", state: "s" };
    const pushed = await tokens.push({ ...who, parameters });
    expect(pushed.requestUri).toMatch(/^urn:ietf:params:oauth:request_uri:/);
    expect(pushed.expiresAtMs).toBeGreaterThan(Date.now());
    await expectFailure(
      tokens.push({ ...who, parameters: { ...parameters, redirect_uri: "https://evil.example" } }),
      "misconfigured",
    );
  });

  it("O21: connects a device, and revokes its token", async () => {
    const { tokens, who, provider } = await opened();
    const begun = await tokens.beginDevice({ ...who, scopes: ["openid", "offline_access"] });
    const asked = () => tokens.ask({ ...who, grant: { type: "device_code", deviceCode: begun.deviceCode } });
    await expectFailure(asked(), "pending", "authorization_pending");
    const device = await provider.DeviceCode.findByUserCode(begun.userCode.replaceAll("-", ""));
    if (device === undefined) throw new Error("has no device");
    const grant = new provider.Grant({ accountId: "ada", clientId: "app" });
    grant.addOIDCScope(offline);
    Object.assign(device, { accountId: "ada", grantId: await grant.save(), scope: offline, authTime: 1 });
    await device.save();
    const polling = { tokens, now: Date.now, wait: async () => {} };
    const got = await pollDevice(polling, who, begun);
    expect(got.refreshToken).toBeDefined();
    const refreshToken = got.refreshToken ?? "";
    expect(await tokens.revoke({ ...who, token: refreshToken, kind: "refresh_token" })).toBe(true);
    await expectFailure(tokens.ask({ ...who, grant: { type: "refresh_token", refreshToken } }), "grant_dead");
  });

  it("talks to an independent test server, with and without failures", async () => {
    const server = new OAuth2Server(files.key, files.cert);
    await server.issuer.keys.generate("RS256");
    await server.start(0, "127.0.0.1");
    onTestFinished(() => server.stop());
    const { port } = server.address();
    const issuer = server.issuer.url ?? "";
    const at = `https://127.0.0.1:${port}`;
    const { tokens } = providerClient({
      allow: [`127.0.0.1:${port}`, `localhost:${port}`],
      extraCa: pem(ca.cert).toString(),
    });
    const who = asking({ provider: oauth2({ tokenUrl: `${at}/token`, issuer }) });
    expect((await tokens.ask({ ...who, grant: own })).accessToken).toMatch(/^ey/);
    server.service.once("beforeResponse", (response: { statusCode: number; body: unknown }) => {
      response.statusCode = 400;
      response.body = { error: "invalid_grant" };
    });
    const grant: TokenGrant = { type: "refresh_token", refreshToken: "rt" };
    await expectFailure(tokens.ask({ ...who, grant }), "grant_dead", "invalid_grant");
    expect((await tokens.ask({ ...who, grant })).idToken).toMatch(/^ey/);
  });
});
