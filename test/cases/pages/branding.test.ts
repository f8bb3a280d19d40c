import { ConnectError } from "@connectrpc/connect";
import { describe, expect, it } from "vitest";
import { EnvironmentService } from "../../../src/gen/latchkey/v1/environment_pb.ts";
import { appOrigin, type Connecting, connecting, departure } from "../../support/sidecar/connecting.ts";
import { startTestSidecar } from "../../support/sidecar/harness.ts";
import { visibleText } from "./form.ts";

const logo = `data:image/svg+xml;base64,${Buffer.from("<svg xmlns='http://www.w3.org/2000/svg'/>").toString("base64")}`;
const branding = { name: "Acme", logo, accentColor: "#e4572e", supportUrl: "https://acme.example/help?a=1&b=2" };

const update = ({ sidecar }: Connecting, fields: object, paths: readonly string[] = ["branding"]) =>
  sidecar
    .client(EnvironmentService)
    .updateEnvironment({ environment: { name: "dev", branding: fields }, updateMask: { paths: [...paths] } })
    .then(({ environment }) => environment?.branding);

const shown = async (all: Connecting, more: object = {}, query = "") =>
  all
    .browser()
    .go(
      `${all.sidecar.data}/connect/?session_token=${await all.session({ end_user: { id: "bob" }, ...more })}${query}`,
    );
const only = { allowed_integrations: ["sandbox-files"] };
const heading = (page: string) => /<h1[^>]*>([^<]*)</.exec(page)?.[1];
const policy = (page: { readonly headers: Headers }) => page.headers.get("content-security-policy") ?? "";

describe("the branding of an environment", () => {
  it("shows who asks, with the logo, the color and the support", async () => {
    const all = await connecting();
    await update(all, branding);
    const form = await shown(all, only);
    expect(heading(form.text)).toBe("Acme wants to connect your Sandbox: file storage");
    expect(visibleText(form.text)).toContain("You connect it for bob .");
    expect(form.text).toContain(`<img class="mark logo" src="${logo}" alt="">`);
    expect(form.text).toContain("--do:#e4572e");
    expect(policy(form)).toContain("img-src data:;");
    expect(policy(form)).not.toContain("unsafe");
    expect(heading((await shown(all)).text)).toBe("Acme wants to connect an account");
    expect(heading((await shown(all, only, "&lang=de")).text)).toBe(
      "Acme möchte Ihr Konto bei Sandbox: file storage verbinden",
    );
    all.sandbox.behave({ consent: "deny" });
    const denied = await all.browser().go(departure(all, await all.session()));
    expect(denied.text).toContain('href="https://acme.example/help?a=1&amp;b=2"');
    expect(denied.text).toContain(`<a class="button plain" href="${appOrigin}">Back to Acme</a>`);
    // Its session is unknown, but there is only one environment.
    const expired = await all.browser().go(`${all.sidecar.data}/connect/?session_token=lk_connect_${"x".repeat(32)}`);
    expect(expired.text).toContain("Back to Acme");
    const gone = async (to: string) =>
      (await all.browser().go(`${expired.url}&return_to=${encodeURIComponent(to)}`)).text;
    expect(await gone(`${appOrigin}/settings?tab=1`)).toContain(`href="${appOrigin}/settings?tab=1">Back to Acme`);
    expect(await gone("https://evil.test/")).not.toContain("evil.test");
    expect(await gone("javascript:alert(1)")).not.toContain("javascript:");
    const { body } = await all.sidecar.rest("GET", "/connect/session", { key: await all.session() });
    expect(body.data.connectUISettings.theme).toEqual({ light: { primary: "#e4572e" }, dark: { primary: "#e4572e" } });
  });

  it("is left out where there is none", async () => {
    const page = await shown(await connecting(), only);
    expect(heading(page.text)).toBe("Connect Sandbox: file storage");
    expect(page.text).not.toContain("<img");
    expect(policy(page)).not.toContain("img-src");
  });

  it("changes field by field, and is checked", async () => {
    const all = await connecting();
    await update(all, branding);
    expect(await update(all, { name: "Other" }, ["branding.name", "branding.logo"])).toMatchObject({
      ...{ name: "Other", logo: "", accentColor: "#e4572e" },
    });
    expect(await update(all, {})).toBeUndefined();
    const refused = await update(all, { accentColor: "red" }).catch((error: unknown) => ConnectError.from(error));
    expect(String(refused)).toContain("the environment is not valid");
  });

  it("is read-only where the configuration declares it", async () => {
    const config = {
      environments: [{ name: "dev", branding: { name: "Declared", accent_color: "#1f4fbf" } }, { name: "prod" }],
    };
    const sidecar = await startTestSidecar({
      env: { LATCHKEY_CONFIG: "/latchkey.yaml" },
      files: { "/latchkey.yaml": JSON.stringify(config) },
    });
    const client = sidecar.client(EnvironmentService);
    const { environment } = await client.getEnvironment({ name: "dev" });
    expect([environment?.branding?.name, environment?.declaredFields]).toEqual(["Declared", ["name", "branding"]]);
    const change = (name: string) =>
      client
        .updateEnvironment({ environment: { name, branding }, updateMask: { paths: ["branding.name"] } })
        .then(({ environment: after }) => after?.branding?.name);
    await expect(change("dev")).rejects.toThrow("branding of the environment");
    expect(await change("prod")).toBe("Acme");
  });
});
