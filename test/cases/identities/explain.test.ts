import { expect, it } from "vitest";
import { runCli } from "../../../src/cli/program.ts";
import { parseConfig } from "../../../src/config/config.ts";
import { EnvironmentService } from "../../../src/gen/latchkey/v1/environment_pb.ts";
import { IdentityService } from "../../../src/gen/latchkey/v1/identity_pb.ts";
import { configOf, type Identities, startIdentified } from "../../support/identities/callers.ts";
import { startIssuer } from "../../support/identities/issuer.ts";
import { adminKey, sealKey } from "../../support/sidecar/harness.ts";
import { memoryTerminal } from "../cli/memory-terminal.ts";

it("explains which rule a token meets, or what is wrong with it", async () => {
  const issuer = await startIssuer();
  const issuers = [{ name: "cluster", issuer: issuer.url, audience: "latchkey" }];
  const rules = [
    { service_account: "shop/cart", environment: "dev" },
    { service_account: "shop/*", environment: "dev", limits: { methods: ["GET"] } },
  ];
  const sidecar = await startIdentified({ issuers, rules });
  const { testToken } = sidecar.client(IdentityService);
  expect(await testToken({ token: issuer.token() })).toMatchObject({
    mistake: "",
    identity: { kind: "service_account", name: "shop/checkout@cluster" },
    rule: 1,
    environment: "dev",
    limits: { methods: ["GET"] },
  });
  const stranger = await testToken({ token: issuer.token({ sub: "system:serviceaccount:other:one" }) });
  expect(stranger).toMatchObject({ mistake: "no rule of `identities.rules` allows other/one@cluster" });
  expect(stranger.rule).toBeUndefined();
  expect((await testToken({ token: issuer.token({ aud: "x" }) })).mistake).toMatch(/is for another audience/);
  await expect(sidecar.client(IdentityService, issuer.token()).testToken({ token: "x" })).rejects.toThrow(
    /scope admin/,
  );
  expect((await sidecar.client(EnvironmentService, issuer.token()).getCaller({})).identity).toMatchObject({
    kind: "service_account",
    name: "shop/checkout@cluster",
  });

  async function test(token: string) {
    const terminal = memoryTerminal({ env: { LATCHKEY_KEY: adminKey }, stdin: token });
    const code = await runCli(["identities", "test", "-", "--address", sidecar.control], terminal, []);
    return { code, out: terminal.out() };
  }
  const { code, out } = await test(`${issuer.token()}\n`);
  expect(code).toBe(0);
  expect(out).toMatch(/^identity +service_account shop\/checkout@cluster\n[\s\S]*rule +identities\.rules\.1\n/);
  expect(await test(issuer.token({ exp: 1 }))).toEqual({
    code: 1,
    out: expect.stringMatching(/^refused +the service-account token has expired/),
  });
});

const cluster = { name: "cluster", issuer: "https://cluster.test", audience: "latchkey" };
const spire = { name: "spire", trust_domain: "example.org", audience: "latchkey", jwks_url: "https://spire.test/keys" };
const account = { service_account: "shop/checkout", environment: "dev" };

/** Returns the mistakes in a configuration file. */
function mistakesIn(identities: Identities): string {
  const read = (path: string) => {
    if (path !== "/c.yaml") throw Object.assign(new Error(path), { code: "ENOENT" });
    return { text: configOf(identities), mode: 0o600 };
  };
  try {
    parseConfig({ env: { LATCHKEY_CONFIG: "/c.yaml", LATCHKEY_SEAL_KEYS: sealKey }, files: { read } });
    return "";
  } catch (error) {
    return (error as Error).message;
  }
}

const wrong: readonly (readonly [expected: string, identities: Identities])[] = [
  ["needs an issuer without trust_domain", { rules: [account] }],
  ['identities.issuers[1].name: "cluster" is a duplicate', { issuers: [cluster, cluster] }],
  [
    "issuer: is required, since there are several: cluster, west",
    { issuers: [cluster, { ...cluster, name: "west" }], rules: [account] },
  ],
  ["issuer: must be one of cluster", { issuers: [cluster], rules: [{ ...account, issuer: "east" }] }],
  ["must be <namespace>/<service account>", { issuers: [cluster], rules: [{ ...account, service_account: "*/x" }] }],
  ["needs exactly one of service_account", { issuers: [cluster], rules: [{ ...account, unix: { uid: 1 } }] }],
  ["must be the https URL in the tokens' `iss`", { issuers: [{ ...cluster, issuer: "http://cluster.test" }] }],
  ["audience: is required", { issuers: [{ ...cluster, audience: undefined }] }],
  ["needs jwks_file or jwks_url", { issuers: [{ ...spire, jwks_url: undefined }] }],
  ["jwks_file: /keys cannot be read (ENOENT)", { issuers: [{ ...spire, jwks_url: undefined, jwks_file: "/keys" }] }],
  ["x509: needs client_ca", { issuers: [{ ...spire, x509: true }] }],
  [
    "x509: only one trust domain",
    {
      issuers: [
        { ...spire, x509: true },
        { ...spire, name: "b", trust_domain: "b", x509: true },
      ],
    },
  ],
  ["must be a SPIFFE ID", { issuers: [spire], rules: [{ spiffe: "spiffe://*/x", environment: "dev" }] }],
  [
    "needs an issuer with the trust_domain other.org",
    { issuers: [spire], rules: [{ spiffe: "spiffe://other.org/x", environment: "dev" }] },
  ],
  ["must begin with URI:, DNS: or CN:", { rules: [{ certificate: "x", environment: "dev" }] }],
  ["certificate: needs client_ca", { rules: [{ certificate: "DNS:x", environment: "dev" }] }],
  ["must not be 65534", { rules: [{ unix: { uid: 65_534 }, environment: "dev" }] }],
  ["must be an absolute path", { rules: [{ unix: { socket: "run/x" }, environment: "dev" }] }],
  ["needs an environment, or only the scope admin", { rules: [{ unix: { uid: 1 } }] }],
  [
    "needs an environment, or only the scope admin",
    { rules: [{ unix: { uid: 1 }, environment: "dev", scopes: ["admin"] }] },
  ],
  ["must not contain edge", { rules: [{ unix: { uid: 1 }, environment: "dev", scopes: ["edge"] }] }],
  [
    "must not contain credentials:read for a rule with limits",
    { rules: [{ unix: { uid: 1 }, environment: "dev", scopes: ["credentials:read"], limits: { methods: ["GET"] } }] },
  ],
  [
    "limits.methods[0]: must be a method in capitals",
    { rules: [{ unix: { uid: 1 }, environment: "dev", limits: { methods: ["get"] } }] },
  ],
  ["is never used: identities.rules.0 names the same caller", { issuers: [cluster], rules: [account, account] }],
];

it.each(wrong)("finds in a configuration: %s", (expected, identities) => {
  expect(mistakesIn(identities)).toContain(expected);
});
