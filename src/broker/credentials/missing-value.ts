import { Fault } from "../../base/fault.ts";
import type { UnfilledField } from "../../core/outgoing/filled-fields.ts";
import type { UnboundHost } from "../../core/outgoing/filled-url.ts";
import type { ChoiceRule, Provider } from "../../gen/latchkey/v1/provider_pb.ts";
import type { LiveConnection } from "./live-connections.ts";

/** Returns the fault for a value that requests of a connection need and that is missing or not valid. */
export function missingValueFault(cause: UnboundHost | UnfilledField, live: LiveConnection): Fault {
  const { connection, integration, provider } = live;
  const { placeholder } = cause;
  const choice = choiceOf(placeholder, provider);
  if (choice !== undefined) {
    const id = connection.ref?.id ?? "";
    const what = (choice.title || choice.name).toLowerCase();
    return new Fault("choice_needed", `the end user must choose first: ${what}`, {
      cause,
      hint: `run latchkey connections choose ${integration.key}/${id}`,
      metadata: { choice: choice.name },
    });
  }
  if (placeholder.startsWith("integration.")) {
    const message = `the integration "${integration.key}" cannot be used: ${cause.message}`;
    return new Fault("integration_misconfigured", message, { cause });
  }
  return new Fault("connection_unusable", `the connection cannot be used: ${cause.message}`, { cause });
}

/** The choice that stores the value of a placeholder. */
const choiceOf = (placeholder: string, { choices }: Provider): ChoiceRule | undefined =>
  choices.find(({ connectionConfig }) =>
    Object.keys(connectionConfig).some((name) => placeholder === `connectionConfig.${name}`),
  );
