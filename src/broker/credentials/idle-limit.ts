import { durationMs } from "@bufbuild/protobuf/wkt";
import { type Provider, RefreshTokenRules_Use } from "../../gen/latchkey/v1/provider_pb.ts";

/** Default if the provider states no lifetime: frequent enough for known providers, and one request a week. */
const defaultIdleMs = 7 * 86_400_000;

/** How long a connection may stay unused before a refresh keeps its refresh token alive; undefined: no limit. */
export function idleLimitMs({ auth }: Provider): number | undefined {
  if (auth.case !== "oauth2") return undefined;
  const { idleLifetime, lifetime, use } = auth.value.refreshTokens ?? {};
  // If each use returns a new refresh token, the lifetime of one token is also an idle limit.
  const lifetimes = [idleLifetime, use === RefreshTokenRules_Use.ROTATES ? lifetime : undefined];
  const shortest = Math.min(
    ...lifetimes.map((one) => (one === undefined ? Number.POSITIVE_INFINITY : durationMs(one))),
  );
  // Half of the lifetime leaves time for an outage of a weekend or some days of failures.
  if (Number.isFinite(shortest)) return shortest / 2;
  return use === RefreshTokenRules_Use.KEEPS ? undefined : defaultIdleMs;
}
