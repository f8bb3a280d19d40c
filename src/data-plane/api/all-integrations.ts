import type { Broker } from "../../broker/broker.ts";
import type { Integration } from "../../gen/latchkey/v1/integration_pb.ts";

const pageSize = 1_000;

/** Returns all integrations of an environment. */
export async function allIntegrations(
  integrations: Broker["integrations"],
  environment: string,
): Promise<Integration[]> {
  const found: Integration[] = [];
  let token = "";
  do {
    const { items, next } = await integrations.list({ environment, provider: "" }, { size: pageSize, token });
    found.push(...items);
    token = next;
  } while (token !== "");
  return found;
}
