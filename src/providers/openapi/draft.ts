import { Document } from "yaml";
import { draftAuth } from "./draft-auth.ts";
import { draftProxy, draftVerification } from "./draft-proxy.ts";
import { readOpenApi } from "./openapi-document.ts";

export { OpenApiMistake } from "./openapi-document.ts";

/** A description for its author to complete. */
export interface OpenApiDraft {
  /** YAML, with the questions as comments. */
  readonly text: string;
  readonly questions: readonly string[];
}

interface DraftOptions {
  /** Name of the provider; default: made from the title. */
  readonly name?: string | undefined;
}

/** Drafts a provider's description from an OpenAPI document. */
export function draftFromOpenApi(openApi: string, { name }: DraftOptions = {}): OpenApiDraft {
  const document = readOpenApi(openApi);
  const parts = [draftAuth(document.securitySchemes), draftProxy(document), draftVerification(document)];
  const questions = [
    ...parts.flatMap((part) => part.questions),
    "How are webhooks signed and matched to connections (`notification`), if there are any?",
    "How is a grant revoked (`oauth2.revocation_url` or `revocation`)?",
  ];
  const fields = Object.assign(
    {
      name: name ?? nameOf(document.title),
      display_name: document.title || "Unnamed",
      categories: ["other"],
      ...(document.docsUrl.startsWith("https://") && { docs_url: document.docsUrl }),
    },
    ...parts.map((part) => part.fields),
  );
  const yaml = new Document(fields);
  yaml.commentBefore = [
    " A draft from an OpenAPI document. Find out, and then delete these lines:",
    ...questions.map((one) => ` - ${one}`),
  ].join("\n");
  return { text: yaml.toString({ lineWidth: 110 }), questions };
}

const nameOf = (title: string): string =>
  title
    .toLowerCase()
    .replace(/\b(rest|api|http|openapi|specification|v\d+)\b/g, "")
    .replace(/[^a-z0-9]+/g, "-")
    .replace(/^-+|-+$/g, "")
    .slice(0, 64) || "unnamed";
