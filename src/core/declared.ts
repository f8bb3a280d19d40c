import type { Scope } from "../gen/latchkey/v1/access_pb.ts";
import type { Integration } from "../gen/latchkey/v1/integration_pb.ts";
import type { Provider } from "../gen/latchkey/v1/provider_pb.ts";

/** The environment that is there when the configuration declares none, and that variables speak of. */
export const defaultEnvironment = "dev";

/** What the configuration file says there is. */
export interface DeclaredSetup {
  readonly environments: readonly DeclaredEnvironment[];
  readonly keys: readonly DeclaredKey[];
  readonly signingSecrets: readonly DeclaredSigningSecrets[];
  readonly variables: readonly DeclaredVariable[];
  readonly integrations: readonly Integration[];
  readonly providers: readonly Provider[];
}

export interface DeclaredEnvironment {
  readonly name: string;
  /** Empty where the configuration says nothing of it, and so leaves it to be changed elsewhere. */
  readonly forwardUrl: string;
  readonly secondaryForwardUrl: string;
  /** The same, as undefined. */
  readonly allowedOrigins: readonly string[] | undefined;
}

/** What an environment signs its forwards with, pinned by configuration. They are kept in memory alone. */
export interface DeclaredSigningSecrets {
  readonly environment: string;
  /** The newest first. */
  readonly secrets: readonly string[];
}

/** What an environment's scripts are told by `getEnvironmentVariables`. It is kept in memory alone. */
export interface DeclaredVariable {
  readonly environment: string;
  readonly name: string;
  readonly value: string;
}

/** A key that configuration fixes. It is kept in memory alone. */
export interface DeclaredKey {
  readonly id: string;
  /** Empty: a control key. */
  readonly environment: string;
  readonly secret: string;
  readonly scopes: readonly Scope[];
}
