import { create, fromBinary, toBinary } from "@bufbuild/protobuf";
import { durationMs, timestampMs } from "@bufbuild/protobuf/wkt";
import { messageIdIn } from "../../core/notifications/values.ts";
import {
  type ChannelHeard,
  ChannelHeardSchema,
  type ChannelRhythm,
  ChannelRhythmSchema,
  type StoredChannel,
} from "../../gen/latchkey/stored/v1/stored_pb.ts";
import {
  type ChannelRules,
  type NotificationRules,
  NotificationRulesSchema,
} from "../../gen/latchkey/v1/provider_pb.ts";
import type { Change, Store } from "../../store/contract.ts";
import type { StoredRecordOf } from "../../store/records.ts";
import { seenKey } from "../deliveries/webhook-collections.ts";
import type { Providers } from "../setup/providers.ts";
import type { SetupCollections } from "../setup/setup-collections.ts";
import { channelHeardKey, channelRhythmKey } from "./channel-collections.ts";
import { type GapJudgement, inheritRhythm, judgeLosses, toVerify } from "./rules/gap.ts";
import { channelOf, idOf, isCurrent, isForeign, isManaged, resourceOf } from "./rules/slot.ts";

/** A channel with everything that is needed to judge it, read at about the same time. */
export interface ChannelObservation {
  readonly stored: StoredChannel;
  readonly last: ChannelHeard | undefined;
  readonly rhythm: ChannelRhythm | undefined;
  readonly rules: IntegrationChannelRules | undefined;
}

/** The rules of an integration and its provider for channels. */
export interface IntegrationChannelRules {
  readonly channel: ChannelRules | undefined;
  readonly notification: NotificationRules;
  readonly catchUpSyncs: readonly string[];
}

export interface ChannelJudgement extends GapJudgement {
  readonly observation: ChannelObservation;
}

/** Reads channels together with their last notifications, and judges which messages were lost. */
export interface ChannelObservations {
  read(page: readonly StoredRecordOf<StoredChannel>[]): Promise<readonly ChannelObservation[]>;
  judge(all: readonly ChannelObservation[]): Promise<readonly ChannelJudgement[]>;
}

interface ChannelObservationsOptions {
  readonly store: Store;
  readonly collections: Pick<SetupCollections, "integrations">;
  readonly providers: Providers;
  readonly now: () => number;
}

export function createChannelObservations(options: ChannelObservationsOptions): ChannelObservations {
  const { store, collections, providers, now } = options;
  const listeningSinceMs = now();

  async function rulesOf(environment: string, integration: string): Promise<IntegrationChannelRules | undefined> {
    const found = await collections.integrations.get(environment, integration);
    if (found === undefined) return undefined;
    const { channel, notification = noRules } = providers.find(found.value.provider);
    return { channel, notification, catchUpSyncs: found.value.channels?.catchUpSyncs ?? [] };
  }

  /** The rhythms that earlier scans stored; a channel that replaced another inherits the rhythm of that one. */
  async function rhythmsOf(all: readonly ChannelObservation[]): Promise<readonly (ChannelRhythm | undefined)[]> {
    const successors = all.filter(({ stored, rhythm }) => rhythm === undefined && channelOf(stored).previousId !== "");
    const keys = successors.map(({ stored }) =>
      channelRhythmKey(resourceOf(stored).ref.environment, channelOf(stored).previousId),
    );
    const entries = keys.length === 0 ? [] : await store.getMany(keys);
    const entryOf = new Map(successors.map((successor, i) => [successor, entries[i]]));
    return all.map((one) => {
      const entry = entryOf.get(one);
      if (entry === undefined) return one.rhythm;
      const inherited = inheritRhythm(fromBinary(ChannelRhythmSchema, entry.value), now());
      // A successor without a heartbeat is created again too.
      return one.rules?.channel?.heartbeat === undefined ? inherited : { ...inherited, toldSilent: false };
    });
  }

  /**
   * Which message numbers have arrived, at whichever replica: each was stored in the commit that accepted the message.
   */
  async function arrivedOf(
    all: readonly ChannelObservation[],
    wanted: readonly (readonly bigint[])[],
  ): Promise<readonly ReadonlySet<bigint>[]> {
    const keys = all.flatMap(({ stored, rules }, i) =>
      (wanted[i] ?? []).map((number) => {
        const { environment, integration } = resourceOf(stored).ref;
        const message = rules && messageIdIn(rules.notification, { channel: idOf(stored), number });
        return seenKey(environment, integration, message ?? "");
      }),
    );
    const entries = keys.length === 0 ? [] : await store.getMany(keys);
    let next = 0;
    return wanted.map((numbers) => new Set(numbers.filter(() => entries[next++] !== undefined)));
  }

  return {
    async read(page) {
      const keys = page.flatMap(({ value }) => [heardKey(value), rhythmKey(value)]);
      const entries = keys.length === 0 ? [] : await store.getMany(keys);
      const rules = new Map<string, IntegrationChannelRules | undefined>();
      const observations: ChannelObservation[] = [];
      for (const [i, { value: stored }] of page.entries()) {
        const { environment, integration } = resourceOf(stored).ref;
        const key = `${environment}\0${integration}`;
        if (!rules.has(key)) rules.set(key, await rulesOf(environment, integration));
        const [last, rhythm] = [entries[2 * i], entries[2 * i + 1]];
        observations.push({
          stored,
          last: last && fromBinary(ChannelHeardSchema, last.value),
          rhythm: rhythm && fromBinary(ChannelRhythmSchema, rhythm.value),
          rules: rules.get(key),
        });
      }
      return observations;
    },
    async judge(all) {
      const judgeable = all.filter(isJudgeable);
      const before = await rhythmsOf(judgeable);
      const arrived = await arrivedOf(
        judgeable,
        judgeable.map((one, i) => numbersToVerify(one, before[i])),
      );
      const nowMs = now();
      return judgeable.map((observation, i) => {
        const { stored, last, rules } = observation;
        const { number, at } = last ?? {};
        const look = {
          nowMs,
          listeningSinceMs,
          last: number === undefined || at === undefined ? undefined : { number, atMs: timestampMs(at) },
          isSequential: rules?.channel?.sequentialNumbers === true,
          arrived: arrived[i] ?? new Set<bigint>(),
          heartbeatMs: heartbeatOf(stored, rules),
          isAnnounced: isManaged(stored) && rules?.notification.syncState !== "",
        };
        return { observation, ...judgeLosses(before[i], look) };
      });
    },
  };
}

const numbersToVerify = ({ last, rules }: ChannelObservation, before: ChannelRhythm | undefined): readonly bigint[] =>
  rules?.channel?.sequentialNumbers !== true || last === undefined
    ? []
    : toVerify(before, { number: last.number, atMs: 0 });

/** A replaced channel is judged only while messages of its time are missing. */
function isJudgeable({ stored, rhythm, rules }: ChannelObservation): boolean {
  if (rules?.channel === undefined) return false;
  if (isCurrent(stored) || isForeign(stored)) return true;
  return channelOf(stored).stateReason === "replaced" && (rhythm?.missingBelow ?? 0n) !== 0n;
}

const heardKey = (stored: StoredChannel) => channelHeardKey(resourceOf(stored).ref.environment, idOf(stored));
const rhythmKey = (stored: StoredChannel) => channelRhythmKey(resourceOf(stored).ref.environment, idOf(stored));

export const rhythmChange = (stored: StoredChannel, rhythm: ChannelRhythm): Change => ({
  key: rhythmKey(stored),
  value: toBinary(ChannelRhythmSchema, rhythm),
});

/** Only a channel of ours can be created again. */
function heartbeatOf(stored: StoredChannel, rules: IntegrationChannelRules | undefined): number | undefined {
  const heartbeat = rules?.channel?.heartbeat;
  return heartbeat === undefined || !isManaged(stored) ? undefined : durationMs(heartbeat);
}

const noRules = create(NotificationRulesSchema);
