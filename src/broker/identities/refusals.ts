import { Fault } from "../../base/fault.ts";

/** Returns the refusal of an identity that proves nothing here. The message must not quote a token. */
export const refusedIdentity = (message: string): Fault =>
  Fault.withoutStack("identity_refused", message, { hint: rulesHint });

/** Returns the refusal of an identity that is proven, but that no rule names. */
export const noRuleFor = (who: string): Fault =>
  Fault.withoutStack("identity_refused", `no rule of \`identities.rules\` allows ${who}`, {
    metadata: { identity: who },
    hint: rulesHint,
  });

const rulesHint = "compare it with `identities` of the configuration file; `latchkey identities test` explains a token";
