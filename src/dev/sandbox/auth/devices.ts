import { randomBytes, randomInt } from "node:crypto";
import { html } from "../../../base/html.ts";
import type { BehaviourSettings } from "../behaviour.ts";
import { createBounded } from "../bounded.ts";
import { type Call, formOf, json, refuseOAuth, type SandboxAnswer } from "../call.ts";
import { errorPage, page } from "../pages.ts";
import type { SandboxRoute } from "../router.ts";
import { authenticateClient, type Clients, parametersOf, type SandboxClient } from "./clients.ts";
import type { Consent, ConsentDecision } from "./consent.ts";

/** RFC 8628: a device shows a short code, and a user enters it elsewhere. */
export interface Devices {
  readonly routes: readonly SandboxRoute[];
  /** What the device's poll brings. Throws what it must be told as long as there is nothing. */
  take(deviceCode: string, client: SandboxClient): ConsentDecision;
  reset(): void;
}

interface Device {
  readonly client: SandboxClient;
  readonly scopes: readonly string[];
  readonly userCode: string;
  readonly expiresAt: number;
  intervalMs: number;
  polledAt: number;
  decision: ConsentDecision | "pending" | "denied";
}

interface DevicesOptions {
  readonly now: () => number;
  readonly origin: () => string;
  readonly settings: () => BehaviourSettings;
  readonly clients: Clients;
  readonly consent: Consent;
}

/** Section 6.1: letters that neither make words nor look alike. */
const letters = "BCDFGHJKLMNPQRSTVWXZ";
const newUserCode = () => {
  const code = Array.from({ length: 8 }, () => letters[randomInt(letters.length)]).join("");
  return `${code.slice(0, 4)}-${code.slice(4)}`;
};
const plain = (userCode: string) => userCode.toUpperCase().replaceAll(/[^A-Z]/g, "");

export function createDevices({ now, origin, settings, clients, consent }: DevicesOptions): Devices {
  const devices = createBounded<Device>(10_000);
  const byUserCode = createBounded<Device>(10_000);

  function begin(call: Call): SandboxAnswer {
    const parameters = parametersOf(call);
    const client = authenticateClient(clients, call, parameters);
    const { deviceIntervalS: interval, deviceLifetimeS: lifetime } = settings();
    const deviceCode = `sbx_dc_${randomBytes(24).toString("base64url")}`;
    const device: Device = {
      client,
      scopes: (parameters.get("scope") ?? "").split(" ").filter((scope) => scope !== ""),
      userCode: newUserCode(),
      expiresAt: now() + lifetime * 1_000,
      intervalMs: interval * 1_000,
      polledAt: Number.NEGATIVE_INFINITY,
      decision: "pending",
    };
    devices.set(deviceCode, device);
    byUserCode.set(plain(device.userCode), device);
    const uri = `${origin()}/oauth2/device`;
    return json(
      {
        device_code: deviceCode,
        user_code: device.userCode,
        verification_uri: uri,
        verification_uri_complete: `${uri}?user_code=${device.userCode}`,
        expires_in: lifetime,
        interval,
      },
      { headers: { "cache-control": "no-store" } },
    );
  }

  function verify(userCode: string): SandboxAnswer {
    const device = byUserCode.get(plain(userCode));
    if (device === undefined || device.decision !== "pending" || now() >= device.expiresAt) {
      return errorPage(400, "This code is not known, or no longer good.");
    }
    const done = (decision: Device["decision"]) => {
      device.decision = decision;
      return page("Done", html`<p>You can go back to your device.</p>`);
    };
    return consent.ask({
      clientName: device.client.name,
      scopes: device.scopes,
      hint: null,
      formActions: [],
      denied: () => done("denied"),
      allowed: (decision) => done(decision),
    });
  }

  const entry = () =>
    page(
      "Connect a device",
      html`<form method="post" action="/oauth2/device"><p><label>The code it shows: <input type="text" name="user_code" autocomplete="off" required></label></p>
<button>Go on</button></form>`,
    );

  return {
    routes: [
      { method: "POST", path: "/oauth2/device_authorization", endpoint: "device", answer: begin },
      {
        method: "GET",
        path: "/oauth2/device",
        endpoint: "device",
        answer({ query }) {
          const userCode = query.get("user_code");
          return userCode === null ? entry() : verify(userCode);
        },
      },
      {
        method: "POST",
        path: "/oauth2/device",
        endpoint: "device",
        answer: (call) => verify(formOf(call).get("user_code") ?? ""),
      },
    ],
    take(deviceCode, client) {
      const device = devices.get(deviceCode);
      if (device === undefined || device.client.id !== client.id)
        throw refuseOAuth(400, "invalid_grant", "unknown code");
      if (now() >= device.expiresAt) throw refuseOAuth(400, "expired_token");
      const isTooSoon = now() < device.polledAt + device.intervalMs;
      device.polledAt = now();
      if (isTooSoon) {
        // Section 3.5: five seconds more, for this and all that follow.
        device.intervalMs += 5_000;
        throw refuseOAuth(400, "slow_down");
      }
      const { decision } = device;
      if (decision === "pending") throw refuseOAuth(400, "authorization_pending");
      devices.delete(deviceCode);
      if (decision === "denied") throw refuseOAuth(400, "access_denied");
      return decision;
    },
    reset() {
      devices.clear();
      byUserCode.clear();
    },
  };
}
