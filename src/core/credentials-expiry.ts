import type { Timestamp } from "@bufbuild/protobuf/wkt";
import type { Credentials } from "../gen/latchkey/v1/credentials_pb.ts";

/** When credentials run out; undefined where they do not, or where nobody said. */
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
    default:
      return undefined;
  }
}
