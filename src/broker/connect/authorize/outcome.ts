import type { ConnectionChoice } from "../../../gen/latchkey/v1/connection_pb.ts";
import type { FailureReason } from "./failure.ts";

/** The outcome for the end user, and for the listener. */
export interface AuthorizationOutcome {
  readonly environment: string;
  readonly integration: string;
  /** The integration's name for people. */
  readonly title: string;
  readonly listener: string;
  readonly returnTo: string;
  /** The language requested at the start; empty: the browser's. */
  readonly language: string;
  readonly theme: string;
  /** The last segment of the redirect URI. */
  readonly redirectContext: string;
  /** The token with which the browser that began may try again; empty: it may not. */
  readonly sessionToken: string;
  readonly connected?: {
    readonly connectionId: string;
    readonly missingScopes: readonly string[];
    /** The name of the account; empty: not known. */
    readonly account: string;
  };
  readonly failed?: { readonly by: FailureReason; readonly message: string };
  /** What the end user has to choose before the connection is of use. */
  readonly choosing?: ShownChoices;
}

/** What a page shows to a person who has to choose. */
export interface ShownChoices {
  /** Proves, with the cookie, that a request comes from the page. */
  readonly token: string;
  readonly choices: readonly ConnectionChoice[];
  /** The last choice could not be stored. */
  readonly isRefused?: true;
}
