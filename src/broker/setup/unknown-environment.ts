import { Fault } from "../../base/fault.ts";
import { hintOf } from "../../base/similar.ts";
import type { SetupCollections } from "./setup-collections.ts";

const mostNamed = 20;

/**
 * Returns the fault for an unknown environment name, with the existing names. For callers that may see every
 * environment.
 */
export async function unknownEnvironment(
  { environments }: Pick<SetupCollections, "environments">,
  name: string,
): Promise<Fault> {
  const found = await environments.page({ under: [], limit: mostNamed + 1 });
  const names = found.slice(0, mostNamed).map(({ value }) => value.name);
  const more = found.length > mostNamed ? " and more" : "";
  const known = names.length === 0 ? "There are none" : `You have: ${names.join(", ")}${more}`;
  return new Fault("unknown_environment", `there is no environment "${name}". ${known}`, { hint: hintOf(name, names) });
}
