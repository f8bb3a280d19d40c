import { timestampMs } from "@bufbuild/protobuf/wkt";
import type { World } from "../../../base/world.ts";
import { neededChoices } from "../../../core/needed-choices.ts";
import type { ConnectionDescription } from "../../../gen/latchkey/stored/v1/stored_pb.ts";
import type { ConnectionRef } from "../../../gen/latchkey/v1/connection_pb.ts";
import type { DescribeRule } from "../../../gen/latchkey/v1/provider_pb.ts";
import type { Change, Condition, Store } from "../../../store/contract.ts";
import { type StoredRecordOf, transact } from "../../../store/records.ts";
import type { Audit } from "../../audit/audit.ts";
import type { Logs } from "../../audit/logs.ts";
import type { ConnectionCollections } from "../../connections/connection-collections.ts";
import { acceptedValues, wantedRules } from "../../connections/connection-description.ts";
import type { Live, LiveConnection } from "../../credentials/live-connections.ts";
import type { DescribeFailure, Description, ProviderRequests } from "../../credentials/provider-requests.ts";
import type { HeldPartition } from "../../partitions/held-partition.ts";
import { faultOfStore } from "../../stored/store-fault.ts";
import { createChoiceLists, withConfig } from "../choices/choice-lists.ts";
import { planAfter } from "./attempt-plan.ts";
import { createDescribedChanges } from "./described-changes.ts";
import { logFieldsOf } from "./failure-log.ts";

/** Asks a provider about one imported connection, stores what it says, and plans the next attempt if it failed. */
export interface ConnectionDescriber {
  describe(ref: ConnectionRef, under: DescribeContext): Promise<DescriptionResult>;
}

export interface DescribeContext {
  readonly partition: Pick<HeldPartition, "fence">;
  readonly signal: AbortSignal;
}

export interface DescriptionResult {
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

interface FinishedAttempt {
  readonly ref: ConnectionRef;
  readonly seen: StoredRecordOf<ConnectionDescription>;
  readonly description: Description;
  readonly isDead: boolean;
  readonly fence: Condition;
}

export function createConnectionDescriber(options: DescriberOptions): ConnectionDescriber {
  const { store, collections, live, asks, logs, audit, world } = options;
  const { connections, descriptions } = collections;
  const choiceLists = createChoiceLists(asks);
  const described = createDescribedChanges({ collections, logs, audit, world });

  const read = ({ environment, integration, id }: ConnectionRef) => descriptions.get(environment, integration, id);

  /** Makes one attempt, and a second one with refreshed credentials if the provider refuses them. */
  async function ask(ref: ConnectionRef, seen: ConnectionDescription, signal: AbortSignal): Promise<Description> {
    const current = await live.get(ref);
    const rules = wantedRules(current.provider, current.connection, seen.found);
    const description = await askWith(current, rules, signal);
    if (!description.failures.some(({ status }) => status === 401)) return description;
    const replacement = await live.replacementOf(current);
    return replacement === undefined ? description : askWith(replacement, rules, signal);
  }

  /** Asks for details, and for what there is to choose: a list of one is chosen. */
  async function askWith(current: LiveConnection, rules: readonly DescribeRule[], signal: AbortSignal) {
    const { filed, failures } = await asks.tryDescribe(current, rules, signal);
    const { provider, connection } = current;
    const config = { ...connection.connectionConfig, ...filed.connectionConfig };
    if (neededChoices(provider, config).length === 0) return { filed, failures };
    const { connectionConfig, open } = await choiceLists.decide(withConfig(current, config));
    const failed = open.flatMap(({ problem }) => failureOf(problem) ?? []);
    return {
      filed: { ...filed, connectionConfig: { ...filed.connectionConfig, ...connectionConfig } },
      failures: [...failures, ...failed],
    };
  }

  /** Stores the outcome, unless a new import or an authorization has replaced the request in the meantime. */
  async function settle({ ref, seen, description, isDead, fence }: FinishedAttempt): Promise<DescriptionResult> {
    const { environment, integration, id } = ref;
    const { filed, failures } = description;
    const [failure] = failures;
    const decide = async (): Promise<{ changes: readonly Change[]; result: DescriptionResult }> => {
      const now = await read(ref);
      const before = await connections.get(environment, integration, id);
      if (now === undefined || now.revision !== seen.revision) return { changes: [], result: { outcome: "obsolete" } };
      if (before === undefined) {
        return { changes: descriptions.change({ before: now, after: undefined }), result: { outcome: "obsolete" } };
      }
      const { values, found } = acceptedValues(before.value, now.value.found, filed);
      const stored = described.values(before, values);
      const plan = planAfter({ before: now.value, found, failures, isDead, nowMs: world.now() });
      const { outcome, attempts, next } = plan;
      const reason = failure?.reason ?? "";
      return {
        changes: [
          ...descriptions.change({ before: now, after: next }),
          ...stored,
          ...(outcome === "given_up" ? described.givenUp(before.value, { reason, attempts }) : []),
        ],
        result: { outcome, failure },
      };
    };
    return (await transact(store, decide, fence)).result;
  }

  return {
    async describe(ref, { partition, signal }) {
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
          world.log.error("unexpected error; imported connection not described", { ...logFieldsOf(ref), err: error });
        }
        // A new authorization or a new import asks again; time alone does not help.
        isDead = fault.code === "reauthorization_required";
        description = { filed: { metadata: {}, connectionConfig: {} }, failures: [{ reason: fault.code }] };
      }
      signal.throwIfAborted();
      return settle({ ref, seen, description, isDead, fence: partition.fence });
    },
  };
}

/** The failure of a list; undefined: there is one, or it comes after another choice. */
function failureOf(problem: string): DescribeFailure | undefined {
  if (problem === "" || problem === "earlier_choice") return undefined;
  const [, status] = /^status_(\d+)$/.exec(problem) ?? [];
  return { reason: problem, ...(status === undefined ? {} : { status: Number(status) }) };
}
