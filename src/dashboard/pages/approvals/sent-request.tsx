import type { Approval, ApprovalContent } from "../../../gen/latchkey/v1/approval_pb.ts";
import { Code } from "../../components/code.tsx";
import { Section } from "../../components/page.tsx";
import { Notice } from "../../components/states.tsx";
import { hexText, indentedJson, textOf, visibleText } from "../../data/bytes.ts";
import { bytesText } from "../../data/format.ts";

/** The arguments of a tool. The whole message, of which they are a part, is shown too. */
export function ToolArguments({ approval: { tool, content } }: { readonly approval: Approval }) {
  const text = tool === "" || content === undefined ? undefined : textOf(content.body);
  const given = text === undefined ? undefined : argumentsIn(text);
  if (given === undefined) return null;
  return (
    <Section title="Arguments">
      <Code label="arguments" text={visibleText(given)} />
    </Section>
  );
}

function argumentsIn(message: string): string | undefined {
  try {
    const { params } = JSON.parse(message) as { readonly params?: { readonly arguments?: unknown } };
    return params?.arguments === undefined ? undefined : JSON.stringify(params.arguments, undefined, 2);
  } catch {
    /* A long message is cut. */
    return undefined;
  }
}

export function SentBody({
  content: { body, bodySize },
  title,
}: {
  readonly content: ApprovalContent;
  readonly title: string;
}) {
  if (bodySize === 0n) return null;
  const text = textOf(body);
  return (
    <Section title={`${title}, ${bytesText(bodySize)}`}>
      {Number(bodySize) > body.length && (
        <Notice tone="warn">Only the first {bytesText(body.length)} are shown. The rest is sent too.</Notice>
      )}
      <Code label="body" text={text === undefined ? hexText(body) : visibleText(indentedJson(text) ?? text)} />
    </Section>
  );
}

export function SentHeaders({ content: { headers } }: { readonly content: ApprovalContent }) {
  if (headers.length === 0) return null;
  return (
    <Section title="Headers">
      <Code label="headers" text={headers.map(({ name, value }) => visibleText(`${name}: ${value}`)).join("\n")} />
    </Section>
  );
}
