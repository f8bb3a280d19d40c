import { signal } from "@preact/signals";
import { useEffect } from "preact/hooks";
import type { Provider } from "../../gen/latchkey/v1/provider_pb.ts";
import { providers } from "../state/clients.ts";
import { type CallFault, faultOf } from "../state/fault.ts";
import { words } from "./format.ts";

/** All providers by name: few enough to be read at once, and shared by the pages that show marks. */
const known = signal<ReadonlyMap<string, Provider> | undefined>(undefined);
const fault = signal<CallFault | undefined>(undefined);
const mostProviders = 5_000;

/** Reads the list again, after a change. */
export async function loadProviders(): Promise<void> {
  try {
    const found = new Map<string, Provider>();
    let pageToken = "";
    do {
      const page = await providers.listProviders({ pageSize: 1_000, pageToken });
      for (const one of page.providers) found.set(one.name, one);
      pageToken = page.nextPageToken;
    } while (pageToken !== "" && found.size < mostProviders);
    known.value = found;
    fault.value = undefined;
  } catch (error) {
    fault.value = faultOf(error);
  }
}

export interface KnownProviderList {
  /** Undefined until the first answer. */
  readonly all: ReadonlyMap<string, Provider> | undefined;
  readonly fault: CallFault | undefined;
}

export function useProviders(): KnownProviderList {
  useEffect(() => {
    if (known.peek() === undefined) void loadProviders();
  }, []);
  return { all: known.value, fault: fault.value };
}

export const providerTitle = (provider: Pick<Provider, "name" | "displayName">): string =>
  provider.displayName || provider.name;

const authTitles: Readonly<Record<NonNullable<Provider["auth"]["case"]>, string>> = {
  oauth2: "OAuth 2",
  oauth2Client: "OAuth 2 client credentials",
  oauth1: "OAuth 1",
  apiKey: "API key",
  basic: "User name and password",
  tba: "OAuth 1 with a realm",
  app: "Installed app",
  jwt: "Signed JWT",
  twoStep: "Exchanged token",
  signature: "Signature",
  awsSigv4: "AWS signature",
  clientCertificate: "Client certificate",
  none: "No credentials",
  onBehalf: "On behalf of a user",
};

/** The kind of authentication, in words. */
export const authTitle = ({ auth }: Pick<Provider, "auth">): string =>
  auth.case === undefined ? "Unknown" : authTitles[auth.case];

/** Whether an end user can connect an account on the hosted page. */
export const isConnectable = ({ auth }: Pick<Provider, "auth">): boolean =>
  isAuthorized({ auth }) || ["apiKey", "basic", "oauth2Client", "none"].includes(auth.case ?? "");

/** Whether end users are sent to a page of the provider. */
export const isAuthorized = ({ auth }: Pick<Provider, "auth">): boolean =>
  auth.case === "oauth2" || auth.case === "oauth1" || (auth.case === "app" && auth.value.installUrl !== "");

const categoryTitles: Readonly<Record<string, string>> = {
  ai: "AI",
  crm: "CRM",
  "e-commerce": "E-commerce",
  "e-signature": "E-signature",
  erp: "ERP",
  hr: "HR",
  mcp: "MCP",
};

/** `project-management` as words. */
export const categoryTitle = (category: string): string =>
  categoryTitles[category] ?? words(category.replaceAll("-", "_"));
