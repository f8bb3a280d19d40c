import { createHmac } from "node:crypto";
import { ConnectError } from "@connectrpc/connect";
import { expect, it } from "vitest";
import { parseChangeable } from "../../../src/config/config.ts";
import { EdgeProof, EdgeService } from "../../../src/gen/latchkey/v1/edge_pb.ts";
import { EnvironmentService } from "../../../src/gen/latchkey/v1/environment_pb.ts";
import { account, type Issuer, startIssuer } from "../../support/identities/issuer.ts";
import {
  createIntegrations,
  keyedConnection,
  startTestSidecar,
  type TestSidecar,
} from "../../support/sidecar/harness.ts";
import { auditOf } from "./edge-audit.ts";
import { openEdge } from "./test-edge.ts";

type Accounts = Readonly<Record<string, unknown>>;
const allowed = [{ account: "shop/checkout", environments: ["dev"] }];
const fileOf = (issuer: Issuer, accounts: Accounts = {}) =>
  JSON.stringify({
    edges: { service_accounts: { issuer: issuer.url, audience: "latchkey", allow: allowed, ...accounts } },
  });

async function start(issuer: Issuer, accounts: Accounts = {}): Promise<TestSidecar> {
  const sidecar = await startTestSidecar({
    env: { LATCHKEY_CONFIG: "/latchkey.yaml" },
    files: { "/latchkey.yaml": fileOf(issuer, accounts), "/jwks.json": issuer.jwks() },
  });
  await createIntegrations(sidecar);
  return sidecar;
}

const reload = (sidecar: TestSidecar, text: string) =>
  sidecar.sidecar.reload(() =>
    parseChangeable({ path: "/new.yaml", env: {}, files: { read: () => ({ text, mode: 0o600 }) } }),
  );

/** Returns the code of the fault that a token is refused with, and its message. */
async function refusalOf(sidecar: TestSidecar, token: string): Promise<readonly [string | null, string]> {
  const error = await openEdge(sidecar, token).ended;
  if (!(error instanceof ConnectError)) return [null, String(error)];
  return [error.metadata.get("latchkey-error"), error.rawMessage];
}

it.each(["RS256", "ES256"] as const)(
  "serves an edge with a service-account token, signed with %s",
  async (algorithm) => {
    const issuer = await startIssuer(algorithm);
    const sidecar = await start(issuer);
    await sidecar.rest("POST", "/connections", { body: keyedConnection("ada") });
    const edge = openEdge(sidecar, issuer.token());
    expect((await edge.next("welcome")).environment).toBe("dev");
    expect((await edge.want("keyed", "ada")).state.case).toBe("live");
    const { edges } = await sidecar.client(EdgeService).listEdges({});
    expect(edges).toMatchObject([{ identity: account, proof: EdgeProof.SERVICE_ACCOUNT, environment: "dev" }]);
    expect(edges[0]?.proofEndsAt).toBeDefined();
    expect(issuer.requests.map(({ path }) => path)).toEqual(["/.well-known/openid-configuration", "/openid/v1/jwks"]);
  },
);

it("takes keys from a file, and every account of a namespace", async () => {
  const issuer = await startIssuer();
  const sidecar = await start(issuer, {
    jwks_file: "/jwks.json",
    allow: [{ account: "shop/*", environments: ["dev"] }],
  });
  const edge = openEdge(sidecar, issuer.token({ sub: "system:serviceaccount:shop:cart" }));
  expect((await edge.next("welcome")).environment).toBe("dev");
  expect(issuer.requests).toEqual([]);
  const stranger = issuer.token({ sub: "system:serviceaccount:shopping:cart" });
  expect(await refusalOf(sidecar, stranger)).toEqual([
    "identity_not_allowed",
    "no rule allows system:serviceaccount:shopping:cart to follow as an edge",
  ]);
});

it("needs the environment's name if there are several, and allows no other", async () => {
  const issuer = await startIssuer();
  const sidecar = await start(issuer, { allow: [{ account: "shop/checkout", environments: ["dev", "prod"] }] });
  for (const name of ["prod", "other"]) {
    await sidecar.client(EnvironmentService).createEnvironment({ name });
  }
  const unnamed = (await openEdge(sidecar, issuer.token()).ended) as ConnectError;
  expect(unnamed.rawMessage).toContain("set LATCHKEY_ENVIRONMENT");
  const prod = openEdge(sidecar, issuer.token(), { environment: "prod" });
  expect((await prod.next("welcome")).environment).toBe("prod");
  const other = (await openEdge(sidecar, issuer.token(), { environment: "other" }).ended) as ConnectError;
  expect(other.metadata.get("latchkey-error")).toBe("missing_scope");
});

/** Entries are written a moment later. */
const patience = { timeout: 30_000 };
const now = () => Math.floor(Date.now() / 1_000);
const textOf = (value: unknown) => Buffer.from(JSON.stringify(value)).toString("base64url");

/** A token that is signed with HS256 and the public key as its secret. */
function signedWithPublicKey(issuer: Issuer): string {
  const [, claims] = issuer.token().split(".");
  const content = `${textOf({ alg: "HS256", kid: "key-1" })}.${claims}`;
  return `${content}.${createHmac("sha256", issuer.publicKey).update(content).digest("base64url")}`;
}

const forged: Readonly<Record<string, readonly [(issuer: Issuer) => string | Promise<string>, RegExp]>> = {
  "with the algorithm none": [(one) => one.token({}, { alg: "none" }), /must be a JWT that is signed with RS256/],
  "with no signature": [
    (one) => `${textOf({ alg: "none" })}.${one.token().split(".")[1]}.`,
    /must be a JWT that is signed with RS256/,
  ],
  "signed with the public key": [signedWithPublicKey, /must be a JWT that is signed with RS256/],
  "for another audience": [(one) => one.token({ aud: ["vault"] }), /is for another audience/],
  "without an audience": [(one) => one.token({ aud: undefined }), /is for another audience/],
  "with an audience that only begins alike": [(one) => one.token({ aud: "latchkey2" }), /is for another audience/],
  "of another issuer": [(one) => one.token({ iss: `${one.url}/` }), /is from another issuer/],
  "that has expired": [(one) => one.token({ exp: now() - 1 }), /has expired/],
  "without an end": [(one) => one.token({ exp: undefined }), /has expired/],
  "with a text as its end": [(one) => one.token({ exp: "9999999999" }), /has expired/],
  "that is not valid yet": [(one) => one.token({ nbf: now() + 600 }), /is not valid yet/],
  "with a path as the key's ID": [(one) => one.token({}, { kid: "../../etc/passwd" }), /does not publish/],
  "without a key's ID": [(one) => one.token({}, { kid: undefined }), /does not name its key/],
  "with a list as the key's ID": [(one) => one.token({}, { kid: ["key-1"] }), /does not name its key/],
  "with a critical extension": [(one) => one.token({}, { crit: ["b64"] }), /must be a JWT that is signed/],
  "with a key of its own": [
    async (one) => {
      const other = await startIssuer();
      return other.token(
        { iss: one.url },
        { jwk: JSON.parse(other.jwks()).keys[0], jku: `${other.url}/openid/v1/jwks` },
      );
    },
    /has a wrong signature/,
  ],
  "with other claims than were signed": [
    (one) => {
      const [head, , signature] = one.token({ sub: "system:serviceaccount:shop:cart" }).split(".");
      return `${head}.${one.token().split(".")[1]}.${signature}`;
    },
    /has a wrong signature/,
  ],
  "of no service account": [(one) => one.token({ sub: "alice" }), /is not one of a Kubernetes service account/],
  "with a star as its name": [
    (one) => one.token({ sub: "system:serviceaccount:shop:*" }),
    /is not one of a Kubernetes/,
  ],
  "that is huge": [(one) => one.token({ pad: "x".repeat(9_000) }), /must have at most 8192 characters/],
};

it("refuses forged, foreign and outdated tokens, and says why without quoting them", async () => {
  const issuer = await startIssuer();
  const sidecar = await start(issuer);
  for (const [what, [make, expected]] of Object.entries(forged)) {
    const token = await make(issuer);
    const [code, message] = await refusalOf(sidecar, token);
    expect({ what, code }).toEqual({ what, code: "identity_refused" });
    expect(message, what).toMatch(expected);
    const secret = token.split(".")[1]?.slice(0, 40) ?? "";
    expect(`${message}${sidecar.logged.join("")}`).not.toContain(secret);
  }
  // Unknown keys cause few fetches, of two requests each.
  expect(issuer.requests.length).toBeLessThanOrEqual(4);
  const { text } = await sidecar.world.metrics.exposition();
  expect(text).not.toContain("eyJ");
});

it("accepts a token for following only", async () => {
  const issuer = await startIssuer();
  const sidecar = await start(issuer);
  const token = issuer.token();
  await expect(sidecar.client(EdgeService, token).listEdges({})).rejects.toThrow("the key is not known");
  expect((await sidecar.rest("GET", "/connections", { key: token })).status).toBe(401);
});

it("ends the stream when the token has expired", async () => {
  const issuer = await startIssuer();
  const sidecar = await start(issuer);
  const edge = openEdge(sidecar, issuer.token({ exp: now() + 3 }));
  await edge.next("welcome");
  const error = (await edge.ended) as ConnectError;
  expect(error.rawMessage).toBe("the service-account token has expired");
});

it("ends the stream when its account is no longer allowed, and keeps others", async () => {
  const issuer = await startIssuer();
  const sidecar = await start(issuer, { allow: [...allowed, { account: "shop/cart", environments: ["dev"] }] });
  const [first, second] = [
    openEdge(sidecar, issuer.token()),
    openEdge(sidecar, issuer.token({ sub: `${account.slice(0, -8)}cart` })),
  ];
  await Promise.all([first.next("welcome"), second.next("welcome")]);
  // The issuer being away is no reason to end what is still allowed.
  issuer.status = 503;
  await reload(sidecar, fileOf(issuer, { allow: [{ account: "shop/cart", environments: ["dev"] }] }));
  const error = (await first.ended) as ConnectError;
  expect(error.metadata.get("latchkey-error")).toBe("identity_not_allowed");
  expect((await second.want("keyed", "nobody")).state.case).toBe("fault");
  const refused = () => auditOf(sidecar, "edge.refuse");
  await expect
    .poll(refused, patience)
    .toMatchObject([{ actor: account, targets: ["127.0.0.1"], fields: ["identity_not_allowed"] }]);
});

it("says that it cannot verify tokens while the issuer is away, and accepts them afterwards", async () => {
  const issuer = await startIssuer();
  issuer.status = 503;
  const sidecar = await start(issuer);
  expect((await refusalOf(sidecar, issuer.token()))[0]).toBe("identity_keys_unavailable");
  expect(sidecar.logged.join("")).toContain("answered with the status 503");
});

it("refuses tokens where none are configured", async () => {
  const issuer = await startIssuer();
  const sidecar = await startTestSidecar();
  expect(await refusalOf(sidecar, issuer.token())).toEqual([
    "identity_refused",
    "service-account tokens are not accepted here",
  ]);
});

it("notes in the audit trail who connected, what was delivered, and who left", async () => {
  const issuer = await startIssuer();
  const sidecar = await start(issuer);
  await sidecar.rest("POST", "/connections", { body: keyedConnection("ada") });
  const edgeId = "edge-process-1";
  const edge = openEdge(sidecar, issuer.token(), { edgeId });
  const { version } = await edge.want("keyed", "ada");
  await edge.want("keyed", "ada");
  const entry = { actor: account, environment: "dev", fields: ["service_account"] };
  await expect
    .poll(() => auditOf(sidecar, "edge"), patience)
    .toMatchObject([
      { ...entry, action: "edge.deliver", targets: [edgeId, "keyed/ada"] },
      { ...entry, action: "edge.connect", targets: [edgeId, "pod-1"] },
    ]);
  // A successor that has the credentials is no news; one that claims to have others is.
  const held = (bytes: Uint8Array) => [{ ref: { integration: "keyed", id: "ada" }, version: bytes }];
  const second = openEdge(sidecar, issuer.token(), { edgeId, connections: held(version) });
  await second.next("inSync");
  const third = openEdge(sidecar, issuer.token(), {
    edgeId: "edge-process-2",
    connections: held(Buffer.from("made up")),
  });
  await third.next("connection");
  for (const one of [edge, second, third]) one.leave();
  await Promise.all([edge.ended, second.ended, third.ended]);
  await expect
    .poll(
      async () => (await auditOf(sidecar, "edge")).map(({ action, targets }) => `${action} ${targets[0]}`).sort(),
      patience,
    )
    .toEqual([
      "edge.connect edge-process-1",
      "edge.connect edge-process-2",
      "edge.deliver edge-process-1",
      "edge.deliver edge-process-2",
    ]);
});
