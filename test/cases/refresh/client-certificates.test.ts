import type { TLSSocket } from "node:tls";
import { describe, expect, it } from "vitest";
import { runCli } from "../../../src/cli/program.ts";
import { ConnectionService } from "../../../src/gen/latchkey/v1/connection_pb.ts";
import { IntegrationService } from "../../../src/gen/latchkey/v1/integration_pb.ts";
import { LogService } from "../../../src/gen/latchkey/v1/log_pb.ts";
import { ProviderService } from "../../../src/gen/latchkey/v1/provider_pb.ts";
import { apiKey, ok, startProvider, startProxied } from "../../support/peers/provider.ts";
import { adminKey, startTestSidecar, temporaryFolder } from "../../support/sidecar/harness.ts";
import { lacks } from "../../support/sidecar/needs.ts";
import { call, faultOf } from "../../support/wire/proxy-call.ts";
import { memoryTerminal } from "../cli/memory-terminal.ts";
import { type Authority, type Certificate, createAuthority, pem } from "../control-plane/certificates.ts";

const textOf = ({ cert, key }: Certificate) => ({ certificate: pem(cert).toString(), privateKey: pem(key).toString() });

describe.skipIf(lacks("openssl"))("a certificate of an integration's", () => {
  const issued = (ca: Authority, name: string) => ca.issue(name, { names: `DNS:${name}` });
  const authority = async () => createAuthority(await temporaryFolder(), "authority");

  /** A provider that requires a certificate of its authority, and records which one each request used. */
  async function guarded() {
    const ca = await authority();
    const seen: string[] = [];
    const own = ca.issue("here", { names: "IP:127.0.0.1" });
    const provider = await startProvider(
      (request, socket, count) => {
        seen.push((socket as TLSSocket).getPeerCertificate().subject.CN as string);
        ok(request, socket, count);
      },
      { cert: pem(own.cert), key: pem(own.key), requestCert: true, ca: pem(ca.cert) },
    );
    const running = await startProxied(provider.port, {
      isTls: true,
      files: { "/ca.pem": pem(ca.cert).toString() },
      env: { LATCHKEY_PROVIDER_CA: "/ca.pem", LATCHKEY_ALLOW_PRIVATE: `127.0.0.1:${provider.port}` },
    });
    const ask = (headers: Readonly<Record<string, string>> = {}) =>
      call(`${running.data}/proxy/x`, { headers: { ...running.proxyHeaders, ...headers } });
    const change = (certificate: Partial<ReturnType<typeof textOf>>, paths: readonly string[] = bothPaths) =>
      running.client(IntegrationService).updateIntegration({
        integration: {
          environment: "dev",
          key: "here",
          secrets: {
            clientCertificate: certificate.certificate ?? "",
            clientPrivateKey: certificate.privateKey ?? "",
          },
        },
        updateMask: { paths: [...paths] },
      });
    return { ca, provider, running, ask, change, seen };
  }
  const bothPaths = ["secrets.client_certificate", "secrets.client_private_key"];

  it("is sent for every connection without its own, and replaced without a restart", async () => {
    const { ca, provider, running, ask, change, seen } = await guarded();
    const nobody = await ask();
    expect([nobody.status, faultOf(nobody), seen]).toEqual([502, "provider_closed", []]);
    await change(textOf(issued(ca, "first")));
    const credentials = { type: "API_KEY", apiKey: "of-bob" };
    await running.rest("POST", "/connections", {
      body: { provider_config_key: "here", connection_id: "bob", credentials },
    });
    // The store's watch evicts the cached connection within a moment.
    await expect.poll(async () => (await ask()).status, { interval: 50 }).toBe(200);
    expect((await ask({ "connection-id": "bob" })).status).toBe(200);
    expect(new Set(seen)).toEqual(new Set(["first"]));
    // One connection for the certificate, whatever the connection of the caller.
    expect(provider.connections.filter(({ received }) => received() !== "")).toHaveLength(1);
    expect(provider.received()).toContain(apiKey);

    await change(textOf(issued(ca, "second")));
    await expect
      .poll(async () => ((await ask()).status === 200 ? seen.at(-1) : undefined), { interval: 50 })
      .toBe("second");
    await change({});
    await expect.poll(async () => (await ask()).status, { interval: 50 }).toBe(502);
  });

  it("gives way to a connection's own", async () => {
    const { ca, provider, running, seen, ask } = await guarded();
    await running.client(ProviderService).createProvider({
      provider: {
        name: "certified",
        auth: { case: "clientCertificate", value: {} },
        proxy: { baseUrl: `https://127.0.0.1:${provider.port}` },
      },
    });
    const { certificate: clientCertificate, privateKey: clientPrivateKey } = textOf(issued(ca, "of-all"));
    await running.client(IntegrationService).createIntegration({
      integration: {
        environment: "dev",
        key: "certified",
        provider: "certified",
        secrets: { clientCertificate, clientPrivateKey },
      },
    });
    await running.client(ConnectionService).importConnection({
      connection: {
        environment: "dev",
        integration: "certified",
        id: "own",
        credentials: { kind: { case: "clientCertificate", value: textOf(issued(ca, "of-one")) } },
      },
    });
    expect((await ask({ "provider-config-key": "certified", "connection-id": "own" })).status).toBe(200);
    expect(seen).toEqual(["of-one"]);
  });

  it("an invalid one is refused on every interface, and nothing of it is repeated", async () => {
    const { ca, running, change } = await guarded();
    const [one, other] = [textOf(issued(ca, "one")), textOf(issued(ca, "other"))];
    const wrong: readonly (readonly [Partial<typeof one>, string, string])[] = [
      [{ certificate: one.certificate }, "client_private_key", "must be set together"],
      [{ privateKey: one.privateKey }, "client_certificate", "must be set together"],
      [
        { certificate: one.certificate, privateKey: other.privateKey },
        "client_certificate",
        "does not match the client certificate",
      ],
      [{ certificate: "no certificate", privateKey: one.privateKey }, "client_certificate", "must be PEM"],
      [{ certificate: one.certificate, privateKey: "no key" }, "client_certificate", "must be unencrypted PEM"],
    ];
    for (const [given, name, message] of wrong) {
      const rpc = await change(given).then(
        () => "taken",
        (error: unknown) => String(error),
      );
      expect(rpc).not.toBe("taken");
      const credentials = {
        type: "API_KEY",
        ...(given.certificate === undefined ? {} : { client_certificate: given.certificate }),
        ...(given.privateKey === undefined ? {} : { client_private_key: given.privateKey }),
      };
      const json = await running.rest("PATCH", "/integrations/here", { body: { credentials } });
      expect([json.status, json.body.error.errors]).toEqual([
        400,
        [{ code: "invalid_body", path: ["secrets", name], message: expect.stringContaining(message) }],
      ]);
      const created = await running.rest("POST", "/integrations", {
        body: { unique_key: "there", provider: "here", credentials },
      });
      expect(created.status).toBe(400);
      const line = one.privateKey.split("\n")[1] ?? "";
      expect([line.length > 20, rpc.includes(line), JSON.stringify(json.body).includes(line)]).toEqual([
        true,
        false,
        false,
      ]);
    }
    await change(one);
    // The two halves of a pair change only together.
    await expect(change({ certificate: other.certificate }, ["secrets.client_certificate"])).rejects.toThrow(
      /not valid/,
    );
  });

  it("is set by JSON, the command line and the file, and its key is shown only on request", async () => {
    const { ca, running, ask, seen } = await guarded();
    const [json, cli] = [textOf(issued(ca, "by-json")), issued(ca, "by-cli")];
    const credentials = { type: "API_KEY", client_certificate: json.certificate, client_private_key: json.privateKey };
    expect((await running.rest("PATCH", "/integrations/here", { body: { credentials } })).status).toBe(200);
    await expect.poll(async () => (await ask()).status, { interval: 50 }).toBe(200);
    const shown = await running.rest("GET", "/integrations/here?include=credentials");
    expect(shown.body.data.credentials).toMatchObject(credentials);

    const terminal = memoryTerminal({ env: {}, isTerminal: false });
    const files = ["--client-certificate-file", cli.cert, "--client-private-key-file", cli.key];
    const at = ["-e", "dev", "--address", running.control, "--key", adminKey];
    expect(await runCli(["integrations", "update", "here", ...files, ...at], terminal), terminal.err()).toBe(0);
    await expect
      .poll(async () => ((await ask()).status === 200 ? seen.at(-1) : undefined), { interval: 50 })
      .toBe("by-cli");

    const { integration } = await running
      .client(IntegrationService)
      .getIntegration({ environment: "dev", key: "here" });
    const { events } = await running.client(LogService).listAuditEvents({});
    const plain = await running.rest("GET", "/integrations/here");
    const told = JSON.stringify([integration, events, plain.body, running.logged, terminal.out()], (_, value) =>
      typeof value === "bigint" ? String(value) : value,
    );
    for (const { privateKey } of [json, textOf(cli)]) expect(told).not.toContain(privateKey.split("\n")[1]);
    expect(events.some(({ fields }) => fields.includes("secrets.client_private_key"))).toBe(true);
  });

  it("comes from the configuration file, which is refused with half of a pair", async () => {
    const { certificate, privateKey } = textOf(issued(await authority(), "declared"));
    const declared = (one: object) => ({
      env: { LATCHKEY_CONFIG: "/latchkey.yaml", KEY: privateKey.replaceAll("\n", "\\n") },
      files: {
        "/cert.pem": certificate,
        "/latchkey.yaml": JSON.stringify({
          environments: [{ name: "dev" }],
          integrations: [{ environment: "dev", key: "here", provider: "private-api-key", ...one }],
        }),
      },
    });
    const whole = { client_certificate: { file: "/cert.pem" }, client_private_key: { env: "KEY" } };
    const running = await startTestSidecar(declared(whole));
    const asked = { environment: "dev", key: "here", includeSecrets: true };
    const { integration } = await running.client(IntegrationService).getIntegration(asked);
    expect(integration?.secrets?.clientCertificate.trim()).toBe(certificate.trim());
    await expect(startTestSidecar(declared({ client_certificate: whole.client_certificate }))).rejects.toThrow(
      /"here": client_private_key: must be set together with client_certificate/,
    );
  });
});
