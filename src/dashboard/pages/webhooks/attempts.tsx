import { durationMs, type Timestamp } from "@bufbuild/protobuf/wkt";
import type { Attempt, Forward } from "../../../gen/latchkey/v1/webhook_pb.ts";
import { Badge } from "../../components/badge.tsx";
import { Time } from "../../components/time.tsx";
import { textOf, visibleText } from "../../data/bytes.ts";
import { bytesText, durationText, msOf, now } from "../../data/format.ts";
import { answerText, deliveryWords, isAccepted } from "./delivery-words.ts";

const shownOfAnswer = 300;
/** A try that is so near is due: ages are no finer. */
const soonMs = 5_000;

/** The tries of a delivery, newest last, and the next one. */
export function AttemptTable({
  delivery,
  attempts,
}: {
  readonly delivery: Forward;
  readonly attempts: readonly Attempt[];
}) {
  if (attempts.length === 0 && delivery.nextAttemptAt === undefined) return <p class="quiet">Not tried yet.</p>;
  return (
    <div class="table-box">
      <table aria-label="Attempts">
        <thead>
          <tr>
            <th scope="col">Attempt</th>
            <th scope="col">Result</th>
            <th scope="col" class="number">
              Took
            </th>
            <th scope="col" class="minor">
              Answer
            </th>
            <th scope="col">When</th>
          </tr>
        </thead>
        <tbody>
          {attempts.map((attempt) => (
            <tr key={attempt.number}>
              <td>{attempt.number}</td>
              <td>
                <Badge tone={isAccepted(attempt) ? "good" : "bad"}>{answerText(attempt)}</Badge>
              </td>
              <td class="number">{attempt.duration === undefined ? "" : durationText(durationMs(attempt.duration))}</td>
              <td class="code answer-text minor">{answerPart(attempt)}</td>
              <td>
                <Time at={attempt.startedAt} />
              </td>
            </tr>
          ))}
          {delivery.nextAttemptAt !== undefined && (
            <tr>
              <td>{delivery.attemptCount + 1}</td>
              <td>
                <DeliveryBadge delivery={delivery} />
              </td>
              <td class="number" />
              <td class="minor" />
              <td>
                <NextTry at={delivery.nextAttemptAt} />
              </td>
            </tr>
          )}
        </tbody>
      </table>
    </div>
  );
}

/** A try whose time has come waits for its turn, or for the destination. */
export function NextTry({ at }: { readonly at: Timestamp | undefined }) {
  const ms = msOf(at);
  return ms !== undefined && ms <= now.value + soonMs ? <>Due now</> : <Time at={at} />;
}

export function DeliveryBadge({ delivery }: { readonly delivery: Forward }) {
  const [tone, text] = deliveryWords(delivery);
  return <Badge tone={tone}>{text}</Badge>;
}

function answerPart({ answer }: Attempt): string {
  if (answer.length === 0) return "";
  const text = textOf(answer);
  if (text === undefined) return `${bytesText(answer.length)} of binary data`;
  return visibleText(text.length > shownOfAnswer ? `${text.slice(0, shownOfAnswer)}…` : text);
}
