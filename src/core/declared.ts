import type { Scope } from "../gen/latchkey/v1/access_pb.ts";
import type { Integration } from "../gen/latchkey/v1/integration_pb.ts";
import type { Provider } from "../gen/latchkey/v1/provider_pb.ts";

/** What the configuration file says there is. */
export interface Declared {
  readonly environments: readonly DeclaredEnvironment[];
  readonly keys: readonly DeclaredKey[];
  readonly integrations: readonly Integration[];
  readonly providers: readonly Provider[];
}

export interface DeclaredEnvironment {
  readonly name: string;
  readonly forwardUrl: string;
  readonly secondaryForwardUrl: string;
  readonly allowedOrigins: readonly string[];
}

/** A key that configuration fixes. It is kept in memory alone. */
export interface DeclaredKey {
  readonly id: string;
  /** Empty: a control key. */
  readonly environment: string;
  readonly secret: string;
  readonly scopes: readonly Scope[];
}
