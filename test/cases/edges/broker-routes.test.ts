import { createPublicKey, generateKeyPairSync, X509Certificate } from "node:crypto";
import { expect, it } from "vitest";
import { AuthorityService } from "../../../src/gen/latchkey/v1/authority_pb.ts";
import type { EdgeRoutes } from "../../../src/gen/latchkey/v1/edge_pb.ts";
import { ProviderService } from "../../../src/gen/latchkey/v1/provider_pb.ts";
import { connectForwarded, furnishForwarded } from "../../support/peers/forward-proxied.ts";
import { startTestSidecar } from "../../support/sidecar/harness.ts";
import { auditOf } from "./edge-audit.ts";
import { edgeKey, openEdge } from "./test-edge.ts";

const soon = { interval: 20 };
const origin = "https://api.provider.test";

async function start() {
  const broker = await startTestSidecar();
  await furnishForwarded(broker, { keyed: { baseUrl: `${origin}/v1` } });
  const { secret } = await edgeKey(broker);
  return { broker, edge: openEdge(broker, secret, { hasForwardProxy: true }), secret };
}

const idsOf = ({ routes }: EdgeRoutes) => routes.map(({ integration, ids }) => [integration, ids]);

it("tells which connections an origin has, and when that changes", async () => {
  const { broker, edge } = await start();
  const subject = { subject: { case: "origin" as const, value: origin } };
  edge.send({ case: "wantRoutes", value: { requestId: 1n, subject } });
  const first = await edge.next("routes", ({ requestId }) => requestId === 1n);
  expect(first.routes).toMatchObject([{ integration: "keyed", basePath: "/v1", ids: ["ada"], hasMore: false }]);
  await connectForwarded(broker, "keyed", "bob");
  expect(idsOf(await edge.next("routes"))).toEqual([["keyed", ["ada", "bob"]]]);
  // Changes of a connection that is named already are none of the address.
  const before = await broker.metric('latchkey_edge_pushes_total{kind="routes"}');
  await broker.rest("POST", "/connections/metadata", {
    body: { provider_config_key: "keyed", connection_id: "bob", metadata: { a: 1 } },
  });
  await broker.rest("DELETE", "/connections/bob?provider_config_key=keyed");
  expect(idsOf(await edge.next("routes"))).toEqual([["keyed", ["ada"]]]);
  expect(await broker.metric('latchkey_edge_pushes_total{kind="routes"}')).toBe((before ?? 0) + 1);
  await furnishForwarded(broker, { other: { baseUrl: `${origin}/v2`, connections: [] } });
  expect(idsOf(await edge.next("routes"))).toEqual([
    ["keyed", ["ada"]],
    ["other", []],
  ]);

  edge.send({ case: "dropRoutes", value: subject });
  edge.send({
    case: "wantRoutes",
    value: { requestId: 2n, subject: { subject: { case: "origin", value: "https://unknown.test" } } },
  });
  const unknown = await edge.next("routes", ({ requestId }) => requestId === 2n);
  expect([unknown.routes, unknown.hosts]).toEqual([[], ["api.provider.test"]]);
  await connectForwarded(broker, "keyed", "carl");
  const wrong = { subject: { case: "origin" as const, value: "https://API.provider.test/x" } };
  edge.send({ case: "wantRoutes", value: { requestId: 3n, subject: wrong } });
  const refused = await edge.next("routes");
  expect([refused.requestId, refused.fault?.code]).toEqual([3n, "invalid_body"]);
});

it("follows origins whose host comes from each connection", async () => {
  const { broker, edge } = await start();
  await broker.client(ProviderService).createProvider({
    provider: {
      name: "desk",
      auth: { case: "apiKey", value: {} },
      connectionFields: [{ name: "subdomain", pattern: "[a-z]+", required: true }],
      proxy: { baseUrl: "https://${connectionConfig.subdomain}.desk.test" },
    },
  });
  await broker.rest("POST", "/integrations", { body: { unique_key: "desk", provider: "desk" } });
  const connect = (id: string, subdomain: string) =>
    broker.rest("POST", "/connections", {
      body: {
        provider_config_key: "desk",
        connection_id: id,
        connection_config: { subdomain },
        credentials: { type: "API_KEY", apiKey: "k" },
      },
    });
  expect((await connect("ada", "acme")).status).toBe(201);
  const subject = { subject: { case: "origin" as const, value: "https://acme.desk.test" } };
  edge.send({ case: "wantRoutes", value: { requestId: 1n, subject } });
  expect(idsOf(await edge.next("routes"))).toEqual([["desk", ["ada"]]]);
  expect((await connect("bob", "globex")).status).toBe(201);
  expect((await connect("carl", "acme")).status).toBe(201);
  expect(idsOf(await edge.next("routes"))).toEqual([["desk", ["ada", "carl"]]]);
  expect((await connect("carl", "globex")).status).toBe(201);
  expect(idsOf(await edge.next("routes"))).toEqual([["desk", ["ada"]]]);
});

it("signs certificates for hosts of connections alone, and notes it", async () => {
  const { broker, edge } = await start();
  const spki = (namedCurve: string) =>
    generateKeyPairSync("ec", { namedCurve }).publicKey.export({ type: "spki", format: "der" });
  const publicKey = spki("P-256");
  let requestId = 0n;
  const certify = (wanted: string, key: Uint8Array = publicKey) => {
    requestId += 1n;
    const id = requestId;
    edge.send({ case: "wantCertificate", value: { requestId: id, origin: wanted, publicKey: key } });
    return edge.next("certificate", (one) => one.requestId === id);
  };
  const faultOf = async (...wanted: Parameters<typeof certify>) => {
    const { result } = await certify(...wanted);
    return result.case === "fault" ? result.value.code : result.case;
  };
  const { certificates } = await edge.next("authorities");
  const { result } = await certify(origin);
  if (result.case !== "issued") throw new Error(`not issued: ${JSON.stringify(result.value)}`);
  const leaf = new X509Certificate(Buffer.from(result.value.certificate));
  expect(leaf.subjectAltName).toBe("DNS:api.provider.test");
  expect(leaf.ca).toBe(false);
  expect(leaf.verify(new X509Certificate(certificates[0]?.pem ?? "").publicKey)).toBe(true);
  expect(leaf.publicKey.equals(createPublicKey({ key: publicKey, type: "spki", format: "der" }))).toBe(true);
  expect(leaf.validToDate.getTime() - Date.now()).toBeLessThan(48 * 3_600_000);
  expect(result.value.authorityId).toBe(certificates[0]?.id);

  expect(await faultOf("https://elsewhere.test")).toBe("host_not_allowed");
  expect(await faultOf("https://api.provider.test:8443")).toBe("host_not_allowed");
  expect(await faultOf("https://api.provider.test/path")).toBe("invalid_body");
  expect(await faultOf("http://api.provider.test")).toBe("invalid_body");
  expect(await faultOf(origin, spki("P-384"))).toBe("invalid_body");
  expect(await faultOf(origin, Buffer.from("no key"))).toBe("invalid_body");
  // A host that is wholly of the connection's choice: only while a connection has it.
  await broker.client(ProviderService).createProvider({
    provider: {
      name: "hosted",
      auth: { case: "apiKey", value: {} },
      connectionFields: [{ name: "host", pattern: ".*", required: true }],
      proxy: { baseUrl: "https://${connectionConfig.host}" },
    },
  });
  await broker.rest("POST", "/integrations", { body: { unique_key: "hosted", provider: "hosted" } });
  await expect.poll(() => faultOf("https://bank.example.com"), soon).toBe("host_not_allowed");

  const entries = async () => (await auditOf(broker, "edge.certify")).map(({ targets }) => targets[1]);
  await expect.poll(entries, soon).toEqual(["api.provider.test"]);
  // The certificates are public; the key was made by the edge.
  expect((await broker.client(AuthorityService).getAuthority({})).certificates).toHaveLength(1);
});

it("tells edges without a forward proxy nothing, and makes no authority for them", async () => {
  const { broker, secret, edge } = await start();
  await edge.next("inSync");
  edge.leave();
  const plain = openEdge(broker, secret);
  await plain.next("inSync");
  expect(plain.received.some(({ message }) => message.case === "authorities")).toBe(false);
});
