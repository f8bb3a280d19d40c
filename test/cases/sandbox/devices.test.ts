import { expect, it } from "vitest";
import { bearer, consentPage, own, type Started, started } from "./started.ts";

async function begin(sandbox: Started, scope = "drive email") {
  const response = await sandbox.send("POST", "/oauth2/device_authorization", {
    headers: own,
    body: new URLSearchParams({ scope }),
  });
  expect(response.status).toBe(200);
  return (await response.json()) as {
    device_code: string;
    user_code: string;
    verification_uri: string;
    verification_uri_complete: string;
    expires_in: number;
    interval: number;
  };
}
const poll = (sandbox: Started, device_code: string) =>
  sandbox.token({ grant_type: "urn:ietf:params:oauth:grant-type:device_code", device_code });

it("waits for a user who enters the code, and issues tokens once", async () => {
  let time = Date.now();
  const sandbox = await started({ now: () => time });
  const device = await begin(sandbox);
  expect(device).toMatchObject({ expires_in: 600, interval: 5, verification_uri: `${sandbox.origin}/oauth2/device` });
  expect(device.user_code).toMatch(/^[BCDFGHJKLMNPQRSTVWXZ]{4}-[BCDFGHJKLMNPQRSTVWXZ]{4}$/);
  expect((await poll(sandbox, device.device_code)).body.error).toBe("authorization_pending");

  expect(await (await sandbox.get("/oauth2/device")).text()).toContain('name="user_code"');
  // In the way people type it.
  const user_code = device.user_code.toLowerCase().replace("-", " ");
  const entered = await sandbox.send("POST", "/oauth2/device", { body: new URLSearchParams({ user_code }) });
  const page = await consentPage(sandbox, entered);
  expect(page.scopes).toEqual(["drive", "email"]);
  expect((await page.answer("allow", { scopes: ["drive"] })).status).toBe(200);

  time += 5_000;
  const { status, body } = await poll(sandbox, device.device_code);
  expect([status, body.scope, typeof body.refresh_token]).toEqual([200, "drive", "string"]);
  expect((await sandbox.get("/drive/v3/files", bearer(body.access_token))).status).toBe(200);
  time += 5_000;
  expect((await poll(sandbox, device.device_code)).body.error).toBe("invalid_grant");
});

it("O21 slows down a client that polls too often, by five seconds each time", async () => {
  let time = Date.now();
  const sandbox = await started({ now: () => time });
  const { device_code } = await begin(sandbox);
  const after = async (ms: number) => {
    time += ms;
    return (await poll(sandbox, device_code)).body.error;
  };
  expect(await after(0)).toBe("authorization_pending");
  expect(await after(4_999)).toBe("slow_down");
  expect(await after(9_999)).toBe("slow_down");
  expect(await after(15_000)).toBe("authorization_pending");
  expect(await after(600_000)).toBe("expired_token");
});

it("reports to a device that the user denied access", async () => {
  const sandbox = await started({ behaviour: { deviceIntervalS: 0 } });
  const { device_code, verification_uri_complete } = await begin(sandbox);
  const page = await consentPage(sandbox, await fetch(verification_uri_complete));
  await page.answer("deny");
  expect((await poll(sandbox, device_code)).body.error).toBe("access_denied");
});

it("knows no code that it did not give", async () => {
  const sandbox = await started();
  expect((await sandbox.get("/oauth2/device?user_code=BBBB-BBBB")).status).toBe(400);
  expect((await poll(sandbox, "x")).body.error).toBe("invalid_grant");
});
