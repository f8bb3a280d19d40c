import { setTimeout as sleep } from "node:timers/promises";
import { nextPollMs } from "../../../auth/oauth2/device-pace.ts";
import { TokenFailure, type Tokens } from "../../../auth/oauth2/tokens.ts";
import type { DeviceCode, TokenEndpoint, TokenParties } from "../../tokens/token-endpoint.ts";

interface DevicePollOptions {
  readonly tokens: Pick<TokenEndpoint, "ask">;
  readonly now: () => number;
  /** Waits between polls; by default, with a timer. */
  readonly wait?: (ms: number, signal: AbortSignal | undefined) => Promise<void>;
}

/**
 * Polls for a device's tokens until its user has decided, at the interval that the provider requests (RFC 8628, section
 * 3.5). Rejects with `TokenFailure`: `grant_dead` if the user refused or was too late.
 */
export async function pollDevice(
  { tokens, now, wait = pause }: DevicePollOptions,
  asking: TokenParties,
  { deviceCode, expiresAtMs, intervalMs }: DeviceCode,
): Promise<Tokens> {
  for (let interval = intervalMs; ; ) {
    if (now() + interval >= expiresAtMs) throw expired();
    await wait(interval, asking.signal).catch((cause: unknown) => {
      throw new TokenFailure(left, "polling for the device was stopped", { cause });
    });
    try {
      return await tokens.ask({ ...asking, grant: { type: "device_code", deviceCode } });
    } catch (error) {
      if (!(error instanceof TokenFailure)) throw error;
      const next = nextPollMs(interval, error.kind);
      if (next === undefined) throw error;
      interval = Math.max(next, error.retryAfterMs ?? 0);
    }
  }
}

const pause = (ms: number, signal: AbortSignal | undefined): Promise<void> =>
  sleep(ms, undefined, signal === undefined ? {} : { signal });

const left = { kind: "passing", code: "left", retryAfterMs: undefined } as const;
const expired = () =>
  new TokenFailure(
    { kind: "grant_dead", code: "expired_token", retryAfterMs: undefined },
    "the device code has expired",
  );
