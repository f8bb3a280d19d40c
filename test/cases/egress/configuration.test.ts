import { describe, expect, it } from "vitest";
import { checkConfig } from "../../../src/config/check-config.ts";
import { ConfigMistakes, parseConfig } from "../../../src/config/config.ts";
import { parseEdgeConfig } from "../../../src/config/edges/edge-config.ts";
import { settingsOf } from "../../../src/config/show-config.ts";
import { temporaryFolder, testVariables } from "../../support/sidecar/harness.ts";
import { lacks } from "../../support/sidecar/needs.ts";
import { createAuthority, pem } from "../control-plane/certificates.ts";

interface Written {
  readonly env?: Readonly<Record<string, string>>;
  readonly yaml?: string;
  readonly files?: Readonly<Record<string, string>>;
}

const sourceOf = ({ env = {}, yaml, files = {} }: Written) => ({
  env: { ...testVariables("/none"), ...(yaml === undefined ? {} : { LATCHKEY_CONFIG: "/c.yaml" }), ...env },
  files: {
    read(path: string) {
      const text = path === "/c.yaml" ? yaml : files[path];
      if (text === undefined) throw Object.assign(new Error(path), { code: "ENOENT" });
      return { text, mode: 0o600 };
    },
  },
});

const proxyOf = (written: Written) => parseConfig(sourceOf(written)).egressProxy;

function mistakesOf(written: Written): readonly string[] {
  try {
    parseConfig(sourceOf(written));
    return [];
  } catch (error) {
    if (error instanceof ConfigMistakes) return error.mistakes;
    throw error;
  }
}

const url = "http://proxy.corp.example:3128";

describe("the settings of an egress proxy", () => {
  it("come from variables, also from files, before the configuration file", () => {
    const yaml = `egress:
  proxy: https://other.corp.example:3129
  auth: {env: PROXY_AUTH}
  no_proxy: [.svc, "10.0.0.0/8"]
  resolve: proxy
`;
    const ofFile = { host: "other.corp.example", port: 3129, auth: "ada:secret", resolution: "proxy" };
    expect(proxyOf({ yaml, env: { PROXY_AUTH: "ada:secret" } })).toMatchObject({ ...ofFile, scheme: "https" });
    expect(proxyOf({ yaml, env: { PROXY_AUTH: "a:b", LATCHKEY_EGRESS_PROXY: "off" } })).toBeUndefined();
    const env = {
      PROXY_AUTH: "a:b",
      LATCHKEY_EGRESS_PROXY_FILE: "/url",
      LATCHKEY_EGRESS_NO_PROXY: "none",
      LATCHKEY_EGRESS_RESOLVE: "pinned",
    };
    expect(proxyOf({ yaml, env, files: { "/url": "http://b%40b:p%3Aw@[fd00::1]:80\n" } })).toMatchObject({
      ...{ scheme: "http", host: "fd00::1", port: 80, auth: "b@b:p:w", noProxy: [], resolution: "pinned" },
    });
    expect(proxyOf({ env: { LATCHKEY_EGRESS_PROXY: url, LATCHKEY_EGRESS_AUTH: "u:" } })).toMatchObject({
      ...{ auth: "u:", noProxy: ["localhost", "127.0.0.0/8", "::1"], resolution: "local" },
    });
    expect(proxyOf({})).toBeUndefined();
  });

  it.each<readonly [what: string, written: Written, mistake: RegExp]>([
    ["a URL without a port", { env: { LATCHKEY_EGRESS_PROXY: "http://u:geheim@proxy" } }, /must be http:\/\/host:port/],
    ["another scheme", { env: { LATCHKEY_EGRESS_PROXY: "socks5://proxy:1080" } }, /must be http:\/\/host:port/],
    ["a path", { env: { LATCHKEY_EGRESS_PROXY: `${url}/x` } }, /must be http:\/\/host:port/],
    ["a password in the file", { yaml: `egress: {proxy: "http://u:geheim@proxy:1"}` }, /use egress\.auth/],
    ["a file without a proxy", { yaml: "egress: {no_proxy: [a.test]}" }, /egress\.proxy: is missing/],
    ["an unknown key", { yaml: `egress: {proxy: "${url}", noproxy: []}` }, /no_proxy/],
    ["a variable without a proxy", { env: { LATCHKEY_EGRESS_NO_PROXY: "a.test" } }, /LATCHKEY_EGRESS_PROXY is not/],
    [
      "an entry that is none",
      { yaml: `egress: {proxy: "${url}", no_proxy: [a.test, "*"]}` },
      /no_proxy\S*1\S* would dial/,
    ],
    [
      "an odd entry",
      { env: { LATCHKEY_EGRESS_PROXY: url, LATCHKEY_EGRESS_NO_PROXY: "a,10.1" } },
      /entry 2 must be a name/,
    ],
    [
      "auth without a colon",
      { env: { LATCHKEY_EGRESS_PROXY: url, LATCHKEY_EGRESS_AUTH: "geheim" } },
      /must be user:password/,
    ],
    [
      "two passwords",
      { env: { LATCHKEY_EGRESS_PROXY: "http://a:geheim@p:1", LATCHKEY_EGRESS_AUTH: "a:geheim" } },
      /remove one of them/,
    ],
    ["a bad escape", { env: { LATCHKEY_EGRESS_PROXY: "http://a:%zz@p:1" } }, /percent-encoded/],
    [
      "an unknown resolver",
      { env: { LATCHKEY_EGRESS_PROXY: url, LATCHKEY_EGRESS_RESOLVE: "dns" } },
      /local, pinned, proxy/,
    ],
    ["a file that is not there", { env: { LATCHKEY_EGRESS_PROXY: url, LATCHKEY_EGRESS_INTERCEPT_CA: "/x" } }, /\/x/],
    [
      "a file without a certificate",
      { env: { LATCHKEY_EGRESS_PROXY: "https://p:1", LATCHKEY_EGRESS_CA: "/x" }, files: { "/x": "-" } },
      /no certificate in PEM/,
    ],
    [
      "half a client certificate",
      { env: { LATCHKEY_EGRESS_PROXY: "https://p:1", LATCHKEY_EGRESS_CLIENT_CERT: "/x" } },
      /together/,
    ],
  ])("are refused: %s", (_, written, mistake) => {
    const found = mistakesOf(written);
    expect(found).toEqual([expect.stringMatching(mistake)]);
    expect(found.join("")).not.toContain("geheim");
  });

  it.skipIf(lacks("openssl"))("must fit together: certificates, keys and https", async () => {
    const ca = createAuthority(await temporaryFolder(), "ca");
    const [one, other] = [ca.issue("one", { names: "DNS:one.test" }), ca.issue("other", { names: "DNS:other.test" })];
    const files = { "/crt": String(pem(one.cert)), "/key": String(pem(other.key)), "/own.key": String(pem(one.key)) };
    const env = { LATCHKEY_EGRESS_PROXY: "https://p:1", LATCHKEY_EGRESS_CLIENT_CERT: "/crt" };
    expect(mistakesOf({ env: { ...env, LATCHKEY_EGRESS_CLIENT_KEY: "/key" }, files })).toEqual([
      expect.stringMatching(/do not belong together/),
    ]);
    const fitting = { ...env, LATCHKEY_EGRESS_CLIENT_KEY: "/own.key" };
    expect(mistakesOf({ env: fitting, files })).toEqual([]);
    expect(mistakesOf({ env: { ...fitting, LATCHKEY_EGRESS_PROXY: url }, files })).toEqual([
      expect.stringMatching(/needs https/),
    ]);
  });

  it("warn of the variables of other programs, unless the proxy is set or off", () => {
    const warningsOf = (env: Readonly<Record<string, string>>) => parseConfig(sourceOf({ env })).warnings.join("\n");
    expect(warningsOf({ https_proxy: url })).toMatch(/https_proxy is set, but Latchkey does not use it/);
    expect(warningsOf({ HTTPS_PROXY: url, LATCHKEY_EGRESS_PROXY: "off" })).toBe("");
    expect(warningsOf({ HTTPS_PROXY: url, LATCHKEY_EGRESS_PROXY: url })).toBe("");
    expect(proxyOf({ env: { HTTPS_PROXY: url } })).toBeUndefined();
  });

  it("are checked by `config check`, and shown without the password", () => {
    const source = { ...sourceOf({ yaml: `egress: {proxy: "http://proxy"}` }), file: "/c.yaml" };
    expect(checkConfig(source).mistakes).toEqual([expect.stringMatching(/c\.yaml:1:\d+: egress\.proxy/)]);
    const env = { LATCHKEY_EGRESS_PROXY: "http://ada:geheim@p:1", LATCHKEY_EGRESS_AUTH: "geheim" };
    const shown = settingsOf({ ...sourceOf({ env }), file: undefined });
    expect(JSON.stringify(shown)).not.toContain("geheim");
  });

  it("are those of an edge too", () => {
    const env = { LATCHKEY_BROKERS: "http://127.0.0.1:1", LATCHKEY_BROKERS_KEY: "k".repeat(20) };
    const config = parseEdgeConfig(sourceOf({ env, yaml: `egress: {proxy: "${url}"}` }));
    expect(config.egressProxy?.host).toBe("proxy.corp.example");
    expect(config.warnings.filter((warning) => warning.includes("egress"))).toEqual([]);
  });
});
