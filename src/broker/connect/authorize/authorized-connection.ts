import { randomUUID } from "node:crypto";
import { create } from "@bufbuild/protobuf";
import { Fault } from "../../../base/fault.ts";
import {
  type Connection,
  type ConnectionChoice,
  ConnectionImportSchema,
  ConnectionRefSchema,
  ConnectionSchema,
} from "../../../gen/latchkey/v1/connection_pb.ts";
import type { Change } from "../../../store/contract.ts";
import type { GrantCount } from "../../credentials/grant-count.ts";
import type { LiveConnection } from "../../credentials/live-connections.ts";
import type { ProviderRequests } from "../../credentials/provider-requests.ts";
import type { Integrations } from "../../setup/integrations.ts";
import type { ScriptHooks } from "../../syncs/script-hooks.ts";
import { namesValue } from "../../tokens/request-template.ts";
import type { AuthorizationCollections } from "../authorization-collections.ts";
import { type ChoiceLists, withConfig } from "../choices/choice-lists.ts";
import type { Imports } from "../import/imports.ts";
import type { ConnectSessions } from "../sessions.ts";
import type { AuthorizationContext } from "./authorization-context.ts";
import type { GrantResult } from "./grant-result.ts";

export interface AuthorizedConnections {
  /**
   * Asks the provider about the connection and stores everything in one commit, which by default also ends the session.
   */
  file(context: AuthorizationContext, grant: GrantResult, filing?: ConnectionFiling): Promise<StoredAuthorization>;
  /** Returns the future connection, for requests with its credentials before it is stored. */
  draftOf(context: AuthorizationContext, grant: GrantResult, id: string): Promise<LiveConnection>;
}

export interface ConnectionFiling {
  /** The ID of a new connection. */
  readonly id: string;
  /** Additional changes of the commit, in place of ending a session. */
  readonly alongside: (connection: ConnectionSummary) => Promise<readonly Change[]>;
}

export interface ConnectionSummary {
  readonly connectionId: string;
  readonly missingScopes: readonly string[];
}

export interface StoredAuthorization extends ConnectionSummary {
  /** The name of the account, as the provider gave it; empty: not known. */
  readonly account: string;
  readonly connection: Connection;
  /** What the end user still has to choose. */
  readonly choices: readonly ConnectionChoice[];
}

/** Fields of the metadata by which a person knows their account. */
const accountFields = ["email", "emailAddress", "login"];
const maxAccountLength = 200;

function accountIn(metadata: Readonly<Record<string, unknown>>): string {
  const found = accountFields.map((field) => metadata[field]).find((value) => typeof value === "string");
  return typeof found === "string" && found.length <= maxAccountLength ? found : "";
}

interface AuthorizedConnectionsOptions {
  readonly collections: AuthorizationCollections;
  readonly integrations: Integrations;
  readonly sessions: ConnectSessions;
  readonly imports: Imports;
  readonly asks: ProviderRequests;
  readonly choiceLists: ChoiceLists;
  readonly grants: GrantCount;
  readonly hooks: Pick<ScriptHooks, "validate">;
}

export function createAuthorizedConnections(options: AuthorizedConnectionsOptions): AuthorizedConnections {
  const { collections, integrations, sessions, imports, asks, choiceLists, grants, hooks } = options;

  async function file(
    context: AuthorizationContext,
    grant: GrantResult,
    filing?: ConnectionFiling,
  ): Promise<StoredAuthorization> {
    const { session, integration, provider, existing } = context;
    const { endUser, tags, webhookUrlOverride, createdBy, connectionId: named } = session.value;
    const { environment, key } = integration;
    const id = existing?.ref?.id ?? filing?.id ?? (named || randomUUID());
    const draft = await draftOf(context, grant, id);
    const { connectionConfig, metadata, choices } = await described(draft, existing);
    await hooks.validate(draft);
    const summary = { connectionId: id, missingScopes: grant.missingScopes };
    const item = create(ConnectionImportSchema, {
      environment,
      integration: key,
      id,
      credentials: grant.credentials,
      ...(endUser === undefined ? {} : { endUser }),
      // An existing connection keeps its tags if the session names none.
      ...(existing !== undefined && Object.keys(tags).length === 0 ? {} : { tags: { tags } }),
      ...(webhookUrlOverride === "" ? {} : { webhookUrlOverride }),
    });
    const { connection } = await imports.authorizeOne(
      {
        item,
        isAgain: existing !== undefined,
        metadata: { ...grant.metadata, ...metadata },
        connectionConfig: { ...grant.connectionConfig, ...connectionConfig },
        grantedScopes: grant.grantedScopes,
        missingScopes: grant.missingScopes,
        async alongside() {
          if (filing !== undefined) return filing.alongside(summary);
          const current = await collections.connectSessions.get(session.value.id);
          if (current === undefined) throw new Fault("unknown_session", "the connect session has been used");
          return sessions.end(current);
        },
      },
      createdBy,
    );
    await grants.noteNew(connection, provider);
    return { ...summary, account: accountIn({ ...grant.metadata, ...metadata }), connection, choices };
  }

  /** Asks the provider what it says about the connection, and what there is to choose. */
  async function described(draft: LiveConnection, existing: Connection | undefined) {
    const { connectionConfig, metadata } = await asks.describe(draft);
    const { choices, describe } = draft.provider;
    if (choices.length === 0) return { connectionConfig, metadata, choices: [] };
    const former = { ...existing?.connectionConfig, ...draft.connection.connectionConfig };
    const known = withConfig(draft, { ...former, ...connectionConfig });
    const decided = await choiceLists.decide(known);
    const config = { ...connectionConfig, ...decided.connectionConfig };
    const isNamed = (name: string) => describe.some(({ request }) => namesValue(request, name));
    if (!Object.keys(decided.connectionConfig).some(isNamed)) {
      return { connectionConfig: config, metadata, choices: decided.open };
    }
    const more = await asks.describe(withConfig(known, decided.connectionConfig));
    return {
      connectionConfig: { ...config, ...more.connectionConfig },
      metadata: { ...metadata, ...more.metadata },
      choices: decided.open,
    };
  }

  async function draftOf(context: AuthorizationContext, grant: GrantResult, id: string): Promise<LiveConnection> {
    const { integration, provider } = context;
    const ref = create(ConnectionRefSchema, { environment: integration.environment, integration: integration.key, id });
    return {
      connection: create(ConnectionSchema, {
        ref,
        provider: provider.name,
        connectionConfig: grant.connectionConfig,
      }),
      integration,
      secrets: await integrations.secretsOf(integration),
      provider,
      credentials: grant.credentials,
    };
  }

  return { file, draftOf };
}
