import type { ChannelSlots } from "../../channels/slots.ts";
import type { ConnectionCollections } from "../../connections/connection-collections.ts";
import type { Connections } from "../../connections/connections.ts";
import type { Live } from "../../credentials/live-connections.ts";
import type { ProviderRequests } from "../../credentials/provider-requests.ts";
import type { SharedServices } from "../../deliveries/open.ts";
import type { AuthorizationCollections } from "../authorization-collections.ts";
import { type ChoiceLists, createChoiceLists } from "./choice-lists.ts";
import { type ChoosePage, createChoosePage } from "./choose-page.ts";
import { type ConnectionChoices, createConnectionChoices } from "./connection-choices.ts";
import { createPendingChoices } from "./pending-choices.ts";

/** What is chosen for connections after the authorization, such as one of several sites. */
export interface ChoiceRoom {
  /** Lists and stores what is chosen for a connection. */
  readonly choices: ConnectionChoices;
  /** The page on which end users choose. */
  readonly choosePage: ChoosePage;
}

export interface ChoiceRoomOptions extends Pick<SharedServices, "store" | "providers" | "audit" | "world"> {
  readonly collections: ConnectionCollections & AuthorizationCollections;
  readonly connections: Connections;
  readonly live: Live;
  readonly asks: ProviderRequests;
  readonly slots: ChannelSlots;
}

export function openChoices(options: ChoiceRoomOptions): ChoiceRoom & { readonly choiceLists: ChoiceLists } {
  const choiceLists = createChoiceLists(options.asks);
  const choices = createConnectionChoices({ ...options, lists: choiceLists });
  const choosePage = createChoosePage({ ...options, choices, pending: createPendingChoices(options) });
  return { choiceLists, choices, choosePage };
}
