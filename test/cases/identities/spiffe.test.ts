import { once } from "node:events";
import http2 from "node:http2";
import { request } from "node:https";
import { describe, expect, it, onTestFinished } from "vitest";
import { callProvider, type Identities, outcomeOf, startIdentified } from "../../support/identities/callers.ts";
import { type Issuer, startIssuer } from "../../support/identities/issuer.ts";
import { temporaryFolder } from "../../support/sidecar/harness.ts";
import { lacks } from "../../support/sidecar/needs.ts";
import type { Called } from "../../support/wire/proxy-call.ts";
import { type Certificate, createAuthority, pem } from "../control-plane/certificates.ts";

const checkout = "spiffe://example.org/ns/shop/sa/checkout";

describe("a JWT-SVID", () => {
  const issuerOf = ({ url }: Issuer, more: object = {}) => ({
    name: "spire",
    trust_domain: "example.org",
    audience: "latchkey",
    jwks_url: `${url}/openid/v1/jwks`,
    ...more,
  });
  const start = (issuer: Issuer, spiffe: string, more: object = {}) =>
    startIdentified({ issuers: [issuerOf(issuer, more)], rules: [{ spiffe, environment: "dev" }] });

  it("needs no key, by a trust bundle and a pattern of its path", async () => {
    const issuer = await startIssuer("ES256", "jwt-svid");
    const sidecar = await start(issuer, "spiffe://example.org/ns/*/sa/checkout");
    const asks = async (claims: object) => outcomeOf(await callProvider(sidecar, issuer.token({ ...claims })));
    // The standard requires no `iss`.
    expect(await asks({ sub: checkout, iss: undefined })).toMatchObject({ status: 200 });
    for (const [sub, expected] of [
      ["spiffe://example.org/ns/shop/sa/cart", /no rule .* allows spiffe:\/\/example.org\/ns\/shop\/sa\/cart/],
      ["spiffe://example.org/ns/a/b/sa/checkout", /no rule/],
      ["spiffe://other.org/ns/shop/sa/checkout", /is of another trust domain/],
      ["spiffe://example.org/ns/../sa/checkout", /is from another issuer/],
      ["spiffe://example.org/ns//sa/checkout", /is from another issuer/],
    ] as const) {
      const { status, message } = await asks({ sub });
      expect({ sub, status }).toEqual({ sub, status: 401 });
      expect(message).toMatch(expected);
    }
    expect((await asks({ sub: checkout, aud: "vault" })).message).toMatch(/the JWT-SVID is for another audience/);
    expect((await asks({ sub: checkout, exp: Math.floor(Date.now() / 1_000) - 1 })).message).toMatch(/has expired/);
  });

  it("is verified by keys for JWT-SVIDs alone, and by the issuer if one is configured", async () => {
    const x509 = await startIssuer("ES256", "x509-svid");
    const sidecar = await start(x509, checkout);
    expect(outcomeOf(await callProvider(sidecar, x509.token({ sub: checkout })))).toMatchObject({ status: 503 });
    expect(sidecar.logged.join("")).toContain("the key set has no RSA key");
    const issuer = await startIssuer("ES256", "jwt-svid");
    const strict = await start(issuer, checkout, { issuer: "https://spire.test" });
    const asks = async (iss: string) => outcomeOf(await callProvider(strict, issuer.token({ sub: checkout, iss })));
    expect(await asks("https://spire.test")).toMatchObject({ status: 200 });
    expect((await asks("https://other.test")).message).toMatch(/is from another issuer/);
  });
});

describe.skipIf(lacks("openssl"))("an X.509-SVID", () => {
  const spire = { name: "spire", trust_domain: "example.org", x509: true };

  /** A sidecar with TLS on its data listener, and what issues certificates. */
  async function start(identities: Identities, now?: () => number) {
    const folder = await temporaryFolder();
    const authority = createAuthority(folder, "authority");
    const stranger = createAuthority(folder, "stranger");
    const own = authority.issue("server", { names: "DNS:localhost,IP:127.0.0.1" });
    // Only for the helpers of this test; Latchkey's requests to providers ignore the variable.
    process.env["NODE_TLS_REJECT_UNAUTHORIZED"] = "0";
    onTestFinished(() => void delete process.env["NODE_TLS_REJECT_UNAUTHORIZED"]);
    const data = { cert: "/tls.crt", key: "/tls.key", client_ca: "/ca.crt", client_optional: true };
    const files = { "/tls.crt": own.cert, "/tls.key": own.key, "/ca.crt": authority.cert };
    const sidecar = await startIdentified(identities, {
      more: { tls: { data } },
      files: Object.fromEntries(Object.entries(files).map(([name, file]) => [name, pem(file).toString()])),
      ...(now && { now }),
    });
    let count = 0;
    const issue = (names: string, by = authority) => {
      count += 1;
      return by.issue(`caller-${count}`, { names });
    };
    return { sidecar, ca: pem(authority.cert), issue, stranger };
  }

  type Secure = Awaited<ReturnType<typeof start>>;

  function ask({ sidecar, ca }: Secure, certificate?: Certificate, headers: object = {}): Promise<Called> {
    return new Promise((resolve, reject) => {
      const sent = request(`${sidecar.data}/proxy/x`, {
        ca,
        agent: false,
        headers: { "provider-config-key": "here", "connection-id": "ada", ...headers },
        ...(certificate && { cert: pem(certificate.cert), key: pem(certificate.key) }),
      });
      sent.on("error", reject);
      sent.on("response", (response) => {
        let body = "";
        response.on("data", (chunk) => (body += chunk));
        const fields = Object.entries(response.headers).map(([name, value]) => [name, String(value)] as const);
        const { statusCode: status = 0 } = response;
        response.on("end", () =>
          resolve({ status, reason: "", fields, body, trailers: [], outcome: "ended", before: [] }),
        );
      });
      sent.end();
    });
  }

  it("needs no key and no header; other names get 401", async () => {
    const secure = await start({
      issuers: [spire],
      rules: [
        { spiffe: "spiffe://example.org/ns/shop/sa/checkout", environment: "dev" },
        { certificate: "DNS:batch.test", environment: "dev", limits: { methods: ["POST"] } },
      ],
    });
    const outcome = async (names: string) => outcomeOf(await ask(secure, secure.issue(names)));
    expect(await outcome(`URI:${checkout}`)).toMatchObject({ status: 200 });
    expect(await outcome("DNS:batch.test")).toMatchObject({ status: 403, code: "not_in_session" });
    for (const [names, expected] of [
      ["URI:spiffe://example.org/ns/shop/sa/cart", /no rule .*URI:spiffe:\/\/example.org\/ns\/shop\/sa\/cart/],
      ["URI:spiffe://other.org/ns/shop/sa/checkout", /no rule/],
      // X.509-SVIDs have exactly one URI.
      [`URI:${checkout},URI:spiffe://example.org/other`, /no rule/],
      ['@names\n[names]\nDNS.1="a, DNS:batch.test, b"', /no rule/],
    ] as const) {
      const { status, code, message } = await outcome(names);
      expect({ names, status, code }).toEqual({ names, status: 401, code: "identity_refused" });
      expect(message).toMatch(expected);
    }
    expect(outcomeOf(await ask(secure))).toMatchObject({ status: 401, code: "missing_auth_header" });
    await expect(ask(secure, secure.issue(`URI:${checkout}`, secure.stranger))).rejects.toThrow();
    // An explicit key counts first, be it wrong.
    const wrong = { authorization: "Bearer lk_wrong" };
    expect(outcomeOf(await ask(secure, secure.issue(`URI:${checkout}`), wrong))).toMatchObject({ code: "unknown_key" });
  });

  it("is refused from its end on, also on a connection that is open, over HTTP/1.1 and HTTP/2", async () => {
    let now = Date.now();
    const secure = await start({ issuers: [spire], rules: [{ spiffe: checkout, environment: "dev" }] }, () => now);
    const { sidecar, ca } = secure;
    const { cert, key } = secure.issue(`URI:${checkout}`);
    const session = http2.connect(sidecar.data, { ca, cert: pem(cert), key: pem(key) });
    onTestFinished(() => session.destroy());
    const status = async () => {
      const stream = session.request({ ":path": "/proxy/x", "provider-config-key": "here", "connection-id": "ada" });
      const [headers] = (await once(stream, "response")) as [http2.IncomingHttpHeaders];
      stream.resume();
      return headers[":status"];
    };
    expect([await status(), await status()]).toEqual([200, 200]);
    now += 3 * 24 * 3_600_000;
    expect(await status()).toBe(401);
    expect(outcomeOf(await ask(secure, { cert, key })).message).toMatch(/the client certificate of .* has expired/);
  });
});
