import * as v from "valibot";
import { describeListener, type ListenAddress, type ListenerTls, listen } from "../../base/http/listener.ts";
import { apiRoutes } from "./apis/api.ts";
import { createCalendars } from "./apis/calendar.ts";
import { createChannels } from "./apis/channels.ts";
import { createFiles } from "./apis/files.ts";
import { createMail } from "./apis/mail.ts";
import { createSheets } from "./apis/sheets.ts";
import { streamRoutes } from "./apis/streams.ts";
import { createAccessCheck } from "./auth/access.ts";
import { authorizationRoutes } from "./auth/authorization.ts";
import { type ClientInput, createClients, readyClient } from "./auth/clients.ts";
import { createCodes } from "./auth/codes.ts";
import { createConsent } from "./auth/consent.ts";
import { createDevices } from "./auth/devices.ts";
import { createIdTokens } from "./auth/id-tokens.ts";
import { createOAuth1 } from "./auth/oauth1.ts";
import { tokenRoutes } from "./auth/token-endpoint.ts";
import { createTokens, type IssuedTokens } from "./auth/tokens.ts";
import { type BehaviourChange, createBehaviour } from "./behaviour.ts";
import { refuse } from "./call.ts";
import { controlRoutes, type GrantInput, grantSchema, type RevokeWish } from "./control.ts";
import { metadataRoutes } from "./metadata.ts";
import { personByEmail } from "./people.ts";
import { reportOf, type SandboxReport } from "./report.ts";
import { createSeen } from "./seen.ts";
import { createSandboxServer } from "./server.ts";

/**
 * A stand-in for third-party providers: an authorization server and the APIs behind it, which behave, and misbehave
 * when they are told to. For developing against and for tests; all that it knows is in memory.
 */
export interface Sandbox {
  /** Where it is reached, without a slash at the end. It is also the issuer. */
  readonly origin: string;
  /** Changes what is named of how it behaves; throws `BehaviourMistake`. */
  behave(change: BehaviourChange): void;
  /** What it saw, and what it holds. */
  seen(): SandboxReport;
  /** Registers an app, or changes one. */
  register(client: ClientInput): void;
  /** Tokens as a user's consent would have brought them, for who has no browser. */
  grant(wish?: GrantInput): GrantedTokens;
  /** The same for OAuth 1. */
  grantOAuth1(wish?: Omit<GrantInput, "scopes">): { readonly oauth_token: string; readonly oauth_token_secret: string };
  /** Revokes what fits, as a user or an administrator would, and says how many grants that were. */
  revoke(which?: RevokeWish): number;
  /** Puts events into a user's primary calendar, as somebody else would. Those that watch it hear of each. */
  changeCalendar(user: string, changes?: number): void;
  /** Forgets everything but the apps. */
  reset(): void;
  close(): Promise<void>;
}

export interface SandboxOptions {
  /** Any port of the loopback interface, unless said. */
  readonly listen?: ListenAddress;
  readonly tls?: ListenerTls;
  /** How others reach it, where that is not what it listens on. */
  readonly origin?: string;
  /** Beside the ready-made ones. */
  readonly clients?: readonly ClientInput[];
  readonly behaviour?: BehaviourChange;
  /** Milliseconds since 1970. */
  readonly now?: () => number;
  /** Told of what no code foresaw; the request it concerned was cut. */
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
  let here = options.origin ?? "";
  const origin = () => here;

  const consent = createConsent({ now, settings });
  const tokens = createTokens({ now, settings, seen });
  const codes = createCodes({ now, seen, revoke: ({ id }) => tokens.revokeGrants((one) => one.id === id) });
  const devices = createDevices({ now, origin, settings, clients, consent });
  const idTokens = createIdTokens({ now, origin });
  const oauth1 = createOAuth1({ now, settings, clients, consent, seen });
  const access = createAccessCheck({ tokens, oauth1, seen });
  const files = createFiles({ now, access });
  const mail = createMail({ now, access });
  const sheets = createSheets({ access });
  const calendars = createCalendars({ now, access, onChange: (calendar) => channels.changed(calendar) });
  const channels = createChannels({ now, origin, settings, access, calendars, seen, closing: closing.signal });

  const sandbox = {
    behave: (change: BehaviourChange) => behaviour.change(change),
    seen: (): SandboxReport => reportOf({ seen: seen.shown(), grants: tokens.grants(), channels: channels.live() }),
    register(client: ClientInput) {
      const [made] = [...createClients([client]).values()].slice(-1);
      if (made !== undefined) clients.set(made.id, made);
    },
    grant(wish: GrantInput = {}): GrantedTokens {
      const { user, client: clientId, scopes } = v.parse(grantSchema, wish);
      const issued = tokens.grant({ ...partiesOf(user, clientId), scopes, withRefreshToken: true });
      return shownTokens(issued);
    },
    grantOAuth1({ user = "ada@example.com", client: clientId = readyClient.id }: Omit<GrantInput, "scopes"> = {}) {
      const { client, person } = partiesOf(user, clientId);
      const { token, secret } = oauth1.issue(client, person);
      return { oauth_token: token, oauth_token_secret: secret };
    },
    revoke({ grant, user, client, token }: RevokeWish = {}): number {
      if (token !== undefined) return tokens.revoke(token) ? 1 : oauth1.revoke((one) => one.token === token);
      const fits = (email: string, clientId: string) => (user ?? email) === email && (client ?? clientId) === clientId;
      const ended = tokens.revokeGrants((one) => (grant ?? one.id) === one.id && fits(one.person.email, one.clientId));
      return ended + (grant === undefined ? oauth1.revoke((one) => fits(one.person.email, one.clientId)) : 0);
    },
    changeCalendar(user: string, changes = 1) {
      const { person } = partiesOf(user, readyClient.id);
      for (let i = 0; i < changes; i += 1) calendars.add(person, { summary: "Put there by somebody else" });
    },
    reset() {
      for (const part of [
        behaviour,
        seen,
        consent,
        tokens,
        codes,
        devices,
        oauth1,
        files,
        mail,
        sheets,
        calendars,
        channels,
      ]) {
        part.reset();
      }
    },
  };

  function partiesOf(user: string, clientId: string) {
    const [person, client] = [personByEmail(user), clients.get(clientId)];
    if (person === undefined) throw refuse(400, "invalid", `The sandbox has no user ${user}.`);
    if (client === undefined) throw refuse(400, "invalid", `The sandbox has no app ${clientId}.`);
    return { person, client };
  }

  const server = createSandboxServer({
    behaviour,
    seen,
    tls,
    onError,
    routes: [
      ...authorizationRoutes({ origin, settings, clients, codes, consent }),
      ...tokenRoutes({ settings, clients, codes, devices, tokens, idTokens }),
      ...devices.routes,
      ...metadataRoutes({ origin, settings }),
      ...idTokens.routes,
      ...oauth1.routes,
      ...apiRoutes(access),
      ...files.routes,
      ...streamRoutes(access),
      ...mail.routes,
      ...sheets.routes,
      ...channels.routes,
      ...calendars.routes,
      ...controlRoutes({ origin, behaviour, clients, ...sandbox }),
    ],
  });
  await listen(server, address);
  here = (options.origin ?? describeListener(server, tls !== undefined)).replace(/\/+$/, "");

  let closed: Promise<void> | undefined;
  return {
    ...sandbox,
    origin: here,
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

/** Not swallowed: an error here is one of ours. */
function rethrow(error: unknown): void {
  queueMicrotask(() => {
    throw error;
  });
}
