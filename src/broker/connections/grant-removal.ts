import type { Connection, Revocation } from "../../gen/latchkey/v1/connection_pb.ts";
import type { Credentials } from "../../gen/latchkey/v1/credentials_pb.ts";
import type { Change } from "../../store/contract.ts";
import type { IntegrationWithSecrets } from "../setup/integrations-in-use.ts";

/** A connection that is deleted, with the credentials that its deletion depends on. */
export interface DeletedGrant extends IntegrationWithSecrets {
  readonly connection: Connection;
  readonly credentials: Credentials | undefined;
  /** Undefined: the integration decides. */
  readonly keepGrant: boolean | undefined;
  readonly actor: string;
}

/** Changes for the commit that deletes a connection. */
export interface PlannedRevocation {
  /** Undefined if the credentials are no grant. */
  readonly revocation: Revocation | undefined;
  readonly changes: readonly Change[];
}

export type PlanRevocation = (deleted: DeletedGrant) => PlannedRevocation;
