import { randomBytes, randomInt } from "node:crypto";
import { html } from "../../../base/html.ts";
import type { BehaviourSettings } from "../behaviour.ts";
import { createBounded } from "../bounded.ts";
import { type Call, formOf, json, refuseOAuth, type SandboxAnswer } from "../call.ts";
import { errorPage, page } from "../page/page.ts";
import type { SandboxRoute } from "../router.ts";
import { authenticateClient, parametersOf, type SandboxClient, type SandboxClients } from "./clients.ts";
import type { Consent, ConsentDecision } from "./consent.ts";

/** RFC 8628: a device shows a short code, and a user enters it in a browser. */
export interface Devices {
  readonly routes: readonly SandboxRoute[];
  /** Returns the user's decision to a device that polls. Throws the answer to the poll until there is one. */
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
  readonly clients: SandboxClients;
  readonly consent: Consent;
}

/** Section 6.1: these letters form no words, and none of them look alike. */
const letters = "BCDFGHJKLMNPQRSTVWXZ";
const newUserCode = () => {
  const code = Array.from({ length: 8 }, () => letters[randomInt(letters.length)]).join("");
  return `${code.slice(0, 4)}-${code.slice(4)}`;
};
const normalized = (userCode: string) => userCode.toUpperCase().replaceAll(/[^A-Z]/g, "");

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
    byUserCode.set(normalized(device.userCode), device);
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
    const device = byUserCode.get(normalized(userCode));
    if (device === undefined || device.decision !== "pending" || now() >= device.expiresAt) {
      return errorPage(400, "This code is unknown or has expired.");
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

  return {
    routes: [
      { method: "POST", path: "/oauth2/device_authorization", endpoint: "device", answer: begin },
      {
        method: "GET",
        path: "/oauth2/device",
        endpoint: "device",
        answer({ query }) {
          const userCode = query.get("user_code");
          return userCode === null ? codePage() : verify(userCode);
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
      requireDue(device, now());
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

/** Throws for a poll that is too late or too early. */
function requireDue(device: Device, now: number): void {
  if (now >= device.expiresAt) throw refuseOAuth(400, "expired_token");
  const isTooSoon = now < device.polledAt + device.intervalMs;
  device.polledAt = now;
  if (!isTooSoon) return;
  // Section 3.5: the interval grows by five seconds for this and all later polls.
  device.intervalMs += 5_000;
  throw refuseOAuth(400, "slow_down");
}

/** The page on which a user enters a device's code. */
const codePage = () =>
  page(
    "Connect a device",
    html`<form class="card" method="post" action="/oauth2/device"><p><label class="over">Code shown on the device <input type="text" name="user_code" autocomplete="off" required></label></p>
<button class="do">Continue</button></form>`,
  );
