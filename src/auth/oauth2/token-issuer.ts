import type { Credentials } from "../../gen/latchkey/v1/credentials_pb.ts";
import type { Provider } from "../../gen/latchkey/v1/provider_pb.ts";

/**
 * Whether tokens came from another authorization server than the one that the MCP server names now. Such tokens are
 * never sent again, neither to the server nor to the new issuer.
 */
export function isOfFormerIssuer({ kind }: Credentials, { mcp, auth }: Pick<Provider, "mcp" | "auth">): boolean {
  if (mcp === undefined || kind.case !== "oauth2" || kind.value.issuer === "") return false;
  return auth.case !== "oauth2" || auth.value.issuer !== kind.value.issuer;
}

/** Returns the credentials with the issuer that they are bound to from now on. */
export function withIssuer(credentials: Credentials, { mcp, auth }: Pick<Provider, "mcp" | "auth">): Credentials {
  const { kind } = credentials;
  if (mcp === undefined || kind.case !== "oauth2" || auth.case !== "oauth2" || kind.value.issuer !== "") {
    return credentials;
  }
  return { ...credentials, kind: { case: "oauth2", value: { ...kind.value, issuer: auth.value.issuer } } };
}
