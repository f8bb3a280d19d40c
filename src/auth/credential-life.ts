import type { Timestamp } from "@bufbuild/protobuf/wkt";
import type { Credentials } from "../gen/latchkey/v1/credentials_pb.ts";
import { schemeOf } from "./schemes.ts";

/** When the credentials expire; undefined if never, or not known. */
export const credentialsExpireAt = ({ kind }: Credentials): Timestamp | undefined =>
  kind.case === undefined ? undefined : schemeOf(kind.case).expiresAt(kind.value);

/** Whether the credentials were supplied without a token, which is still to be requested with them. */
export const lacksToken = ({ kind }: Credentials): boolean =>
  kind.case !== undefined && schemeOf(kind.case).lacksToken(kind.value);

/** The token's lifetime as the provider stated when it issued the token; undefined if it is not known. */
export function statedLifetimeMs({ kind }: Credentials): number | undefined {
  const answer = kind.case === undefined ? undefined : schemeOf(kind.case).issuedWith(kind.value);
  const seconds = Number(answer?.["expires_in"]);
  return Number.isFinite(seconds) && seconds > 0 ? seconds * 1_000 : undefined;
}
