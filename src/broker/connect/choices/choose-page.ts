import { Fault } from "../../../base/fault.ts";
import { neededChoices } from "../../../core/needed-choices.ts";
import type { PendingChoice } from "../../../gen/latchkey/stored/v1/stored_pb.ts";
import type { ConnectionChoice, ConnectionRef } from "../../../gen/latchkey/v1/connection_pb.ts";
import type { Connections } from "../../connections/connections.ts";
import type { Providers } from "../../setup/providers.ts";
import type { StoredAuthorization } from "../authorize/authorized-connection.ts";
import type { AuthorizationOutcome, ShownChoices } from "../authorize/outcome.ts";
import type { ConnectionChoices } from "./connection-choices.ts";
import type { ChoicePage, PendingChoices } from "./pending-choices.ts";

/** The page on which the end user of a new connection chooses, such as one of several sites. */
export interface ChoosePage {
  /** Returns what the page shows; undefined: there is nothing to choose. */
  begin(connected: StoredAuthorization, page: Omit<ChoicePage, "ref">): Promise<ShownChoices | undefined>;
  /** Stores choices. `choosing` in the outcome is what remains. Throws `unknown_authorization`. */
  choose(request: ChoiceRequest): Promise<AuthorizationOutcome>;
}

export interface ChoiceRequest {
  readonly token: string;
  readonly browser: string | undefined;
  /** IDs of options by the names of choices. */
  readonly options: Readonly<Record<string, string>>;
}

interface ChoosePageOptions {
  readonly choices: ConnectionChoices;
  readonly pending: PendingChoices;
  readonly connections: Pick<Connections, "get">;
  readonly providers: Providers;
}

export function createChoosePage({ choices, pending, connections, providers }: ChoosePageOptions): ChoosePage {
  /** Stores what was chosen; undefined: it could not be stored. */
  async function store(ref: ConnectionRef, options: ChoiceRequest["options"]) {
    if (Object.keys(options).length === 0) return (await connections.get(ref)).value;
    try {
      return await choices.choose(ref, options, "browser");
    } catch (error) {
      // Another option may do, or another attempt.
      const isPassing = error instanceof Fault && ["invalid_body", "provider_unreachable"].includes(error.code);
      if (!isPassing) throw error;
      return undefined;
    }
  }

  return {
    async begin(connected, page) {
      const shown = shownIn(connected.choices);
      const { ref } = connected.connection;
      if (shown.length === 0 || ref === undefined) return undefined;
      const { title, browserHash, listener, returnTo, language, theme } = page;
      const { account, missingScopes } = connected;
      const kept = { title, browserHash, listener, returnTo, language, theme, account };
      const token = await pending.begin({ ...kept, ref, missingScopes: [...missingScopes] } as ChoicePage);
      return { token, choices: shown };
    },
    async choose({ token, browser, options }) {
      const page = await pending.find(token, browser);
      const { ref } = page;
      if (ref === undefined) throw new Error("a page with choices has its connection");
      const chosen = await store(ref, options);
      const connection = chosen ?? (await connections.get(ref)).value;
      const needed = neededChoices(providers.lookUp(connection.provider), connection.connectionConfig);
      const outcome = outcomeOf(page, ref);
      if (needed.length > 0) {
        const lists = await choices.list(ref, connection.connectionConfig ?? {});
        const shown = shownIn(lists.filter(({ name }) => needed.includes(name)));
        const refusal = chosen === undefined ? { isRefused: true as const } : {};
        if (shown.length > 0) return { ...outcome, choosing: { token, choices: shown, ...refusal } };
      }
      await pending.end(token);
      return outcome;
    },
  };
}

/** What a page can show: lists, and those that could not be loaded. */
const shownIn = (lists: readonly ConnectionChoice[]): readonly ConnectionChoice[] =>
  lists.filter(({ options, problem }) => options.length > 0 || (problem !== "" && problem !== "earlier_choice"));

const outcomeOf = (page: PendingChoice, { environment, integration, id }: ConnectionRef): AuthorizationOutcome => ({
  environment,
  integration,
  title: page.title,
  listener: page.listener,
  returnTo: page.returnTo,
  language: page.language,
  theme: page.theme,
  redirectContext: "",
  sessionToken: "",
  connected: { connectionId: id, missingScopes: page.missingScopes, account: page.account },
});
