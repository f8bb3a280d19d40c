import type { BehaviourChange } from "../behaviour.ts";

/** What a button of the sandbox's page may do. */
export interface TroubleMaker {
  behave(change: BehaviourChange): void;
  /** Ends all missteps, and sets every setting back. */
  behaveWell(): void;
  revoke(which: { readonly user: string }): number;
  changeCalendar(user: string, changes: number): void;
  /** Forgets all changes, tokens and requests. */
  reset(): void;
}

/** A trouble that a button makes. */
export interface Trouble {
  readonly id: string;
  readonly label: string;
  /** What is the case afterwards, and what to expect. */
  readonly done: string;
  readonly make: (maker: TroubleMaker) => void;
}

export interface TroubleGroup {
  readonly title: string;
  readonly troubles: readonly Trouble[];
}

type Misbehavior = NonNullable<NonNullable<BehaviourChange["answers"]>["api"]>[number];

const ada = "ada@example.com";
const apis = ["api", "files", "mail", "sheets", "calendar"] as const;

/** Changes how the token endpoint answers. */
const tokenAnswers = (misstep: Misbehavior) => (maker: TroubleMaker) => maker.behave({ answers: { token: [misstep] } });
/** Changes how each API answers. */
const apiAnswers = (misstep: Misbehavior) => (maker: TroubleMaker) =>
  maker.behave({ answers: Object.fromEntries(apis.map((name) => [name, [misstep]])) });
const setting = (change: BehaviourChange) => (maker: TroubleMaker) => maker.behave(change);

export const troubleGroups: readonly TroubleGroup[] = [
  {
    title: "Tokens",
    troubles: [
      {
        id: "revoke",
        label: "Revoke Ada's access",
        done: "Ada's tokens are revoked. The next call gets 401, and the refresh after it invalid_grant.",
        make: (maker) => maker.revoke({ user: ada }),
      },
      {
        id: "fail-refreshes",
        label: "Fail the next 2 refreshes",
        done: "The next 2 refreshes get 503.",
        make: tokenAnswers({
          kind: "error",
          status: 503,
          error: "temporarily_unavailable",
          grantType: "refresh_token",
          times: 2,
        }),
      },
      {
        id: "invalid-grant",
        label: "Answer the next refresh with invalid_grant",
        done: "The next refresh gets invalid_grant, as if the user had removed the app.",
        make: tokenAnswers({ kind: "error", error: "invalid_grant", grantType: "refresh_token", times: 1 }),
      },
      {
        id: "lose-refresh",
        label: "Lose the next refresh answer",
        done: "The next refresh rotates the token, and its answer is lost on the way.",
        make: tokenAnswers({ kind: "drop-answer", grantType: "refresh_token", times: 1 }),
      },
      {
        id: "short-tokens",
        label: "Issue tokens for 1 minute",
        done: "New access tokens expire after 1 minute.",
        make: setting({ accessTokenLifetimeS: 60 }),
      },
      {
        id: "slow-tokens",
        label: "Slow down the next 3 token requests",
        done: "The next 3 token requests take 5 seconds each.",
        make: tokenAnswers({ kind: "ordinary", delayMs: 5_000, times: 3 }),
      },
    ],
  },
  {
    title: "APIs",
    troubles: [
      {
        id: "rate-limit",
        label: "Rate limit the next 3 calls",
        done: "The next 3 calls of each API get 429 with Retry-After: 2.",
        make: apiAnswers({
          kind: "error",
          status: 429,
          error: "rateLimitExceeded",
          headers: { "retry-after": "2" },
          times: 3,
        }),
      },
      {
        id: "unauthorized",
        label: "Refuse the next 2 calls with 401",
        done: "The next 2 calls of each API get 401, although their token is good.",
        make: apiAnswers({ kind: "error", status: 401, error: "authError", times: 2 }),
      },
      {
        id: "unavailable",
        label: "Fail the next 3 calls with 503",
        done: "The next 3 calls of each API get 503.",
        make: apiAnswers({ kind: "error", status: 503, error: "backendError", times: 3 }),
      },
      {
        id: "slow",
        label: "Slow down the next 10 calls",
        done: "The next 10 calls of each API take 3 seconds each.",
        make: apiAnswers({ kind: "ordinary", delayMs: 3_000, times: 10 }),
      },
      {
        id: "cut",
        label: "Cut off the next answer",
        done: "The connection breaks in the middle of the next answer of each API.",
        make: apiAnswers({ kind: "cut-answer", times: 1 }),
      },
      {
        id: "silent",
        label: "Never answer the next call",
        done: "The next call of each API gets no answer until the caller gives up.",
        make: apiAnswers({ kind: "silent", times: 1 }),
      },
    ],
  },
  {
    title: "Notifications",
    troubles: [
      {
        id: "notify",
        label: "Change Ada's calendar",
        done: "An event was added to Ada's calendar. Each channel on it gets a notification.",
        make: (maker) => maker.changeCalendar(ada, 1),
      },
      {
        id: "burst",
        label: "Change it 20 times",
        done: "20 events were added to Ada's calendar. Each channel on it gets a burst of notifications.",
        make: (maker) => maker.changeCalendar(ada, 20),
      },
      {
        id: "drop",
        label: "Drop notifications",
        done: "Notifications are counted and not sent.",
        make: setting({ notifications: "dropped" }),
      },
      {
        id: "twice",
        label: "Send each one twice",
        done: "Each notification is sent twice, with the same number.",
        make: setting({ notificationCopies: 2 }),
      },
    ],
  },
  {
    title: "Consent",
    troubles: [
      {
        id: "deny",
        label: "Deny without asking",
        done: "Each authorization is denied without a consent page.",
        make: setting({ consent: "deny" }),
      },
      {
        id: "allow",
        label: "Allow without asking",
        done: "Each authorization is allowed without a consent page.",
        make: setting({ consent: "allow" }),
      },
      {
        id: "ask",
        label: "Ask",
        done: "Each authorization shows the consent page.",
        make: setting({ consent: "ask" }),
      },
      {
        id: "partly",
        label: "Grant only openid and email",
        done: "Of the requested scopes, only openid and email are granted.",
        make: setting({ grantOnly: ["openid", "email"] }),
      },
      {
        id: "wrong-issuer",
        label: "Name a wrong issuer",
        done: "The redirect names another issuer, as in a mix-up attack.",
        make: setting({ iss: "wrong" }),
      },
    ],
  },
];

export const endings: readonly Trouble[] = [
  {
    id: "behave",
    label: "End all failures",
    done: "All failures have ended. Tokens and data stay as they are.",
    make: (maker) => maker.behaveWell(),
  },
  {
    id: "reset",
    label: "Delete everything",
    done: "All tokens, changes and requests are deleted, and all failures have ended.",
    make: (maker) => maker.reset(),
  },
];

export const troubleOf = (id: string): Trouble | undefined =>
  [...troubleGroups.flatMap(({ troubles }) => troubles), ...endings].find((one) => one.id === id);
