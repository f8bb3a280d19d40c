import { createHash, createSign, generateKeyPairSync, type KeyObject } from "node:crypto";
import { json } from "../call.ts";
import type { SandboxRoute } from "../router.ts";
import type { SandboxGrant } from "./grants.ts";

/** Signed identity of the user (OpenID Connect Core 1.0, section 2), for grants with the scope `openid`. */
export interface SandboxIdTokens {
  readonly routes: readonly SandboxRoute[];
  fieldFor(grant: SandboxGrant, nonce: string | undefined): { readonly id_token?: string };
}

interface SandboxIdTokensOptions {
  readonly now: () => number;
  readonly origin: () => string;
}

const lifetimeS = 3_600;
const encoded = (value: unknown) => Buffer.from(JSON.stringify(value)).toString("base64url");

export function createIdTokens({ now, origin }: SandboxIdTokensOptions): SandboxIdTokens {
  let pair: { readonly publicKey: KeyObject; readonly privateKey: KeyObject } | undefined;
  // Generated on first use: it takes a tenth of a second, and most sandboxes never need it.
  const keys = () => {
    pair ??= generateKeyPairSync("rsa", { modulusLength: 2_048 });
    return pair;
  };
  const publicJwk = () => keys().publicKey.export({ format: "jwk" });
  const keyId = () => createHash("sha256").update(JSON.stringify(publicJwk())).digest("base64url").slice(0, 16);

  return {
    routes: [
      {
        method: "GET",
        path: "/oauth2/jwks",
        endpoint: "jwks",
        answer: () => json({ keys: [{ ...publicJwk(), kid: keyId(), use: "sig", alg: "RS256" }] }),
      },
    ],
    fieldFor({ person, clientId, scopes }, nonce) {
      if (!scopes.includes("openid")) return {};
      const iat = Math.floor(now() / 1_000);
      const claims = {
        iss: origin(),
        sub: person.id,
        aud: clientId,
        iat,
        exp: iat + lifetimeS,
        ...(nonce === undefined ? {} : { nonce }),
        ...claimsOf({ person, scopes }),
      };
      const signed = `${encoded({ alg: "RS256", typ: "JWT", kid: keyId() })}.${encoded(claims)}`;
      const signature = createSign("RSA-SHA256").update(signed).sign(keys().privateKey, "base64url");
      return { id_token: `${signed}.${signature}` };
    },
  };
}

/** The claims of the scopes `email` and `profile` (section 5.4). */
export const claimsOf = ({
  person,
  scopes,
}: Pick<SandboxGrant, "person" | "scopes">): Readonly<Record<string, unknown>> => ({
  ...(scopes.includes("email") ? { email: person.email, email_verified: true } : {}),
  ...(scopes.includes("profile") ? { name: person.name } : {}),
});
