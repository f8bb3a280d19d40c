import type { Provider, SignatureRules } from "../../src/gen/latchkey/v1/provider_pb.ts";
import { loadCatalogue } from "../../src/providers/catalogue.ts";
import { code, generatedNote, page, table } from "./markdown.ts";

const kinds: { readonly [K in NonNullable<Provider["auth"]["case"]>]: string } = {
  oauth2: "OAuth 2",
  oauth2Client: "OAuth 2 client credentials",
  oauth1: "OAuth 1.0a",
  apiKey: "API key",
  basic: "user name and password",
  tba: "OAuth 1 with a realm",
  app: "installed app",
  jwt: "signed JWT",
  twoStep: "token exchange",
  signature: "signature",
  awsSigv4: "AWS Signature Version 4",
  clientCertificate: "client certificate",
  none: "none",
  onBehalf: "token of the user",
};

/** A page of every provider in the catalog, and of what its description knows. */
export function catalogPage(): string {
  const real = [...loadCatalogue().values()].filter(({ docsUrl }) => docsUrl !== "");
  return page(
    generatedNote,
    "# Catalog",
    `This page lists the ${real.length} providers of the catalog and what the description of each one knows. For 20 of them there is a [recipe](providers/README.md). What is missing can be [added](add-a-provider.md).`,
    "**Checked** is the day of the last comparison with the provider's documentation. `latchkey providers get NAME` prints the whole description, with the pages that each part was compared with.",
    table(
      ["Provider", "Name", "Credentials", "Webhooks", "Watch channels", "Revocation", "Checked"],
      real.map((provider) => [
        `[${provider.displayName}](${provider.docsUrl})`,
        code(provider.name),
        provider.auth.case === undefined ? "" : kinds[provider.auth.case],
        webhooksOf(provider.notification?.signature, provider.notification !== undefined),
        Object.keys(provider.channel?.resources ?? {})
          .sort()
          .join(", "),
        isRevocable(provider) ? "yes" : "",
        provider.evidence
          .map(({ checkedOn }) => checkedOn)
          .sort()
          .at(-1) ?? "",
      ]),
    ),
  );
}

const schemes: Readonly<Record<string, string>> = {
  hmac: "signed",
  standard_webhooks: "signed",
  public_key: "signed with a public key",
  jwt: "signed (JWT)",
  jwt_secret: "signed (JWT)",
  shared_token: "secret token",
  channel_token: "channel token",
  basic: "user name and password",
};

const webhooksOf = (signature: SignatureRules | undefined, has: boolean): string =>
  has ? (schemes[signature?.scheme ?? ""] ?? "not signed") : "";

const isRevocable = ({ auth, revocation }: Provider): boolean =>
  revocation !== undefined || (auth.case === "oauth2" && auth.value.revocationUrl !== "");
