import type { Fault } from "../../../base/fault.ts";
import type { SmallAnswer } from "../../../base/small-requests.ts";
import type { World } from "../../../base/world.ts";
import type { LiveConnection } from "../../credentials/live-connections.ts";
import type { ChannelAsk } from "../../credentials/provider-requests.ts";
import type { ChannelChanges } from "../rules/move.ts";
import type { WatchRule } from "../rules/rules.ts";
import type { WatchedResource } from "../rules/slot.ts";
import type { ChannelSlots, MoveOptions } from "../slots.ts";

/**
 * How one kind of notification channel lives at its provider: how it is created, renewed and stopped. A new kind is a
 * file in this folder and an entry in `protocols.ts`.
 *
 * - Ids: a channel's `id` is Latchkey's. A provider that chooses ids itself returns one, which is kept as `providerId`.
 * - Renewal: by a successor (see `successive.ts`), or in place (see `in-place.ts`).
 * - Notifications: where they name their channel, number and token is provider data, `NotificationRules`.
 */
export interface ChannelProtocol {
  /**
   * Creates the wanted channel, or renews the current one: by a successor or in place. Stores each request before it is
   * sent, and its outcome after it.
   */
  watch(request: ChannelWatch): Promise<WatchOutcome>;
  /** Asks the provider to stop a channel. Stores nothing; rejects like the request if it has no response. */
  stop(channel: ChannelStop): Promise<StopVerdict>;
}

export interface ChannelWatch {
  readonly watched: WatchedResource;
  /** Latchkey's id of the wanted channel, or of the channel to renew. */
  readonly target: string;
  readonly found: LiveConnection;
  readonly rule: WatchRule;
  /** The webhook URL. */
  readonly address: string;
  readonly options: ChannelWatchOptions;
}

export interface ChannelWatchOptions extends Pick<MoveOptions, "alongside" | "fence"> {
  /** The caller has chosen the id, so no other may be used. */
  readonly isIdGiven?: boolean;
}

export interface ChannelStop {
  readonly watched: WatchedResource;
  readonly found: LiveConnection;
  /** Latchkey's id. */
  readonly id: string;
  /** The provider's id of the resource, from its response or a notification. */
  readonly resourceId: string;
  /** The ID that the provider chose; empty: it uses Latchkey's, or the ID is not known. */
  readonly providerId: string;
  /** Undefined: the provider's description does not name the kind of resource any more. */
  readonly rule: WatchRule | undefined;
  /** The webhook URL. */
  readonly address: string;
  readonly signal?: AbortSignal | undefined;
}

export type WatchOutcome =
  | { readonly kind: "made"; readonly id: string }
  /** Another process works on the slot. */
  | { readonly kind: "overtaken" }
  | {
      readonly kind: "refused" | "put_off" | "unheard" | "unsent" | "id_taken";
      readonly code: string;
      readonly retryAfterMs?: number | undefined;
      readonly fault?: Fault | undefined;
    };

export type StopVerdict =
  | { readonly kind: "stopped" }
  | {
      readonly kind: "not_stopped";
      readonly code: string;
      readonly retryAfterMs?: number | undefined;
      /** Retries are useless: only expiry will end the channel. */
      readonly isHopeless: boolean;
    };

/** Sends a channel request, and after a 401 once more with newer credentials if there are any. */
export type SendChannelRequest = (found: LiveConnection, request: ChannelAsk) => Promise<SmallAnswer>;

/** The services that protocols use. `requests` of all protocols are the same. */
export interface ProtocolServices {
  readonly slots: ChannelSlots;
  readonly send: SendChannelRequest;
  /** Stops the channels that this change has replaced. */
  readonly stopReplaced: (
    watched: WatchedResource,
    changes: ChannelChanges | undefined,
    nowMs: number,
  ) => Promise<void>;
  readonly world: World;
}
