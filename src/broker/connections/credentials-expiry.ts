import type { Timestamp } from "@bufbuild/protobuf/wkt";
import { assertNever } from "../../base/assert-never.ts";
import type { Credentials } from "../../gen/latchkey/v1/credentials_pb.ts";

/** When the credentials expire; undefined if never, or not known. */
export function credentialsExpireAt({ kind }: Credentials): Timestamp | undefined {
  switch (kind.case) {
    case "oauth2":
    case "oauth2Client":
    case "app":
    case "jwt":
    case "twoStep":
    case "signature":
    case "awsSigv4":
      return kind.value.expiresAt;
    case "oauth1":
    case "apiKey":
    case "basic":
    case "tba":
    case "clientCertificate":
    case "none":
    case undefined:
      return undefined;
    default:
      return assertNever(kind);
  }
}

/** Whether the credentials were supplied without a token, which is still to be requested with them. */
export function lacksToken({ kind }: Credentials): boolean {
  switch (kind.case) {
    case "oauth2":
      return kind.value.accessToken === "";
    case "oauth2Client":
    case "twoStep":
      return kind.value.token === "";
    // These kinds are shown as they are, even without a token.
    case "app":
    case "signature":
    case "jwt":
    case "oauth1":
    case "apiKey":
    case "basic":
    case "tba":
    case "awsSigv4":
    case "clientCertificate":
    case "none":
    case undefined:
      return false;
    default:
      return assertNever(kind);
  }
}
