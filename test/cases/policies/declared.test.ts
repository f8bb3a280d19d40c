import { expect, it } from "vitest";
import { checkConfig } from "../../../src/config/check-config.ts";
import { parseChangeable } from "../../../src/config/config.ts";
import { PolicyEffect, PolicyService } from "../../../src/gen/latchkey/v1/policy_pb.ts";
import { startProvider, startProxied } from "../../support/peers/provider.ts";
import { testVariables } from "../../support/sidecar/harness.ts";

const path = "/latchkey.yaml";
const fileWith = (...policies: readonly string[]) => `environments:
  - name: dev
policies:
${policies.join("\n")}
`;
const denies = (id: string, condition: string) => `  - id: ${id}
    environment: dev
    effect: deny
    description: declared
    condition: ${condition}`;

/** The mistakes that `latchkey config check` reports. */
const mistakesIn = (text: string): readonly string[] =>
  checkConfig({
    env: testVariables("/nowhere"),
    files: { read: () => ({ text, mode: 0o600 }) },
    file: path,
  }).mistakes;

it("reports mistakes in policies with line and column", () => {
  expect(mistakesIn(fileWith(denies("a", 'request.method == "GET"')))).toEqual([]);
  expect(mistakesIn(fileWith(denies("a", 'request.mthod == "GET"')))).toEqual([
    expect.stringMatching(/^\/latchkey\.yaml:8:16: policies\[0\]\.condition: `request` has no field `mthod`/),
  ]);
  const block = denies("a", '|\n      request.method == "GET" &&\n        request.path == 1');
  expect(mistakesIn(fileWith(block))[0]).toMatch(/^\/latchkey\.yaml:10:22: .*string and int are never equal/);
  expect(mistakesIn(fileWith(denies("a", '"true"'), denies("a", '"false"')))).toEqual([
    "/latchkey.yaml:9:5: policies[1].id: is the id of two policies of the environment",
  ]);
  const both = `${denies("a", '"true"')}\n    key: k\n    integration: i`;
  expect(mistakesIn(fileWith(both))[0]).toContain("must have only one of integration, key and access_session");
  expect(mistakesIn(fileWith(denies("a", '"true"').replace("deny", "block")))[0]).toContain("policies[0].effect");
});

it("applies the policies of the file, keeps them read-only, and takes changes on a reload", async () => {
  const provider = await startProvider();
  const files: Record<string, string> = { [path]: fileWith(denies("declared", 'request.path == "/closed"')) };
  const env = { LATCHKEY_CONFIG: path };
  const running = await startProxied(provider.port, { files, env });
  const ask = async (at: string) =>
    (await running.rest("GET", `/proxy${at}`, { headers: running.proxyHeaders })).status;
  expect([await ask("/closed"), await ask("/open")]).toEqual([403, 200]);
  const policies = running.client(PolicyService);
  const { policies: listed } = await policies.listPolicies({ environment: "dev" });
  expect(listed).toMatchObject([
    { id: "declared", declared: true, effect: PolicyEffect.DENY, description: "declared" },
  ]);
  const change = policies.updatePolicy({ policy: { environment: "dev", id: "declared", condition: "false" } });
  await expect(change).rejects.toThrow("declared in the configuration");
  await expect(policies.deletePolicy({ environment: "dev", id: "declared" })).rejects.toThrow("change it there");

  const reload = (text: string) => {
    files[path] = text;
    const read = () =>
      parseChangeable({ path, env: {}, files: { read: (name) => ({ text: files[name] ?? "", mode: 0o600 }) } });
    return running.sidecar.reload(read);
  };
  await reload(fileWith(denies("declared", 'request.path == "/open"'), denies("more", "request.nothing")));
  // A file with a mistake changes nothing.
  expect([await ask("/closed"), await ask("/open")]).toEqual([403, 200]);
  await reload(fileWith(denies("declared", 'request.path == "/open"')));
  expect([await ask("/closed"), await ask("/open")]).toEqual([200, 403]);
  await reload("environments: [{ name: dev }]");
  expect([await ask("/closed"), await ask("/open")]).toEqual([200, 200]);
});
