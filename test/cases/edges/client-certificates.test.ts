import { createClient } from "@connectrpc/connect";
import { createGrpcTransport } from "@connectrpc/connect-node";
import { describe, expect, it } from "vitest";
import { EdgeProof, EdgeService } from "../../../src/gen/latchkey/v1/edge_pb.ts";
import { startTestEdge, type TestEdge } from "../../support/edges/test-edge.ts";
import { account, startIssuer } from "../../support/identities/issuer.ts";
import { adminKey, startTestSidecar, type TestSidecar, temporaryFolder } from "../../support/sidecar/harness.ts";
import { lacks } from "../../support/sidecar/needs.ts";
import { type Authority, type Certificate, createAuthority, pem } from "../control-plane/certificates.ts";

const spiffe = "URI:spiffe://cluster.local/ns/shop/sa/checkout";

describe.skipIf(lacks("openssl"))("an edge over TLS", () => {
  interface SecureBroker {
    readonly serve: TestSidecar;
    readonly authority: Authority;
    readonly stranger: Authority;
    readonly ca: string;
    /** Starts an edge without waiting for a broker. */
    edge(files: Readonly<Record<string, string>>, env?: Readonly<Record<string, string>>): Promise<TestEdge>;
  }

  async function start(edges: object, tls: object = {}): Promise<SecureBroker> {
    const folder = await temporaryFolder();
    const authority = createAuthority(folder, "authority");
    const server = authority.issue("server", { names: "DNS:localhost,IP:127.0.0.1" });
    const text = (file: string) => pem(file).toString();
    const control = { cert: "/tls.crt", key: "/tls.key", client_ca: "/ca.crt", client_optional: true, ...tls };
    const ca = text(authority.cert);
    const serve = await startTestSidecar({
      env: { LATCHKEY_CONFIG: "/latchkey.yaml" },
      files: {
        "/latchkey.yaml": JSON.stringify({ edges, tls: { control } }),
        "/tls.crt": text(server.cert),
        "/tls.key": text(server.key),
        "/ca.crt": ca,
      },
    });
    return {
      serve,
      authority,
      stranger: createAuthority(folder, "stranger"),
      ca,
      edge: (files, env = {}) =>
        startTestEdge({
          brokers: [serve.control],
          env: { LATCHKEY_BROKERS_KEY: "", LATCHKEY_BROKERS_CA: "/ca.crt", ...env },
          files: { "/ca.crt": ca, ...files },
          isAwaited: false,
        }),
    };
  }

  const shown = { LATCHKEY_BROKERS_CLIENT_CERT: "/edge.crt", LATCHKEY_BROKERS_CLIENT_KEY: "/edge.key" };
  const filesOf = ({ cert, key }: Certificate) => ({
    "/edge.crt": pem(cert).toString(),
    "/edge.key": pem(key).toString(),
  });
  const edgesOf = async ({ serve, ca }: SecureBroker) => {
    const transport = createGrpcTransport({
      baseUrl: serve.control,
      nodeOptions: { ca },
      interceptors: [
        (next) => (request) => {
          request.header.set("authorization", `Bearer ${adminKey}`);
          return next(request);
        },
      ],
    });
    return (await createClient(EdgeService, transport).listEdges({})).edges;
  };
  const patience = { timeout: 30_000 };
  const logged = (edge: TestEdge) => edge.logged.join("\n");

  it("is known by the name in its certificate", async () => {
    const broker = await start({ certificates: [{ name: spiffe, environments: ["dev"] }] });
    const certificate = broker.authority.issue("edge", { names: `${spiffe},${spiffe},DNS:other.test` });
    const edge = await broker.edge(filesOf(certificate), shown);
    await expect
      .poll(() => edgesOf(broker), patience)
      .toMatchObject([{ identity: spiffe, proof: EdgeProof.CERTIFICATE, environment: "dev" }]);
    await expect.poll(async () => (await edge.ready()).status, patience).toBe(200);
  });

  it("shows a replaced certificate without a restart, and keeps its stream until then", async () => {
    const names = ["DNS:first.test", "CN:second"];
    const broker = await start({ certificates: names.map((name) => ({ name, environments: ["dev"] })) });
    const files: Record<string, string> = { ...filesOf(broker.authority.issue("edge", { names: "DNS:first.test" })) };
    const edge = await broker.edge(files, shown);
    await expect.poll(() => edgesOf(broker), patience).toMatchObject([{ identity: "DNS:first.test" }]);
    // The key comes first: until the certificate follows, they do not fit.
    const { "/edge.crt": cert = "", "/edge.key": key = "" } = filesOf(
      broker.authority.issue("second", { names: "DNS:unknown.test" }),
    );
    edge.files["/edge.key"] = key;
    edge.renew();
    await expect.poll(() => logged(edge), patience).toContain("does not belong to LATCHKEY_BROKERS_CLIENT_CERT");
    expect((await edge.ready()).status).toBe(200);
    edge.files["/edge.crt"] = cert;
    await expect.poll(() => edgesOf(broker), patience).toMatchObject([{ identity: "CN:second" }]);
    expect(logged(edge)).not.toContain("lost the broker");
  });

  const refused: readonly (readonly [what: string, names: string, expected: string])[] = [
    ["no rule", "DNS:nobody.test", "no rule allows DNS:nobody.test"],
    ["several rules", `${spiffe},DNS:first.test`, "has several names of `edges.certificates`"],
    ["a name in another name", '@names\n[names]\nDNS.1="a, DNS:first.test, b"', "no rule allows"],
    ["a name of another kind", "URI:first.test", "no rule allows URI:first.test"],
  ];
  it.each(refused)("is refused with a certificate of %s", async (_what, names, expected) => {
    const rules = [spiffe, "DNS:first.test"].map((name) => ({ name, environments: ["dev"] }));
    const broker = await start({ certificates: rules });
    const edge = await broker.edge(filesOf(broker.authority.issue("edge", { names })), shown);
    await expect.poll(() => logged(edge), patience).toContain(expected);
    const { status, text } = await edge.ready();
    expect([status, text]).toEqual([503, expect.stringContaining(expected)]);
    expect(await edgesOf(broker)).toEqual([]);
  });

  it("is refused with a certificate of another authority, and is told what to change", async () => {
    const broker = await start({ certificates: [{ name: spiffe, environments: ["dev"] }] });
    const edge = await broker.edge(filesOf(broker.stranger.issue("edge", { names: spiffe })), shown);
    await expect.poll(() => logged(edge), patience).toContain("it does not accept this one");
    expect(await edgesOf(broker)).toEqual([]);
  });

  it("is told what to change where the connection cannot be made", async () => {
    const broker = await start({ certificates: [{ name: spiffe, environments: ["dev"] }] }, { client_optional: false });
    const { port } = new URL(broker.serve.control);
    const own = filesOf(broker.authority.issue("edge", { names: spiffe }));
    const foreign = pem(broker.stranger.cert).toString();
    const key = { LATCHKEY_BROKERS_KEY: "lk_some-key-of-an-edge" };
    const cases = [
      [{ "/ca.crt": foreign, ...own }, shown, "set LATCHKEY_BROKERS_CA"],
      [{}, key, "set LATCHKEY_BROKERS_CLIENT_CERT"],
      [{}, { ...key, LATCHKEY_BROKERS: `http://127.0.0.1:${port}` }, "use https:// in LATCHKEY_BROKERS"],
      [{}, { ...key, LATCHKEY_BROKERS: broker.serve.data.replace("http:", "https:") }, "has no TLS"],
    ] as const;
    for (const [files, env, expected] of cases) {
      const edge = await broker.edge(files, env);
      await expect.poll(() => logged(edge), patience).toContain(expected);
      await edge.stop();
    }
  });

  it("follows with a service-account token, which it replaces before its end", async () => {
    const issuer = await startIssuer();
    const allow = [{ account: "shop/checkout", environments: ["dev"] }];
    const broker = await start({ service_accounts: { issuer: issuer.url, audience: "latchkey", allow } });
    const endingAt = (s: number) => issuer.token({ exp: Math.floor(Date.now() / 1_000) + s });
    const edge = await broker.edge({ "/token": endingAt(600) }, { LATCHKEY_BROKERS_TOKEN_FILE: "/token" });
    const ends = async () =>
      (await edgesOf(broker)).map(({ identity, proofEndsAt }) => [identity, proofEndsAt?.seconds]);
    await expect.poll(ends, patience).toEqual([[account, expect.any(BigInt)]]);
    const [before] = await ends();
    edge.files["/token"] = endingAt(900);
    edge.renew();
    await expect.poll(async () => (await ends())[0]?.[1] !== before?.[1] && (await ends()).length, patience).toBe(1);
    expect(logged(edge)).not.toContain("lost the broker");
    expect(logged(edge)).not.toContain(edge.files["/token"]?.slice(-20));
  });
});
