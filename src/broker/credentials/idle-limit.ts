import { durationMs } from "@bufbuild/protobuf/wkt";
import { type Provider, RefreshTokenRules_Use } from "../../gen/latchkey/v1/provider_pb.ts";

/** Of a provider that says nothing of it: often enough for those that are known, and one request a week. */
const usualRestMs = 7 * 86_400_000;

/** For how long a connection may rest before it is renewed for its refresh token's sake; undefined: for ever. */
export function restLimitMs({ auth }: Provider): number | undefined {
  if (auth.case !== "oauth2") return undefined;
  const { idleLifetime, lifetime, use } = auth.value.refreshTokens ?? {};
  // Where each use brings another, the life of one is how long nobody may use it.
  const lives = [idleLifetime, use === RefreshTokenRules_Use.ROTATES ? lifetime : undefined];
  const shortest = Math.min(...lives.map((one) => (one === undefined ? Number.POSITIVE_INFINITY : durationMs(one))));
  // Half of it: whoever is down over a weekend, or fails for days, has time.
  if (Number.isFinite(shortest)) return shortest / 2;
  return use === RefreshTokenRules_Use.KEEPS ? undefined : usualRestMs;
}
