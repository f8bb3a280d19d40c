import { clone } from "@bufbuild/protobuf";
import { RefreshRecordSchema } from "../../../gen/latchkey/stored/v1/stored_pb.ts";
import type { ConnectionSetup, HealthJudgement } from "./health-judgement.ts";
import type { HealthUpdate } from "./refresh-updates.ts";
import { type ConnectionSnapshot, recordOf, sameCredentials } from "./snapshot.ts";

export interface LackingScopes extends Omit<ConnectionSetup, "credentials"> {
  readonly scopes: readonly string[];
}

export type NoteLacking = (known: ConnectionSnapshot, lacking: LackingScopes) => HealthUpdate;

/** Returns the changes for a connection whose MCP server wants scopes that the tokens lack. */
export const createLackingNotes =
  ({ judge }: HealthJudgement): NoteLacking =>
  (known, { scopes, ...others }) => {
    const { connection, credentials, record: recordBefore } = known;
    const record = clone(RefreshRecordSchema, recordOf(known));
    record.lackingScopes = [...new Set([...record.lackingScopes, ...scopes])];
    const missingScopes = [...new Set([...connection.value.missingScopes, ...scopes])];
    const after = { ...connection.value, missingScopes };
    const setup = { ...others, credentials, before: connection, record, recordBefore, logId: "" };
    return { ...judge({ ...setup, connection: after }), conditions: [sameCredentials(known)] };
  };
