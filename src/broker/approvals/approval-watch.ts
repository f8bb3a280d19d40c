import { createCallbacks } from "../../base/callbacks.ts";
import type { World } from "../../base/world.ts";
import type { AccessSession } from "../../gen/latchkey/v1/access_session_pb.ts";
import { ApprovalState } from "../../gen/latchkey/v1/approval_pb.ts";
import type { Store } from "../../store/contract.ts";
import { follow } from "../../store/follow.ts";
import { partsOf } from "../../store/keys.ts";
import type { Records } from "../../store/records.ts";
import type { SetupCollections } from "../setup/setup-collections.ts";
import type { ApprovalCollections } from "./approval-collections.ts";
import type { EndedRequester } from "./approval-endings.ts";

/** Follows the approvals of all replicas. */
export interface ApprovalWatch {
  /** Number of approvals of an environment that wait, as far as this process knows. */
  waiting(environment: string): number;
  /** Calls back at every change of an approval, until the returned function is called. */
  onChange(id: string, run: () => void): () => void;
  /** Calls back once a key or an access session is gone. */
  onRequesterEnd(run: (ended: EndedRequester) => void): void;
  /** Ends all waits, now and later: the process stops, and the requests are repeated. */
  release(): void;
  readonly isReleased: boolean;
  close(): void;
}

/** Where the keys and the access sessions of requesters are stored. */
export interface RequesterCollections extends Pick<SetupCollections, "keys"> {
  readonly accessSessions: Pick<Records<AccessSession>, "name">;
}

interface ApprovalWatchOptions {
  readonly store: Store;
  readonly collections: Pick<ApprovalCollections, "approvals"> & RequesterCollections;
  readonly world: World;
}

export async function openApprovalWatch(options: ApprovalWatchOptions): Promise<ApprovalWatch> {
  const { store, collections, world } = options;
  const { approvals, keys, accessSessions } = collections;
  const kinds = new Map<string, EndedRequester["kind"]>([
    [keys.name, "key"],
    [accessSessions.name, "session"],
  ]);
  const ends = createCallbacks<EndedRequester>();
  const waiting = new Map<string, Set<string>>();
  const callbacks = new Map<string, Set<() => void>>();
  let isReleased = false;

  function note(environment: string, id: string, isWaiting: boolean): void {
    const ids = waiting.get(environment) ?? new Set<string>();
    if (isWaiting) ids.add(id);
    else ids.delete(id);
    if (ids.size === 0) waiting.delete(environment);
    else waiting.set(environment, ids);
  }

  const wake = (id: string) => {
    for (const run of callbacks.get(id) ?? []) run();
  };

  function count(): void {
    world.metrics.approvalsWaiting.set(
      {},
      [...waiting.values()].reduce((sum, { size }) => sum + size, 0),
    );
  }

  const watch = await follow({
    store,
    world,
    spaces: [approvals.name, keys.name, accessSessions.name],
    async read() {
      const found = await approvals.pageBy("waiting", { under: [], limit: Number.MAX_SAFE_INTEGER });
      return () => {
        waiting.clear();
        for (const { value } of found) note(value.environment, value.id, true);
        count();
        // Commits may have been missed.
        for (const id of callbacks.keys()) wake(id);
      };
    },
    onCommit({ changes, revision }) {
      const changed: string[] = [];
      for (const change of changes) {
        const [space = "", requester = ""] = change.value === undefined ? partsOf(change.key) : [];
        const kind = kinds.get(space);
        if (kind !== undefined) ends.run({ kind, id: requester });
        const read = approvals.read(change, revision);
        const [environment, id] = read?.parts ?? [];
        if (read === undefined || environment === undefined || id === undefined) continue;
        note(environment, id, read.value?.state === ApprovalState.WAITING);
        changed.push(id);
      }
      if (changed.length === 0) return;
      count();
      for (const id of changed) wake(id);
    },
  });

  return {
    waiting: (environment) => waiting.get(environment)?.size ?? 0,
    onChange(id, run) {
      const all = callbacks.get(id) ?? new Set();
      callbacks.set(id, all.add(run));
      return () => {
        all.delete(run);
        if (all.size === 0 && callbacks.get(id) === all) callbacks.delete(id);
      };
    },
    onRequesterEnd: (run) => void ends.add(run),
    release() {
      isReleased = true;
      for (const id of callbacks.keys()) wake(id);
    },
    get isReleased() {
      return isReleased;
    },
    close: () => watch.close(),
  };
}
