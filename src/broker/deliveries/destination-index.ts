import { hash } from "node:crypto";
import type { World } from "../../base/world.ts";
import type { StoredDestination } from "../../gen/latchkey/stored/v1/stored_pb.ts";
import type { Environment } from "../../gen/latchkey/v1/environment_pb.ts";
import type { Commit, Store } from "../../store/contract.ts";
import { follow } from "../../store/follow.ts";
import { keyOf, partsOf, under } from "../../store/keys.ts";
import type { SetupCollections } from "../setup/setup-collections.ts";
import { overrideSpace, type WebhookCollections } from "./webhook-collections.ts";

/** Environments, paused URLs and connections' own addresses in memory, in step with the store. */
export interface DestinationIndex {
  environmentById(id: string): Environment | undefined;
  environmentByName(name: string): Environment | undefined;
  /** Returns the connection's own address; undefined for the many connections without one. */
  overrideOf(environment: string, integration: string, connectionId: string): string | undefined;
  /** Returns whether a connection of the environment has this address of its own. */
  hasOverride(environment: string, url: string): boolean;
  /** Returns why and since when a URL is paused. */
  pausedAt(environment: string, url: string): StoredDestination | undefined;
  pausedOf(environment: string): readonly StoredDestination[];
  close(): void;
}

interface DestinationIndexOptions {
  readonly store: Store;
  readonly collections: SetupCollections & WebhookCollections;
  /** An environment was changed, or a URL paused or resumed. */
  readonly onChange: () => void;
  readonly world: World;
}

const overridePrefix = `${overrideSpace}\0`;
const everything = { under: [], limit: Number.MAX_SAFE_INTEGER };
const pausedKey = (environment: string, url: string) => `${environment}\0${url}`;

export async function openDestinationIndex(options: DestinationIndexOptions): Promise<DestinationIndex> {
  const { store, collections, onChange, world } = options;
  const { environments, destinations } = collections;
  const byName = new Map<string, Environment>();
  const byId = new Map<string, Environment>();
  const paused = new Map<string, StoredDestination>();
  /** The same by their URLs: each delivery asks, and a hash takes half a microsecond. */
  const pausedByUrl = new Map<string, StoredDestination>();
  /** Addresses of the few connections that have their own, by the parts of their key. */
  const overrides = new Map<string, string>();

  function putEnvironment(environment: Environment): void {
    byName.set(environment.name, environment);
    byId.set(environment.id, environment);
  }

  function removeEnvironment(name: string): void {
    const before = byName.get(name);
    if (before !== undefined) byId.delete(before.id);
    byName.delete(name);
  }

  function putPaused(urlHash: string, destination: StoredDestination): void {
    const { environment, url } = destination;
    paused.set(pausedKey(environment, urlHash), destination);
    pausedByUrl.set(pausedKey(environment, url), destination);
  }

  function removePaused(environment: string, urlHash: string): void {
    const key = pausedKey(environment, urlHash);
    const before = paused.get(key);
    if (before !== undefined) pausedByUrl.delete(pausedKey(environment, before.url));
    paused.delete(key);
  }

  function onCommit({ changes, revision }: Commit): void {
    let isChanged = false;
    for (const change of changes) {
      const environment = environments.read(change, revision);
      if (environment !== undefined) {
        const [name = ""] = environment.parts;
        removeEnvironment(name);
        if (environment.value !== undefined) putEnvironment(environment.value);
      }
      const destination = destinations.read(change, revision);
      if (destination !== undefined) {
        const [name = "", urlHash = ""] = destination.parts;
        removePaused(name, urlHash);
        if (destination.value !== undefined) putPaused(urlHash, destination.value);
      }
      if (change.key.startsWith(overridePrefix)) {
        const connection = change.key.slice(overridePrefix.length);
        if (change.value === undefined) overrides.delete(connection);
        else overrides.set(connection, Buffer.from(change.value).toString());
      }
      isChanged ||= environment !== undefined || destination !== undefined;
    }
    if (isChanged) onChange();
  }

  async function read(): Promise<() => void> {
    const [allEnvironments, allPaused, allOverrides] = await Promise.all([
      environments.page(everything),
      destinations.page(everything),
      store.list({ ...under(overrideSpace), limit: Number.MAX_SAFE_INTEGER }),
    ]);
    return () => {
      for (const map of [overrides, byName, byId, paused, pausedByUrl]) map.clear();
      for (const { key, value } of allOverrides) {
        overrides.set(key.slice(overridePrefix.length), Buffer.from(value).toString());
      }
      for (const { value } of allEnvironments) putEnvironment(value);
      for (const { value } of allPaused) putPaused(hash("sha256", value.url), value);
      onChange();
    };
  }

  const spaces = [environments.name, destinations.name, overrideSpace];
  const watch = await follow({ store, world, spaces, read, onCommit });

  return {
    environmentById: (id) => byId.get(id),
    environmentByName: (name) => byName.get(name),
    overrideOf: (environment, integration, connectionId) =>
      overrides.size === 0 ? undefined : overrides.get(keyOf(environment, integration, connectionId)),
    hasOverride: (environment, url) =>
      overrides.entries().some(([connection, address]) => address === url && partsOf(connection)[0] === environment),
    pausedAt: (environment, url) => (pausedByUrl.size === 0 ? undefined : pausedByUrl.get(pausedKey(environment, url))),
    pausedOf: (environment) => [...paused.values()].filter((one) => one.environment === environment),
    close: () => watch.close(),
  };
}
