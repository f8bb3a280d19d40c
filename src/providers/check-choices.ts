import type { Mistake } from "../base/fault.ts";
import type { ChoiceRule, Provider } from "../gen/latchkey/v1/provider_pb.ts";
import { mistake } from "./mistake.ts";

const maxChoices = 5;

/** Checks what end users choose after an authorization. The requests are checked with the others. */
export function checkChoices({ choices, connectionFields }: Provider): Mistake[] {
  const stored = choices.flatMap(({ connectionConfig }) => Object.keys(connectionConfig));
  const problemOf = (name: string): string | undefined => {
    const field = connectionFields.find((one) => one.name === name);
    if (field?.automatic !== true) return "must be a connection field with automatic: true";
    if (field.required) return "must not be a required field: it is chosen after the authorization";
    return stored.indexOf(name) === stored.lastIndexOf(name) ? undefined : "is stored by two choices";
  };
  return [
    ...(choices.length > maxChoices ? [mistake("choices", `must be at most ${maxChoices}`)] : []),
    ...choices.flatMap(({ name, label, connectionConfig }: ChoiceRule, i) => {
      const at = `choices.${i}`;
      const names = Object.keys(connectionConfig);
      return [
        ...(choices.findIndex((one) => one.name === name) < i ? [mistake(`${at}.name`, "is a duplicate")] : []),
        ...(label === "" ? [mistake(`${at}.label`, "must name the place of the label")] : []),
        ...(names.length === 0 ? [mistake(`${at}.connection_config`, "must name a value to store")] : []),
        ...names.flatMap((one) => {
          const problem = problemOf(one);
          return problem === undefined ? [] : [mistake(`${at}.connection_config.${one}`, problem)];
        }),
      ];
    }),
  ];
}
