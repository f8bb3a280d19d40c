import type { DescMessage, MessageShape } from "@bufbuild/protobuf";
import type { Problem } from "../../../gen/latchkey/v1/problem_pb.ts";
import type { Forward } from "../../../gen/latchkey/v1/webhook_pb.ts";
import type { CommandSession } from "../../session.ts";
import { escapeControl } from "../../terminal/escape-control.ts";
import { formatCount } from "../../terminal/format.ts";
import { createTable } from "../../terminal/table.ts";
import { forwardStateText, forwardStateTone } from "./forward-states.ts";
import { subjectOf } from "./names.ts";

interface PrintedPreview<S extends DescMessage> {
  readonly schema: S;
  readonly answer: MessageShape<S>;
  readonly sentence: string;
  readonly sample: readonly Forward[];
  readonly refused: Readonly<Record<string, Problem>>;
}

/** Returns `3 deliveries`, or `more than 100,000 deliveries` if not all were counted. */
export const countedDeliveries = (count: bigint, hasMore: boolean): string =>
  `${hasMore ? "more than " : ""}${formatCount(Number(count), "delivery", "deliveries")}`;

/** Prints what a replay or a cancellation would do, with the first of the deliveries. */
export async function tellForwardPreview<S extends DescMessage>(
  { output }: CommandSession,
  { schema, answer, sentence, sample, refused }: PrintedPreview<S>,
): Promise<void> {
  await output.done(schema, answer, sentence);
  if (output.json) return;
  if (sample.length > 0) await output.line(createTable(columns, output.paint, output.layout).draw(sample).trimEnd());
  for (const [id, { message, code }] of Object.entries(refused))
    await output.line(escapeControl(`not possible: ${id}: ${message} (${code})`));
}

const columns = [
  { title: "FORWARD", text: ({ id }: Forward) => id },
  { title: "WHEN", time: ({ createdAt }: Forward) => createdAt },
  { title: "CONNECTION", text: subjectOf },
  { title: "STATE", text: forwardStateText, tone: forwardStateTone },
  { title: "DESTINATION", text: ({ destination }: Forward) => destination },
] as const;
