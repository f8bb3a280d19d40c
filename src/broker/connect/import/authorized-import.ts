import type { JsonObject } from "@bufbuild/protobuf";
import type { ConnectionImport } from "../../../gen/latchkey/v1/connection_pb.ts";
import type { Change } from "../../../store/contract.ts";

/** The result of an end user's consent. */
export interface AuthorizedImport {
  /** The connection's name, credentials, end user and tags. */
  readonly item: ConnectionImport;
  /** The connection exists and is re-authorized: if it was deleted in the meantime, no new one is made. */
  readonly isAgain: boolean;
  /** Merged into the existing values, which are kept otherwise. */
  readonly metadata: JsonObject;
  readonly connectionConfig: JsonObject;
  readonly grantedScopes: readonly string[];
  readonly missingScopes: readonly string[];
  /** Returns additional changes of the commit, from the current state; called again after a conflict. */
  readonly alongside: () => Promise<readonly Change[]>;
}
