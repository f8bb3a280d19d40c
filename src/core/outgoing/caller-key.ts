import { Fault } from "../../base/fault.ts";

/**
 * Header fields that may hold a caller's key; the first one present counts. There are several, because providers' SDKs
 * leave little choice.
 */
const places = ["latchkey-key", "proxy-authorization", "authorization"] as const;

/**
 * Returns the key that a request has sent; undefined if it has none. Throws `malformed_auth_header`. `header` gives a
 * field by its name in lower case.
 */
export function callerKey(header: (name: string) => string | undefined): string | undefined {
  for (const place of places) {
    const value = header(place);
    if (value === undefined || value === "") continue;
    const key = place === "latchkey-key" ? value : keyIn(value);
    if (key !== undefined && /^[\x21-\x7e]+$/.test(key)) return key;
    throw new Fault("malformed_auth_header", `the ${place} header must hold a key: Bearer <key>, token <key> or Basic`);
  }
  return undefined;
}

/** The forms of keys, of access sessions and of tokens (JWT). */
const ownForms = /^(?:lks?_|eyJ[\w-]*\.[\w-]*\.)/;

function keyIn(value: string): string | undefined {
  const [, scheme = "", rest = ""] = /^([A-Za-z]+) +(\S+)$/.exec(value) ?? [];
  const lower = scheme.toLowerCase();
  if (lower === "bearer" || lower === "token") return rest;
  if (lower !== "basic") return undefined;
  const [user = "", ...rests] = Buffer.from(rest, "base64").toString().split(":");
  const password = rests.join(":");
  // Some SDKs add a user name of their own to the key, some a password: our keys are recognized by their form.
  return user === "" || (ownForms.test(password) && !ownForms.test(user)) ? password : user;
}
