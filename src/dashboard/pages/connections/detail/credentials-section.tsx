import type { Connection } from "../../../../gen/latchkey/v1/connection_pb.ts";
import { Facts, Section } from "../../../components/page.tsx";
import { exactTime, msOf, now, relativeTime, words } from "../../../data/format.ts";

const kindNames: Readonly<Record<string, string>> = {
  oauth2: "OAuth 2",
  oauth2_client: "OAuth 2 client credentials",
  oauth1: "OAuth 1.0a",
  api_key: "API key",
  basic: "User name and password",
  tba: "Token-based authentication",
  jwt: "JWT",
};

/** Kind, expiry and scopes of the credentials; never their values. */
export const CredentialsSection = ({ connection }: { readonly connection: Connection }) => {
  const { credentialsKind, grantedScopes, missingScopes } = connection;
  return (
    <Section title="Credentials">
      <Facts
        rows={[
          ["Kind", kindNames[credentialsKind] ?? words(credentialsKind)],
          ["Expiry", <ExpiryBar key="expiry" connection={connection} />],
          ["Granted scopes", <Scopes key="granted" scopes={grantedScopes} tone="granted" />],
          ["Not granted", missingScopes.length > 0 && <Scopes key="missing" scopes={missingScopes} tone="missing" />],
        ]}
      />
    </Section>
  );
};

const Scopes = ({ scopes, tone }: { readonly scopes: readonly string[]; readonly tone: "granted" | "missing" }) =>
  scopes.length === 0 ? (
    <span class="quiet">The provider named none</span>
  ) : (
    <ul class={`chip-list ${tone}`}>
      {scopes.map((scope) => (
        <li key={scope} class="chip" title={scope}>
          {scope}
        </li>
      ))}
    </ul>
  );

/** How much of the credentials' time is left since they last changed. */
function ExpiryBar({ connection }: { readonly connection: Connection }) {
  const end = msOf(connection.credentialsExpireAt);
  if (end === undefined) return <span class="quiet">They do not expire, or the provider does not say</span>;
  const start = Math.min(msOf(connection.updatedAt) ?? end, end - 1);
  const share = Math.min(1, Math.max(0, (end - now.value) / (end - start)));
  const text = end <= now.value ? `Expired ${relativeTime(end)}` : `Expires ${relativeTime(end)}`;
  return (
    <span class="expiry" title={exactTime(end)}>
      <meter min={0} max={1} low={0.15} optimum={1} value={share} aria-label="Time left" />
      <span>{text}</span>
    </span>
  );
}
