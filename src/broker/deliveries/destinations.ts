import type { World } from "../../base/world.ts";
import { StoredForward_Address } from "../../gen/latchkey/stored/v1/stored_pb.ts";
import type { Store } from "../../store/contract.ts";
import type { Audit } from "../audit/audit.ts";
import type { SetupCollections } from "../setup/setup-collections.ts";
import { type DestinationIndex, openDestinationIndex } from "./destination-index.ts";
import { createDestinationPauses, type DestinationPauses, type DestinationUrl } from "./destination-pauses.ts";
import type { WebhookCollections } from "./webhook-collections.ts";

/** Destinations of forwards. Kept in memory, because each attempt looks them up. */
export interface Destinations
  extends Pick<DestinationIndex, "environmentById" | "environmentByName" | "pausedAt" | "close">,
    DestinationPauses {
  /** Returns the addresses of a new forward: the connection's own address, or else the environment's two. */
  addressesFor(
    environment: string,
    of: { readonly integration: string; readonly connectionId: string },
  ): readonly Pick<AddressedForward, "address" | "overrideUrl">[];
  /** Returns the current URL; empty if there is none any more. */
  urlOf(addressed: AddressedForward): string;
  isPaused(addressed: AddressedForward): boolean;
  /** Returns whether the item belongs to the current environment of that name, and not to a deleted one. */
  isCurrent(filed: { readonly environment: string; readonly environmentId: string }): boolean;
  /** Returns which of the two ways to send reaches a URL of the environment; undefined if it is none of its URLs. */
  kindOf(at: DestinationUrl): "own" | "override" | undefined;
  /** Returns an environment's own URLs and its paused URLs. */
  urlsOf(environment: string): readonly string[];
  /** Calls the listener when an address changes, is paused or is resumed. */
  onChange(listener: () => void): void;
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

export async function openDestinations(options: DestinationsOptions): Promise<Destinations> {
  const { store, collections, audit, world } = options;
  const { destinations } = collections;
  const listeners: (() => void)[] = [];
  const onChange = () => {
    for (const listener of listeners) listener();
  };
  const index = await openDestinationIndex({ store, collections, onChange, world });

  /**
   * Compares ids instead of creation times, because the clock may have been set back. Items stored before these ids
   * existed have none.
   */
  function isCurrent({
    environment,
    environmentId = "",
  }: Pick<AddressedForward, "environment" | "environmentId">): boolean {
    const current = index.environmentByName(environment);
    return current !== undefined && (environmentId === "" || environmentId === current.id);
  }

  function urlOf({ environment, address, overrideUrl, environmentId = "" }: AddressedForward): string {
    const current = index.environmentByName(environment);
    // A forward of a deleted environment must not be sent to the address of a new environment with the same name.
    if (current === undefined || !isCurrent({ environment, environmentId })) return "";
    if (address === StoredForward_Address.OVERRIDE) return overrideUrl;
    return address === StoredForward_Address.SECONDARY ? current.secondaryForwardUrl : current.forwardUrl;
  }

  function urlsOf(environment: string): string[] {
    const { forwardUrl = "", secondaryForwardUrl = "" } = index.environmentByName(environment) ?? {};
    const paused = index.pausedOf(environment).map(({ url }) => url);
    return [...new Set([forwardUrl, secondaryForwardUrl, ...paused])].filter((url) => url !== "").toSorted();
  }

  const pauses = createDestinationPauses({ store, destinations, audit, urlsOf, world });
  return {
    environmentById: index.environmentById,
    environmentByName: index.environmentByName,
    pausedAt: index.pausedAt,
    addressesFor(environment, { integration, connectionId }) {
      const overrideUrl = index.overrideOf(environment, integration, connectionId);
      if (overrideUrl !== undefined) return [{ address: StoredForward_Address.OVERRIDE, overrideUrl }];
      // Without an address the forward is created anyway, so that it can be sent once there is one.
      const hasSecond = (index.environmentByName(environment)?.secondaryForwardUrl ?? "") !== "";
      return hasSecond ? [primary, secondary] : [primary];
    },
    urlOf,
    isCurrent,
    isPaused: (addressed) => index.pausedAt(addressed.environment, urlOf(addressed)) !== undefined,
    ...pauses,
    kindOf({ environment, url }) {
      const { forwardUrl, secondaryForwardUrl } = index.environmentByName(environment) ?? {};
      if (url !== "" && (url === forwardUrl || url === secondaryForwardUrl)) return "own";
      return index.hasOverride(environment, url) ? "override" : undefined;
    },
    urlsOf,
    onChange: (listener) => void listeners.push(listener),
    close: index.close,
  };
}

const primary = { address: StoredForward_Address.PRIMARY, overrideUrl: "" };
const secondary = { address: StoredForward_Address.SECONDARY, overrideUrl: "" };
