import { create, type JsonObject } from "@bufbuild/protobuf";
import { isChoiceNeeded } from "../../../core/needed-choices.ts";
import { type ConnectionChoice, ConnectionChoiceSchema } from "../../../gen/latchkey/v1/connection_pb.ts";
import type { ChoiceRule } from "../../../gen/latchkey/v1/provider_pb.ts";
import type { LiveConnection } from "../../credentials/live-connections.ts";
import type { ProviderRequests } from "../../credentials/provider-requests.ts";
import { optionsIn } from "./choice-options.ts";

/** Asks a provider what can be chosen for a connection. */
export interface ChoiceLists {
  /** Returns all lists, each with the problem if there is none. */
  of(live: LiveConnection): Promise<ConnectionChoice[]>;
  /** Does the same after an authorization: a list of one is chosen at once, and later lists may depend on it. */
  decide(live: LiveConnection): Promise<DecidedChoices>;
}

export interface DecidedChoices {
  /** Values of the lists of one. */
  readonly connectionConfig: JsonObject;
  /** Choices that the end user has to make, with their lists. */
  readonly open: readonly ConnectionChoice[];
}

export function createChoiceLists(asks: Pick<ProviderRequests, "list">): ChoiceLists {
  async function listOf(live: LiveConnection, rule: ChoiceRule): Promise<ConnectionChoice> {
    const { name, title, request } = rule;
    const config = live.connection.connectionConfig ?? {};
    const base = { name, title: title || name, needed: isChoiceNeeded(rule, config) };
    const answer = request === undefined ? { problem: "earlier_choice" } : await asks.list(live, request);
    if ("problem" in answer) return create(ConnectionChoiceSchema, { ...base, problem: answer.problem });
    const { connectionFields: fields } = live.provider;
    const options = optionsIn({ rule, body: answer.body, fields, config });
    if (options === undefined) return create(ConnectionChoiceSchema, { ...base, problem: "no_list" });
    return create(ConnectionChoiceSchema, { ...base, options });
  }

  return {
    of: (live) => Promise.all(live.provider.choices.map((rule) => listOf(live, rule))),
    async decide(live) {
      let connectionConfig: JsonObject = {};
      const open: ConnectionChoice[] = [];
      for (const rule of live.provider.choices) {
        const list = await listOf(withConfig(live, connectionConfig), rule);
        const [first, second] = list.options;
        const kept = list.options.find(({ chosen }) => chosen);
        const decided = kept ?? (second === undefined ? first : undefined);
        if (decided === undefined) open.push(list);
        else connectionConfig = { ...connectionConfig, ...decided.connectionConfig };
      }
      return { connectionConfig, open };
    },
  };
}

/** Returns the connection with further values. Without its cache slot: what was derived from the connection is outdated. */
export function withConfig(live: LiveConnection, more: JsonObject): LiveConnection {
  const { connection, integration, secrets, provider, credentials } = live;
  const connectionConfig = { ...connection.connectionConfig, ...more };
  return { connection: { ...connection, connectionConfig }, integration, secrets, provider, credentials };
}
