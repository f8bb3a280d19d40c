import type { JsonObject } from "@bufbuild/protobuf";
import type { ChoiceRule, Provider } from "../gen/latchkey/v1/provider_pb.ts";

/** Whether a connection lacks a value of a choice. */
export const isChoiceNeeded = ({ connectionConfig }: ChoiceRule, config: JsonObject | undefined): boolean =>
  Object.keys(connectionConfig).some((name) => {
    const value = config !== undefined && Object.hasOwn(config, name) ? config[name] : undefined;
    return value === undefined || value === null || value === "";
  });

/** The names of the choices that are still to be made for a connection. */
export const neededChoices = (provider: Pick<Provider, "choices"> | undefined, config: JsonObject | undefined) =>
  provider === undefined || provider.choices.length === 0
    ? []
    : provider.choices.filter((rule) => isChoiceNeeded(rule, config)).map(({ name }) => name);
