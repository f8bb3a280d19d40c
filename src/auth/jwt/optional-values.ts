import type { Provider } from "../../gen/latchkey/v1/provider_pb.ts";

/** Returns the placeholders whose values a connection may lack: `connectionConfig.subject`. */
export const optionalValues = ({ connectionFields }: Pick<Provider, "connectionFields">): ReadonlySet<string> =>
  new Set(connectionFields.flatMap(({ name, required }) => (required ? [] : [`connectionConfig.${name}`])));
