import type { Broker } from "../../../broker/broker.ts";
import type { FollowedUri } from "../../../broker/mcp-clients/session-subscriptions.ts";
import type { RecordWatch } from "../../../broker/records/record-watch.ts";
import type { FindFollowed, FollowedResource, ResourceReader } from "./followed-records.ts";

/** Watches what one session follows, for its stream. */
export interface SessionWatch {
  /** Finds what the URIs name, if they are others than before, or if some were not found. */
  look(taken: readonly FollowedUri[] | undefined): Promise<void>;
  /** Takes the URIs of what has changed and may be read. */
  changed(): Promise<readonly string[]>;
  /** Whether nothing can change. */
  isIdle(): boolean;
  close(): void;
}

interface SessionWatchOptions {
  readonly records: Pick<Broker["records"], "watch">;
  readonly findFollowed: FindFollowed;
  readonly readerNow: () => Promise<ResourceReader>;
}

/** What could not be found is looked for again. */
const lookAgainMs = 5_000;

export function createSessionWatch({ records, findFollowed, readerNow }: SessionWatchOptions): SessionWatch {
  const changed = new Set<string>();
  let wanted: readonly FollowedUri[] = [];
  let watched: readonly FollowedResource[] = [];
  let watch: RecordWatch | undefined;
  let lookedMs = 0;

  async function noteChanges(): Promise<void> {
    for (const n of (await watch?.taken()) ?? []) changed.add(watched[n]?.uri ?? "");
  }

  async function findAll(next: readonly FollowedUri[]): Promise<void> {
    const reader = await readerNow();
    const named = await Promise.all(next.map(({ uri }) => findFollowed(uri, reader)));
    const found = named.filter((one) => one !== undefined);
    const begun = await records.watch(found.map(({ scope }) => scope));
    await noteChanges();
    watch?.close();
    watch = begun;
    for (const [n, { uri }] of found.entries()) {
      if (watched.some((one) => one.uri === uri)) continue;
      // It may have changed since the session has subscribed, or while it could not be read.
      const isBack = wanted.some((one) => one.uri === uri);
      const { since = 0 } = next.find((one) => one.uri === uri) ?? {};
      if (isBack || begun.revisionOf(n) > since) changed.add(uri);
    }
    watched = found;
    wanted = next;
    lookedMs = performance.now();
  }

  return {
    async look(taken) {
      const isLate = watched.length < wanted.length && performance.now() >= lookedMs + lookAgainMs;
      if (taken !== undefined || isLate) await findAll(taken ?? wanted);
    },
    async changed() {
      await noteChanges();
      if (changed.size === 0) return [];
      const reader = await readerNow();
      const told: string[] = [];
      let isSame = true;
      for (const uri of changed) {
        const before = watched.find((one) => one.uri === uri);
        if (before === undefined) continue;
        const found = await findFollowed(uri, reader);
        // A URI without the ID of a connection names the only one, which may be another by now.
        isSame &&= found?.scope.connection.id === before.scope.connection.id;
        if (found !== undefined) told.push(uri);
      }
      changed.clear();
      if (!isSame) await findAll(wanted);
      return told;
    },
    isIdle: () => watched.length === 0,
    close: () => watch?.close(),
  };
}
