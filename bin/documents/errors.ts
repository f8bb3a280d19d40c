import { type FaultCode, faults } from "../../src/base/fault.ts";
import { faultCatalog } from "../../src/base/fault-catalog.ts";
import { faultSubjects } from "../../src/base/faults/entry.ts";
import { generatedNote, page } from "./markdown.ts";

/** docs/errors.md: the same entries as the page that Latchkey serves. */
export function errorsPage(): string {
  const codes = Object.keys(faults) as FaultCode[];
  const sections = faultSubjects.map((subject) =>
    page(`## ${subject}`, ...codes.filter((one) => faultCatalog[one].subject === subject).map(entryOf)).trimEnd(),
  );
  return page(
    generatedNote,
    "# Errors",
    "This page explains every error code of Latchkey and says what to do. Latchkey serves the same text at `/docs/errors`; the `doc_url` of each error links to it.",
    "## The form of an error",
    `Every JSON answer that is an error has this form. \`hint\` and \`errors\` are optional.

\`\`\`json
{
  "error": {
    "code": "unknown_provider_config",
    "message": "there is no integration \\"calender\\" in this environment",
    "hint": "did you mean \\"calendar\\"?",
    "doc_url": "https://latchkey.example.com/docs/errors#unknown_provider_config"
  }
}
\`\`\``,
    `- \`errors\` lists every mistake in a body or a query: \`{"code", "message", "path"}\`.
- The header \`latchkey-error\` has the code. An answer without it comes from the provider.
- \`Retry-After\` is set if a retry may succeed.
- RPC errors have the code in \`google.rpc.ErrorInfo.reason\`, the hint in its \`metadata\`, the link in \`google.rpc.Help\`, and mistakes in \`google.rpc.BadRequest\`.
- \`hint\` names only objects that the key of the request may list, never those of another environment.
- The base of \`doc_url\` is \`LATCHKEY_DOCS_URL\`, else \`LATCHKEY_PUBLIC_URL\`. With neither, it is the listener's address if that is on this machine (\`127.0.0.1\`); otherwise \`doc_url\` is the path alone.`,
    ...sections,
    "Next: [troubleshooting](troubleshooting.md) by symptom, [the JSON API](api.md), [the RPC API](rpc/README.md).",
  );
}

function entryOf(name: FaultCode): string {
  const { status, rpc } = faults[name];
  const { meaning, action, example } = faultCatalog[name];
  return `### ${name}

HTTP ${status}, gRPC ${rpc}. ${meaning}

**What to do:** ${action}

Example: \`${example}\``;
}
