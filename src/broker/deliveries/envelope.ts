import type { ConnectionRef } from "../../gen/latchkey/v1/connection_pb.ts";

// Bodies of everything that is sent to the application: webhooks of providers, and Latchkey's own events.

/** A webhook of a provider. */
export interface ForwardedWebhook {
  /** The provider's name. */
  readonly from: string;
  readonly providerConfigKey: string;
  readonly type: string;
  /** JSON text. */
  readonly payload: string;
  /** Undefined: no connection matched. */
  readonly connectionId?: string | undefined;
}

/** Returns the body of a forwarded webhook, byte for byte the same for the same input. */
export function webhookBody({ from, providerConfigKey, type, payload, connectionId }: ForwardedWebhook): Uint8Array {
  const head = JSON.stringify({ from, providerConfigKey, type }).slice(0, -1);
  const tail = connectionId === undefined ? "" : `,"connectionId":${JSON.stringify(connectionId)}`;
  return Buffer.from(`${head},"payload":${payload}${tail}}`);
}

/** An event of Latchkey's own. */
export interface ApplicationEvent {
  readonly type: "approval" | "auth" | "channel" | "sync";
  readonly connection: ConnectionRef | undefined;
  readonly authMode?: string;
  /** The provider's name. */
  readonly provider: string;
  /** The fields of this type of event, which follow those of all events. */
  readonly fields: Readonly<Record<string, unknown>>;
}

export const eventBody = ({ type, connection, authMode, provider, fields }: ApplicationEvent): Uint8Array =>
  Buffer.from(
    // JSON has no undefined: such fields are left out.
    JSON.stringify({
      from: "latchkey",
      type,
      connectionId: connection?.id,
      authMode,
      providerConfigKey: connection?.integration,
      provider,
      environment: connection?.environment,
      ...fields,
    }),
  );
