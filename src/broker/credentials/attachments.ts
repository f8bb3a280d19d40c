import { type Attachment, attachmentOf, CannotAttach } from "../../auth/attachment.ts";
import { Fault } from "../../base/fault.ts";
import type { World } from "../../base/world.ts";
import { type Binding, partialBindingOf } from "../../core/outgoing/binding.ts";
import { filledFields, type UnfilledField } from "../../core/outgoing/filled-fields.ts";
import type { UnboundHost } from "../../core/outgoing/filled-url.ts";
import { placeholderValues } from "../../core/outgoing/placeholder-values.ts";
import { integrationCertificate } from "../tokens/client-certificates.ts";
import { filledAttachment } from "./filled-attachment.ts";
import type { LiveConnection } from "./live-connections.ts";
import { missingValueFault } from "./missing-value.ts";

/** The headers that the proxy adds to a connection's requests, and the hosts to which the credentials may be sent. */
export interface AttachedCredentials {
  readonly attachment: Attachment;
  readonly binding: Binding;
}

/**
 * Returns the attached credentials, made once per cached connection. Throws `connection_unusable`, or
 * `integration_misconfigured` or `choice_needed` for a missing value. With `mayLack`, headers whose value is missing are
 * left out: for the requests that ask for these values.
 */
export type Attachments = (live: LiveConnection, options?: { readonly mayLack: boolean }) => AttachedCredentials;

interface MadeAttachment extends AttachedCredentials {
  /** What the description requires and the connection lacks. */
  readonly lacking: UnboundHost | UnfilledField | undefined;
}

export function createAttachments(world: World): Attachments {
  const made = new WeakMap<LiveConnection, MadeAttachment>();
  function attached(live: LiveConnection): MadeAttachment {
    const known = made.get(live);
    if (known !== undefined && !isOutdated(known.attachment, world)) return known;
    const fresh = attach(live, world.now());
    made.set(live, fresh);
    return fresh;
  }
  return (live, { mayLack } = { mayLack: false }) => {
    const found = attached(live);
    if (found.lacking !== undefined && !mayLack) throw missingValueFault(found.lacking, live);
    return found;
  };
}

function attach(live: LiveConnection, nowMs: number): MadeAttachment {
  const { connection, integration, provider, secrets } = live;
  if (provider.auth.case === "onBehalf") throw subjectRequired();
  const client = {
    id: integration.oauth?.clientId ?? "",
    secret: secrets?.clientSecret ?? "",
    privateKey: secrets?.privateKey ?? "",
  };
  const connectionConfig = { ...integration.connectionDefaults, ...connection.connectionConfig };
  try {
    const attachment = onConnection(attachmentOf({ ...live, client, connectionConfig, nowMs }), secrets);
    const { binding, unbound } = partialBindingOf(live);
    const filled = filledFields(provider.proxy, placeholderValues(live));
    if (filled === undefined) return { attachment, binding, lacking: unbound };
    const lacking = unbound ?? filled.unfilled[0];
    return { attachment: filledAttachment(attachment, filled), binding, lacking };
  } catch (error) {
    if (!(error instanceof CannotAttach)) throw error;
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

const subjectRequired = (): Fault =>
  Fault.withoutStack(
    "subject_token_required",
    "this connection acts for a user: send the user's token in the header Latchkey-Subject-Token",
  );
