import type { ServiceImpl } from "@connectrpc/connect";
import type { Fault } from "../../base/fault.ts";
import type { Broker } from "../../broker/broker.ts";
import {
  type Connection,
  type ConnectionRef,
  type ConnectionService,
  DeleteConnectionRequestSchema,
  type Revocation,
  UpdateMetadataRequestSchema,
} from "../../gen/latchkey/v1/connection_pb.ts";
import { type BatchOutcome, eachOf } from "../server/batch.ts";
import { callerOf } from "../server/context.ts";
import { problemOf } from "../server/errors.ts";
import type { RequireValid } from "../server/validate.ts";
import type { ConnectionCalls } from "./connection-calls.ts";

type BatchMethods = Pick<
  ServiceImpl<typeof ConnectionService>,
  "batchGetConnections" | "batchUpdateMetadata" | "batchDeleteConnections"
>;

/** The methods for many connections at once. Each item succeeds or fails by itself. */
export const batchMethods = (
  { connections }: Pick<Broker, "connections">,
  { refOf, shown, updateMetadata }: ConnectionCalls,
  requireValid: RequireValid,
): BatchMethods => ({
  async batchGetConnections({ refs }, context) {
    const caller = callerOf(context);
    const outcomes = await eachOf(refs, async (ref) => shown((await connections.get(await refOf(caller, ref))).value));
    return { results: outcomes.map((outcome, i) => getResultOf(refs[i], outcome)) };
  },
  async batchUpdateMetadata({ updates }, context) {
    const caller = callerOf(context);
    const outcomes = await eachOf(updates, async (update) => {
      requireValid(UpdateMetadataRequestSchema, update);
      return updateMetadata(caller, update);
    });
    return { results: outcomes.map((outcome, i) => getResultOf(updates[i]?.ref, outcome)) };
  },
  async batchDeleteConnections({ deletions }, context) {
    const caller = callerOf(context);
    const outcomes = await eachOf(deletions, async (deletion) => {
      requireValid(DeleteConnectionRequestSchema, deletion);
      const { ref, expectedRevision, keepGrant } = deletion;
      return connections.delete({ ref: await refOf(caller, ref), expectedRevision, keepGrant }, caller.keyId);
    });
    return { results: outcomes.map((outcome, i) => deleteResultOf(deletions[i]?.ref, outcome)) };
  },
});

const named = (ref: ConnectionRef | undefined) => (ref === undefined ? {} : { ref });
const problemIn = (fault: Fault | undefined) => (fault === undefined ? {} : { problem: problemOf(fault) });

const deleteResultOf = (ref: ConnectionRef | undefined, outcome: BatchOutcome<Revocation | undefined>) => {
  if (outcome.fault !== undefined) return { ...named(ref), ...problemIn(outcome.fault) };
  return { ...named(ref), ...(outcome.value === undefined ? {} : { revocation: outcome.value }) };
};

const getResultOf = (ref: ConnectionRef | undefined, outcome: BatchOutcome<Connection>) =>
  outcome.fault === undefined
    ? { ...named(ref), connection: outcome.value }
    : { ...named(ref), ...problemIn(outcome.fault) };
