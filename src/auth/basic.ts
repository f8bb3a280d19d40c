import { neverExpires, notRefreshed, sentWhole, shownWhole } from "./kind-traits.ts";
import { type AuthScheme, CannotAttach } from "./scheme.ts";

// biome-ignore lint/suspicious/noControlCharactersInRegex: they are what is looked for
const controlCharacter = /[\x00-\x1f\x7f]/;

/** User name and password as HTTP Basic, in UTF-8 (RFC 7617). */
export const basic: AuthScheme<"basic"> = {
  ...{ ...neverExpires, ...notRefreshed, ...shownWhole, ...sentWhole },
  attach({ credentials: { username, password } }) {
    if (username === "" && password === "") throw new CannotAttach("the user name and the password are missing");
    // RFC 7617, section 2: anything after the first colon would be read as the password.
    if (username.includes(":")) throw new CannotAttach("the user name must not contain a colon (HTTP Basic)");
    if (controlCharacter.test(username) || controlCharacter.test(password)) {
      throw new CannotAttach(
        "the user name and the password must not contain control characters, such as a trailing line break",
      );
    }
    const value = `Basic ${Buffer.from(`${username}:${password}`, "utf8").toString("base64")}`;
    return { kind: "fixed", headers: [["authorization", value]], query: [] };
  },
  names: () => ({ headers: ["authorization"], query: [] }),
};
