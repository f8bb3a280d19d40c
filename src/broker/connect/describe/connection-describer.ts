import { timestampFromMs, timestampMs } from "@bufbuild/protobuf/wkt";
import type { World } from "../../../base/world.ts";
import { checkConnectionConfig, checkMetadata } from "../../../core/connection-rules.ts";
import type { ConnectionDescription } from "../../../gen/latchkey/stored/v1/stored_pb.ts";
import type { Connection, ConnectionRef } from "../../../gen/latchkey/v1/connection_pb.ts";
import type { Change, Condition, Store } from "../../../store/contract.ts";
import type { Lease } from "../../../store/leases.ts";
import { type StoredRecordOf, transact } from "../../../store/records.ts";
import type { Audit } from "../../audit/audit.ts";
import type { Logs } from "../../audit/logs.ts";
import { type ConnectionCollections, targetOf } from "../../connections/connection-collections.ts";
import { acceptedValues, retryDelayMs, wantedRules } from "../../connections/connection-description.ts";
import type { DescribedValues } from "../../connections/described-values.ts";
import type { Live } from "../../credentials/live-connections.ts";
import type { DescribeFailure, Description, ProviderRequests } from "../../credentials/provider-requests.ts";
import { faultOfStore } from "../../stored/store-fault.ts";

/** Asks a provider about one imported connection, stores what it says, and plans the next attempt if it failed. */
export interface ConnectionDescriber {
  describe(ref: ConnectionRef, under: DescribeContext): Promise<DescribeResult>;
}

export interface DescribeContext {
  readonly lease: Pick<Lease, "fence">;
  readonly signal: AbortSignal;
}

export interface DescribeResult {
  readonly outcome: "complete" | "failed" | "given_up" | "obsolete";
  readonly failure?: DescribeFailure | undefined;
}

interface DescriberOptions {
  readonly store: Store;
  readonly collections: ConnectionCollections;
  readonly live: Live;
  readonly asks: ProviderRequests;
  readonly logs: Logs;
  readonly audit: Audit;
  readonly world: World;
}

export function createConnectionDescriber(options: DescriberOptions): ConnectionDescriber {
  const { store, collections, live, asks, logs, audit, world } = options;
  const { connections, descriptions } = collections;

  const read = ({ environment, integration, id }: ConnectionRef) => descriptions.get(environment, integration, id);

  /** Makes one attempt, and a second one with refreshed credentials if the provider refuses them. */
  async function ask(ref: ConnectionRef, seen: ConnectionDescription, signal: AbortSignal): Promise<Description> {
    const current = await live.get(ref);
    const rules = wantedRules(current.provider, current.connection, seen.found);
    const description = await asks.tryDescribe(current, rules, signal);
    if (!description.failures.some(({ status }) => status === 401)) return description;
    const replacement = await live.replacementOf(current);
    return replacement === undefined ? description : asks.tryDescribe(replacement, rules, signal);
  }

  interface Attempt {
    readonly ref: ConnectionRef;
    readonly seen: StoredRecordOf<ConnectionDescription>;
    readonly description: Description;
    readonly isDead: boolean;
    readonly fence: Condition;
  }

  /** Stores the outcome, unless a new import or an authorization has replaced the request in the meantime. */
  async function settle({ ref, seen, description, isDead, fence }: Attempt): Promise<DescribeResult> {
    const { environment, integration, id } = ref;
    const { filed, failures } = description;
    const [failure] = failures;
    const decided = async (): Promise<{ changes: readonly Change[]; result: DescribeResult }> => {
      const now = await read(ref);
      const before = await connections.get(environment, integration, id);
      if (now === undefined || now.revision !== seen.revision) return { changes: [], result: { outcome: "obsolete" } };
      if (before === undefined) {
        return { changes: descriptions.change({ before: now, after: undefined }), result: { outcome: "obsolete" } };
      }
      const { values, found } = acceptedValues(before.value, now.value.found, filed);
      const stored = changesOf({ before, values });
      const attempts = now.value.attempts + 1;
      const isRefused = failures.every(({ status }) => status !== undefined && isRefusal(status));
      const delayMs = failure === undefined || isDead ? undefined : retryDelayMs(attempts, isRefused);
      const rest: ConnectionDescription = { ...now.value, found };
      delete rest.dueAt;
      const waitMs = Math.max(delayMs ?? 0, Math.min(failure?.retryAfterMs ?? 0, longestWaitMs));
      const next = delayMs === undefined ? rest : { ...rest, attempts, dueAt: timestampFromMs(world.now() + waitMs) };
      const isEmpty = next.dueAt === undefined && Object.keys(found).length === 0;
      const outcome = failure === undefined ? "complete" : delayMs === undefined ? "given_up" : "failed";
      return {
        changes: [
          ...descriptions.change({ before: now, after: isEmpty ? undefined : next }),
          ...stored,
          ...(outcome === "given_up" ? givenUpLog(before.value, failure?.reason ?? "", attempts) : []),
        ],
        result: { outcome, failure },
      };
    };
    return (await transact(store, decided, fence)).result;
  }

  function changesOf({
    before,
    values,
  }: {
    readonly before: StoredRecordOf<Connection>;
    readonly values: DescribedValues;
  }): Change[] {
    const fields = [
      ...Object.keys(values.metadata).map((name) => `metadata.${name}`),
      ...Object.keys(values.connectionConfig).map((name) => `connection_config.${name}`),
    ];
    const { ref } = before.value;
    if (fields.length === 0 || ref === undefined) return [];
    const metadata = { ...before.value.metadata, ...values.metadata };
    const connectionConfig = { ...before.value.connectionConfig, ...values.connectionConfig };
    const mistakes = [...checkMetadata(metadata), ...checkConnectionConfig(connectionConfig, [])];
    if (mistakes.length > 0) {
      world.log.warn("a description does not fit into its connection", {
        ...namesOf(ref),
        reason: mistakes[0]?.message,
      });
      return [];
    }
    const after = { ...before.value, metadata, connectionConfig, updatedAt: timestampFromMs(world.now()) };
    const { environment } = ref;
    return [
      ...connections.change({ before, after }),
      ...audit.changes({
        actor: "latchkey",
        action: "connection.describe",
        environment,
        targets: [targetOf(ref)],
        fields,
      }),
    ];
  }

  function givenUpLog({ ref, provider }: Connection, reason: string, attempts: number): Change[] {
    const { environment = "", integration = "", id: connectionId = "" } = ref ?? {};
    const log = logs.begin({ operation: "connection.describe", environment, integration, connectionId, secrets: [] });
    log.error("the provider did not describe the imported connection; it is not asked again", {
      ...{ provider, reason, attempts },
    });
    return log.end({ failed: true }).changes();
  }

  return {
    async describe(ref, { lease, signal }) {
      const seen = await read(ref);
      const { dueAt } = seen?.value ?? {};
      if (seen === undefined || dueAt === undefined || timestampMs(dueAt) > world.now()) return { outcome: "obsolete" };
      let description: Description;
      let isDead = false;
      try {
        description = await ask(ref, seen.value, signal);
      } catch (error) {
        signal.throwIfAborted();
        const fault = faultOfStore(error);
        if (fault.code === "store_unavailable" || fault.code === "conflict") throw error;
        if (fault.code === "internal") {
          world.metrics.unhandled.inc();
          world.log.error("an imported connection was not described because of a defect", {
            ...namesOf(ref),
            err: error,
          });
        }
        // A new authorization or a new import asks again; time alone does not help.
        isDead = fault.code === "reauthorization_required";
        description = { filed: { metadata: {}, connectionConfig: {} }, failures: [{ reason: fault.code }] };
      }
      signal.throwIfAborted();
      return settle({ ref, seen, description, isDead, fence: lease.fence });
    },
  };
}

const longestWaitMs = 86_400_000;

/** The provider understood the request and said no, and it will say so again. */
const isRefusal = (status: number): boolean => status >= 400 && status < 500 && ![408, 425, 429].includes(status);

export const namesOf = ({ environment, integration, id }: ConnectionRef) => ({
  environment,
  integration,
  connection: id,
});
