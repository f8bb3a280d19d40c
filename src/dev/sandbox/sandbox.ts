import * as v from "valibot";
import { describeListener, type ListenAddress, type ListenerTls, listen } from "../../base/http/listener.ts";
import { createApis } from "./apis/apis.ts";
import { neutralStyles } from "./apis/neutral-styles.ts";
import type { SubscriptionStyle } from "./apis/subscription-style.ts";
import type { SandboxSubscriptions } from "./apis/subscriptions.ts";
import { createAccessCheck } from "./auth/access.ts";
import { createAuthorizationServer } from "./auth/authorization-server.ts";
import { type ClientInput, createClients, readyClient } from "./auth/clients.ts";
import type { IssuedTokens } from "./auth/tokens.ts";
import { type BehaviourChange, createBehaviour } from "./behaviour.ts";
import { refuse } from "./call.ts";
import { controlRoutes, type GrantInput, grantSchema, type RevokeFilter } from "./control.ts";
import { personByEmail } from "./people.ts";
import { reportOf, type SandboxReport } from "./report.ts";
import { createSeen } from "./seen.ts";
import { createSandboxServer } from "./server.ts";

/**
 * A stand-in for third-party providers: an authorization server and the APIs behind it, which behave, and misbehave
 * on request. For development and tests; all its data is in memory.
 */
export interface Sandbox {
  /** The base URL, without a slash at the end. It is also the issuer. */
  readonly origin: string;
  /** Changes the named settings of its behavior; throws `BehaviourMistake`. */
  behave(change: BehaviourChange): void;
  /** Reports the requests it received and the grants and channels it holds. */
  seen(): SandboxReport;
  /** Registers an app, or changes one. */
  register(client: ClientInput): void;
  /** Issues tokens without a browser, as if a user had consented. */
  grant(request?: GrantInput): GrantedTokens;
  /** The same for OAuth 1. */
  grantOAuth1(request?: Omit<GrantInput, "scopes">): {
    readonly oauth_token: string;
    readonly oauth_token_secret: string;
  };
  /** Revokes the grants that match, as a user or an administrator would, and returns their number. */
  revoke(which?: RevokeFilter): number;
  /** Adds events to a user's primary calendar, as another person would. Each notifies the channels that watch it. */
  changeCalendar(user: string, changes?: number): void;
  /** Subscriptions of providers that extend, confirm or list them. */
  readonly subscriptions: Pick<SandboxSubscriptions, "live" | "drop" | "settled">;
  /** Forgets everything but the apps. */
  reset(): void;
  close(): Promise<void>;
}

export interface SandboxOptions {
  /** Default: any port of the loopback interface. */
  readonly listen?: ListenAddress;
  readonly tls?: ListenerTls;
  /** The public base URL, if it differs from the address it listens on. */
  readonly origin?: string;
  /** Apps beside the predefined ones. */
  readonly clients?: readonly ClientInput[];
  readonly behaviour?: BehaviourChange;
  /** Kinds of subscriptions; default: a kind of each protocol. */
  readonly styles?: readonly SubscriptionStyle[];
  /** Milliseconds since 1970. */
  readonly now?: () => number;
  /** Receives unexpected errors; the connection of their request was closed. */
  readonly onError?: (error: unknown) => void;
}

export interface GrantedTokens {
  readonly grant: string;
  readonly access_token: string;
  readonly refresh_token: string;
  readonly expires_in: number;
  readonly scope: string;
}

/** Starts a sandbox and resolves once it listens. */
export async function startSandbox(options: SandboxOptions = {}): Promise<Sandbox> {
  const {
    listen: address = { kind: "tcp", host: "127.0.0.1", port: 0 },
    tls,
    now = Date.now,
    onError = rethrow,
  } = options;
  const closing = new AbortController();
  const behaviour = createBehaviour(options.behaviour);
  const { settings } = behaviour;
  const clients = createClients(options.clients ?? []);
  const seen = createSeen(now);
  let publicOrigin = options.origin ?? "";
  const origin = () => publicOrigin;

  const authorization = createAuthorizationServer({ now, origin, settings, clients, seen });
  const { tokens, oauth1 } = authorization;
  const access = createAccessCheck({ tokens, oauth1, seen });
  const apis = createApis({
    now,
    origin,
    settings,
    access,
    seen,
    closing: closing.signal,
    styles: options.styles ?? neutralStyles,
  });

  const operations: Omit<Sandbox, "origin" | "close"> = {
    behave: (change) => behaviour.change(change),
    seen: () => reportOf({ seen: seen.shown(), grants: tokens.grants(), channels: apis.channels() }),
    register(client) {
      const [registered] = [...createClients([client]).values()].slice(-1);
      if (registered !== undefined) clients.set(registered.id, registered);
    },
    grant(request = {}) {
      const { user, client: clientId, scopes } = v.parse(grantSchema, request);
      const issued = tokens.grant({ ...partiesOf(user, clientId), scopes, withRefreshToken: true });
      return shownTokens(issued);
    },
    grantOAuth1({ user = "ada@example.com", client: clientId = readyClient.id } = {}) {
      const { client, person } = partiesOf(user, clientId);
      const { token, secret } = oauth1.issue(client, person);
      return { oauth_token: token, oauth_token_secret: secret };
    },
    revoke({ grant, user, client, token } = {}) {
      if (token !== undefined) return tokens.revoke(token) ? 1 : oauth1.revoke((issued) => issued.token === token);
      const matches = (email: string, clientId: string) =>
        (user ?? email) === email && (client ?? clientId) === clientId;
      const revoked = tokens.revokeGrants(
        ({ id, person, clientId }) => (grant ?? id) === id && matches(person.email, clientId),
      );
      if (grant !== undefined) return revoked;
      return revoked + oauth1.revoke(({ person, clientId }) => matches(person.email, clientId));
    },
    changeCalendar(user, changes = 1) {
      const { person } = partiesOf(user, readyClient.id);
      for (let i = 0; i < changes; i += 1) apis.addEvent(person, "Added by another person");
    },
    subscriptions: apis.subscriptions,
    reset() {
      for (const part of [behaviour, seen, authorization, apis]) part.reset();
    },
  };

  function partiesOf(user: string, clientId: string) {
    const [person, client] = [personByEmail(user), clients.get(clientId)];
    if (person === undefined) throw refuse(400, "invalid", `The sandbox has no user ${user}.`);
    if (client === undefined) throw refuse(400, "invalid", `The sandbox has no app ${clientId}.`);
    return { person, client };
  }

  const control = controlRoutes({ origin, behaviour, clients, ...operations });
  const routes = [...authorization.routes, ...apis.routes, ...control];
  const server = createSandboxServer({ behaviour, seen, tls, onError, routes });
  await listen(server, address);
  publicOrigin = (options.origin ?? describeListener(server, tls !== undefined)).replace(/\/+$/, "");

  let closed: Promise<void> | undefined;
  return {
    ...operations,
    origin: publicOrigin,
    close() {
      closed ??= new Promise((resolve) => {
        closing.abort();
        server.close(() => resolve());
        server.closeAllConnections();
      });
      return closed;
    },
  };
}

const shownTokens = ({ grant, accessToken, refreshToken = "", expiresInS, scopes }: IssuedTokens): GrantedTokens => ({
  grant: grant.id,
  access_token: accessToken,
  refresh_token: refreshToken,
  expires_in: expiresInS,
  scope: scopes.join(" "),
});

/** Errors are thrown, not swallowed: they are defects of the sandbox. */
function rethrow(error: unknown): void {
  queueMicrotask(() => {
    throw error;
  });
}
