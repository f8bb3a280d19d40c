import { hash } from "node:crypto";
import { create } from "@bufbuild/protobuf";
import { timestampFromMs } from "@bufbuild/protobuf/wkt";
import { Fault } from "../../base/fault.ts";
import type { World } from "../../base/world.ts";
import {
  type StoredDestination,
  StoredDestinationSchema,
  StoredForward_Address,
} from "../../gen/latchkey/stored/v1/stored_pb.ts";
import type { Environment } from "../../gen/latchkey/v1/environment_pb.ts";
import type { Commit, Store } from "../../store/contract.ts";
import { follow } from "../../store/follow.ts";
import { keyOf, under } from "../../store/keys.ts";
import { transact } from "../../store/records.ts";
import type { Audit } from "../audit/audit.ts";
import type { SetupCollections } from "../setup/setup-collections.ts";
import { overrideSpace, type WebhookCollections } from "./webhook-collections.ts";

/** Destinations of forwards. Kept in memory, because each attempt looks them up. */
export interface Destinations {
  /** Finds an environment by the id in its webhook URLs. */
  environmentById(id: string): Environment | undefined;
  environmentByName(name: string): Environment | undefined;
  /** Returns the addresses of a new forward: the connection's own address, or else the environment's two. */
  addressesFor(
    environment: string,
    of: { readonly integration: string; readonly connectionId: string },
  ): readonly Pick<AddressedForward, "address" | "overrideUrl">[];
  /** Returns the current URL; empty if there is none any more. */
  urlOf(addressed: AddressedForward): string;
  isPaused(addressed: AddressedForward): boolean;
  /** Returns whether the item belongs to the current environment of that name, and not to a deleted one. */
  isOfNow(filed: { readonly environment: string; readonly environmentId: string }): boolean;
  /** Returns why and since when a URL is paused. */
  pausedAt(environment: string, url: string): StoredDestination | undefined;
  /** Pauses a URL; does nothing if it is already paused. */
  pause(at: { readonly environment: string; readonly url: string }, reason: string): Promise<void>;
  resume(at: { readonly environment: string; readonly url: string }, actor: string): Promise<void>;
  /** Returns an environment's own URLs and its paused URLs. */
  urlsOf(environment: string): readonly string[];
  /** Calls the listener when an address changes, is paused or is resumed. */
  onChange(listener: () => void): void;
  close(): void;
}

interface AddressedForward {
  readonly environment: string;
  readonly address: StoredForward_Address;
  readonly overrideUrl: string;
  /** Id of the environment, if the forward exists already. */
  readonly environmentId?: string;
}

interface DestinationsOptions {
  readonly store: Store;
  readonly collections: SetupCollections & WebhookCollections;
  readonly audit: Audit;
  readonly world: World;
}

export async function openDestinations({
  store,
  collections,
  audit,
  world,
}: DestinationsOptions): Promise<Destinations> {
  const { environments, destinations } = collections;
  const byName = new Map<string, Environment>();
  const byId = new Map<string, Environment>();
  const paused = new Map<string, StoredDestination>();
  /** Addresses of the few connections that have their own, by the parts of their key. */
  const overrides = new Map<string, string>();
  const listeners: (() => void)[] = [];
  const pausedKey = (environment: string, urlHash: string) => `${environment}\0${urlHash}`;

  function onCommit({ changes, revision }: Commit): void {
    let isTold = false;
    for (const change of changes) {
      const environment = environments.read(change, revision);
      if (environment !== undefined) {
        const [name = ""] = environment.parts;
        const before = byName.get(name);
        if (before !== undefined) byId.delete(before.id);
        byName.delete(name);
        if (environment.value !== undefined) file(environment.value);
      }
      const destination = destinations.read(change, revision);
      if (destination !== undefined) {
        const [name = "", urlHash = ""] = destination.parts;
        paused.delete(pausedKey(name, urlHash));
        if (destination.value !== undefined) paused.set(pausedKey(name, urlHash), destination.value);
      }
      if (change.key.startsWith(overridePrefix)) {
        const connection = change.key.slice(overridePrefix.length);
        if (change.value === undefined) overrides.delete(connection);
        else overrides.set(connection, Buffer.from(change.value).toString());
      }
      isTold ||= environment !== undefined || destination !== undefined;
    }
    if (isTold) for (const tell of listeners) tell();
  }

  function file(environment: Environment): void {
    byName.set(environment.name, environment);
    byId.set(environment.id, environment);
  }

  const watch = await follow({
    store,
    world,
    spaces: [environments.name, destinations.name, overrideSpace],
    async read() {
      const everything = { under: [], limit: Number.MAX_SAFE_INTEGER };
      const [all, held, own] = await Promise.all([
        environments.page(everything),
        destinations.page(everything),
        store.list({ ...under(overrideSpace), limit: Number.MAX_SAFE_INTEGER }),
      ]);
      return () => {
        overrides.clear();
        for (const { key, value } of own)
          overrides.set(key.slice(overridePrefix.length), Buffer.from(value).toString());
        byName.clear();
        byId.clear();
        paused.clear();
        for (const { value } of all) file(value);
        for (const { value } of held) paused.set(pausedKey(value.environment, hash("sha256", value.url)), value);
        for (const tell of listeners) tell();
      };
    },
    onCommit,
  });

  /**
   * Compares ids instead of creation times, because the clock may have been set back. Items stored before these ids
   * existed have none.
   */
  function isOfNow({
    environment,
    environmentId = "",
  }: Pick<AddressedForward, "environment" | "environmentId">): boolean {
    const home = byName.get(environment);
    return home !== undefined && (environmentId === "" || environmentId === home.id);
  }

  function urlOf({ environment, address, overrideUrl, environmentId = "" }: AddressedForward): string {
    const home = byName.get(environment);
    // A forward of a deleted environment must not be sent to the address of a new environment with the same name.
    if (home === undefined || !isOfNow({ environment, environmentId })) return "";
    const { forwardUrl, secondaryForwardUrl } = home;
    if (address === StoredForward_Address.OVERRIDE) return overrideUrl;
    return address === StoredForward_Address.SECONDARY ? secondaryForwardUrl : forwardUrl;
  }

  const pausedAt = (environment: string, url: string) =>
    paused.size === 0 ? undefined : paused.get(pausedKey(environment, hash("sha256", url)));

  return {
    environmentById: (id) => byId.get(id),
    environmentByName: (name) => byName.get(name),
    addressesFor(environment, { integration, connectionId }) {
      const overrideUrl =
        overrides.size === 0 ? undefined : overrides.get(keyOf(environment, integration, connectionId));
      if (overrideUrl !== undefined) return [{ address: StoredForward_Address.OVERRIDE, overrideUrl }];
      // Without an address the forward is created anyway, so that it can be sent once there is one.
      const hasSecond = (byName.get(environment)?.secondaryForwardUrl ?? "") !== "";
      return hasSecond ? [primary, secondary] : [primary];
    },
    urlOf,
    isOfNow,
    isPaused: (addressed) => pausedAt(addressed.environment, urlOf(addressed)) !== undefined,
    pausedAt,
    async pause({ environment, url }, reason) {
      await transact(store, async () => {
        const before = await destinations.get(environment, hash("sha256", url));
        if (before !== undefined) return { changes: [], result: undefined };
        const pausedAtMs = timestampFromMs(world.now());
        const after = create(StoredDestinationSchema, { environment, url, pausedReason: reason, pausedAt: pausedAtMs });
        return { changes: destinations.change({ before, after }), result: undefined };
      });
    },
    async resume({ environment, url }, actor) {
      await transact(store, async () => {
        const before = await destinations.get(environment, hash("sha256", url));
        if (before === undefined) {
          if (urlsOf(environment).includes(url)) return { changes: [], result: undefined };
          throw new Fault("not_found", "nothing is sent to that address, or it is not paused");
        }
        const action = "destination.resume";
        return {
          changes: [
            ...destinations.change({ before, after: undefined }),
            ...audit.changes({ actor, action, environment, targets: [hostOf(url)] }),
          ],
          result: undefined,
        };
      });
    },
    urlsOf,
    onChange: (listener) => void listeners.push(listener),
    close: () => watch.close(),
  };

  function urlsOf(environment: string): string[] {
    const { forwardUrl = "", secondaryForwardUrl = "" } = byName.get(environment) ?? {};
    const held = [...paused.values()].filter((one) => one.environment === environment).map(({ url }) => url);
    return [...new Set([forwardUrl, secondaryForwardUrl, ...held])].filter((url) => url !== "").toSorted();
  }
}

const overridePrefix = `${overrideSpace}\0`;
const primary = { address: StoredForward_Address.PRIMARY, overrideUrl: "" };
const secondary = { address: StoredForward_Address.SECONDARY, overrideUrl: "" };

/** Returns only the host: a path may contain a secret of the application. */
const hostOf = (url: string): string => (URL.canParse(url) ? new URL(url).host : "");
