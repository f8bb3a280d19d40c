import { durationMs } from "@bufbuild/protobuf/wkt";
import type { TestDestinationResponse } from "../../../gen/latchkey/v1/webhook_pb.ts";
import { Badge } from "../../components/badge.tsx";
import { Button } from "../../components/button.tsx";
import { Code } from "../../components/code.tsx";
import { Dialog } from "../../components/dialog.tsx";
import { Facts } from "../../components/page.tsx";
import { FaultNotice, Notice } from "../../components/states.tsx";
import { indentedJson, textOf, visibleText } from "../../data/bytes.ts";
import { errorText } from "../../data/delivery-errors.ts";
import { durationText } from "../../data/format.ts";
import { useLoad } from "../../data/load.ts";
import { webhooks } from "../../state/clients.ts";

interface TestDialogProps {
  readonly environment: string;
  readonly url: string;
  readonly onClose: () => void;
}

/** Sends a signed test message at once, and shows the answer. */
export function TestDialog({ environment, url, onClose }: TestDialogProps) {
  const { value, fault, isSlow, reload } = useLoad(
    (signal) => webhooks.testDestination({ environment, url }, { signal }),
    [environment, url],
  );
  return (
    <Dialog
      title="Test of a destination"
      isWide
      onClose={onClose}
      actions={
        <>
          <Button onClick={onClose}>Close</Button>
          <Button kind="primary" isBusy={isSlow} onClick={reload}>
            Send again
          </Button>
        </>
      }
    >
      <p>
        A signed message of the type <code>test</code> to <code>{url}</code>
      </p>
      {fault !== undefined && <FaultNotice fault={fault} retry={reload} />}
      {value === undefined && fault === undefined && <p class="quiet">Waiting for the answer…</p>}
      {value !== undefined && <TestResult result={value} />}
    </Dialog>
  );
}

function TestResult({ result }: { readonly result: TestDestinationResponse }) {
  const { attempt, accepted, explanation, headerNames, id, body } = result;
  const sent = textOf(body) ?? "";
  const answer = textOf(attempt?.answer ?? new Uint8Array());
  return (
    <>
      <Notice tone={accepted ? "good" : "bad"}>{explanation}</Notice>
      <Facts
        rows={[
          [
            "Answer",
            <Badge key="answer" tone={accepted ? "good" : "bad"}>
              {attempt === undefined || attempt.status === 0 ? errorText(attempt?.error ?? "") : attempt.status}
            </Badge>,
          ],
          ["Took", attempt?.duration && durationText(durationMs(attempt.duration))],
          ["webhook-id", <code key="id">{id}</code>],
          ["Sent with", <code key="headers">{headerNames.join(", ")}</code>],
        ]}
      />
      <h3>Message</h3>
      <Code text={indentedJson(sent) ?? sent} label="message" />
      {answer !== undefined && answer !== "" && (
        <>
          <h3>Body of the answer</h3>
          <Code text={visibleText(answer)} label="answer" />
        </>
      )}
    </>
  );
}
