import { create } from "@bufbuild/protobuf";
import type { Tokens } from "../../../auth/oauth2/tokens.ts";
import type { Connection } from "../../../gen/latchkey/v1/connection_pb.ts";
import { type Credentials, CredentialsSchema } from "../../../gen/latchkey/v1/credentials_pb.ts";
import type { Integration, IntegrationSecrets } from "../../../gen/latchkey/v1/integration_pb.ts";
import type { Provider } from "../../../gen/latchkey/v1/provider_pb.ts";
import { CacheSlot, type LiveConnection } from "../live-connections.ts";
import type { OnBehalfSettings } from "./settings.ts";
import type { Subject } from "./subject-tokens.ts";

/** A call that needs an access token of a user. */
export interface SubjectCall {
  /** Identifies the user, and what the access token is for. */
  readonly key: string;
  readonly base: LiveConnection;
  readonly settings: OnBehalfSettings;
  readonly subject: Subject;
  readonly subjectToken: string;
}

export type SubjectAccess = Pick<Tokens, "accessToken" | "dpopKey">;

/** A connection with the access token of one user. It is never stored. */
export class SubjectConnection implements LiveConnection {
  readonly slot = new CacheSlot();
  readonly connection: Connection;
  readonly integration: Integration;
  readonly secrets: IntegrationSecrets | undefined;
  readonly provider: Provider;
  readonly credentials: Credentials;
  readonly base: LiveConnection;
  readonly accessToken: string;
  readonly subject: string;

  constructor({ base, settings: { server }, subject }: SubjectCall, { accessToken, dpopKey = "" }: SubjectAccess) {
    this.connection = base.connection;
    this.integration = base.integration;
    this.secrets = base.secrets;
    this.provider = server.provider;
    this.base = base;
    this.accessToken = accessToken;
    this.subject = subject.identity;
    this.credentials = create(CredentialsSchema, {
      kind: { case: "oauth2Client", value: { token: accessToken, dpopKey } },
    });
    this.slot.live = this;
  }
}
