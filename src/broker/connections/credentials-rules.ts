import { isDpopKey } from "../../auth/oauth2/dpop-key.ts";
import { schemeOf } from "../../auth/schemes.ts";
import type { Mistake } from "../../base/fault.ts";
import type { Credentials } from "../../gen/latchkey/v1/credentials_pb.ts";

/**
 * Checks credentials supplied by a caller, beyond what their kind requires. Messages quote no part of the credentials.
 */
export function checkCredentials({ kind }: Credentials): Mistake[] {
  const key = kind.case === undefined ? "" : schemeOf(kind.case).dpopKeyOf(kind.value);
  if (key === "" || isDpopKey(key)) return [];
  const message = "must be a private key in PEM (PKCS #8), not encrypted, of an elliptic curve: P-256";
  return [{ path: ["credentials", "dpop_key"], message }];
}
