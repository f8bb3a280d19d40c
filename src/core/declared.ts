import type { AccessLimits, Scope } from "../gen/latchkey/v1/access_pb.ts";
import type { Integration } from "../gen/latchkey/v1/integration_pb.ts";
import type { Policy } from "../gen/latchkey/v1/policy_pb.ts";
import type { Provider } from "../gen/latchkey/v1/provider_pb.ts";
import type { BrandingFields } from "./branding.ts";

/** The environment that exists when the configuration declares none; environment variables refer to it. */
export const defaultEnvironment = "dev";

/** The contents of the configuration file. */
export interface DeclaredSetup {
  readonly environments: readonly DeclaredEnvironment[];
  readonly keys: readonly DeclaredKey[];
  readonly signingSecrets: readonly DeclaredSigningSecrets[];
  readonly variables: readonly DeclaredVariable[];
  readonly integrations: readonly Integration[];
  readonly providers: readonly Provider[];
  /** Kept only in memory. */
  readonly policies: readonly Policy[];
}

export interface DeclaredEnvironment {
  readonly name: string;
  /** Empty if the configuration does not set it; the value can then be changed elsewhere. */
  readonly forwardUrl: string;
  readonly secondaryForwardUrl: string;
  /** Undefined if the configuration does not set it. */
  readonly allowedOrigins: readonly string[] | undefined;
  readonly branding?: Partial<BrandingFields> | undefined;
}

/** Secrets that sign an environment's forwards, pinned by configuration. Kept only in memory. */
export interface DeclaredSigningSecrets {
  readonly environment: string;
  /** Newest first. */
  readonly secrets: readonly string[];
}

/** A variable that scripts of the environment read with `getEnvironmentVariables`. Kept only in memory. */
export interface DeclaredVariable {
  readonly environment: string;
  readonly name: string;
  readonly value: string;
}

/** A key that the configuration defines. Kept only in memory. */
export interface DeclaredKey {
  readonly id: string;
  /** Empty: a control key. */
  readonly environment: string;
  readonly secret: string;
  readonly scopes: readonly Scope[];
  readonly limits: AccessLimits | undefined;
}
