import { setImmediate } from "node:timers/promises";
import { create } from "@bufbuild/protobuf";
import { timestampFromMs, timestampMs } from "@bufbuild/protobuf/wkt";
import type { World } from "../base/world.ts";
import { connectionLookups, lookupForm } from "../core/connection-lookups.ts";
import { type LookupFiling as Filing, LookupFilingSchema } from "../gen/latchkey/stored/v1/stored_pb.ts";
import { type ConnectionRef, ConnectionRefSchema } from "../gen/latchkey/v1/connection_pb.ts";
import { type Change, type Condition, StaleWrite, type Store } from "../store/contract.ts";
import { follow } from "../store/follow.ts";
import { after, keyOf, partsOf, under } from "../store/keys.ts";
import { createLeases, type Lease, LeaseLost } from "../store/leases.ts";
import type { Stored } from "../store/records.ts";
import { type Collections, lookupSpace } from "./collections.ts";
import type { LookupFields } from "./lookup-fields.ts";

/**
 * Files the connections of a provider anew when the fields that notifications find them by are others than before:
 * in the background, each connection at once, so that by a field that stays it is found all the time.
 */
export interface LookupFiling {
  /** Providers may have changed: all that are used are looked at, now. */
  look(): void;
  /** As once a minute; resolves when there is nothing to do that can be done now. */
  run(): Promise<void>;
  /** Waits for the commit that is under way. */
  close(): Promise<void>;
}

interface LookupFilingOptions {
  readonly store: Store;
  readonly collections: Collections;
  readonly fields: LookupFields;
  readonly world: World;
}

const everyMs = 60_000;
const leaseMs = 30_000;
const pageSize = 100;
/** Others get their turn: of a connection with 10,000 watched resources alone it takes as long. */
const sliceMs = 5;
/** By then no replica is left that writes as was right before: of an older version, or one that had not heard yet. */
const secondLookMs = 15 * 60_000;

export async function openLookupFiling(options: LookupFilingOptions): Promise<LookupFiling> {
  const { store, collections, fields, world } = options;
  const { connections, lookupFilings } = collections;
  const leases = createLeases(store);
  const ended = new AbortController();
  /** What this process has once seen filed as it would file it: if it is no longer so, others know better. */
  const agreed = new Map<string, readonly string[]>();
  let isBegun = false;
  /** Providers or integrations have changed. */
  let isDue = false;
  /** While a round may just be coming to its end. */
  let isAsked = false;
  let round: Promise<void> | undefined;
  const timer = setInterval(() => void run(), everyMs);
  timer.unref();

  const watch = await follow({
    store,
    world,
    spaces: [lookupFilings.name, "integration", "provider"],
    async read() {
      const filings = await lookupFilings.page({ under: [], limit: Number.MAX_SAFE_INTEGER });
      return () => {
        for (const { value } of filings) fields.remember(value.provider, value.fields);
        look();
      };
    },
    onCommit({ changes, revision }) {
      for (const change of changes) {
        const filing = lookupFilings.read(change, revision)?.value;
        if (filing !== undefined) fields.remember(filing.provider, filing.fields);
        // Of a new integration there is nothing to file yet: within a minute is soon enough.
        if (change.key.startsWith(integrationPrefix)) isDue = true;
        if (change.key.startsWith(providerPrefix)) look();
      }
    },
  });

  function look(): void {
    isDue = true;
    isAsked = true;
    if (isBegun) void run();
  }

  function run(): Promise<void> {
    isBegun = true;
    round ??= untilNothingIsAsked();
    return round;
  }

  async function untilNothingIsAsked(): Promise<void> {
    try {
      do {
        isAsked = false;
        await fileAll();
      } while (isAsked && !ended.signal.aborted);
    } catch (err) {
      isDue = true;
      if (!ended.signal.aborted) {
        world.log.warn("connections were not filed anew for notifications, and will be within a minute", { err });
      }
    } finally {
      round = undefined;
    }
  }

  async function fileAll(): Promise<void> {
    let lease: Lease | undefined;
    try {
      for (;;) {
        const wasDue = isDue;
        isDue = false;
        const { work, isLeft } = await workOf(wasDue);
        if (work.length === 0 && !isDue) {
          isDue = isLeft;
          return;
        }
        if (lease === undefined) {
          isDue = true;
          lease = await leases.take("lookup-filing", leaseMs);
          if (lease === undefined) return;
          // Whoever had it until now has done something.
          continue;
        }
        for (const one of work) await fileAnew(one, lease);
        if (ended.signal.aborted) return;
      }
    } catch (error) {
      // Somebody else goes on with it.
      if (!(error instanceof LeaseLost)) throw error;
      isDue = true;
    } finally {
      await lease?.release().catch((err: unknown) => world.log.debug("a lease was not released", { err }));
    }
  }

  interface Work {
    readonly provider: string;
    readonly wanted: readonly string[];
    readonly stored: Stored<Filing> | undefined;
    readonly places: readonly Place[];
  }

  /** What is to be filed anew, and what is being. */
  async function workOf(isAllLookedAt: boolean): Promise<{ readonly work: readonly Work[]; readonly isLeft: boolean }> {
    const filings = await lookupFilings.page({ under: [], limit: Number.MAX_SAFE_INTEGER });
    const stored = new Map(filings.map((filing) => [filing.value.provider, filing]));
    const isWaiting = filings.some(({ value }) => value.walksLeft > 0 && isOver(value));
    if (!isAllLookedAt && !isWaiting) return { work: [], isLeft: false };
    const work: Work[] = [];
    let isLeft = false;
    for (const [provider, places] of await placesByProvider()) {
      const wanted = fields.known(provider);
      const filing = stored.get(provider);
      if (wanted === undefined) continue;
      if (isSame(wanted, filing?.value)) {
        agreed.set(provider, wanted);
        const { walksLeft = 0 } = filing?.value ?? {};
        if (filing === undefined || walksLeft === 0 || !isOver(filing.value)) continue;
      } else if (agreed.get(provider)?.join("\0") === wanted.join("\0")) {
        continue;
      } else if (filing === undefined && !(await haveConnections(places))) {
        // Nothing is written of what nobody uses. The first connection will be seen within a minute.
        isLeft = true;
        continue;
      }
      work.push({ provider, wanted, stored: filing, places });
    }
    return { work, isLeft };
  }

  async function haveConnections(places: readonly Place[]): Promise<boolean> {
    for (const { environment, integration } of places) {
      const range = under(connections.name, environment, integration);
      if ((await store.list({ ...range, limit: 1 })).length > 0) return true;
    }
    return false;
  }

  const isOver = ({ notBefore }: Filing): boolean => notBefore === undefined || timestampMs(notBefore) <= world.now();

  async function placesByProvider(): Promise<ReadonlyMap<string, readonly Place[]>> {
    const places = new Map<string, Place[]>();
    // Their secondary keys say all of it, in order.
    for (const { key } of await store.list({ ...under("integration.provider"), limit: Number.MAX_SAFE_INTEGER })) {
      const [, provider = "", environment = "", integration = ""] = partsOf(key);
      const known = places.get(provider) ?? [];
      known.push({ environment, integration });
      places.set(provider, known);
    }
    return places;
  }

  async function fileAnew({ provider, wanted, stored, places }: Work, lease: Lease): Promise<void> {
    let filing = stored;
    if (!isSame(wanted, filing?.value)) {
      filing = await note(filing, { provider, fields: [...wanted], form: lookupForm, walksLeft: 2 }, { lease });
      world.log.info("the connections of a provider are filed anew for notifications", { provider });
    }
    agreed.set(provider, wanted);
    for (const place of places) {
      const from = filing?.value.after;
      if (from !== undefined && isOrdered(place, from)) continue;
      filing = await fileThose({ provider, wanted, place, filing, lease });
      if (filing === undefined) return;
    }
    const walksLeft = Math.max(0, (filing?.value.walksLeft ?? 1) - 1);
    const notBefore = walksLeft === 0 ? {} : { notBefore: timestampFromMs(world.now() + secondLookMs) };
    await note(filing, { provider, fields: [...wanted], form: lookupForm, walksLeft, ...notBefore }, { lease });
  }

  interface Walk {
    readonly provider: string;
    readonly wanted: readonly string[];
    readonly place: Place;
    readonly filing: Stored<Filing> | undefined;
    readonly lease: Lease;
  }

  /** Of one integration, a page at a time. Undefined: the provider changed meanwhile, or the process ends. */
  async function fileThose({ provider, wanted, place, filing: stored, lease }: Walk) {
    const { environment, integration } = place;
    let filing = stored;
    const begun = filing?.value.after;
    let from = begun?.environment === environment && begun.integration === integration ? begun.id : undefined;
    for (;;) {
      if (lease.remainingMs() < leaseMs / 2) await lease.renew();
      if (ended.signal.aborted || fields.known(provider) !== wanted) {
        isDue = true;
        return undefined;
      }
      const { changes, conditions, last } = await pageOf({ place, from, wanted });
      const after = create(ConnectionRefSchema, { environment, integration, id: last ?? from ?? "" });
      try {
        if (changes.length > 0) {
          const { walksLeft = 0 } = filing?.value ?? {};
          const step = { provider, fields: [...wanted], form: lookupForm, walksLeft, after };
          filing = await note(filing, step, { lease, changes, conditions });
        }
      } catch (error) {
        if (!(error instanceof StaleWrite)) throw error;
        // A connection was changed meanwhile, or somebody else has the lease.
        await lease.renew();
        continue;
      }
      if (last === undefined) return filing;
      from = last;
    }
  }

  /** What a page of connections is filed under that it should not be, and the other way round. `last`: its end, if more may come. */
  async function pageOf({
    place,
    from,
    wanted,
  }: Pick<Walk, "place" | "wanted"> & { readonly from: string | undefined }) {
    const parts = [place.environment, place.integration];
    const page = await connections.page({ under: parts, after: from, limit: pageSize });
    const last = page.length < pageSize ? undefined : page.at(-1)?.position;
    const all = under(lookupSpace, ...parts);
    const found = await store.list({
      from: from === undefined ? all.from : after(`${all.from}${from}`),
      to: last === undefined ? all.to : after(`${all.from}${last}`),
      limit: Number.MAX_SAFE_INTEGER,
    });
    const filed = new Map(found.map(({ key, value }) => [key, value]));
    const changes: Change[] = [];
    const conditions: Condition[] = [];
    let since = performance.now();
    for (const stored of page) {
      const key = `${all.from}${stored.position}`;
      const [old, next] = [filed.get(key), connectionLookups(stored.value, wanted)];
      filed.delete(key);
      if (performance.now() - since > sliceMs) {
        await setImmediate();
        since = performance.now();
      }
      if (old === next || (old !== undefined && next !== undefined && Buffer.compare(old, next) === 0)) continue;
      changes.push({ key, value: next });
      conditions.push(connections.unchanged(stored));
    }
    // Whoever knew nothing of this has deleted the connection alone.
    for (const key of filed.keys()) {
      const [, ...of] = partsOf(key);
      changes.push({ key, value: undefined });
      conditions.push({ key: keyOf(connections.name, ...of), expect: 0 });
    }
    return { changes, conditions, last };
  }

  interface Step {
    readonly lease: Lease;
    readonly changes?: readonly Change[];
    readonly conditions?: readonly Condition[];
  }

  type Noted = Pick<Filing, "provider" | "fields" | "form" | "walksLeft"> &
    Partial<Pick<Filing, "after" | "notBefore">>;

  async function note(
    before: Stored<Filing> | undefined,
    noted: Noted,
    { lease, changes = [], conditions = [] }: Step,
  ): Promise<Stored<Filing>> {
    const value = create(LookupFilingSchema, noted);
    const all = [...changes, ...lookupFilings.change({ before, after: value })];
    const revision = await store.commit(all, [...conditions, lease.fence]);
    return { value, revision, bytes: 0 };
  }

  return {
    look() {
      isBegun = true;
      look();
    },
    run,
    async close() {
      clearInterval(timer);
      ended.abort();
      watch.close();
      await round;
    },
  };
}

interface Place {
  readonly environment: string;
  readonly integration: string;
}

const integrationPrefix = "integration\0";
const providerPrefix = "provider\0";

const isSame = (wanted: readonly string[], filing: Filing | undefined): boolean =>
  filing === undefined
    ? wanted.length === 0
    : filing.form === lookupForm && filing.fields.join("\0") === wanted.join("\0");

/** Whether all of a place lies before a connection: names are ASCII, and sort as they are stored. */
const isOrdered = (place: Place, before: ConnectionRef): boolean =>
  place.environment === before.environment
    ? place.integration < before.integration
    : place.environment < before.environment;
