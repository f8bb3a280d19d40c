import { type Attachment, attachmentOf, CannotAttach } from "../../auth/attachment.ts";
import { Fault } from "../../base/fault.ts";
import type { World } from "../../base/world.ts";
import { type Binding, bindingOf } from "../../core/outgoing/binding.ts";
import { UnboundHost } from "../../core/outgoing/filled-url.ts";
import { integrationCertificate } from "../tokens/client-certificates.ts";
import type { LiveConnection } from "./live-connections.ts";

/** The headers that the proxy adds to a connection's requests, and the hosts to which the credentials may be sent. */
export interface AttachedCredentials {
  readonly attachment: Attachment;
  readonly binding: Binding;
}

/** Returns the attached credentials, made once per cached connection. Throws `connection_unusable`. */
export type Attachments = (live: LiveConnection) => AttachedCredentials;

export function createAttachments(world: World): Attachments {
  const made = new WeakMap<LiveConnection, AttachedCredentials>();
  return (live) => {
    const known = made.get(live);
    if (known !== undefined && !isOutdated(known.attachment, world)) return known;
    const attached = attach(live, world.now());
    made.set(live, attached);
    return attached;
  };
}

function attach(live: LiveConnection, nowMs: number): AttachedCredentials {
  const { connection, integration, secrets } = live;
  const client = {
    id: integration.oauth?.clientId ?? "",
    secret: secrets?.clientSecret ?? "",
    privateKey: secrets?.privateKey ?? "",
  };
  const connectionConfig = { ...integration.connectionDefaults, ...connection.connectionConfig };
  try {
    const attachment = attachmentOf({ ...live, client, connectionConfig, nowMs });
    return { attachment: onConnection(attachment, secrets), binding: bindingOf(live) };
  } catch (error) {
    if (!(error instanceof CannotAttach || error instanceof UnboundHost)) throw error;
    throw new Fault("connection_unusable", `the connection cannot be used: ${error.message}`, { cause: error });
  }
}

/** Adds the integration's client certificate unless the connection has its own. */
function onConnection(attachment: Attachment, secrets: LiveConnection["secrets"]): Attachment {
  if (attachment.clientCertificate !== undefined) return attachment;
  const clientCertificate = integrationCertificate(secrets);
  return clientCertificate === undefined ? attachment : { ...attachment, clientCertificate };
}

/** Whether a minted token has expired; the next one is then minted. */
const isOutdated = (attachment: Attachment, { now }: Pick<World, "now">): boolean =>
  attachment.kind === "fixed" && attachment.untilMs !== undefined && attachment.untilMs <= now();
