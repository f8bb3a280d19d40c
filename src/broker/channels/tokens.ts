import type { World } from "../../base/world.ts";
import { Channel_StateSchema } from "../../gen/latchkey/v1/channel_pb.ts";
import type { Store } from "../../store/contract.ts";
import { follow } from "../../store/follow.ts";
import { after, keyOf, partsOf, under } from "../../store/keys.ts";
import { channelStateSpace, channelTokenSpace, unknownToken } from "./channel-collections.ts";
import { createProviderIds } from "./provider-ids.ts";

/** Proofs for the notifications of channels, in memory: receiving a notification reads nothing from the store. */
export interface ChannelTokens {
  /** Returns the SHA-256 of the channel's token in hex; undefined: not one of our channels, as far as is known here. */
  expectedOf(channel: ChannelOfIntegration): string | undefined;
  /** Returns the channel's connection; undefined: neither our own channel nor named by a connection's metadata. */
  connectionOf(channel: ChannelOfIntegration): string | undefined;
  /**
   * Returns the channel's own key; empty: it has one that is not known yet; undefined: not a channel of ours with a key
   * of its own.
   */
  keyOf(channel: ChannelOfIntegration): string | undefined;
  /** Reports whether a channel of the integration has a key of its own. */
  hasKeys(of: Omit<ChannelOfIntegration, "id">): boolean;
  /** Returns Latchkey's ID of a channel that is named by either ID; undefined: it is unknown, or the name is ambiguous. */
  idOf(channel: ChannelOfIntegration): string | undefined;
  /** Returns the connection of a channel by Latchkey's ID; undefined: the channel is not known here. */
  resourceOwner(environment: string, id: string): ResourceOwner | undefined;
  close(): void;
}

interface ResourceOwner {
  readonly integration: string;
  /** Empty: the channel is the integration's. */
  readonly connection: string;
}

export interface ChannelOfIntegration {
  readonly environment: string;
  readonly integration: string;
  readonly id: string;
}

const pageSize = 1_000;
const hashLength = 64;

export async function openChannelTokens({ store, world }: { store: Store; world: World }): Promise<ChannelTokens> {
  /** Hash, integration and connection of each channel, in one text, by its stored key. */
  let tokens = new Map<string, string>();
  let states = new Map<string, string>();
  let byProvider = createProviderIds();
  /** Number of channels with a key of their own, by environment and integration. */
  let keyed = new Map<string, number>();

  function countKey(key: string, text: string | undefined, by: 1 | -1): void {
    const [integration = "", , , own = ""] = text?.slice(hashLength).split("\0") ?? [];
    if (own === "") return;
    const name = keyOf(partsOf(key)[1] ?? "", integration);
    keyed.set(name, (keyed.get(name) ?? 0) + by);
  }

  function noteToken(key: string, text: string | undefined): void {
    countKey(key, tokens.get(key), -1);
    countKey(key, text, 1);
    byProvider.replace(key, tokens.get(key)?.slice(hashLength), text?.slice(hashLength));
    if (text === undefined) tokens.delete(key);
    else tokens.set(key, text);
  }

  let isShowing = false;
  /** Updates the metrics once for changes in quick succession, since it counts all channels. */
  function showSoon(): void {
    if (isShowing) return;
    isShowing = true;
    setTimeout(() => {
      isShowing = false;
      showStates(states, world);
    }, 250).unref();
  }

  const watch = await follow({
    store,
    world,
    spaces: [channelTokenSpace, channelStateSpace],
    async read() {
      const [freshTokens, freshStates] = [
        await readAll(store, channelTokenSpace),
        await readAll(store, channelStateSpace),
      ];
      return () => {
        tokens = freshTokens;
        byProvider = createProviderIds();
        keyed = new Map();
        for (const [key, text] of tokens) {
          byProvider.replace(key, undefined, text.slice(hashLength));
          countKey(key, text, 1);
        }
        states = freshStates;
        showStates(states, world);
      };
    },
    onCommit({ changes }) {
      for (const change of changes) {
        const { key } = change;
        const isState = key.startsWith(`${channelStateSpace}\0`);
        if (!isState && !key.startsWith(`${channelTokenSpace}\0`)) continue;
        const text = change.value === undefined ? undefined : Buffer.from(change.value).toString();
        if (!isState) noteToken(key, text);
        else if (text === undefined) states.delete(key);
        else states.set(key, text);
        if (isState) showSoon();
      }
    },
  });

  const keyFor = ({ environment, id }: ChannelOfIntegration) => keyOf(channelTokenSpace, environment, id);
  /** Cuts the text on each use: an object for each channel would take three times the memory. */
  function partIn(channel: ChannelOfIntegration, part: "hash" | "connection" | "key"): string | undefined {
    if (tokens.size === 0) return undefined;
    const id = idOf(channel);
    const known = id === undefined ? undefined : tokens.get(keyFor({ ...channel, id }));
    if (known === undefined) return undefined;
    const [, connection = "", , own = ""] = known.slice(hashLength).split("\0");
    if (part === "connection") return connection;
    if (part === "key") return own === "" ? undefined : own.slice(1);
    return known.startsWith(unknownToken) ? undefined : known.slice(0, hashLength);
  }

  function idOf(channel: ChannelOfIntegration): string | undefined {
    const known = tokens.get(keyFor(channel));
    const isOwn = known?.startsWith(`${channel.integration}\0`, hashLength) === true;
    if (isOwn) return channel.id;
    return byProvider.idOf(channel);
  }

  return {
    expectedOf: (channel) => partIn(channel, "hash"),
    connectionOf: (channel) => partIn(channel, "connection"),
    keyOf: (channel) => partIn(channel, "key"),
    hasKeys: ({ environment, integration }) => (keyed.get(keyOf(environment, integration)) ?? 0) > 0,
    idOf,
    resourceOwner: (environment, id) => ownerIn(tokens.get(keyOf(channelTokenSpace, environment, id))),
    close: () => watch.close(),
  };
}

function ownerIn(text: string | undefined): ResourceOwner | undefined {
  if (text === undefined) return undefined;
  const [integration = "", connection = ""] = text.slice(hashLength).split("\0");
  return { integration, connection };
}

/** Sets the numbers of channels by state. */
function showStates(states: ReadonlyMap<string, string>, { metrics }: Pick<World, "metrics">): void {
  const counts = new Map<string, number>();
  for (const state of states.values()) counts.set(state, (counts.get(state) ?? 0) + 1);
  for (const { number, name } of Channel_StateSchema.values) {
    if (number === 0) continue;
    const state = name.replace(/^STATE_/, "").toLowerCase();
    metrics.channels.set({ state }, counts.get(String(number)) ?? 0);
  }
}

async function readAll(store: Store, space: string): Promise<Map<string, string>> {
  const found = new Map<string, string>();
  for (let { from, to } = under(space); ; ) {
    const page = await store.list({ from, to, limit: pageSize });
    for (const { key, value } of page) found.set(key, Buffer.from(value).toString());
    const last = page.at(-1);
    if (last === undefined || page.length < pageSize) return found;
    from = after(last.key);
  }
}
