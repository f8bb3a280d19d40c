import type { AuthorizationOutcome } from "../../broker/connect/authorize/outcome.ts";

/** A message to a waiting page, in the format of the frontend SDK. */
export type SocketMessage =
  | {
      readonly message_type: "success";
      readonly provider_config_key: string;
      readonly connection_id: string;
      readonly is_pending: boolean;
    }
  | {
      readonly message_type: "error";
      readonly provider_config_key: string;
      readonly connection_id: string;
      readonly error_type: string;
      readonly error_desc: string;
      /** The connection fields with errors; for the connect page. */
      readonly fields?: string[];
    };

interface ConnectError {
  readonly code: string;
  readonly message: string;
  readonly fields?: readonly string[];
}

export const errorMessage = (integration: string, { code, message, fields = [] }: ConnectError): SocketMessage => ({
  message_type: "error",
  provider_config_key: integration,
  connection_id: "",
  error_type: code,
  error_desc: message,
  ...(fields.length === 0 ? {} : { fields: [...fields] }),
});

/** Returns the message about a finished authorization. */
export const outcomeMessage = ({ integration, connected, failed }: AuthorizationOutcome): SocketMessage =>
  connected === undefined
    ? errorMessage(integration, { code: failed?.by ?? "", message: failed?.message ?? "" })
    : {
        message_type: "success",
        provider_config_key: integration,
        connection_id: connected.connectionId,
        is_pending: false,
      };
