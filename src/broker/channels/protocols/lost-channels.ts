import { Fault } from "../../../base/fault.ts";
import { RequestFailed } from "../../../base/small-requests.ts";
import type { World } from "../../../base/world.ts";
import type { StoredChannel } from "../../../gen/latchkey/stored/v1/stored_pb.ts";
import { type ListedChannel, lostIn, recordAdopted, recordFound } from "../rules/lost.ts";
import { isEndless, type WatchRule } from "../rules/rules.ts";
import { channelOf, idOf, isPending, isWanted, resourceOf, type Slot } from "../rules/slot.ts";
import { recordStopped } from "../rules/stopping.ts";
import type { ChannelSlots } from "../slots.ts";
import type { ChannelStop, ChannelWatch, StopVerdict, WatchOutcome } from "./protocol.ts";
import type { ProtocolRequests } from "./protocol-requests.ts";

/**
 * Channels whose creation had no response, at providers that choose the IDs: without its ID a channel can be neither
 * renewed nor stopped. The provider's list tells the ID. Where the webhook URL carries Latchkey's ID, the list names the
 * very channel; elsewhere, all of ours without a record are stopped.
 */
export interface LostChannels {
  /**
   * Called before a channel is created: adopts a lost channel of the slot, or stops it. Undefined: nothing hinders the
   * creation.
   */
  settle(request: ChannelWatch): Promise<SettledWatch | undefined>;
  /** Stops a channel, and finds its ID first if it is lost. Rejects like the request if it has no response. */
  stop(channel: ChannelStop): Promise<StopVerdict>;
}

type SettledWatch = Extract<WatchOutcome, { kind: "made" }> | { readonly kind: "put_off"; readonly code: string };

interface LostChannelsOptions {
  readonly slots: ChannelSlots;
  readonly requests: ProtocolRequests;
  readonly world: World;
}

export function createLostChannels({ slots, requests, world }: LostChannelsOptions): LostChannels {
  /** The listed channels that are the lost one, or may be it. Undefined: a sibling's creation may be under way. */
  async function mayBe(
    listed: readonly ListedChannel[],
    { address, id, watched, rule }: LostSubject,
  ): Promise<{ readonly isExact: boolean; readonly found: readonly ListedChannel[] } | undefined> {
    // The ID is random: it names the channel also if Latchkey had another address then.
    if (carriesId(rule)) return { isExact: true, found: listed.filter((one) => namesId(one.address, id)) };
    const ours = listed.filter((one) => isAtAddress(one.address, address));
    const all = await slots.readAll(watched.ref);
    const isOther = (one: StoredChannel) => resourceOf(one).resource !== watched.resource;
    if (all.some((one) => isOther(one) && isPending(one) && one.tokenHash !== "")) return undefined;
    const known = new Set(all.map((one) => channelOf(one).providerId));
    return { isExact: false, found: ours.filter((one) => !known.has(one.providerId)) };
  }

  async function stopFound(request: StopSubject, found: readonly ListedChannel[]): Promise<StopVerdict> {
    for (const { providerId } of found) {
      const verdict = await requests.stop({ ...request, resourceId: "", providerId });
      if (verdict.kind !== "stopped") return verdict;
    }
    return { kind: "stopped" };
  }

  async function settleOne(request: ChannelWatch, one: StoredChannel): Promise<SettledWatch | undefined> {
    const { watched, rule, found: live, address } = request;
    const id = idOf(one);
    const listed = await requests.list(request);
    const matching = listed === undefined ? undefined : await mayBe(listed, { address, id, watched, rule });
    if (matching === undefined) return { kind: "put_off", code: "not_listed" };
    const [first] = matching.found;
    const isHere = first !== undefined && isAtAddress(first.address, address);
    if (matching.isExact && isHere && isAdoptable(rule, one)) {
      let isAdopted = false;
      await slots.move(watched, (slot, owner) => {
        const at = { nowMs: world.now(), random: Math.random() };
        const adopted = owner === undefined ? undefined : recordAdopted(slot, id, first, isEndless(rule.watch), at);
        isAdopted = adopted !== undefined;
        return adopted;
      });
      if (isAdopted) {
        world.metrics.channelWatches.inc({ outcome: "adopted" });
        return { kind: "made", id };
      }
    }
    const verdict = await stopFound({ watched, found: live, rule, id, address }, matching.found);
    if (verdict.kind === "not_stopped") return { kind: "put_off", code: verdict.code };
    await slots.move(watched, (slot: Slot) => recordStopped(slot, id, world.now()), { leavesMetadata: true });
    return undefined;
  }

  return {
    async settle(request) {
      const { rule, watched } = request;
      if (rule.watch.list === undefined) return undefined;
      try {
        for (const one of lostIn(await slots.read(watched))) {
          const settled = await settleOne(request, one);
          if (settled !== undefined) return settled;
        }
        return undefined;
      } catch (error) {
        if (error instanceof RequestFailed) return { kind: "put_off", code: error.reason };
        if (error instanceof Fault) return { kind: "put_off", code: error.code };
        throw error;
      }
    },
    async stop(channel) {
      const { rule, id, providerId, address, watched } = channel;
      if (rule !== undefined && isOfAccount(rule) && (await slots.read(watched)).some(isWanted)) {
        // The account's only channel is another one's by now.
        return { kind: "stopped" };
      }
      if (rule === undefined || rule.watch.id === "" || providerId !== "") return requests.stop(channel);
      if (rule.watch.list === undefined) return { kind: "not_stopped", code: "unknown_id", isHopeless: true };
      const listed = await requests.list({ found: channel.found, rule });
      const matching = listed === undefined ? undefined : await mayBe(listed, { address, id, watched, rule });
      if (matching === undefined) return { kind: "not_stopped", code: "not_listed", isHopeless: false };
      const [first] = matching.found;
      if (first !== undefined && matching.isExact) {
        await slots.move(watched, (slot) => recordFound(slot, id, first.providerId, world.now()), {
          leavesMetadata: true,
        });
      }
      return stopFound(channel, matching.found);
    },
  };
}

interface LostSubject extends Pick<ChannelWatch, "watched" | "rule" | "address"> {
  readonly id: string;
}

/** Whether the webhook URL of each channel has its ID. */
const carriesId = ({ watch: { watch } }: WatchRule): boolean => /\$\{address\}[^"&]*\$\{id\}/.test(watch?.body ?? "");

/** Whether a stop names no channel: it then stops the only one that the account can have. */
function isOfAccount({ watch, rules }: WatchRule): boolean {
  const { path = "", body = "" } = watch.stop ?? rules.stop ?? {};
  return !/\$\{(id|idNumber|ids|providerId|resourceId|address)\}/.test(path + body);
}

type StopSubject = Omit<ChannelStop, "resourceId" | "providerId">;

/** Not without its key: a notification that cannot be proven is refused. */
const isAdoptable = ({ watch }: WatchRule, { hasOwnKey, key }: StoredChannel): boolean =>
  watch.secret === "" && (!hasOwnKey || key !== "");

const isAtAddress = (listed: string, address: string): boolean =>
  listed === address || listed.startsWith(`${address}?`) || listed.startsWith(`${address}/?`);

function namesId(listed: string, id: string): boolean {
  if (!URL.canParse(listed)) return false;
  return [...new URL(listed).searchParams.values()].includes(id);
}
